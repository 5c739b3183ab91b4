//! Marks received, the time to report them to the peer, and the counters that are sent.

use base::Seq;
use wire::Ecn;
use wire::tcp::{AccEcn as Counters, CounterOrder, EcnBytes, MAX_OPTIONS_LEN};

use crate::stats::info::AccEcnInfo;

/// Initial value of CE packet counters (section 3.2.1).
pub(super) const FIRST_COUNT: u32 = 5;

/// Initial values of the byte counters: not zero, so that a middlebox that zeroes them is detected (section 3.2.1).
pub(super) const FIRST_BYTES: EcnBytes = EcnBytes { ect0: 1, ce: 0, ect1: 1 };
/// Marks since the last acknowledgment that earn one: of data that is not acknowledged, and of nothing but
/// acknowledgments (section 3.2.2.5.1).
const MARKS_OF_DATA: u32 = 2;
const MARKS_OF_ACKS: u32 = 3;
/// SACK blocks that counters never take the place of (section 3.2.3.3).
const BLOCKS_KEPT: usize = 2;
/// Number of repetitions of the same data in a row after which its acknowledgment with counters counts as not
/// getting through (section 3.2.3.2.2).
const REPEATS: u8 = 2;
const FIELDS: u8 = 3;

/// When counters of bytes are sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Telling {
    /// Never.
    Never,
    /// When they changed, and some times in a round trip.
    Changed,
    /// On every segment that has room.
    Always,
    /// As `Always`, even if such segments seem to be lost.
    Stubborn,
}

/// Room in a segment for the option, beside what its headers carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// It carries timestamps.
    pub(crate) stamps: bool,
    /// SACK blocks that wait to be sent.
    pub(crate) blocks: usize,
    /// The counters follow Linux's order only, ECT(1) first.
    pub(crate) linux: bool,
}

/// The data receiver's half (r.cep, r.ceb, r.e0b, r.e1b).
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Packets with CE (r.cep).
    packets: u32,
    bytes: EcnBytes,
    /// Counters in the last option sent.
    told: EcnBytes,
    /// The codepoint of the latest SYN or SYN-ACK.
    pub(super) handshake: Ecn,
    /// A SYN-ACK with CE was counted.
    greeted: bool,
    /// The codepoint of the last packet.
    last: Ecn,
    /// Packets with CE since the last acknowledgment.
    unsaid: u32,
    /// Options that are due whatever changed.
    demand: u8,
    /// When the last option left, microseconds.
    option_us: Option<u32>,
    /// Options are no longer sent: they do not get through.
    pub(super) silent: bool,
    /// Where data began that had arrived before, and how often in a row.
    repeated: (Seq, u8),
}

impl Receiver {
    pub(super) fn new(handshake: Ecn) -> Receiver {
        Receiver {
            packets: FIRST_COUNT,
            bytes: FIRST_BYTES,
            told: FIRST_BYTES,
            handshake,
            greeted: false,
            last: handshake,
            unsaid: 0,
            demand: 0,
            option_us: None,
            silent: false,
            repeated: (Seq::new(0), 0),
        }
    }

    /// r.cep, whose low bits every segment carries.
    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    /// A SYN or SYN-ACK arrived. A mark on a SYN-ACK is counted once (section 3.2.2.2); that on a SYN is told by our
    /// SYN-ACK, and not counted.
    /// RFC 9768, 3.1.5-5, 3.2-1, 3.2.2.2-1 and 3.2.2.2-3.
    pub(super) fn on_greeting(&mut self, codepoint: Ecn, acknowledges: bool) {
        self.handshake = codepoint;
        if acknowledges && codepoint == Ecn::Marked && !self.greeted {
            self.greeted = true;
            self.packets += 1;
        }
    }

    /// Handshake codepoint as AE, CWR and ECE (tables 2 and 3).
    /// RFC 9768, 3.1.1-2 and 3.2.2.1-1.
    pub(super) fn greeting(&self) -> u32 {
        match self.handshake {
            Ecn::NotCapable => 0b010,
            Ecn::Capable1 => 0b011,
            Ecn::Capable0 => 0b100,
            Ecn::Marked => 0b110,
        }
    }

    /// The next `n` segments that can carry an option do.
    pub(super) fn demand(&mut self, n: u8) {
        self.demand = self.demand.max(n);
    }

    /// An acceptable packet arrived, in `segments` of the wire, with `bytes` of payload. `unacknowledged`: data waits
    /// for its acknowledgment. Does it earn one at once?
    /// RFC 9768, 3.2-1, 3.2-2, 3.2.2.5.1-1 and 3.2.2.5.1-2.
    pub(super) fn on_packet(
        &mut self,
        codepoint: Ecn,
        segments: u16,
        bytes: u32,
        unacknowledged: bool,
    ) -> bool {
        let marked = codepoint == Ecn::Marked;
        match codepoint {
            Ecn::NotCapable => {}
            Ecn::Capable0 => self.bytes.ect0 = self.bytes.ect0.wrapping_add(bytes),
            Ecn::Capable1 => self.bytes.ect1 = self.bytes.ect1.wrapping_add(bytes),
            Ecn::Marked => self.bytes.ce = self.bytes.ce.wrapping_add(bytes),
        }
        if marked {
            self.packets = self.packets.wrapping_add(segments.into());
            self.unsaid += u32::from(segments);
        }
        let begins = marked && bytes > 0 && self.last != Ecn::Marked;
        self.last = codepoint;
        begins || self.unsaid >= if unacknowledged { MARKS_OF_DATA } else { MARKS_OF_ACKS }
    }

    /// Data that had arrived before, from `seq` on, arrived again. True if counters are left out from now on.
    /// RFC 9768, 3.2.3.2.2-2.
    pub(super) fn on_repeated(&mut self, seq: Seq) -> bool {
        let (before, times) = self.repeated;
        self.repeated = (seq, if before == seq { times.saturating_add(1) } else { 1 });
        let gone = self.repeated.1 >= REPEATS && !self.silent && self.option_us.is_some();
        self.silent |= gone;
        gone
    }

    /// An acknowledgment leaves.
    pub(super) fn on_told(&mut self) {
        self.unsaid = 0;
    }

    /// May options be sent at all?
    pub(super) fn tells(&self, telling: Telling) -> bool {
        telling > Telling::Never && (!self.silent || telling == Telling::Stubborn)
    }

    /// Is one due now, where `beacon_us` is the longest pause between two of them?
    /// RFC 9768, 3.2.3.3-1, 3.2.3.3-3 and 3.2.3.3-4.
    pub(super) fn owes_option(&self, telling: Telling, now_us: u32, beacon_us: Option<u32>) -> bool {
        let waited = self.option_us.map_or(u32::MAX, |last| now_us.wrapping_sub(last));
        self.tells(telling)
            && (telling >= Telling::Always
                || self.demand > 0
                || self.bytes != self.told
                || beacon_us.is_some_and(|pause| waited >= pause))
    }

    /// The counters of a SYN-ACK: all of them, still as they began.
    pub(super) fn first_option(&mut self, now_us: u32) -> Counters {
        self.option_us = Some(now_us);
        Counters::new(CounterOrder::Ect1First, FIELDS, &FIRST_BYTES)
    }

    /// The fields of an option in this order that must be there, because they differ from `since`.
    fn needed(&self, order: CounterOrder, since: &EcnBytes) -> u8 {
        let places = match order {
            CounterOrder::Ect0First => [1, 2, 3],
            CounterOrder::Ect1First => [3, 2, 1],
        };
        let now = &self.bytes;
        let moved = [now.ect0 != since.ect0, now.ce != since.ce, now.ect1 != since.ect1];
        places.into_iter().zip(moved).filter(|(_, moved)| *moved).map(|(place, _)| place).max().unwrap_or(0)
    }

    /// The option that fits, and how many SACK blocks remain beside it: two of them are never given up for it. What
    /// changed since the last option must be in it, or there is none.
    /// RFC 9768, 3.2.3.1-1, 3.2.3.3-2, 3.2.3.3-5 and 3.2.3.3-6.
    pub(super) fn option(&mut self, now_us: u32, room: Room) -> Option<(Counters, usize)> {
        let ect0_first = !room.linux && self.bytes.ect1 == FIRST_BYTES.ect1;
        let orders = match ect0_first {
            true => [CounterOrder::Ect0First, CounterOrder::Ect1First],
            false => [CounterOrder::Ect1First, CounterOrder::Ect0First],
        };
        let orders = &orders[..if room.linux { 1 } else { 2 }];
        let whole = room.linux || self.demand > 0;
        let most = if whole { FIELDS } else { self.needed(orders[0], &FIRST_BYTES).max(1) };
        // Better with all that ever changed, and a block less, than with only what the peer should not know yet.
        let news = self.fit(orders, most, room, |order| self.needed(order, &self.told));
        let all = self.fit(orders, most, room, |order| self.needed(order, &FIRST_BYTES).max(1));
        let (order, fields, blocks) = if room.linux { news } else { all.or(news) }?;
        self.told = self.bytes;
        self.demand = self.demand.saturating_sub(1);
        self.option_us = Some(now_us);
        Some((Counters::new(order, fields, &self.bytes), blocks))
    }

    /// Order, fields and SACK blocks of the best option that has `least` fields.
    fn fit(
        &self,
        orders: &[CounterOrder],
        most: u8,
        room: Room,
        least: impl Fn(CounterOrder) -> u8,
    ) -> Option<(CounterOrder, u8, usize)> {
        for blocks in (room.blocks.min(BLOCKS_KEPT)..=room.blocks).rev() {
            let stamps = if room.stamps { 12 } else { 0 };
            let sack = if blocks > 0 { 4 + 8 * blocks } else { 0 };
            let left = MAX_OPTIONS_LEN.saturating_sub(stamps + sack);
            for fields in (0..=most).rev().filter(|&n| Counters::padded_len(n, blocks > 0) <= left) {
                if let Some(&order) = orders.iter().find(|order| least(**order) <= fields) {
                    return Some((order, fields, blocks));
                }
            }
        }
        None
    }

    pub(super) fn describe(&self, info: &mut AccEcnInfo) {
        info.received_ce = self.packets.wrapping_sub(FIRST_COUNT);
        info.received_bytes = since_first(&self.bytes);
        info.option_blocked = self.silent;
    }
}

/// Bytes counted since the beginning.
pub(super) fn since_first(bytes: &EcnBytes) -> EcnBytes {
    EcnBytes {
        ect0: bytes.ect0.wrapping_sub(FIRST_BYTES.ect0),
        ce: bytes.ce.wrapping_sub(FIRST_BYTES.ce),
        ect1: bytes.ect1.wrapping_sub(FIRST_BYTES.ect1),
    }
}
