//! One model of the engine: whatever arrives goes up once, in order, whole, in time, and together only with its like.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use base::{Addr, Duration, Endpoint, FlowKey, Input, Instant, Seq};
use wire::checksum::{Sum, Summer};
use wire::packet::{Below, Checksum};
use wire::tcp::{Flags, Header, Options, SackBlocks, Timestamps};

use super::merged_runs::{continues, number, whole_by_hand};
use crate::pieces::NONE;
use crate::{Arrival, Config, Engine, Flush, MERGE_MAX, Run};

/// Flows of the model; the table has fewer places.
const FLOWS: u32 = 6;
/// Longest segment.
const SEGMENT: u32 = 40;
/// Bytes of a stream that are told apart.
const STREAM: usize = 4096;
const HEADERS: usize = 20;

/// Arrivals, calls and time as the bytes say.
pub fn engine(data: &[u8]) {
    let mut input = Input::new(data);
    let mut micros = || Duration::from_micros([0, 50, 300, 5000][usize::from(input.u8() % 4)]);
    let (hold, reorder) = (micros(), micros());
    let config = Config {
        flows: 4,
        packets: 2 + u16::from(input.u8() % 80),
        hold,
        reorder,
        age: Duration::from_millis(20),
    };
    Model::new(config).live(&mut input);
}

/// A packet that came and has not gone up.
struct Waiting {
    at: Instant,
    flow: usize,
    seq: Seq,
    len: u32,
    bytes: Vec<u8>,
}

/// A packet's number, and its bytes.
type Numbered = (usize, Vec<u8>);

/// Packet as the engine holds it.
struct Packet(usize, Vec<u8>);

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        &self.1
    }
}

struct Model {
    config: Config,
    /// The longest that anything may be held.
    longest: Duration,
    engine: Engine<Packet>,
    /// One that everything comes in to, and that looks at everything: the short ways must not be seen.
    thorough: Engine<Packet>,
    /// Runs delivered since the last comparison, with the reason of the flush if they were in the engine.
    up: Vec<(Vec<usize>, Option<Flush>)>,
    footprint: usize,
    now: Instant,
    /// Every arrival, by its number; `None` once it went up.
    packets: Vec<Option<Waiting>>,
    /// Of each flow, the numbers of those that wait, in order of arrival.
    waiting: Vec<VecDeque<usize>>,
    /// When each flow was heard of, and how long it had been silent before.
    heard: Vec<(Instant, Duration)>,
    /// Plain receivers of the arrivals, and of the delivered runs.
    direct: Vec<Receiver>,
    through: Vec<Receiver>,
    /// Where each flow's sender is, and segments of it that come later than those after them.
    next: Vec<Seq>,
    behind: Vec<Vec<(Seq, u32)>>,
}

/// Puts the bytes of a stream where they belong; the first to come stay.
#[derive(Clone, PartialEq, Debug)]
struct Receiver(Vec<Option<u8>>);

impl Receiver {
    fn take(&mut self, origin: Seq, seq: Seq, payload: &[u8]) {
        for (at, byte) in payload.iter().enumerate() {
            let place = (seq + at as u32).offset_from(origin) as usize;
            if let Some(place) = self.0.get_mut(place) {
                place.get_or_insert(*byte);
            }
        }
    }
}

fn origin(flow: usize) -> Seq {
    // Two of them wrap.
    Seq::new([0, 1 << 31, u32::MAX - 700, 5, u32::MAX - 90, 77][flow])
}

fn key(flow: usize) -> FlowKey {
    let end = |last, port| Endpoint::new(Addr::v4([10, 0, 0, last]), port);
    FlowKey::new(end(1, 80), end(2, 1000 + flow as u16))
}

impl Model {
    fn new(config: Config) -> Self {
        let receivers = vec![Receiver(vec![None; STREAM]); FLOWS as usize];
        let engine = Engine::new(config);
        let now = Instant::from_millis(1);
        Model {
            footprint: engine.footprint(),
            engine,
            thorough: Engine::new(config),
            up: Vec::new(),
            longest: config.bounded().hold.max(config.bounded().reorder),
            config,
            now,
            packets: Vec::new(),
            waiting: vec![VecDeque::new(); FLOWS as usize],
            heard: vec![(Instant::ZERO, Duration::MAX); FLOWS as usize],
            direct: receivers.clone(),
            through: receivers,
            next: (0..FLOWS as usize).map(origin).collect(),
            behind: vec![Vec::new(); FLOWS as usize],
        }
    }

    fn live(&mut self, input: &mut Input<'_>) {
        while !input.is_empty() {
            match input.below(16) {
                0..=10 => self.arrive(input),
                11 | 12 => self.end_batch(),
                13 | 14 => self.pass_time(Duration::from_micros(u64::from(input.u8() % 32))),
                _ => self.pass_time(Duration::from_micros(u64::from(input.u16()))),
            }
        }
        self.engine.flush_all(Flush::Batch);
        self.thorough.flush_all(Flush::Batch);
        self.drain();
        assert!(self.packets.iter().all(Option::is_none), "everything goes up");
        assert_eq!(self.direct, self.through, "byte for byte");
        let counters = self.engine.counters();
        assert_eq!(counters.values(), self.thorough.counters().values());
        assert_eq!(counters.seen, self.packets.len() as u64);
        assert_eq!(counters.runs + counters.merged, counters.seen);
        assert_eq!(
            (self.engine.packets(), self.engine.footprint()),
            (0, self.footprint),
            "memory is as before"
        );
        self.engine.on_batch_end(self.now);
        assert_eq!(self.engine.poll_timeout(), None, "nothing is held");
    }

    fn end_batch(&mut self) {
        self.engine.on_batch_end(self.now);
        self.thorough.on_batch_end(self.now);
        self.drain();
        for (flow, waiting) in self.waiting.iter().enumerate() {
            let silent = self.heard[flow].1 > self.config.bounded().hold;
            let waits = !self.config.reorder.is_zero() || !self.config.hold.is_zero() && !silent;
            assert!(waits || waiting.is_empty(), "flow {flow} waits though no more is expected");
        }
    }

    /// Time passes, as the keeper of the engine's dates sees it.
    fn pass_time(&mut self, time: Duration) {
        // Who waits has ended its batch.
        self.end_batch();
        let end = self.now + time;
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.end_batch();
            assert!(self.engine.poll_timeout().is_none_or(|next| next > self.now), "what was due is done");
        }
        self.now = end;
    }

    fn arrive(&mut self, input: &mut Input<'_>) {
        // Mostly one, so that its segments meet.
        let flow = [0, 0, 0, 0, 0, 1, 1, input.below(FLOWS)][usize::from(input.u8() % 8)] as usize;
        let choice = input.u8();
        let len = if choice & 7 == 0 { input.below(SEGMENT + 1) } else { SEGMENT - u32::from(choice & 1) };
        let (seq, len) = self.place(input, flow, choice, len);
        let odd = if choice & 0x60 == 0 { input.u16() } else { 0xff };
        let pick = |bit: u16, rare: u16, usual: u16| if odd & bit == 0 { rare } else { usual };
        let mut flags = Flags(pick(1, 0x18, 0x10));
        if odd == 0 {
            flags = Flags(input.u16() & Flags::ALL.0);
        }
        let at = self.packets.len();
        let (src, dst) = (key(flow).remote(), key(flow).local());
        let below = Below {
            link: None,
            src: src.addr,
            dst: dst.addr,
            tos: pick(2, 3, 2) as u8,
            ttl: pick(4, 63, 64) as u8,
            label: 0,
        };
        let timestamps = (odd & 32 != 0).then(|| Timestamps {
            val: (self.now.as_millis() as u32).wrapping_sub(pick(64, 3, 0).into()),
            ecr: pick(128, 8, 9).into(),
        });
        let mut sack = SackBlocks::none();
        if odd & 0x0f00 == 0x0f00 {
            sack.push(Seq::new(3), Seq::new(9));
        }
        let header = Header {
            src_port: src.port,
            dst_port: dst.port,
            seq,
            ack: Seq::new(pick(8, 2, 1).into()),
            flags,
            window: pick(16, 500, 501),
            options: Options { timestamps, sack, ..Options::NONE },
        };
        // Its own number shows in what it carries, so that whose bytes were kept is seen.
        let byte = |nth: u32| (at as u32).wrapping_mul(37).wrapping_add(nth * 11) as u8;
        let mut bytes = vec![0; below.len() + header.len()];
        bytes.extend((0..len).map(byte));
        below.emit_tcp(&header, len as usize, Checksum::Full, &mut bytes);
        if choice & 0x80 == 0 {
            number(&mut bytes[..HEADERS], at as u16 / 2);
        }
        self.take(Waiting { at: self.now, flow, seq, len, bytes }, odd & 0xf000 == 0xf000);
    }

    /// It comes, perhaps as something that the link merged.
    fn take(&mut self, packet: Waiting, merged: bool) {
        let Waiting { flow, seq, len, .. } = packet;
        if (seq + len).after(self.next[flow]) {
            self.next[flow] = seq + len;
        }
        let (number, bytes) = (self.packets.len(), packet.bytes.clone());
        let (before, silent) = self.heard[flow];
        self.heard[flow] = (self.now, if self.now == before { silent } else { self.now.since(before) });
        self.direct[flow].take(origin(flow), seq, &bytes[bytes.len() - len as usize..]);
        self.packets.push(Some(packet));
        self.waiting[flow].push_back(number);
        // Few different hashes: rows are crowded and hashes alike.
        let (key, hash) = (key(flow), flow as u64 % 3);
        let arrive = |packet: Packet| {
            let end = packet.1.len();
            Arrival { key, hash, ip: 0, tcp: HEADERS, end, merged, packet }
        };
        if let Err(again) = self.thorough.on_arrival(self.now, arrive(Packet(number, bytes.clone()))) {
            self.engine.flush_all(Flush::Crowded);
            self.drain();
            assert!(self.waiting[flow].len() == 1, "a full engine gives everything up");
            assert!(self.thorough.on_arrival(self.now, again).is_ok(), "there is room now");
        }
        if self.engine.bypass(self.now, &key, hash, &bytes[HEADERS..], merged) {
            self.up.push((vec![number], None));
            self.check(
                &Run { key, hash, merged_run: None, why: Flush::Alone, packet: NONE },
                &[(number, bytes)],
            );
            return self.drain();
        }
        let packet = Packet(number, bytes);
        // Of some nothing has looked at the checksum, which is right: then with and without it must be the same.
        let sums = number.is_multiple_of(3).then_some(Sum::of as Summer);
        let followed = match merged || number.is_multiple_of(5) {
            true => Err(packet),
            false => self.engine.follow(self.now, packet, sums, |packet, _| packet),
        };
        if let Err(packet) = followed {
            assert!(self.engine.on_arrival(self.now, arrive(packet)).is_ok(), "there is room");
        }
        self.drain();
    }

    /// Which bytes come: mostly the next, sometimes those after them first, a gap, a repetition or an overlap.
    fn place(&mut self, input: &mut Input<'_>, flow: usize, choice: u8, len: u32) -> (Seq, u32) {
        let next = self.next[flow];
        match choice >> 3 & 7 {
            0 => {
                let back = input.below(120).min(next.offset_from(origin(flow)));
                (next - back, len)
            }
            1 => (next + input.below(120), len),
            2 | 3 => {
                self.behind[flow].push((next, len));
                (next + len, len)
            }
            4 | 5 if !self.behind[flow].is_empty() => self.behind[flow].swap_remove(0),
            _ => (next, len),
        }
    }

    /// Takes what is ready, and checks it.
    fn drain(&mut self) {
        let numbers = |packets: &[Numbered]| packets.iter().map(|packet| packet.0).collect::<Vec<_>>();
        while let Some((run, packets)) = next_run(&mut self.engine) {
            self.up.push((numbers(&packets), Some(run.why)));
            self.check(&run, &packets);
        }
        let mut up = self.up.drain(..);
        while let Some((run, packets)) = next_run(&mut self.thorough) {
            let (same, why) = up.next().expect("went up too late");
            assert_eq!(same, numbers(&packets), "the same, in the same order");
            assert!(why.is_none_or(|why| why == run.why), "for the same reason");
        }
        assert_eq!(up.next(), None, "went up too early");
        assert_eq!(self.engine.poll_timeout(), self.thorough.poll_timeout());
    }

    fn check(&mut self, run: &Run, packets: &[Numbered]) {
        let count = run.merged_run.as_ref().map_or(1, |merged_run| usize::from(merged_run.count()));
        assert_eq!(packets.len(), count, "{run:?}");
        assert!((1..=MERGE_MAX).contains(&count) && (count > 1) == run.merged_run.is_some());
        for (nth, (number, bytes)) in packets.iter().enumerate() {
            let waiting = self.packets[*number].take().expect("it goes up once");
            assert_eq!((&key(waiting.flow), bytes), (&run.key, &waiting.bytes), "its own and as it came");
            assert!(self.now <= waiting.at + self.longest, "held longer than the budget");
            self.check_order(*number, &waiting);
            let text = &bytes[bytes.len() - waiting.len as usize..];
            self.through[waiting.flow].take(origin(waiting.flow), waiting.seq, text);
            if let Some(merged_run) = &run.merged_run {
                assert_eq!(&bytes[merged_run.text(nth as u16)], text, "{nth} of {run:?}");
            }
        }
        let size = run.merged_run.as_ref().map_or(0, |merged_run| merged_run.text(0).len());
        for pair in packets.windows(2) {
            assert!(continues(&pair[0].1, &pair[1].1, 0, size, true), "of another kind, in {run:?}");
            assert!(whole_by_hand(&pair[0].1) && whole_by_hand(&pair[1].1), "whole");
        }
    }

    /// Only what waited for something before it is overtaken by that.
    fn check_order(&mut self, number: usize, up: &Waiting) {
        let waiting = &mut self.waiting[up.flow];
        let place = waiting.iter().position(|other| *other == number).expect("it waits");
        for &overtaken in waiting.iter().take(place) {
            let before = self.packets[overtaken].as_ref().expect("it waits");
            let repaired = !self.config.reorder.is_zero() && before.seq.at_or_after(up.seq + up.len);
            assert!(repaired, "{number} overtakes {overtaken}");
        }
        waiting.remove(place);
    }
}

/// The next run that is ready, and its packets.
fn next_run(engine: &mut Engine<Packet>) -> Option<(Run, Vec<Numbered>)> {
    let mut run = engine.poll_run()?;
    let mut packets = Vec::new();
    while let Some(Packet(number, bytes)) = engine.next_packet(&mut run) {
        packets.push((number, bytes));
    }
    Some((run, packets))
}
