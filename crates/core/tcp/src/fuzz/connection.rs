//! A connection against arbitrary segments, calls and time. The peer's byte at each place of its stream, and
//! ours, follow from the place alone, so whatever overlaps or returns must agree with what came before.

use alloc::vec;
use alloc::vec::Vec;

use base::{Addr, Duration, Endpoint, FlowKey, Instant, Seq};
use cc::{Control, Cubic, NewReno};
use wire::Ecn;
use wire::tcp::{AccEcn, CounterOrder, EcnBytes, FastOpen, Flags, Options, SackBlocks, Segment, Timestamps};

use super::Input;
use crate::{
    Config, Connection, Counters, Cx, Disposition, EcnPolicy, Events, FastOpenOffer, HostHint, IcmpError,
    Open, Pool, Quirks, ReadError, Shutdown, SocketOptions, State, TxLimits, WriteError,
};

/// No call makes a connection send more segments than this without hearing from its peer.
const BURST_MAX: u32 = 4096;
/// Largest payload a segment or a write carries here.
const PAYLOAD_MAX: u32 = 3000;

/// Returns the byte of the peer's stream at `place`; ours is the complement.
fn byte(place: u32) -> u8 {
    (place.wrapping_mul(0x9e37_79b1) >> 24) as u8
}

struct World {
    conn: Connection,
    lent: Lent,
    limits: TxLimits,
    isn: Seq,
    /// The peer's initial sequence number, once its SYN was taken.
    irs: Seq,
    /// Bytes that write took, and that read gave.
    wrote: u32,
    read: u32,
    /// Right edge of the window offered last.
    edge: Option<Seq>,
    /// The last timestamp we sent.
    stamp: u32,
    /// The application let go; the connection left the flow table.
    released: bool,
    gone: bool,
}

/// Drives one connection through what `data` spells.
///
/// # Panics When bytes are lost, changed or invented, a window is withdrawn, a timer stays due, a chunk
/// leaks, or sending does not end.
pub fn connection(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::open(&mut input);
    world.settle();
    while !input.is_empty() {
        world.step(&mut input);
        world.settle();
        world.check();
    }
    world.conn.release(&mut world.lent.pool);
    assert_eq!(world.lent.pool.used(), 0, "a chunk leaked");
}

/// State that a core lends its connections.
struct Lent {
    config: Config,
    pool: Pool,
    counters: Counters,
    now: Instant,
}

impl Lent {
    fn cx(&mut self) -> Cx<'_> {
        let Lent { now, config, pool, counters } = self;
        Cx { now: *now, config, pool, counters, probe: None, frames: None }
    }
}

impl World {
    fn open(input: &mut Input<'_>) -> World {
        let bits = input.u8();
        let mut lent = lend(bits, input);
        let (isn, irs) = (Seq::new(input.u32()), Seq::new(input.u32()));
        let end = |last| Endpoint::new(Addr::v4([192, 0, 2, last]), 1000 + u16::from(last));
        let open = Open {
            key: FlowKey::new(end(1), end(2)),
            isn,
            ts_offset: isn.raw().rotate_left(9),
            path_mtu: 576 + input.u16() % 9000,
            options: options(input),
            hint: hint(irs),
        };
        let mut conn = None;
        let mut wrote = 0;
        let fast = input.u8();
        let option = FastOpen::cookie(&[fast; 8], fast & 64 != 0).filter(|_| fast & 16 != 0);
        let asks = Flags::SYN.with_ace(u32::from(fast >> 2));
        match (bits & 32 == 0, fast & 3 == 3) {
            (true, false) => {
                let syn = segment(irs, Seq::new(0), asks, input.u16(), offer(input), &[]);
                Connection::accept(&mut conn, &mut lent.cx(), &open, control(bits & 16), &syn).grant(option);
            }
            (true, true) => {
                let data: Vec<u8> = (0..input.below(PAYLOAD_MAX)).map(byte).collect();
                let syn = segment(irs, Seq::new(0), asks, input.u16(), offer(input), &data);
                Connection::accept_fast(&mut conn, &mut lent.cx(), &open, control(bits & 16), &syn, option);
            }
            (false, false) => {
                Connection::connect(&mut conn, &mut lent.cx(), &open, control(bits & 16));
            }
            (false, true) => {
                let data: Vec<u8> = (0..input.below(PAYLOAD_MAX)).map(|i| !byte(i)).collect();
                let offer = FastOpenOffer { option, mss: input.u16() };
                let (cx, control) = (&mut lent.cx(), control(bits & 16));
                wrote = Connection::connect_fast(&mut conn, cx, &open, control, &offer, &data) as u32;
            }
        }
        let limits = TxLimits { max_payload: if bits & 64 == 0 { 9000 + 576 } else { 65_000 } };
        World {
            conn: conn.expect("it was begun"),
            lent,
            limits,
            isn,
            irs,
            wrote,
            read: 0,
            edge: None,
            stamp: 0,
            released: false,
            gone: false,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 32 {
            0..13 => self.arrive(input),
            13 => self.lose(input),
            14..18 => self.pass_time(input),
            18..26 if self.released => self.arrive(input),
            18..21 => self.write(input),
            21..23 => self.read(input),
            23 => self.conn.set_options(&mut self.lent.cx(), options(input)),
            24 => {
                let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both][input.below(3) as usize];
                self.conn.shutdown(&mut self.lent.cx(), how);
            }
            25 => self.conn.set_control(&mut self.lent.cx(), control(input.u8() & 1)),
            26 | 27 => self.icmp(input),
            29 if input.u8() < 32 && !self.released => {
                self.conn.close(&mut self.lent.cx());
                self.released = true;
            }
            30 if input.u8() < 16 => self.abort(),
            _ => self.handshake(input),
        }
    }

    /// A segment near the windows of both directions, or anywhere.
    fn arrive(&mut self, input: &mut Input<'_>) {
        let info = self.conn.info(self.lent.now);
        let shape = input.u8();
        let near = |base: Seq, span: u32, input: &mut Input<'_>| match input.u8() % 8 {
            0..4 => base,
            4 => base + input.below(64),
            5 => base - input.below(PAYLOAD_MAX),
            6 => base + input.u32() % span.max(1),
            _ => Seq::new(input.u32()),
        };
        let seq = near(info.rcv_nxt, info.rcv_wnd + 2, input);
        let flight = info.snd_nxt.offset_from(info.snd_una);
        let ack = if shape & 1 == 0 { info.snd_nxt } else { near(info.snd_una, flight + 2, input) };
        let flags = match shape >> 1 & 15 {
            0..11 => Flags::ACK,
            11 => Flags::ACK | Flags::FIN,
            12 => Flags::ACK | Flags::PSH | Flags::URG,
            13 if shape > 224 => Flags(input.u8().into()),
            14 if shape > 224 => Flags::SYN,
            15 => Flags(u16::from(input.u8()) & !Flags::RST.0),
            _ => Flags::ACK,
        };
        let len = if shape & 32 == 0 { input.below(PAYLOAD_MAX) } else { 0 };
        let flags = if len & 14 == 14 { flags | Flags::ECE } else { flags };
        let mut options = self.options(shape, flight, input);
        let flags = if info.accecn.is_some() { counts(flags, &mut options, input) } else { flags };
        self.deliver(seq, ack, flags, input.u16(), options, len);
    }

    fn options(&self, shape: u8, flight: u32, input: &mut Input<'_>) -> Options {
        let una = self.conn.info(self.lent.now).snd_una;
        let mut sack = SackBlocks::none();
        if shape & 64 != 0 {
            for _ in 0..input.below(4) {
                let left = una + input.u32() % (flight + 2);
                sack.push(left, left + input.below(PAYLOAD_MAX));
            }
        }
        let clock = self.lent.now.as_millis() as u32;
        let val = if shape & 128 == 0 { clock } else { clock.wrapping_sub(input.u32() >> input.below(32)) };
        let timestamps =
            (input.u8() & 7 != 0).then_some(Timestamps { val, ecr: self.stamp.wrapping_sub(input.below(8)) });
        Options { timestamps, sack, ..Options::default() }
    }

    /// Acknowledgments that tell of a hole at the front of the flight.
    fn lose(&mut self, input: &mut Input<'_>) {
        let hole = 1 + input.below(PAYLOAD_MAX);
        let timestamps = Some(Timestamps { val: self.lent.now.as_millis() as u32, ecr: self.stamp });
        for runs in 1..=input.below(6) {
            let info = self.conn.info(self.lent.now);
            let mut sack = SackBlocks::none();
            if runs * hole < info.snd_nxt.offset_from(info.snd_una) {
                sack.push(info.snd_una + hole, info.snd_una + (hole * (runs + 1)));
            }
            let options = Options { timestamps, sack, ..Options::default() };
            self.deliver(info.rcv_nxt, info.snd_una, Flags::ACK, input.u16(), options, 0);
            self.settle();
        }
    }

    /// Sends the segment that completes a handshake, if one is pending.
    fn handshake(&mut self, input: &mut Input<'_>) {
        let info = self.conn.info(self.lent.now);
        // Of data that went with the SYN, or after the SYN-ACK, any part may be acknowledged.
        let nxt = self.isn + 1 + input.below(info.snd_nxt.offset_from(self.isn).max(1));
        match self.conn.state() {
            State::SynSent => {
                let choice = input.u8();
                let flags = [Flags::SYN, Flags::SYN | Flags::ACK][usize::from(choice & 3 > 0)];
                let flags = flags.with_ace(if choice < 64 { 0b001 } else { u32::from(choice >> 2) });
                self.deliver(self.irs, nxt, flags, input.u16(), offer(input), 0);
            }
            State::SynReceived => {
                let timestamps = Some(Timestamps { val: self.lent.now.as_millis() as u32, ecr: self.stamp });
                let mut options = Options { timestamps, ..Options::default() };
                let flags = match info.accecn {
                    Some(_) => counts(Flags::ACK, &mut options, input),
                    None => Flags::ACK,
                };
                self.deliver(info.rcv_nxt, nxt, flags, input.u16(), options, 0);
            }
            _ => self.pass_time(input),
        }
    }

    fn deliver(&mut self, seq: Seq, ack: Seq, flags: Flags, window: u16, options: Options, len: u32) {
        if self.gone || self.conn.state() == State::Closed {
            return;
        }
        if flags.has(Flags::SYN) && self.conn.state() == State::SynSent {
            self.irs = seq;
        }
        let first = seq + u32::from(flags.has(Flags::SYN));
        let place = first.offset_from(self.irs + 1);
        let payload: Vec<u8> = (0..len).map(|i| byte(place.wrapping_add(i))).collect();
        let mut segment = segment(seq, ack, flags, window, options, &payload);
        segment.ecn = if window & 7 == 7 { Ecn::Marked } else { Ecn::of((window & 3) as u8 & 2) };
        let nxt = self.conn.info(self.lent.now).rcv_nxt;
        let fresh = self.conn.state() == State::SynSent;
        let disposition = self.conn.on_segment(&mut self.lent.cx(), &segment);
        let after = self.conn.info(self.lent.now);
        assert!(fresh || after.rcv_nxt.at_or_after(nxt), "RCV.NXT went back");
        match disposition {
            Disposition::TimeWait => {
                let wait = self.conn.time_wait(&self.lent.cx());
                assert!(wait.until > self.lent.now && wait.key == *self.conn.key());
                self.gone = true;
            }
            Disposition::Closed => assert_eq!(self.conn.state(), State::Closed),
            Disposition::Done | Disposition::Dropped(_) => {}
        }
    }

    fn write(&mut self, input: &mut Input<'_>) {
        let len = input.below(PAYLOAD_MAX);
        let data: Vec<u8> = (0..len).map(|i| !byte(self.wrote.wrapping_add(i))).collect();
        match self.conn.write(&mut self.lent.cx(), &data) {
            Ok(n) => {
                assert!(n as u32 <= len && (n > 0 || len == 0));
                self.wrote += n as u32;
            }
            Err(WriteError::Failed(_)) => assert_eq!(self.conn.state(), State::Closed),
            Err(_) => {}
        }
    }

    fn read(&mut self, input: &mut Input<'_>) {
        let mut into = vec![0; input.below(2 * PAYLOAD_MAX) as usize];
        let mut peeked = Vec::new();
        self.conn.peek(&self.lent.pool, None, into.len(), &mut |piece| {
            peeked.extend_from_slice(piece);
            true
        });
        match self.conn.read(&mut self.lent.cx(), &mut into) {
            Ok(n) => {
                assert_eq!(peeked, into[..n], "what was peeked at is read");
                for (i, &got) in into[..n].iter().enumerate() {
                    let place = self.read + i as u32;
                    assert_eq!(got, byte(place), "byte {place} of the peer's stream changed");
                }
                self.read += n as u32;
            }
            Err(ReadError::Finished) => assert!(peeked.is_empty(), "finished with bytes left"),
            Err(_) => assert!(peeked.is_empty(), "bytes were there to read"),
        }
    }

    fn icmp(&mut self, input: &mut Input<'_>) {
        let kind = match input.below(4) {
            0 => IcmpError::TooBig { mtu: input.u16() },
            1 => IcmpError::HostUnreachable,
            2 => IcmpError::NetUnreachable,
            _ => IcmpError::PortUnreachable,
        };
        let seq = self.conn.info(self.lent.now).snd_una + input.below(PAYLOAD_MAX);
        self.conn.on_icmp(&mut self.lent.cx(), kind, seq);
    }

    /// To the next timeout, or some time that may lie beyond it.
    fn pass_time(&mut self, input: &mut Input<'_>) {
        let next = self.conn.poll_timeout().unwrap_or(self.lent.now).max(self.lent.now);
        self.lent.now = if input.u8() & 1 == 0 {
            next
        } else {
            self.lent.now + Duration::from_micros(u64::from(input.u32() >> input.below(32)))
        };
    }

    /// Does as a stack after each call: fires due timers, then transmits until nothing is left.
    fn settle(&mut self) {
        if !self.gone && self.conn.poll_timeout().is_some_and(|at| at <= self.lent.now) {
            self.conn.on_timeout(&mut self.lent.cx());
            let again = self.conn.poll_timeout();
            assert!(
                again.is_none_or(|at| at > self.lent.now),
                "on_timeout leaves {again:?} due at {:?}",
                self.lent.now
            );
        }
        if self.conn.poll_event().any(Events::FAST_OPEN) {
            assert!(self.conn.take_fast_open().is_some() && self.conn.take_fast_open().is_none());
        }
        for sent in 0.. {
            assert!(sent < BURST_MAX, "sending does not end in {:?}", self.conn.state());
            let Some(tx) = self.conn.poll_transmit(&mut self.lent.cx(), &self.limits) else { break };
            self.look(&tx);
        }
    }

    /// A segment leaves: its bytes are ours, where they belong, and it withdraws no window.
    fn look(&mut self, tx: &crate::Transmit) {
        assert!(tx.len <= self.limits.max_payload && tx.header.len() <= 60, "{tx:?}");
        let header = &tx.header;
        let mut payload = vec![0; tx.len as usize];
        self.conn.copy_payload(&self.lent.pool, tx, &mut payload);
        // The bytes of a SYN stand behind it.
        let first = header.seq + u32::from(header.flags.has(Flags::SYN));
        let place = first.offset_from(self.isn + 1);
        for (i, &byte_sent) in payload.iter().enumerate() {
            let place = place.wrapping_add(i as u32);
            assert!(place < self.wrote, "byte {place} was never written");
            assert_eq!(byte_sent, !byte(place), "byte {place} of our stream changed");
        }
        if header.flags.has(Flags::FIN) {
            assert_eq!(place.wrapping_add(tx.len), self.wrote, "FIN stands behind what was written");
        }
        if let Some(timestamps) = header.options.timestamps {
            self.stamp = timestamps.val;
        }
        if header.flags.has(Flags::ACK) && !header.flags.any(Flags::RST | Flags::SYN) {
            self.look_at_window(header.ack, header.window);
        }
        let takes_number = tx.len > 0 || header.flags.any(Flags::SYN | Flags::FIN);
        if header.flags.has(Flags::ACK) && !takes_number {
            self.assert_within(header.seq, self.peer_edge());
        }
    }

    /// The right edge of the peer's window. A SYN under way takes a number that no window counts.
    fn peer_edge(&self) -> Seq {
        let info = self.conn.info(self.lent.now);
        info.snd_una + info.snd_wnd + u32::from(info.snd_una == self.isn)
    }

    /// A segment without data lies where the peer takes it: not beyond its right edge, as exactly as a window field
    /// tells that.
    fn assert_within(&self, seq: Seq, edge: Seq) {
        let (beyond, unit) = (seq.distance_from(edge), 1 << self.conn.info(self.lent.now).scale.0);
        assert!(beyond < unit, "a segment without data lies {beyond} bytes beyond the peer's window");
    }

    fn abort(&mut self) {
        let edge = self.peer_edge();
        self.conn.abort(&mut self.lent.cx());
        if let Some(tx) = self.conn.poll_transmit(&mut self.lent.cx(), &self.limits) {
            self.look(&tx);
            self.assert_within(tx.header.seq, edge);
        }
    }

    /// RFC 9293, section 3.8.6: a receiver should not shrink the window. Scaling rounds its edge down.
    fn look_at_window(&mut self, ack: Seq, window: u16) {
        let scale = self.conn.info(self.lent.now).scale.1;
        let edge = ack + (u32::from(window) << scale);
        if let Some(before) = self.edge {
            let lost = before.distance_from(edge);
            assert!(lost < 1 << scale, "the window was withdrawn by {lost}");
        }
        self.edge = Some(self.edge.map_or(edge, |before| before.later(edge)));
    }

    fn check(&self) {
        let info = self.conn.info(self.lent.now);
        assert!(self.lent.pool.used() <= self.lent.pool.limit());
        assert!(info.snd_nxt.offset_from(info.snd_una) <= self.wrote + 2, "more in flight than was written");
        assert!(info.window.cwnd >= 1 && self.conn.unsent() <= self.wrote);
        assert!(self.conn.writable() == 0 || !self.conn.write_closed());
    }
}

fn lend(bits: u8, input: &mut Input<'_>) -> Lent {
    let config = Config {
        timestamps: bits & 1 == 0,
        window_scaling: bits & 2 == 0,
        sack: bits & 4 == 0,
        ecn: EcnPolicy::ALL[usize::from(bits >> 4 & 7) % EcnPolicy::ALL.len()],
        rcvbuf: (4096 << (bits & 3), 1 << 20),
        sndbuf: (4096, 1 << 18),
        quirks: Quirks {
            charge_pieces: bits & 64 != 0,
            push_bursts: bits & 64 != 0,
            empty_probes: bits & 64 != 0,
            repeat_fin: bits & 128 != 0,
            insecure_rst: bits & 128 != 0,
            insecure_syn: bits & 128 != 0,
            window_by_buffer: bits & 128 != 0,
            ..Quirks::default()
        },
        ..Config::default()
    };
    let pool = Pool::new(if bits & 8 == 0 { 1024 } else { 1 + input.below(8) });
    Lent { config, pool, counters: Counters::default(), now: Instant::from_secs(1) }
}

fn control(choice: u8) -> Control {
    if choice == 0 { Control::Cubic(Cubic::new()) } else { Control::NewReno(NewReno::new()) }
}

fn segment<'a>(
    seq: Seq,
    ack: Seq,
    flags: Flags,
    window: u16,
    options: Options,
    payload: &'a [u8],
) -> Segment<'a> {
    let (urgent, merged) = (7, 1);
    Segment { seq, ack, flags, window, urgent, options, merged, ecn: Ecn::NotCapable, payload, rest: None }
}

/// Sets the counters of a peer with accurate ECN, true or not.
fn counts(flags: Flags, options: &mut Options, input: &mut Input<'_>) -> Flags {
    let choice = input.u8();
    if choice & 3 == 3 {
        let order = if choice & 4 == 0 { CounterOrder::Ect0First } else { CounterOrder::Ect1First };
        let bytes = EcnBytes { ect0: input.u16().into(), ce: input.u16().into(), ect1: input.u32() };
        options.accecn = Some(AccEcn::new(order, choice >> 3 & 3, &bytes));
    }
    flags.with_ace(u32::from(choice >> 5))
}

/// The options of the peer's SYN.
fn offer(input: &mut Input<'_>) -> Options {
    let bits = input.u8();
    Options {
        mss: (bits & 1 == 0).then(|| input.u16()),
        window_scale: (bits & 2 == 0).then_some(bits >> 4),
        sack_permitted: bits & 4 == 0,
        timestamps: (bits & 8 == 0).then(|| Timestamps { val: input.u32() >> 8, ecr: 0 }),
        ..Options::default()
    }
    .with_fast_open(FastOpen::cookie(&[bits; 6], bits & 1 == 0).filter(|_| bits & 32 != 0))
}

/// Returns a random hint about a path, or an empty one.
fn hint(seed: Seq) -> HostHint {
    let raw = seed.raw();
    match raw % 4 {
        0 => HostHint { rto_us: raw / 256, ssthresh: raw >> (raw / 256 % 32) },
        _ => HostHint::default(),
    }
}

fn options(input: &mut Input<'_>) -> SocketOptions {
    let bits = input.u8();
    let some = |bit: u8, value: u32| if bits & bit == 0 { 0 } else { value };
    SocketOptions {
        nodelay: bits & 1 != 0,
        cork: bits & 2 != 0,
        quickack: (bits & 4 != 0).then_some(bits & 8 != 0),
        keepalive: bits & 8 != 0,
        user_timeout: Duration::from_millis(some(16, input.u16().into()).into()),
        linger: (bits & 32 != 0).then(|| Duration::from_millis(u64::from(bits >> 7))),
        max_seg: some(64, input.u16().into()) as u16,
        rcvbuf: some(128, input.u16().into()),
        sndbuf: some(128, input.u16().into()),
        ..SocketOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::seeded::seeded;

    #[test]
    fn a_connection_keeps_its_promises() {
        seeded("connection", 4000, 800, super::connection);
    }
}
