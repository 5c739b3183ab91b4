//! Finding the path's MTU without ICMP (packetization layer path MTU discovery, RFC 4821, whose method for TCP RFC 8899
//! generalizes): now and then a segment larger than the others goes out with real data. If it is acknowledged, the path
//! carries that size; if it alone is lost, the path does not, and that is no sign of congestion. And where nothing of
//! full size gets through any more, the path is taken for a black hole and segments become smaller.
//!
//! ```text
//!   floor        low                    probe                     high         most
//!  ───┬───────────┬───────────────────────┬────────────────────────┬────────────┬──── bytes
//!     │           │ carried: segments are │ next: in the middle    │ the rest   │ what the route allows
//!     │           │ as large as this      │ of what is open        │ was lost   │
//! ```
//! Names and defaults of the settings are Linux's.

use alloc::boxed::Box;

use base::Seq;
use cc::Controller;

use crate::connection::{Bits, Connection};
use crate::mtu::{MtuSearch, Probe};
use crate::transmit::{SeqRange, TxPlan};
use crate::{Config, Cx};

crate::bits::writer!(SEARCHING, PROBING_MTU);

/// Timeouts in a row that make a black hole (RFC 4821, section 7.7).
const BLACK_HOLE: u8 = 3;
/// Least congestion window of a connection that probes, in segments: a lost probe must show by duplicates.
const WINDOW: u32 = 11;

/// Decision of the search about sending new data.
pub(crate) enum Probing {
    /// No probe is due.
    No,
    /// One is, as soon as there is room for it.
    Wait,
    /// Here it is.
    Now(TxPlan),
}

impl Connection {
    fn search(&self) -> Option<&MtuSearch> {
        self.cold()?.path.search.as_deref()
    }

    fn search_mut(&mut self) -> Option<&mut MtuSearch> {
        self.cold_mut().path.search.as_deref_mut()
    }

    /// Largest IP packet that the route allows, as far as this connection was told; its own may be smaller.
    pub fn route_mtu(&self) -> u16 {
        self.search().map_or(self.snd.path_mtu(), |search| search.most.max(self.snd.path_mtu()))
    }

    /// Both ends take packets of this size.
    fn ends_mtu(&self, config: &Config) -> u16 {
        self.mtu_for(config, self.mss_for(config, u16::MAX))
    }

    /// The handshake is over, or the path seems to be a black hole: what is known is the route's MTU. Where that is
    /// less than what the ends take, a router knew why, and segments begin with it; else with the base size.
    /// RFC 8899, 5.1.2-2.
    #[cold]
    pub(crate) fn begin_search(&mut self, cx: &mut Cx<'_>) {
        let (most, ends) = (self.snd.path_mtu(), self.ends_mtu(cx.config));
        let high = most.min(ends);
        let low = self.mtu_for(cx.config, cx.config.base_mss).min(high);
        let search = MtuSearch { low, high, most, probe: None, lost: 0, told: false, at: cx.now };
        self.cold_mut().path.search = Some(Box::new(search));
        self.bits.set(Bits::SEARCHING, WRITER);
        if most >= ends {
            self.use_mtu(cx.config, low);
        }
    }

    /// Segments have this size from now on.
    /// RFC 8899, 3-10.
    fn use_mtu(&mut self, config: &Config, mtu: u16) {
        self.snd.set_path_mtu(mtu);
        self.refresh_mss(config);
    }

    /// Returns the size in bytes that a router refuses when it names none and rejects the byte at `seq`: the MTU is
    /// less.
    pub(crate) fn mtu_refused(&self, seq: Seq) -> u16 {
        let probe = self.search().and_then(|search| search.probe).filter(|probe| probe.holds(seq));
        probe.map_or(self.snd.path_mtu(), |probe| probe.mtu)
    }

    /// Is a probe due, and can it leave? As on Linux: nothing is amiss, enough data follow that its loss shows, and the
    /// windows take all of it.
    /// RFC 8899, 4.1-1 and 4.1-2; RFC 4821, 7.4-1; RFC 8899, 3-1, 3-3, 3-9 and 3-12.
    #[cold]
    pub(crate) fn plan_mtu_probe(&mut self, cx: &mut Cx<'_>, unsent: u32) -> Probing {
        let mss = u32::from(self.snd.mss());
        let degree = u32::from(self.reordering().degree);
        let calm = self.recovery.is_calm() && self.snd.duplicates() == 0 && !self.rcv.is_missing();
        if !calm || self.bits.has(Bits::PROBING_MTU) || self.control.window().cwnd < WINDOW * mss {
            return Probing::No;
        }
        self.raise_if_due(cx);
        let Some(mtu) =
            self.search().and_then(|search| search.next(cx.config.probe_threshold, self.snd.path_mtu()))
        else {
            return Probing::No;
        };
        let len = u32::from(self.mss_for(cx.config, mtu));
        let needed = len + (degree + 1) * mss;
        let parted = self.bits.has(Bits::MARKED) && self.within_record(self.snd.nxt(), len) < len;
        if unsent < needed || self.snd.window() < needed || parted {
            return Probing::No;
        }
        let full = self.snd.flight() + needed > self.snd.window() || self.congestion_room() < len + mss;
        if full || (self.bits.has(Bits::PACED) && self.paced_room(cx, mss).is_none()) {
            return if self.snd.flight() > 0 || self.bits.has(Bits::PACE_WAIT) {
                Probing::Wait
            } else {
                Probing::No
            };
        }
        cx.counters.mtu_probes += 1;
        let start = self.snd.nxt();
        let probe = Probe { start, end: start + len, mtu };
        self.bits.set(Bits::PROBING_MTU, WRITER);
        if let Some(search) = self.search_mut() {
            search.probe = Some(probe);
        }
        Probing::Now(self.plan_fresh(cx, SeqRange { seq: start, len, fin: false }, len))
    }

    /// Routes change, and so may the MTU where none was found larger for long (PMTU_RAISE_TIMER).
    /// RFC 8899, 5.1.1-1; RFC 4821, 7.3-1.
    fn raise_if_due(&mut self, cx: &Cx<'_>) {
        let (ends, current) = (self.ends_mtu(cx.config), self.snd.path_mtu());
        let (threshold, interval) = (cx.config.probe_threshold, cx.config.probe_interval);
        let Some(search) = self.search_mut() else { return };
        if search.next(threshold, current).is_none() && cx.now.since(search.at) >= interval {
            (search.high, search.lost, search.at) = (search.most.min(ends).max(search.low), 0, cx.now);
        }
    }

    /// The probe, which is no longer in flight as far as the search is concerned.
    fn take_mtu_probe(&mut self) -> Option<Probe> {
        self.bits.clear(Bits::PROBING_MTU, WRITER);
        self.search_mut()?.probe.take()
    }

    /// Something arrived while a probe is out: the probe too?
    /// RFC 8899, 3-2.
    #[cold]
    pub(crate) fn look_for_mtu_probe(&mut self, cx: &mut Cx<'_>) {
        let Some(probe) = self.search().and_then(|search| search.probe) else { return };
        let una = self.snd.una();
        let sacked = self.recovery.scoreboard().is_some_and(|board| {
            una.at_or_before(probe.start) && board.unsacked(probe.start, probe.end) == 0
        });
        if una.before(probe.end) && !sacked {
            return;
        }
        cx.counters.mtu_raises += 1;
        self.take_mtu_probe();
        if let Some(search) = self.search_mut() {
            (search.low, search.lost, search.told, search.at) = (probe.mtu, 0, false, cx.now);
        }
        self.use_mtu(cx.config, probe.mtu.max(self.snd.path_mtu()));
    }

    /// A loss was found while a probe is out. If the probe is all that is lost, its bytes are sent again in segments
    /// of the size that passes, and nothing was lost to congestion: true. Otherwise the probe says nothing.
    /// RFC 8899, 3-7 and 3-8; RFC 4821, 7.6.2-1; RFC 8899, 3-13.
    #[cold]
    pub(crate) fn blames_mtu_probe(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(probe) = self.take_mtu_probe() else { return false };
        // Without SACK, what else is missing shows when the probe's bytes are acknowledged and more are not.
        let others = self.bits.has(Bits::SACK) && self.recovery.is_lost_behind(probe.end, self.snd.nxt());
        if self.snd.una() != probe.start || others {
            return false;
        }
        cx.counters.mtu_probes_lost += 1;
        let most = cx.config.mtu_probes;
        if let Some(search) = self.search_mut() {
            search.on_lost(cx.now, probe.mtu, most);
        }
        self.repair_mtu_probe(cx, probe);
        true
    }

    fn repair_mtu_probe(&mut self, cx: &Cx<'_>, probe: Probe) {
        self.resegment(probe.start, probe.end);
        self.arm_rtx(cx);
    }

    /// Everything in flight is sent anew; after a timeout that began at the probe its size is suspect.
    #[cold]
    pub(crate) fn forget_mtu_probe(&mut self, cx: &Cx<'_>) {
        let Some(probe) = self.take_mtu_probe() else { return };
        let (una, most) = (self.snd.una(), cx.config.mtu_probes);
        if let Some(search) = self.search_mut().filter(|_| probe.start == una) {
            search.on_lost(cx.now, probe.mtu, most);
        }
    }

    /// A router does not take packets larger than `mtu`, and quotes the byte at `seq`. True if that was the probe, of
    /// which no more was known than that it is large.
    /// RFC 8899, 4.6.2-1 and 4.6.2-2; RFC 8899, 3-5, 3-6 and 4.6.1-1.
    #[cold]
    pub(crate) fn too_big_for_search(&mut self, cx: &mut Cx<'_>, mtu: u16, seq: Seq) -> bool {
        let current = self.snd.path_mtu();
        let Some(search) = self.search_mut() else { return false };
        if mtu < current {
            search.bound(mtu);
            search.at = cx.now;
            self.take_mtu_probe();
            return false;
        }
        let Some(probe) = search.probe.filter(|probe| mtu < probe.mtu && probe.holds(seq)) else {
            return false;
        };
        search.bound(mtu);
        (search.told, search.lost, search.at) = (true, 0, cx.now);
        self.take_mtu_probe();
        self.repair_mtu_probe(cx, probe);
        true
    }

    /// The route now allows `mtu`, or what ICMP said of it has grown too old.
    /// RFC 1191, 6.3-2.
    #[cold]
    pub fn on_route_mtu(&mut self, cx: &Cx<'_>, mtu: u16) {
        if self.snd.peer_mss() == 0 {
            self.snd.set_path_mtu(mtu);
            return;
        }
        let ends = self.ends_mtu(cx.config);
        let Some(search) = self.search_mut() else { return self.use_mtu(cx.config, mtu) };
        if mtu > search.most {
            (search.high, search.lost, search.at) = (mtu.min(ends).max(search.low), 0, cx.now);
        }
        search.most = mtu;
        search.bound(mtu);
        if mtu < self.snd.path_mtu() {
            self.use_mtu(cx.config, mtu);
        }
    }

    /// Nothing gets through any more. Perhaps only what is small does: first the base size, then half each time.
    /// RFC 8899, 4.3-1; RFC 4821, 7.7-1; RFC 8899, 4.3-2 and 4.6.2-3.
    #[cold]
    pub(crate) fn suspect_black_hole(&mut self, cx: &mut Cx<'_>) {
        let before = self.snd.mss();
        if self.timers.retries() < BLACK_HOLE || self.snd.flight() < u32::from(before) {
            return;
        }
        if !self.bits.has(Bits::SEARCHING) {
            self.begin_search(cx);
        }
        if self.snd.mss() == before {
            let low = self.search().map_or(self.snd.path_mtu(), |search| search.low);
            // The base size may be what does not pass.
            let mss = if self.snd.path_mtu() > low {
                self.mss_for(cx.config, low)
            } else {
                self.mss_for(cx.config, low) / 2
            };
            let mtu = self.mtu_for(cx.config, mss.min(cx.config.base_mss).max(cx.config.mtu_probe_floor));
            self.use_mtu(cx.config, mtu.min(self.snd.path_mtu()));
        }
        let (mtu, now) = (self.snd.path_mtu(), cx.now);
        if let Some(search) = self.search_mut() {
            (search.low, search.at) = (search.low.min(mtu), now);
        }
        cx.counters.black_holes += u64::from(self.snd.mss() < before);
    }
}
