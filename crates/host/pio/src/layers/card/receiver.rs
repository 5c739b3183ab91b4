//! A receive worker: checks packets, merges those that continue each other, and puts them where they wait for their way
//! up. One flow is always the same worker's, and its packets leave in the order in which they came.

use super::merged::merge;
use super::round_trips::RoundTrips;
use super::tally::{RECEIVER_ROWS, ReceiverCounters, Tally};
use super::worker::{CardConfig, OUT_MAX, SUPERS, Steered, Up, Worker};
use crate::layers::classify::{classify, judge};
use crate::port::{BATCH_MAX, Caps, Medium, RxChecksum, RxMeta, RxPacket};
use ::wire::checksum::Summer;
use base::{Duration, FlowKey, Instant};
use offload::{Arrival, Engine, MERGE_MAX, Run};
use ring::{Consumer, Frame, Producer, Ringer, Sleeper};
use std::collections::VecDeque;
use std::sync::Arc;

/// A packet that the engine looks at, and may keep for a while.
struct Kept {
    packet: RxPacket,
    data: bool,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.packet.frame.data()
    }
}

/// The queues of a receive worker.
pub(super) struct Queues {
    pub(super) inbox: Consumer<Steered>,
    pub(super) control: Producer<RxPacket>,
    pub(super) data: Producer<Up>,
    /// Frames of the link, which go back to it.
    pub(super) used: Producer<Frame>,
    /// Large frames, which come back from the host.
    pub(super) supers: Consumer<Frame>,
    /// Wakes the thread that moves packets up.
    pub(super) up: Ringer,
    /// Round trips of flows from the host, if packets are held.
    pub(super) round_trips: Option<Arc<RoundTrips>>,
}

pub(super) struct Receiver {
    queues: Queues,
    medium: Medium,
    local_peer: bool,
    summer: Summer,
    engine: Option<Engine<Kept>>,
    supers: Vec<Frame>,
    sleeper: Sleeper,
    /// Flows of the packets that wait in `data`, in order.
    waiting: VecDeque<u64>,
    batch: Vec<Steered>,
    run: Vec<Kept>,
    /// The frames so far of a packet that goes on.
    pieces: Vec<RxPacket>,
    counts: ReceiverCounters,
    pub(super) tally: Arc<Tally>,
}

impl Receiver {
    pub(super) fn new(
        queues: Queues,
        config: &CardConfig,
        caps: &Caps,
        supers: Vec<Frame>,
        sleeper: Sleeper,
    ) -> Receiver {
        let engine =
            config.engine.map(|engine| Engine::new(offload::Config { packets: OUT_MAX as u16, ..engine }));
        Receiver {
            queues,
            medium: caps.medium,
            local_peer: caps.local_peer,
            summer: config.summer,
            engine,
            supers,
            sleeper,
            waiting: VecDeque::with_capacity(WAITING_MAX),
            batch: Vec::with_capacity(BATCH_MAX),
            run: Vec::with_capacity(MERGE_MAX),
            pieces: Vec::with_capacity(BATCH_MAX),
            counts: ReceiverCounters::default(),
            tally: Arc::new(Tally::new(RECEIVER_ROWS)),
        }
    }

    /// The packets of a batch, each with the frames that it goes on in.
    fn receive(&mut self, now: Instant) {
        let mut batch = std::mem::take(&mut self.batch);
        for steered in batch.drain(..) {
            if !self.pieces.is_empty() || steered.packet.meta.more {
                self.receive_piece(steered);
            } else {
                self.receive_one(now, steered);
            }
        }
        self.batch = batch;
    }

    /// A packet in several frames is not merged: what its flow has here goes up before it, and its frames together.
    fn receive_piece(&mut self, piece: Steered) {
        let Steered { packet, hash, whole } = piece;
        if self.pieces.is_empty() {
            self.counts.packets += 1;
            if let Some(engine) = &mut self.engine
                && let Some(seen) = classify(packet.frame.data(), whole as usize, self.medium)
            {
                engine.on_other(&seen.key, hash);
                self.collect();
            }
        }
        let more = packet.meta.more;
        self.pieces.push(packet);
        if !more {
            let mut pieces = std::mem::take(&mut self.pieces);
            self.counts.data += 1;
            self.put_behind(pieces.drain(..), hash);
            self.pieces = pieces;
        }
    }

    fn receive_one(&mut self, now: Instant, steered: Steered) {
        self.counts.packets += 1;
        let Steered { mut packet, hash, .. } = steered;
        let bytes = packet.frame.data();
        let Some(seen) = classify(bytes, bytes.len(), self.medium) else {
            return self.put_control(packet, hash);
        };
        if packet.meta.checksum == RxChecksum::Unverified {
            match judge(&seen.packet, bytes, self.summer, self.local_peer) {
                RxChecksum::Unverified => return self.pass_unsound(packet, &seen.key, hash),
                sound => packet.meta.checksum = sound,
            }
        }
        let Some(engine) = &mut self.engine else {
            return if seen.data { self.put_data(packet, hash) } else { self.put_control(packet, hash) };
        };
        let (tcp, end) = (seen.packet.start as usize, seen.packet.end as usize);
        let merged = packet.meta.gso_size != 0;
        let kept = Kept { packet, data: seen.data };
        let arrival =
            Arrival { key: seen.key, hash, ip: self.medium.header_len(), tcp, end, merged, packet: kept };
        if let Err(back) = engine.on_arrival(now, arrival) {
            // All that it holds is ready now, so there is room afterwards.
            self.collect();
            let again = self.engine.as_mut().map(|engine| engine.on_arrival(now, back));
            assert!(again.is_none_or(|taken| taken.is_ok()), "an engine that was emptied has room");
        }
        self.collect();
    }

    /// The stack counts it, and sees it in its place.
    fn pass_unsound(&mut self, packet: RxPacket, key: &FlowKey, hash: u64) {
        self.counts.unsound += 1;
        if let Some(engine) = &mut self.engine {
            engine.on_other(key, hash);
            self.collect();
        }
        self.put_data(packet, hash);
    }

    /// Passes up the runs that the engine flushes.
    fn collect(&mut self) {
        while let Some(mut run) = self.engine.as_mut().and_then(Engine::poll_run) {
            let mut packets = std::mem::take(&mut self.run);
            packets.extend(std::iter::from_fn(|| self.engine.as_mut()?.next_packet(&mut run)));
            self.lift(&run, &mut packets);
            self.run = packets;
            if run.merged_run.is_some() {
                self.heed_round_trip(&run);
            }
        }
    }

    /// Limits the holding of the flow's next packets to an eighth of its round trip, if the stack has told it.
    fn heed_round_trip(&mut self, run: &Run) {
        if let Some(round_trips) = &self.queues.round_trips
            && let Some(srtt) = round_trips.of(run.hash)
            && let Some(engine) = &mut self.engine
        {
            engine.on_round_trip(&run.key, run.hash, srtt);
        }
    }

    /// The packets of a run go up, as one if they are a merged run and there is a frame for it.
    fn lift(&mut self, run: &Run, packets: &mut Vec<Kept>) {
        if packets.len() > 1
            && let Some(merged_run) = &run.merged_run
        {
            let ip = self.medium.header_len();
            if let Some(mut whole) = self.supers.pop() {
                if merge(&mut whole, merged_run, ip, packets.iter().map(AsRef::as_ref)) {
                    self.counts.merged += packets.len() as u64;
                    self.counts.supers += 1;
                    for kept in packets.drain(..) {
                        self.give_back(kept.packet.frame);
                    }
                    let gso_size = merged_run.text(0).len() as u16;
                    let meta = RxMeta { checksum: RxChecksum::Verified, gso_size, more: false };
                    return self.put_data(RxPacket { frame: whole, meta }, run.hash);
                }
                self.supers.push(whole);
            } else {
                self.counts.no_frame += 1;
            }
        }
        for Kept { packet, data } in packets.drain(..) {
            if data { self.put_data(packet, run.hash) } else { self.put_control(packet, run.hash) }
        }
    }

    fn give_back(&mut self, frame: Frame) {
        assert!(self.queues.used.push(frame).is_ok(), "{ROOM}");
    }

    fn put_data(&mut self, packet: RxPacket, hash: u64) {
        self.counts.data += 1;
        self.put_behind(std::iter::once(packet), hash);
    }

    /// Behind all data, and behind what went ahead of data before: the frames of a packet.
    fn put_behind(&mut self, frames: impl ExactSizeIterator<Item = RxPacket>, hash: u64) {
        let count = frames.len();
        if self.waiting.len() + count > WAITING_MAX {
            self.forget_gone();
        }
        self.waiting.extend(std::iter::repeat_n(hash, count));
        let after = self.counts.control;
        let mut frames = frames.map(|packet| Up { packet, after });
        assert!(self.queues.data.push_batch(&mut frames) == count, "{ROOM}");
    }

    /// Queues a packet without data before the data of other flows, and behind that of its own.
    fn put_control(&mut self, packet: RxPacket, hash: u64) {
        self.forget_gone();
        if self.waiting.contains(&hash) {
            self.counts.behind_own += 1;
            return self.put_behind(std::iter::once(packet), hash);
        }
        self.counts.control += 1;
        assert!(self.queues.control.push(packet).is_ok(), "{ROOM}");
    }

    /// Forgets the flows of packets that went up meanwhile.
    fn forget_gone(&mut self) {
        let wait = self.queues.data.capacity() - self.queues.data.room();
        self.waiting.drain(..self.waiting.len() - wait);
    }
}

/// Why a queue of a worker is never full.
const ROOM: &str = "there is room for every frame that may be out";
/// More than there can be packets with data on their way up.
const WAITING_MAX: usize = 2 * (OUT_MAX + SUPERS);

impl Worker for Receiver {
    fn turn(&mut self, now: Instant, most: usize) -> bool {
        self.queues.supers.pop_batch(&mut self.supers, SUPERS);
        // What goes on in the next frame was published together with it, but may be more than `most`.
        let got = self.queues.inbox.pop_batch(&mut self.batch, most);
        while self.batch.last().is_some_and(|last| last.packet.meta.more) {
            let Some(next) = self.queues.inbox.pop() else { break };
            self.batch.push(next);
        }
        if got > 0 {
            self.receive(now);
        }
        let due = self.due().is_some_and(|due| due <= now);
        if got == 0 && !due {
            return false;
        }
        if let Some(engine) = &mut self.engine {
            engine.on_batch_end(now);
            self.collect();
            if let Some(engine) = &self.engine {
                self.tally.publish(ReceiverCounters::ROWS.len(), &engine.counters().values());
            }
        }
        self.tally.publish(0, &self.counts.values());
        self.queues.up.ring();
        true
    }

    fn due(&self) -> Option<Instant> {
        self.engine.as_ref().and_then(Engine::poll_timeout)
    }

    fn is_ready(&mut self) -> bool {
        !self.queues.inbox.is_empty()
    }

    fn sleep(&mut self, timeout: Option<Duration>) {
        // A bell that fails leaves it awake, and what there is to do is done.
        self.sleeper.flag().announce();
        if !self.is_ready() {
            let _ = self.sleeper.wait(timeout);
        }
        self.sleeper.flag().awake();
    }
}
