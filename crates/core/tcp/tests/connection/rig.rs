//! A connection against a peer that a test plays by hand, segment by segment.

use base::{Duration, Instant, Seq};
use tcp::{Config, Disposition, Events, SocketOptions, State};
use wire::Ecn;
use wire::tcp::{Flags, Options, SackBlocks, Segment, Timestamps};

use crate::host::{Bytes, Host, flow, ms, parse};

/// The peer's initial sequence number; ours is `OURS`. Both wrap soon.
pub(crate) const PEER: Seq = Seq::new(u32::MAX - 2_000);
pub(crate) const OURS: Seq = Seq::new(u32::MAX - 1_000);

pub(crate) struct Rig {
    pub(crate) host: Host,
    pub(crate) now: Instant,
    /// The peer's next sequence number.
    pub(crate) next: Seq,
    /// The peer's acknowledgment number.
    pub(crate) ack: Seq,
    /// The peer's window field.
    pub(crate) window: u16,
    /// The peer's timestamp clock, where timestamps are in use; and the last of ours.
    pub(crate) clock: Option<u32>,
    pub(crate) echo: u32,
}

/// One segment that the connection sent.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) options: Options,
    pub(crate) payload: Vec<u8>,
}

impl core::fmt::Debug for Sent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (flags, len) = (self.flags, self.payload.len());
        write!(f, "{flags:?} {:?}+{len} ack {:?} win {}", self.seq, self.ack, self.window)?;
        write!(f, " {:?}", self.options.sack.as_slice())
    }
}

impl Sent {
    fn new(bytes: &Bytes) -> Self {
        let seg = parse(bytes);
        Sent {
            seq: seg.seq,
            ack: seg.ack,
            flags: seg.flags,
            window: seg.window,
            options: seg.options,
            payload: seg.payload.to_vec(),
        }
    }

    pub(crate) fn end(&self) -> Seq {
        let controls = u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN));
        self.seq + self.payload.len() as u32 + controls
    }

    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    pub(crate) fn is_pure_ack(&self) -> bool {
        self.flags == Flags::ACK && self.payload.is_empty()
    }
}

/// Changes by a test before the handshake.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) options: SocketOptions,
    /// Options of the peer's SYN.
    pub(crate) peer: Options,
    pub(crate) window: u16,
    pub v4: bool,
    /// Of our route.
    pub(crate) mtu: u16,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            // Probes have tests of their own; elsewhere they would only come in between.
            config: Config { tail_loss_probe: false, ..Config::default() },
            options: SocketOptions::default(),
            peer: Options { mss: Some(1460), ..Options::default() },
            window: 65_535,
            v4: true,
            mtu: 1500,
        }
    }
}

impl Setup {
    /// The peer offers everything.
    pub(crate) fn modern() -> Self {
        let peer = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: 1_000, ecr: 0 }),
            ..Options::default()
        };
        Setup { peer, ..Setup::default() }
    }

    /// The peer offers SACK.
    pub(crate) fn sack() -> Self {
        let peer = Options { mss: Some(1460), sack_permitted: true, ..Options::default() };
        Setup { peer, ..Setup::default() }
    }

    fn rig(&self) -> Rig {
        let mut host = Host::new(flow(self.v4), OURS);
        host.config = self.config.clone();
        host.options = self.options;
        host.control = "newreno";
        host.mtu = self.mtu;
        host.limits.max_payload = 1460;
        let now = Instant::from_secs(100);
        Rig { host, now, next: PEER, ack: OURS + 1, window: self.window, clock: None, echo: 0 }
    }

    /// Our SYN is out and checked.
    pub(crate) fn syn_sent(&self) -> Rig {
        self.syn_sent_with(Flags::SYN)
    }

    /// As `syn_sent`, with these flags in our SYN.
    pub(crate) fn syn_sent_with(&self, flags: Flags) -> Rig {
        let mut rig = self.rig();
        rig.host.connect(rig.now);
        let syn = rig.one();
        assert_eq!((syn.flags, syn.seq, syn.len()), (flags, OURS, 0));
        rig
    }

    /// Our SYN with Fast Open is out; how many bytes went with it.
    pub(crate) fn connect_fast(&self, offer: &tcp::FastOpenOffer, data: &[u8]) -> (Rig, usize) {
        let mut rig = self.rig();
        let taken = rig.host.connect_fast(rig.now, offer, data);
        (rig, taken)
    }

    /// Nothing happened yet.
    pub(crate) fn listening(&self) -> Rig {
        let mut rig = self.rig();
        rig.host.listens = true;
        rig
    }

    /// Active open, completed.
    pub(crate) fn connected(&self) -> Rig {
        let mut rig = self.syn_sent();
        rig.pass(ms(20));
        rig.peer_syn(self, Flags::SYN | Flags::ACK);
        assert_eq!(rig.host.state(), State::Established);
        assert!(rig.host.events.any(Events::CONNECTED));
        assert!(rig.one().is_pure_ack());
        rig
    }

    /// Passive open, our SYN-ACK is out and checked.
    pub(crate) fn syn_received(&self) -> Rig {
        let mut rig = self.listening();
        rig.peer_syn(self, Flags::SYN);
        let syn_ack = rig.one();
        assert_eq!((syn_ack.flags, syn_ack.seq, syn_ack.ack), (Flags::SYN | Flags::ACK, OURS, PEER + 1));
        rig
    }

    /// Passive open, completed.
    pub(crate) fn accepted(&self) -> Rig {
        let mut rig = self.syn_received();
        rig.send(&[]);
        assert_eq!(rig.host.state(), State::Established);
        rig.none();
        rig
    }
}

impl Rig {
    /// The peer's SYN or SYN-ACK.
    pub(crate) fn peer_syn(&mut self, setup: &Setup, flags: Flags) {
        self.clock = None;
        let mut options = setup.peer;
        if let (Some(ts), Flags(f)) = (&mut options.timestamps, flags) {
            ts.ecr = if f & Flags::ACK.0 != 0 { self.echo } else { 0 };
        }
        self.inject(Segment { options, ..self.segment(flags, &[]) });
        self.next += 1;
        let ours = setup.config.timestamps;
        self.clock = setup.peer.timestamps.filter(|_| ours).map(|ts| ts.val);
    }

    /// The peer's next segment, for struct update.
    pub(crate) fn segment<'a>(&self, flags: Flags, payload: &'a [u8]) -> Segment<'a> {
        Segment {
            seq: self.next,
            ack: if flags.has(Flags::ACK) { self.ack } else { Seq::new(0) },
            flags,
            window: self.window,
            urgent: 0,
            options: Options {
                timestamps: self.clock.map(|val| Timestamps { val, ecr: self.echo }),
                ..Options::default()
            },
            merged: 1,
            ecn: Ecn::NotCapable,
            payload,
            rest: None,
        }
    }

    /// Delivers any segment.
    pub(crate) fn inject(&mut self, seg: Segment<'_>) -> Option<Disposition> {
        self.host.receive(self.now, &seg)
    }

    /// The peer sends data (or a bare ACK) in order.
    pub(crate) fn send(&mut self, payload: &[u8]) -> Option<Disposition> {
        let disposition = self.inject(self.segment(Flags::ACK, payload));
        self.next += payload.len() as u32;
        disposition
    }

    /// The peer sends its FIN in order.
    pub(crate) fn send_fin(&mut self) -> Option<Disposition> {
        let disposition = self.inject(self.segment(Flags::FIN | Flags::ACK, &[]));
        self.next += 1;
        disposition
    }

    /// The peer sends bytes of its stream that start `offset` after what is in order.
    pub(crate) fn send_at(&mut self, offset: u32, payload: &[u8]) -> Option<Disposition> {
        let mut seg = self.segment(Flags::ACK, payload);
        seg.seq += offset;
        self.inject(seg)
    }

    /// The peer acknowledges everything below `ack`, and SACKs.
    pub(crate) fn ack(&mut self, ack: Seq, sack: &[(Seq, Seq)]) -> Option<Disposition> {
        self.ack = ack;
        let mut seg = self.segment(Flags::ACK, &[]);
        let mut blocks = SackBlocks::none();
        for &(left, right) in sack {
            assert!(blocks.push(left, right));
        }
        seg.options.sack = blocks;
        self.inject(seg)
    }

    /// Everything sent since the last look.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let sent: Vec<Sent> = self.host.out.drain(..).map(|bytes| Sent::new(&bytes)).collect();
        if let Some(ts) = sent.iter().rev().find_map(|s| s.options.timestamps) {
            self.echo = ts.val;
        }
        sent
    }

    /// The ECN codepoints of what was sent since the last look.
    pub(crate) fn codepoints(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.host.codepoints)
    }

    /// The only segment sent since the last look.
    #[track_caller]
    pub(crate) fn one(&mut self) -> Sent {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "one segment was sent: {sent:#?}");
        sent.remove(0)
    }

    /// Nothing was sent since the last look.
    #[track_caller]
    pub(crate) fn none(&mut self) {
        let sent = self.sent();
        assert!(sent.is_empty(), "nothing was sent: {sent:#?}");
    }

    /// Lets time pass; timeouts come exactly when asked for.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.host.timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.host.on_time(self.now);
        }
        self.now = until;
    }

    /// Lets time pass until something is sent, at most `limit`; how long it took.
    pub(crate) fn until_sent(&mut self, limit: Duration) -> Duration {
        let began = self.now;
        let end = began + limit;
        while self.host.out.is_empty() {
            match self.host.timeout().filter(|&at| at <= end) {
                Some(at) => {
                    self.now = self.now.max(at);
                    self.host.on_time(self.now);
                }
                None => {
                    self.now = end;
                    break;
                }
            }
        }
        self.now.since(began)
    }

    pub(crate) fn write(&mut self, data: &[u8]) -> Result<usize, tcp::WriteError> {
        let now = self.now;
        self.host.with(now, |conn, cx| conn.write(cx, data))
    }

    pub(crate) fn read(&mut self, max: usize) -> Result<Vec<u8>, tcp::ReadError> {
        let now = self.now;
        let mut into = vec![0; max];
        let n = self.host.with(now, |conn, cx| conn.read(cx, &mut into))?;
        into.truncate(n);
        Ok(into)
    }

    pub(crate) fn shutdown(&mut self) {
        let now = self.now;
        self.host.with(now, |conn, cx| conn.shutdown(cx, tcp::Shutdown::Write));
    }

    pub(crate) fn close(&mut self) {
        let now = self.now;
        self.host.with(now, |conn, cx| conn.close(cx));
    }

    /// Returns the events since the last call.
    pub(crate) fn events(&mut self) -> Events {
        core::mem::take(&mut self.host.events)
    }

    #[track_caller]
    pub(crate) fn assert_state(&self, state: State) {
        assert_eq!(self.host.state(), state);
    }
}
