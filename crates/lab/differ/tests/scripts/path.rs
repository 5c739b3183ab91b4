//! The path between two ends: what it does to which segment, and what it saw.

use base::{Duration, Instant};
use ring::Ringer;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::packet::{Content, parse_frame};
use wire::tcp::{Flags, Segment};

/// One way.
pub(crate) const DELAY: Duration = Duration::from_millis(25);
/// Extra delay of data and FIN beside segments that open a connection: a sample below the smallest round-trip time
/// tells RACK nothing (RFC 8985, section 6.2, step 2), and which one is smallest is not to depend on how busy the
/// machine is.
const LARGER: Duration = Duration::from_millis(6);
/// Segments of one direction arrive so far apart at least, as behind a slow link: what an end does for each of them is
/// not to depend on how many it found at once.
const SPACING: Duration = Duration::from_millis(4);
/// Most frames under way in one direction; a script sends fewer.
const FLYING_MAX: usize = 4096;

/// The two ends of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The one under test: our stack, or the kernel in its place.
    Near,
    /// The kernel that both talk to.
    Far,
}

impl End {
    pub(crate) fn other(self) -> End {
        match self {
            End::Near => End::Far,
            End::Far => End::Near,
        }
    }
}

/// Kinds by which segments are counted. A segment may be of two kinds (data with FIN).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Data,
    Fin,
    /// Nothing but an acknowledgment.
    Ack,
}

const KINDS: [Kind; 5] = [Kind::Syn, Kind::SynAck, Kind::Data, Kind::Fin, Kind::Ack];

impl Kind {
    fn fits(self, segment: &Segment<'_>) -> bool {
        let (flags, data) = (segment.flags, !segment.payload.is_empty());
        match self {
            Kind::Syn => flags.has(Flags::SYN) && !flags.has(Flags::ACK),
            Kind::SynAck => flags.has(Flags::SYN | Flags::ACK),
            Kind::Data => data,
            Kind::Fin => flags.has(Flags::FIN),
            Kind::Ack => !data && !flags.any(Flags::SYN | Flags::FIN | Flags::RST),
        }
    }
}

/// Action of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Lose,
    Double,
    /// So many milliseconds more than the others take.
    Delay(u64),
}

/// Action on the segment with this number, from 1, of its kind and direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule(pub(crate) End, pub(crate) Kind, pub(crate) u32, pub(crate) Act);

/// A segment as it entered the path.
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) from: End,
    pub(crate) flags: Flags,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) len: u32,
    pub(crate) window: u16,
    /// The options that it carries, by name.
    pub(crate) options: String,
}

/// One connection's path; both ends turn it from their own threads.
pub(crate) struct Path {
    /// The port of the end that listens; segments of other connections belong to no connection any more.
    port: u16,
    rules: &'static [Rule],
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    counts: [[u32; KINDS.len()]; 2],
    seen: Vec<Seen>,
    /// Under way to each end, the next to arrive at the end of the list.
    flying: [Vec<(Instant, Vec<u8>)>; 2],
    /// When the link to each end is free again, as seen from there.
    free: [Instant; 2],
    bells: [Option<Ringer>; 2],
}

impl Path {
    pub(crate) fn new(port: u16, rules: &'static [Rule]) -> Path {
        Path { port, rules, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rung when something is under way to `end`.
    pub(crate) fn set_bell(&self, end: End, bell: Ringer) {
        self.lock().bells[end as usize] = Some(bell);
    }

    /// A frame enters. ARP passes at once; what is neither that nor the connection's is dropped.
    pub(crate) fn enter(&self, from: End, frame: &[u8], now: Instant) {
        let Ok(parsed) = parse_frame(frame, frame.len()) else { return };
        let mut inner = self.lock();
        let to = from.other() as usize;
        let (copies, mut at) = match &parsed.content {
            Content::Arp(_) => (1, now),
            Content::Ip(packet) => match packet.tcp(frame) {
                Ok((src, dst, segment)) if src == self.port || dst == self.port => {
                    let of = packet.upper(frame);
                    inner.note(from, &segment, of, now);
                    let (copies, more) = inner.judge(from, &segment, self.rules);
                    let larger = !segment.payload.is_empty() || segment.flags.has(Flags::FIN);
                    let delay = if larger { DELAY + LARGER } else { DELAY };
                    let at = inner.free[to].max(now + delay);
                    inner.free[to] = at + SPACING;
                    (copies, at + more)
                }
                _ => return,
            },
        };
        for _ in 0..copies {
            let place = inner.flying[to].partition_point(|(other, _)| *other > at);
            assert!(inner.flying[to].len() < FLYING_MAX, "the path is full");
            inner.flying[to].insert(place, (at, frame.to_vec()));
            at += SPACING / 2;
        }
        if let Some(bell) = inner.bells[to].clone() {
            drop(inner);
            bell.ring_anyway();
        }
    }

    /// The next frame that has arrived at `end`.
    pub(crate) fn arrived(&self, end: End, now: Instant) -> Option<Vec<u8>> {
        let flying = &mut self.lock().flying[end as usize];
        flying.pop_if(|(at, _)| *at <= now).map(|(_, frame)| frame)
    }

    /// When the next one arrives.
    pub(crate) fn next(&self, end: End) -> Option<Instant> {
        self.lock().flying[end as usize].last().map(|(at, _)| *at)
    }

    /// Takes the segments seen, in order.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.lock().seen)
    }
}

impl Inner {
    fn note(&mut self, from: End, segment: &Segment<'_>, bytes: &[u8], at: Instant) {
        let (seq, ack) = (u32::from_be_bytes(word(bytes, 4)), u32::from_be_bytes(word(bytes, 8)));
        let options = names(segment);
        let (flags, window, len) = (segment.flags, segment.window, segment.payload.len() as u32);
        self.seen.push(Seen { at, from, flags, seq, ack, len, window, options });
    }

    /// How often the segment arrives, and how much later than it would.
    fn judge(&mut self, from: End, segment: &Segment<'_>, rules: &[Rule]) -> (u32, Duration) {
        let (mut copies, mut delay) = (1, Duration::ZERO);
        for (index, kind) in KINDS.into_iter().enumerate().filter(|(_, kind)| kind.fits(segment)) {
            let count = &mut self.counts[from as usize][index];
            *count += 1;
            for rule in rules.iter().filter(|rule| (rule.0, rule.1, rule.2) == (from, kind, *count)) {
                match rule.3 {
                    Act::Lose => copies = 0,
                    Act::Double => copies = 2,
                    Act::Delay(ms) => delay += Duration::from_millis(ms),
                }
            }
        }
        (copies, delay)
    }
}

fn word(bytes: &[u8], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

fn names(segment: &Segment<'_>) -> String {
    let options = &segment.options;
    let mut names = Vec::new();
    names.extend(options.mss.map(|mss| format!("mss {mss}")));
    names.extend(options.sack_permitted.then(|| "sackOK".to_owned()));
    names.extend(options.timestamps.map(|_| "TS".to_owned()));
    names.extend(options.window_scale.map(|_| "wscale".to_owned()));
    let blocks = options.sack.as_slice().len();
    names.extend((blocks > 0).then(|| format!("sack {blocks}")));
    names.join(",")
}
