//! The peer's feedback about our packets: wrapping counters extended, and conclusions about the path.

use base::Seq;
use wire::tcp::{AccEcn as Counters, EcnBytes};

use super::receiver::{FIRST_BYTES, FIRST_COUNT, since_first};
use crate::stats::info::{AccEcnInfo, OptionSeen};

/// The ACE field counts modulo this.
const CYCLE: u32 = 8;
/// Counters of bytes have this many bits on the wire.
const COUNTER_BITS: u32 = 24;
/// Segments an acknowledgment stands for on average from which on stretches are nothing unusual, so that a long one is
/// no sign of lost acknowledgments (appendix A.2.1).
const STRETCHED: u32 = 4;
/// The average is kept in 1/16 of a segment, and moves by 1/16 of the difference.
const SCALE: u32 = 16;
/// The average size of segments moves by this part of the difference.
const SIZE_WEIGHT: u32 = 8;
/// Fewer segments than this cannot have hidden a whole cycle, also if our estimate of their number is far off.
const CERTAIN: u32 = CYCLE / 2;
/// After this many rounds in which everything was marked, the marks are taken for a fault (section 3.2.2.3).
const FAULTY_ROUNDS: u8 = 4;
/// Something was not marked: no fault of that kind.
const SOUND: u8 = u8::MAX;

/// An acknowledgment, as far as it concerns marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback {
    pub(crate) ace: u8,
    pub(crate) counters: Option<Counters>,
    /// Bytes of ours newly known to have arrived.
    pub(crate) bytes: u32,
    /// A FIN among them.
    pub(crate) fin: bool,
    /// Bytes of a full segment.
    pub(crate) mss: u32,
    /// Nothing was lost lately, so what arrived arrived once.
    pub(crate) orderly: bool,
}

/// Feedback of one acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Told {
    /// Our segments newly known to have arrived, as far as that can be estimated.
    pub(crate) segments: u32,
    /// Packets of ours newly known to have arrived with CE.
    pub(crate) marks: u32,
    /// Bytes in them; estimated where the peer sends no counters.
    pub(crate) marked_bytes: u32,
    /// The feedback is impossible.
    pub(crate) absurd: bool,
}

/// Why a connection does not send ECT, or does not listen to marks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Faults {
    /// Our SYN-ACK, or the peer's SYN, did without ECN: the peer may not know that we agreed.
    pub(crate) unsure: bool,
    /// Something changes codepoints or counters on the way.
    pub(crate) mangled: bool,
    /// Marks mean nothing.
    pub(crate) deaf: bool,
}

/// The data sender's half (s.cep, s.ceb, s.e0b, s.e1b).
#[derive(Debug)]
pub(crate) struct Sender {
    packets: u32,
    bytes: EcnBytes,
    pub(super) seen: OptionSeen,
    pub(super) faults: Faults,
    /// The first ACE field was looked at.
    pub(super) checked: bool,
    /// Our SYN or SYN-ACK was marked, and the window has not begun smaller for it yet.
    pub(super) marked_greeting: bool,
    /// Segments delivered.
    delivered: u32,
    /// Average bytes of payload in a segment that was sent; zero before the first.
    size: u32,
    /// Average segments an acknowledgment stands for, in sixteenths; zero before the first.
    stretch: u32,
    /// Rounds, since the first, in which everything was marked; `SOUND` once something was not.
    marked_rounds: u8,
    round_end: Option<Seq>,
}

impl Sender {
    pub(super) fn new() -> Sender {
        Sender {
            packets: FIRST_COUNT,
            bytes: FIRST_BYTES,
            seen: OptionSeen::Never,
            faults: Faults::default(),
            checked: false,
            marked_greeting: false,
            delivered: 0,
            size: 0,
            stretch: 0,
            marked_rounds: 0,
            round_end: None,
        }
    }

    /// May packets be marked?
    pub(super) fn is_capable(&self) -> bool {
        self.faults == Faults::default()
    }

    /// A mark on our SYN-ACK, told by the ACK of it (table 4).
    /// RFC 9768, 3.2.2.1-3.
    pub(super) fn count_greeting(&mut self) {
        self.packets += 1;
    }

    /// Data leaves, `len` bytes in segments of `mss`.
    pub(super) fn on_sent(&mut self, len: u32, mss: u32) {
        let each = len.min(mss);
        self.size = match self.size {
            0 => each,
            size => (size * (SIZE_WEIGHT - 1) + each).div_ceil(SIZE_WEIGHT),
        };
    }

    /// The first option, or one that came after none had: is either counter of bytes zero that never should be?
    /// RFC 9768, 3.2.3.2.3-1, 3.2.3.2.3-2 and 3.2.3.2.4-1.
    pub(super) fn meet_option(&mut self, counters: Option<Counters>) {
        let Some(counters) = counters.filter(|_| self.seen < OptionSeen::Counters) else { return };
        let zeroed = counters.ect0() == Some(0) || counters.ect1() == Some(0);
        self.seen = match counters.fields() {
            _ if zeroed => OptionSeen::Zeroed,
            0 => OptionSeen::Empty,
            _ => OptionSeen::Counters,
        };
    }

    /// The counters of an option; bytes newly marked, unless they contradict what was told before.
    /// RFC 9768, 3.2.3.1-2.
    fn take_counters(&mut self, counters: Counters) -> Option<u32> {
        let EcnBytes { ect0, ce, ect1 } = self.bytes;
        let steps = [(ect0, counters.ect0()), (ce, counters.ce()), (ect1, counters.ect1())].map(advance);
        if self.seen != OptionSeen::Counters || counters.fields() == 0 || steps.iter().any(|step| *step < 0) {
            return None;
        }
        let [d0, dc, d1] = steps.map(|step| step as u32);
        self.bytes =
            EcnBytes { ect0: ect0.wrapping_add(d0), ce: ce.wrapping_add(dc), ect1: ect1.wrapping_add(d1) };
        Some(dc)
    }

    /// An acknowledgment that no other one has superseded.
    /// RFC 9768, 3.2.2.2-2, 3.2.2.5.2-1, 3.2.2.5.2-2, 3.2.3.2.5-1 and 3.2.3.2.5-2.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback) -> Told {
        self.meet_option(feedback.counters);
        let marked = feedback.counters.and_then(|counters| self.take_counters(counters));
        let size = if self.size == 0 { feedback.mss } else { self.size };
        let segments = feedback.bytes.div_ceil(size.max(1)) + u32::from(feedback.fin);
        self.note_stretch(segments);
        let least = u32::from(feedback.ace).wrapping_sub(self.packets) % CYCLE;
        let marks = self.whole_count(least, segments, marked, feedback);
        self.packets = self.packets.wrapping_add(marks);
        self.delivered = self.delivered.wrapping_add(segments);
        let estimated = (marks * size).min(feedback.bytes);
        Told {
            segments,
            marks,
            marked_bytes: marked.unwrap_or(estimated),
            absurd: marks == 0
                && marked.is_some_and(|bytes| bytes > 0)
                && segments <= CERTAIN
                && feedback.orderly,
        }
    }

    fn note_stretch(&mut self, segments: u32) {
        let now = segments.min(u32::from(u16::MAX)) * SCALE;
        self.stretch = match (segments, self.stretch) {
            (0, stretch) => stretch,
            (_, 0) => now,
            (_, stretch) => (stretch * (SCALE - 1) + now).div_ceil(SCALE),
        };
    }

    /// How many packets were marked: `least`, or that and some whole cycles (appendix A.2).
    fn whole_count(&self, least: u32, segments: u32, marked: Option<u32>, feedback: &Feedback) -> u32 {
        if segments < CYCLE {
            return least;
        }
        let safest = segments - (segments - least) % CYCLE;
        match marked {
            Some(0) => least,
            Some(bytes) if bytes >= feedback.bytes => safest,
            Some(bytes) => {
                // As large a part of the segments as of the bytes, to the nearest count that ends in these three bits.
                let part = u64::from(bytes) * u64::from(segments);
                let part = part.div_ceil(u64::from(feedback.bytes.max(1))) as u32;
                let below = part.saturating_sub(part.wrapping_sub(least) % CYCLE).max(least);
                let near = if part > below + CYCLE / 2 { below + CYCLE } else { below };
                near.min(safest)
            }
            // No peer acknowledges that seldom here, so acknowledgments were lost, and with them perhaps whole cycles.
            None if self.stretch < STRETCHED * SCALE => safest,
            None => least,
        }
    }

    /// Everything in four rounds in a row was marked: true once, when that is found.
    /// RFC 9768, 3.2.2.3-3.
    pub(super) fn finds_fault(&mut self, told: &Told, una: Seq, nxt: Seq) -> bool {
        if self.marked_rounds == SOUND || told.segments == 0 {
            return false;
        }
        if told.marks < told.segments {
            self.marked_rounds = SOUND;
            return false;
        }
        if self.round_end.is_none_or(|end| una.at_or_after(end)) {
            self.marked_rounds += u8::from(self.round_end.is_some());
            self.round_end = Some(nxt);
        }
        if self.marked_rounds < FAULTY_ROUNDS {
            return false;
        }
        self.marked_rounds = SOUND;
        true
    }

    pub(super) fn describe(&self, info: &mut AccEcnInfo) {
        info.delivered = self.delivered;
        info.delivered_ce = self.packets.wrapping_sub(FIRST_COUNT);
        info.delivered_bytes = since_first(&self.bytes);
        info.option_seen = self.seen;
        info.capable = self.is_capable();
        info.unsure = self.faults.unsure;
        info.mangled = self.faults.mangled || self.faults.deaf;
    }
}

/// How far a counter went on, by the 24 bits that were told; less than zero if it went back.
fn advance((had, told): (u32, Option<u32>)) -> i32 {
    let unused = u32::BITS - COUNTER_BITS;
    told.map_or(0, |told| (told.wrapping_sub(had) << unused) as i32 >> unused)
}
