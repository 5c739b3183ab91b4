//! The engine that holds packets for a while.
//!
//! ```text
//!   Arrival ──> plain data of a known flow? ──no──> what its flow holds goes up, then it, alone
//!                  │yes
//!                  v
//!   next in sequence? ──no, and early──> held in order for at most `reorder`, if nothing else is missing
//!        │yes        └──no──> what its flow holds goes up, then it, alone: the peer must hear of it
//!        v
//!   joins the flow's run, or ends it and begins another; what came early and is next now joins too
//!        │
//!        └──> up on PSH, a short or another segment, a full run, with the batch, or after `hold`
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::iter;

use base::{Duration, FlowKey, Instant, Seq};
use wire::checksum::{Sum, Summer};
use wire::tcp::Flags;

use crate::arrival::Seen;
use crate::config::Config;
use crate::flow::{At, Flows, GAP_LASTS};
use crate::pieces::{NONE, Piece, Pieces};
use crate::run::Open;
use crate::{Arrival, Flush, MergedRun, Refusal, Run};

#[cfg(test)]
mod tests;

base::counters! {
    /// Counters of the engine's decisions.
    pub struct HoldCounters {
        seen: "Packets that came to the engine.",
        merged: "Packets that joined a run before them.",
        runs: "Runs and packets that went up.",
        held: "Runs that were held beyond their batch.",
        gained: "Runs held that grew meanwhile.",
        idle: "Runs held for nothing: no more came in time.",
        early: "Packets that came too early and were held.",
        reordered: "Packets that came too early and went up in order.",
        late: "Packets that came too early and went up as they came: what was missing did not come in time.",
        flows: "Flows learned.",
        aged: "Flows learned anew after a silence.",
        lost_track: "Flows forgotten because too much was missing, or for too long.",
        up_alone: "Went up: packets that may not be held.",
        up_push: "Went up: ended with PSH.",
        up_short: "Went up: a shorter segment ended the run.",
        up_full: "Went up: as long as a run may be.",
        up_differs: "Went up: the next segment had another header.",
        up_gap: "Went up: a gap, an overlap or a repetition.",
        up_control: "Went up: a segment of the flow that is not held came.",
        up_batch: "Went up: with their batch.",
        up_budget: "Went up: held as long as may be.",
        up_evicted: "Went up: their flow gave way to another.",
        up_crowded: "Went up: no place was left for packets.",
    }
}

/// A flow, and its hash.
type Whose = (FlowKey, u64);

/// Holds what arrives for a bounded time, so that more of it goes up as one, and in order. It never makes, drops or
/// acknowledges a packet. One core's, like all that receives; `T` is whatever has the bytes of a packet.
pub struct Engine<T> {
    config: Config,
    flows: Flows,
    pieces: Pieces<T>,
    ready: VecDeque<Run>,
    counters: HoldCounters,
    /// Flows that hold something, or did since the batch began.
    active: Vec<At>,
    /// When something held is due, at the earliest.
    due: Option<Instant>,
    /// Flow whose run grew last.
    last: At,
}

impl<T: AsRef<[u8]>> Engine<T> {
    /// An engine that knows nothing; all its memory is allocated here.
    pub fn new(config: Config) -> Self {
        let config = config.bounded();
        Engine {
            flows: Flows::new(config.flows),
            pieces: Pieces::new(config.packets),
            ready: VecDeque::with_capacity(config.packets.into()),
            counters: HoldCounters::default(),
            active: Vec::with_capacity(config.flows.into()),
            due: None,
            last: At::default(),
            config,
        }
    }

    /// Returns the counters of its decisions.
    pub fn counters(&self) -> &HoldCounters {
        &self.counters
    }

    /// Packets in it: held, or ready and not taken.
    pub fn packets(&self) -> usize {
        self.pieces.used() as usize
    }

    /// Bytes of memory, which never change.
    pub fn footprint(&self) -> usize {
        self.flows.footprint()
            + self.pieces.footprint()
            + self.ready.capacity() * size_of::<Run>()
            + self.active.capacity() * size_of::<At>()
    }

    /// A packet came.
    ///
    /// # Errors
    /// There is no place for it: it comes back, and all that the engine holds is ready. Take that and try again.
    pub fn on_arrival(&mut self, now: Instant, arrival: Arrival<T>) -> Result<(), Arrival<T>> {
        if self.pieces.is_full() {
            self.flush_all(Flush::Crowded);
            return Err(arrival);
        }
        self.counters.seen += 1;
        let seen = arrival.look();
        let plain = !arrival.merged && seen.is_plain();
        // Where TCP does not lie where it usually does (a VLAN's tag), nothing is held.
        let leads = plain && MergedRun::tcp_of(arrival.packet.as_ref(), arrival.ip) == Some(arrival.tcp);
        let known = self.flows.find(&arrival.key, arrival.hash).and_then(|at| self.still_known(at, now));
        let whose = (arrival.key, arrival.hash);
        let piece = Piece { seq: seen.seq, len: seen.len, ip: arrival.ip, came: now, packet: arrival.packet };
        match known {
            None if leads => self.learn(now, whose, piece),
            None => self.pass(whose, piece, Flush::Alone),
            Some(at) if leads || plain && seen.flags.has(Flags::PSH) => self.data(at, whose, piece),
            Some(at) => self.control(at, whose, piece, seen),
        }
        Ok(())
    }

    /// A packet came that nothing has looked at: it joins the run that grew last, if it is a usual one of it
    /// ([`MergedRun::follow`]), which its bytes say; with `sums`, if its checksum is to be looked at. `keep` makes of
    /// it what is held, as of the run's first.
    ///
    /// # Errors
    /// It does not; nothing has changed.
    #[inline]
    pub fn follow<P: AsRef<[u8]>>(
        &mut self,
        now: Instant,
        packet: P,
        sums: Option<Summer>,
        keep: impl FnOnce(P, &T) -> T,
    ) -> Result<(), P> {
        let at = self.last;
        let full = self.pieces.is_full();
        let Some(flow) = self.flows.get_mut(at) else { return Err(packet) };
        let known = !full && !flow.has_early() && now.since(flow.heard) <= self.config.age;
        let Some(run) = flow.run.as_mut().filter(|_| known) else { return Err(packet) };
        let unsure = (packet.as_ref(), sums.is_some());
        if run.merged_run.follow(iter::once(unsure), sums.unwrap_or(Sum::of)) == 0 {
            return Err(packet);
        }
        let first = self.pieces.get(run.first);
        let (seq, len, ip) = (flow.next, run.merged_run.text(0).len() as u32, first.ip);
        let piece = Piece { seq, len, ip, came: now, packet: keep(packet, &first.packet) };
        flow.on_heard(now);
        self.flows.touch(at);
        self.counters.seen += 1;
        self.joined(at, piece);
        Ok(())
    }

    /// A segment came, header and payload, that its caller still has; `merged` as in [`Arrival`]. Would it go up at
    /// once and alone, behind nothing of its flow? Then it is counted, and need not come in. So short requests, their
    /// acknowledgments, and flows that do not send more than that, never move through the engine.
    #[inline(always)]
    pub fn bypass(&mut self, now: Instant, key: &FlowKey, hash: u64, segment: &[u8], merged: bool) -> bool {
        let seen = Seen::of(segment);
        // What may begin a run is to come in.
        if !seen.flags.has(Flags::PSH) && !merged && seen.is_plain() || !self.ready.is_empty() {
            return false;
        }
        if let Some(at) = self.flows.find(key, hash) {
            return self.pass_flow(now, at, seen, !merged && seen.is_plain());
        }
        self.passed(Flush::Alone);
        true
    }

    /// As `bypass`, for a packet whose flow is known.
    fn pass_flow(&mut self, now: Instant, at: At, seen: Seen, plain: bool) -> bool {
        let Some(flow) = self.flows.get_mut(at) else { return false };
        let waits = flow.holds() || !flow.islands.is_empty() || now.since(flow.heard) > self.config.age;
        let (usual, why) = match plain {
            true => (seen.seq == flow.next, Flush::Push),
            false => (seen.len == 0 && !seen.flags.any(Flags::SYN | Flags::FIN | Flags::RST), Flush::Alone),
        };
        if waits || !usual {
            return false;
        }
        flow.on_heard(now);
        if plain {
            flow.next = seen.end();
        }
        self.passed(why);
        true
    }

    /// A packet went up that never was here.
    #[inline]
    fn passed(&mut self, why: Flush) {
        self.counters.seen += 1;
        self.count_up(why);
    }

    /// All that a flow holds goes up: something of it comes that the engine cannot take.
    pub fn on_other(&mut self, key: &FlowKey, hash: u64) {
        if let Some(at) = self.flows.find(key, hash) {
            self.forget(at, Flush::Control);
        }
    }

    /// The round trip of a flow was measured: its data waits for no more than an eighth of it.
    pub fn on_round_trip(&mut self, key: &FlowKey, hash: u64, srtt: Duration) {
        let flush_timeout = self.config.hold.min(srtt / 8);
        if let Some(flow) = self.flows.find(key, hash).and_then(|at| self.flows.get_mut(at)) {
            flow.flush_timeout = flush_timeout;
        }
    }

    /// The batch is over, or time has passed: what need not wait, and what has waited for long enough, goes up.
    pub fn on_batch_end(&mut self, now: Instant) {
        for nth in 0..self.active.len() {
            let at = self.active[nth];
            let Some(flow) = self.flows.get(at) else { continue };
            let early = flow.has_early() && flow.early_since + self.config.reorder <= now;
            let run =
                flow.run.as_ref().map(|run| (run.since + flow.flush_timeout <= now, flow.expects_more()));
            match run {
                _ if early => self.flush(at, Flush::Budget),
                Some((true, true)) => self.end_hold(at),
                Some((_, false)) => self.flush_run(at, Flush::Batch),
                Some((false, true)) => self.keep(at),
                None => {}
            }
        }
        let flows = &mut self.flows;
        self.active.retain(|at| match flows.get_mut(*at) {
            Some(flow) => {
                flow.active = flow.holds();
                flow.active
            }
            None => false,
        });
        self.due = self.active.iter().fold(None, |due, at| Instant::earliest(due, self.due_of(*at)));
    }

    /// When [`Engine::on_batch_end`] is to be called, if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Hands up everything.
    pub fn flush_all(&mut self, why: Flush) {
        for nth in 0..self.active.len() {
            self.flush(self.active[nth], why);
        }
    }

    /// Returns the next run to deliver. Its packets are to be taken before the next call.
    pub fn poll_run(&mut self) -> Option<Run> {
        self.ready.pop_front()
    }

    /// The next packet of a run; `None` after the last.
    pub fn next_packet(&mut self, run: &mut Run) -> Option<T> {
        let (piece, next) = self.pieces.take(run.packet)?;
        run.packet = next;
        Some(piece.packet)
    }

    /// A run is held beyond its batch.
    fn keep(&mut self, at: At) {
        if let Some(run) = self.flows.get_mut(at).and_then(|flow| flow.run.as_mut())
            && !core::mem::replace(&mut run.held, true)
        {
            self.counters.held += 1;
        }
    }

    /// A run was held for as long as it may be; if nothing came of it, the flow sends no more for now.
    fn end_hold(&mut self, at: At) {
        let Some(flow) = self.flows.get_mut(at) else { return };
        let waited = flow.run.as_ref().map(|run| (run.held, run.grew));
        if waited == Some((true, false)) {
            self.counters.idle += 1;
            flow.busy = 0;
        }
        self.flush_run(at, Flush::Budget);
    }

    /// When what a flow holds has been held for long enough.
    fn due_of(&self, at: At) -> Option<Instant> {
        let flow = self.flows.get(at)?;
        let run = flow.run.as_ref().map(|run| run.since + flow.flush_timeout);
        let early = flow.has_early().then(|| flow.early_since + self.config.reorder);
        Instant::earliest(run, early)
    }

    /// A flow holds something.
    fn activate(&mut self, at: At) {
        let due = self.due_of(at);
        self.due = Instant::earliest(self.due, due);
        if let Some(flow) = self.flows.get_mut(at)
            && !core::mem::replace(&mut flow.active, true)
        {
            debug_assert!(self.active.len() < self.config.flows.into(), "each place once");
            self.active.push(at);
        }
    }

    /// A flow that was silent for long is no longer known.
    fn still_known(&mut self, at: At, now: Instant) -> Option<At> {
        let flow = self.flows.get_mut(at)?;
        let aged = flow.on_heard(now) > self.config.age;
        let lost = !flow.islands.is_empty() && now.since(flow.gap_since) > GAP_LASTS;
        if !aged && !lost {
            return Some(at);
        }
        self.counters.aged += u64::from(aged);
        self.counters.lost_track += u64::from(!aged);
        self.forget(at, Flush::Gap);
        None
    }

    /// The first data of a flow: nothing is known to be missing before it.
    fn learn(&mut self, now: Instant, whose: Whose, piece: Piece<T>) {
        let at = self.flows.place(whose.1);
        self.forget(at, Flush::Evicted);
        self.counters.flows += 1;
        self.flows.put(at, whose, piece.seq, now, self.config.hold);
        // The place may be listed for the flow before it.
        let active = self.active.contains(&at);
        if let Some(flow) = self.flows.get_mut(at) {
            flow.active = active;
        }
        self.begin_or_pass(at, piece);
    }

    /// Something that is not held, of a flow that is known.
    fn control(&mut self, at: At, whose: Whose, piece: Piece<T>, seen: Seen) {
        self.flush(at, Flush::Control);
        self.pass(whose, piece, Flush::Alone);
        let Some(flow) = self.flows.get(at) else { return };
        // A FIN that comes before missing data ends nothing: what is missing comes still.
        let in_order = seen.seq.at_or_before(flow.next) && seen.end().at_or_after(flow.next);
        let finished = seen.flags.has(Flags::FIN) && in_order && flow.islands.is_empty();
        if finished || seen.flags.any(Flags::SYN | Flags::RST) {
            self.forget(at, Flush::Control);
        } else if seen.len > 0 {
            self.went_up(at, seen.seq, seen.end());
        }
    }

    /// Plain data of a flow that is known.
    fn data(&mut self, at: At, whose: Whose, piece: Piece<T>) {
        let Some(flow) = self.flows.get(at) else { return };
        let overlaps = flow.has_early() && self.pieces.get(flow.early).seq.before(piece.end());
        match piece.seq.distance_from(flow.next) {
            0 if flow.islands.is_empty() && !overlaps => {
                self.append(at, piece);
                self.append_early(at);
            }
            1.. if flow.islands.is_empty() && !self.config.reorder.is_zero() => {
                if let Some(piece) = self.hold_early(at, piece) {
                    self.out_of_order(at, whose, piece);
                }
            }
            _ => self.out_of_order(at, whose, piece),
        }
    }

    /// Flushes a segment that is not next, after all that came before it: the peer must learn of it.
    fn out_of_order(&mut self, at: At, whose: Whose, piece: Piece<T>) {
        self.flush(at, Flush::Gap);
        let (seq, end) = (piece.seq, piece.end());
        self.pass(whose, piece, Flush::Alone);
        self.went_up(at, seq, end);
    }

    /// Next in order: it joins the run, or ends it and begins another.
    fn append(&mut self, at: At, piece: Piece<T>) {
        let Some(flow) = self.flows.get_mut(at) else { return };
        let Some(run) = &mut flow.run else { return self.begin_or_pass(at, piece) };
        // The end that gave the packet has looked at its checksum.
        match run.merged_run.join(piece.packet.as_ref(), None) {
            Ok(()) => self.joined(at, piece),
            Err(refusal) => {
                self.flush_run(at, Flush::from(refusal));
                self.begin_or_pass(at, piece);
            }
        }
    }

    /// It has joined the merged run of a flow's run.
    fn joined(&mut self, at: At, piece: Piece<T>) {
        let Some(flow) = self.flows.get_mut(at) else { return };
        let Some(run) = &mut flow.run else { return };
        flow.next = piece.end();
        run.since = run.since.min(piece.came);
        run.grew |= run.held;
        let place = self.pieces.put(piece);
        self.pieces.link(core::mem::replace(&mut run.last, place), place);
        self.counters.merged += 1;
        self.last = at;
        let why = match &run.merged_run {
            merged_run if merged_run.is_pushed() => Flush::Push,
            merged_run if merged_run.is_closed() => Flush::Short,
            merged_run if merged_run.is_full() => Flush::Full,
            // It is held already, and what comes of an earlier time makes it due earlier.
            _ => return self.due = Instant::earliest(self.due, Some(run.since + flow.flush_timeout)),
        };
        self.flush_run(at, why);
    }

    /// It begins a run, if something may follow it.
    fn begin_or_pass(&mut self, at: At, piece: Piece<T>) {
        match MergedRun::begin(piece.packet.as_ref(), piece.ip) {
            Some(merged_run) => self.begin(at, piece, merged_run),
            None => {
                let Some(flow) = self.flows.get_mut(at) else { return };
                flow.next = piece.end();
                let whose = (flow.key, flow.hash);
                self.pass(whose, piece, Flush::Push);
            }
        }
    }

    /// The first of a run.
    fn begin(&mut self, at: At, piece: Piece<T>, merged_run: MergedRun) {
        let (end, since) = (piece.end(), piece.came);
        let place = self.pieces.put(piece);
        let Some(flow) = self.flows.get_mut(at) else { return };
        flow.next = end;
        flow.run = Some(Open { merged_run, first: place, last: place, since, grew: false, held: false });
        self.last = at;
        self.activate(at);
    }

    /// Appends early segments that are next now.
    fn append_early(&mut self, at: At) {
        let mut moved = false;
        while let Some(flow) = self.flows.get_mut(at)
            && flow.has_early()
            && self.pieces.get(flow.early).seq == flow.next
        {
            let Some((piece, next)) = self.pieces.take(flow.early) else { return };
            flow.early = next;
            moved = true;
            self.counters.reordered += 1;
            self.append(at, piece);
        }
        if moved
            && let Some(flow) = self.flows.get_mut(at)
            && let Some(oldest) = self.pieces.oldest(flow.early)
        {
            flow.early_since = oldest;
        }
    }

    /// Holds what came early, among its like; gives back what overlaps one of them.
    fn hold_early(&mut self, at: At, piece: Piece<T>) -> Option<Piece<T>> {
        let Some(flow) = self.flows.get_mut(at) else { return Some(piece) };
        let (mut before, mut after) = (NONE, flow.early);
        while after != NONE && self.pieces.get(after).seq.before(piece.seq) {
            (before, after) = (after, self.pieces.next(after));
        }
        let overlaps_before = before != NONE && self.pieces.get(before).end().after(piece.seq);
        let overlaps_after = after != NONE && self.pieces.get(after).seq.before(piece.end());
        if overlaps_before || overlaps_after {
            return Some(piece);
        }
        if !flow.has_early() {
            flow.early_since = piece.came;
        }
        self.counters.early += 1;
        let place = self.pieces.put(piece);
        self.pieces.link(place, after);
        match before {
            NONE => flow.early = place,
            before => self.pieces.link(before, place),
        }
        self.activate(at);
        None
    }

    /// All that a flow holds goes up: the run, and then what came early, in the order in which it came.
    fn flush(&mut self, at: At, why: Flush) {
        self.flush_run(at, why);
        while let Some(flow) = self.flows.get_mut(at)
            && let Some(place) = self.pieces.unchain_oldest(&mut flow.early)
        {
            let whose = (flow.key, flow.hash);
            let piece = self.pieces.get(place);
            let (seq, end) = (piece.seq, piece.end());
            self.counters.late += 1;
            self.deliver(whose, place, None, why);
            self.went_up(at, seq, end);
        }
    }

    fn flush_run(&mut self, at: At, why: Flush) {
        let Some(flow) = self.flows.get_mut(at) else { return };
        let Some(run) = flow.run.take() else { return };
        let whose = (flow.key, flow.hash);
        self.counters.gained += u64::from(run.grew);
        self.deliver(whose, run.first, Some(run.merged_run).filter(|merged_run| merged_run.count() > 1), why);
    }

    /// `seq..end` went up on its own.
    fn went_up(&mut self, at: At, seq: Seq, end: Seq) {
        let Some(flow) = self.flows.get_mut(at) else { return };
        if !end.after(flow.next) {
            return;
        }
        if seq.after(flow.next) {
            if flow.islands.is_empty() {
                flow.gap_since = flow.heard;
            }
            if flow.islands.add(flow.next, seq, end).is_err() {
                self.counters.lost_track += 1;
                self.forget(at, Flush::Gap);
            }
            return;
        }
        flow.next = flow.islands.absorb(end);
    }

    /// All that a flow holds goes up, and it is not known any more.
    fn forget(&mut self, at: At, why: Flush) {
        self.flush_run(at, why);
        while let Some(flow) = self.flows.get_mut(at)
            && let Some(place) = self.pieces.unchain_oldest(&mut flow.early)
        {
            let whose = (flow.key, flow.hash);
            self.counters.late += 1;
            self.deliver(whose, place, None, why);
        }
        self.flows.remove(at);
    }

    /// Up with a packet on its own.
    fn pass(&mut self, whose: Whose, piece: Piece<T>, why: Flush) {
        let place = self.pieces.put(piece);
        self.deliver(whose, place, None, why);
    }

    fn deliver(&mut self, (key, hash): Whose, packet: u32, merged_run: Option<MergedRun>, why: Flush) {
        self.count_up(why);
        self.ready.push_back(Run { key, hash, merged_run, why, packet });
    }

    #[inline]
    fn count_up(&mut self, why: Flush) {
        let counters = &mut self.counters;
        counters.runs += 1;
        *match why {
            Flush::Alone => &mut counters.up_alone,
            Flush::Push => &mut counters.up_push,
            Flush::Short => &mut counters.up_short,
            Flush::Full => &mut counters.up_full,
            Flush::Differs => &mut counters.up_differs,
            Flush::Gap => &mut counters.up_gap,
            Flush::Control => &mut counters.up_control,
            Flush::Batch => &mut counters.up_batch,
            Flush::Budget => &mut counters.up_budget,
            Flush::Evicted => &mut counters.up_evicted,
            Flush::Crowded => &mut counters.up_crowded,
        } += 1;
    }
}

impl From<Refusal> for Flush {
    fn from(refusal: Refusal) -> Flush {
        match refusal {
            Refusal::Closed => Flush::Short,
            Refusal::Full => Flush::Full,
            Refusal::Differs => Flush::Differs,
            Refusal::Gap => Flush::Gap,
        }
    }
}
