//! Late segmentation, on as many cores as one likes: a layer on a port that takes neither super-segments nor checksums.
//!
//! ```text
//!   connection ── headers + where the payload lies ──> Lanes ── frames of the port below, in order ──> its tx
//!   (sequence numbers, windows, ACKs,                    │
//!    losses: once for up to 64 KiB)                      └─ runs of segments, pulled by the owner and its helpers:
//!                                                           copy, headers, checksum ([`Template`])
//! ```
//! The stack above sees a port with segmentation, and hands over super-segments; what one core did for each segment is
//! done here, by the owner alone or by a [`WorkerPool`]. Packets that are no super-segments pass as they are. While a
//! super-segment is cut the owner works along and waits, so nothing is half sent when it goes on: the order on the
//! wire, and every byte of it, is the same for any number of lanes, no retransmission meets a segment that is still
//! being made, and payload need not be kept. A helper that is late takes less; one that panics ends the
//! port.

mod cut;
#[cfg(test)]
mod tests;
mod worth;

use self::cut::Reader;
use self::worth::{Sharing, Worth};
use crate::port::*;
use base::{Duration, FlowKey, Instant};
use ring::{Frame, FramePool, Lost, WorkerPool};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use wire::ethernet;
use wire::template::{Summing, Template};

/// Most lanes of a port.
pub const LANES_MAX: u16 = 16;
/// Bytes of a frame that holds a whole super-segment, for payload that does not go from where it lies.
const SLOT: usize = 1 << 16;
/// As many as a core builds before it kicks.
const SLOTS: u32 = 8;
/// Payload from which a super-segment is cut from where it lies.
const GATHER_FROM: usize = 4 << 10;
/// When to try again where the port below takes no more, or has no frame.
const RETRY: Duration = Duration::from_micros(100);
/// A port that has super-segments cut and summed by a worker pool.
pub struct Lanes {
    below: Box<dyn PacketIo>,
    /// The port's, with segmentation.
    caps: Caps,
    /// The owner's helpers.
    worker_pool: Option<WorkerPool>,
    clock: Box<dyn Fn() -> Instant + Send>,
    supers: FramePool,
    /// Frames of the segments in the making.
    frames: Vec<Frame>,
    /// Which lane last wrote to each frame, and free frames by that: their memory is in its cache.
    homes: Vec<u8>,
    stashes: Vec<Vec<Frame>>,
    /// Segments that are made, and what came between them.
    ready: TxBatch,
    /// Super-segments for which, or for the rest of which, there was no frame.
    partial: VecDeque<Partial>,
    /// When the port below did not take everything.
    behind_since: Option<Instant>,
    lost: bool,
    /// Nothing is lost, ready or cut in part: what comes may pass.
    clear: bool,
    sharing: Sharing,
    counts: Counts,
}

/// Result of [`Lanes::fit`].
pub enum Fit {
    /// It has segments cut.
    Cuts(Box<Lanes>),
    /// It cuts and sums by itself.
    Passes(Box<dyn PacketIo>),
}

/// Segments to be made, from the `from`th of a super-segment on.
struct Cut<'a> {
    template: &'a Template,
    from: usize,
    payload: &'a [IoSlice<'a>],
    count: usize,
}

/// A super-segment that stands in one frame, cut so far.
struct Partial {
    packet: TxPacket,
    template: Template,
    next: usize,
}

#[derive(Default)]
struct Counts {
    supers: u64,
    segments: u64,
    shared: u64,
    invalid: u64,
    no_frame: u64,
}

impl Lanes {
    /// Puts that many lanes on a port: the caller's own and, on threads called `name` and a number, helpers that begin
    /// by calling `begin` with theirs, from 0. `clock` is the one that the stack above lives by. A port that cuts and
    /// sums by itself is given back as it is. Whatever there is enough of is shared.
    ///
    /// # Errors
    /// No memory or no thread is to be had.
    pub fn over(
        below: Box<dyn PacketIo>,
        lanes: u16,
        name: &str,
        clock: impl Fn() -> Instant + Send + Clone + 'static,
        begin: impl Fn(usize) + Send + Clone + 'static,
    ) -> io::Result<Box<dyn PacketIo>> {
        Ok(match Lanes::with(below, lanes, name, clock, begin, Sharing::Always)? {
            Fit::Cuts(lanes) => lanes,
            Fit::Passes(port) => port,
        })
    }

    /// Adds the layer where it is worth it, which `clock` has to tell; by
    /// its own type where it is needed, so that a layer above calls it directly.
    ///
    /// # Errors
    /// As [`Lanes::over`].
    pub fn fit(
        below: Box<dyn PacketIo>,
        lanes: u16,
        name: &str,
        clock: impl Fn() -> Instant + Send + Clone + 'static,
        begin: impl Fn(usize) + Send + Clone + 'static,
    ) -> io::Result<Fit> {
        let sharing = Sharing::WhereWorth(Box::new(Worth::new()), Box::new(clock.clone()));
        Lanes::with(below, lanes, name, clock, begin, sharing)
    }

    fn with(
        below: Box<dyn PacketIo>,
        lanes: u16,
        name: &str,
        clock: impl Fn() -> Instant + Send + 'static,
        begin: impl Fn(usize) + Send + Clone + 'static,
        sharing: Sharing,
    ) -> io::Result<Fit> {
        let caps = below.caps();
        if caps.tx_checksum && caps.tso_max > 0 {
            return Ok(Fit::Passes(below));
        }
        let helpers = usize::from(lanes.clamp(1, LANES_MAX)) - 1;
        let worker_pool = (helpers > 0).then(|| WorkerPool::start(helpers, name, begin)).transpose()?;
        Ok(Fit::Cuts(Box::new(Lanes::on(below, worker_pool, clock, sharing)?)))
    }

    /// Has what is sent over a port cut by its owner and these helpers.
    fn on(
        below: Box<dyn PacketIo>,
        worker_pool: Option<WorkerPool>,
        clock: impl Fn() -> Instant + Send + 'static,
        sharing: Sharing,
    ) -> io::Result<Lanes> {
        let lanes = worker_pool.as_ref().map_or(1, WorkerPool::lanes);
        let caps = below.caps();
        let tso_max = (SLOT - caps.headroom.min(SLOT / 2) - ethernet::HEADER_LEN).min(65_535);
        let caps = Caps { tso_max, ..caps.clone() };
        Ok(Lanes {
            caps,
            clock: Box::new(clock),
            supers: FramePool::new(SLOTS, SLOT)?,
            frames: Vec::with_capacity(BATCH_MAX),
            homes: Vec::new(),
            stashes: (0..lanes).map(|_| Vec::with_capacity(BATCH_MAX)).collect(),
            ready: TxBatch::with_capacity(2 * BATCH_MAX),
            partial: VecDeque::with_capacity(SLOTS as usize),
            behind_since: None,
            lost: false,
            clear: true,
            sharing,
            counts: Counts::default(),
            worker_pool,
            below,
        })
    }

    /// The template of a super-segment whose frame begins with `headers`, `None` if it makes no sense.
    fn template(&self, headers: &[u8], meta: &TxMeta, payload: usize) -> Option<Template> {
        let (cut, sum) = (meta.segmentation?, meta.checksum?);
        let ip = self.caps.medium.header_len();
        let headers = headers.get(..cut.header_len.into())?;
        let template = Template::read(headers, ip, sum.start.into(), payload, cut.size.into())?;
        (headers.len() - ip + usize::from(cut.size) <= self.caps.mtu).then_some(template)
    }

    /// Takes frames for segments, as far as there are any.
    fn take_frames(&mut self, count: usize) {
        let all = self.below.take_all(count, &mut self.frames);
        self.counts.no_frame += u64::from(!all);
    }

    /// Puts the frames that were taken where those lanes begin that wrote to them last.
    fn arrange(&mut self, run: usize) {
        let Lanes { worker_pool, frames, homes, stashes, .. } = self;
        let Some(worker_pool) = worker_pool else { return };
        let count = frames.len();
        for frame in frames.drain(..) {
            let index = frame.index() as usize;
            if index >= homes.len() {
                homes.resize(index + 1, 0);
            }
            stashes[usize::from(homes[index])].push(frame);
        }
        for lane in 0..worker_pool.lanes() {
            for _ in worker_pool.share(lane, count, run) {
                let other = || (0..stashes.len()).max_by_key(|other| stashes[*other].len()).unwrap_or(lane);
                let from = if stashes[lane].is_empty() { other() } else { lane };
                frames
                    .extend(stashes[from].pop().inspect(|frame| homes[frame.index() as usize] = lane as u8));
            }
        }
    }

    /// Makes segments in the frames that were taken, of which there are as many.
    fn cut(&mut self, cuts: &[Option<Cut<'_>>]) -> Result<(), Lost> {
        let count = self.frames.len();
        debug_assert_eq!(count, cuts.iter().flatten().map(|cut| cut.count).sum::<usize>());
        let run = self.worker_pool.as_ref().map_or(count, |worker_pool| worker_pool.run(count));
        let sharable = count > run;
        if sharable {
            self.sharing.on_job(count);
        }
        let shared = sharable && count >= self.sharing.from();
        if shared {
            self.arrange(run);
        }
        // Here, not where they are filled: what describes them then stays in the owner's cache.
        let mut frames = self.frames.iter_mut();
        for Cut { template, from, count, .. } in cuts.iter().flatten() {
            for (nth, frame) in (*from..from + count).zip(&mut frames) {
                frame.set_range(frame.headroom(), template.header_len() + template.part(nth).len());
            }
        }
        let summing = if self.below.caps().tx_checksum { Summing::Later } else { Summing::Here };
        let work = |first: usize, frames: &mut [Frame]| make(cuts, first, frames, summing);
        match &mut self.worker_pool {
            Some(worker_pool) if shared => worker_pool.each(&mut self.frames, run, &work)?,
            _ => work(0, &mut self.frames),
        }
        self.counts.segments += count as u64;
        self.counts.shared += u64::from(shared);
        let mut frames = self.frames.drain(..);
        for cut in cuts.iter().flatten() {
            let meta = match summing {
                Summing::Here => TxMeta::default(),
                Summing::Later => TxMeta { checksum: Some(sum_of(cut.template)), segmentation: None },
            };
            self.ready.extend(frames.by_ref().take(cut.count).map(|frame| TxPacket { frame, meta }));
        }
        Ok(())
    }

    /// Copies a super-segment for the rest of which, from the `next`th segment on, there is no frame.
    fn put_by(
        &mut self,
        template: &Template,
        next: usize,
        headers: &[u8],
        meta: TxMeta,
        payload: &[IoSlice<'_>],
    ) {
        let len: usize = payload.iter().map(|piece| piece.len()).sum();
        // There is one for each of those that `gathers_at_once` promised to take.
        let Some(mut frame) = self.take_long() else { return };
        frame.set_range(frame.headroom(), headers.len() + len);
        let (head, rest) = frame.data_mut().split_at_mut(headers.len());
        head.copy_from_slice(headers);
        Reader::at(payload, 0).read(rest);
        let packet = TxPacket { frame, meta };
        self.partial.push_back(Partial { packet, template: template.clone(), next });
    }

    /// A thread panicked: nothing of what was in the making can be trusted.
    #[cold]
    fn lose(&mut self, _: Lost) -> IoError {
        eprintln!("millstream: {}: a lane's thread panicked; the port is closed", self.caps.name);
        self.lost = true;
        // There is nothing to try again.
        self.behind_since = None;
        for frame in self.frames.drain(..) {
            self.below.retire(frame);
        }
        IoError::Gone
    }

    /// Is there something that was accepted and is not sent?
    fn is_behind(&self) -> bool {
        !self.ready.is_empty() || !self.partial.is_empty()
    }

    /// Something was done that may leave something to do.
    fn settle(&mut self) {
        self.clear = !self.lost && !self.is_behind();
    }

    /// Sends packets of which some are to be cut, or which others wait before.
    #[inline(never)]
    fn send_behind(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let sent = self.send_in_order(batch);
        self.settle();
        sent
    }

    fn send_in_order(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        self.unload()?;
        let mut taken = 0;
        while !self.is_behind() || self.ready.len() < BATCH_MAX && self.behind_since.is_none() {
            let Some(packet) = batch.pop_front() else { break };
            taken += 1;
            self.accept(packet)?;
        }
        self.unload()?;
        Ok(taken)
    }

    /// Sends what was left over, and then receives.
    #[inline(never)]
    fn receive_behind(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let sent = self.unload();
        self.settle();
        match self.below.rx(batch) {
            // What is handed up is not lost for what the port says: it will say so again.
            Ok(count) if count > 0 => Ok(count),
            got => sent.and(got),
        }
    }

    /// Sends what is ready and cuts what is left, as far as the port below has frames and room.
    fn unload(&mut self) -> Result<(), IoError> {
        if self.lost {
            return Err(IoError::Gone);
        }
        loop {
            if !self.ready.is_empty() {
                self.below.tx(&mut self.ready)?;
            }
            if !self.ready.is_empty() {
                break;
            }
            let Some(partial) = self.partial.pop_front() else { break };
            if !self.go_on(partial)? {
                break;
            }
        }
        self.behind_since = self.is_behind().then(|| (self.clock)());
        Ok(())
    }

    /// Cuts more of a super-segment in one frame; false if there is no frame.
    fn go_on(&mut self, mut partial: Partial) -> Result<bool, IoError> {
        let Partial { packet, template, next } = &mut partial;
        self.take_frames(template.count() - *next);
        let got = self.frames.len();
        let payload = &packet.frame.data()[template.header_len()..];
        let payload = &[IoSlice::new(payload)];
        let cut = self.cut(&[Some(Cut { template, from: *next, payload, count: got })]);
        *next += got;
        let whole = *next == template.count();
        if whole || cut.is_err() {
            self.retire(partial.packet.frame);
        } else {
            self.partial.push_front(partial);
        }
        cut.map_err(|lost| self.lose(lost))?;
        Ok(got > 0)
    }

    /// Takes a packet that the stack has built in a frame.
    fn accept(&mut self, packet: TxPacket) -> Result<(), IoError> {
        let payload = |header_len: u16| packet.frame.len().checked_sub(header_len.into());
        if let Some(cut) = packet.meta.segmentation {
            let template = payload(cut.header_len)
                .and_then(|payload| self.template(packet.frame.data(), &packet.meta, payload));
            let Some(template) = template else {
                self.counts.invalid += 1;
                self.retire(packet.frame);
                return Ok(());
            };
            self.counts.supers += 1;
            self.partial.push_back(Partial { packet, template, next: 0 });
            return self.unload();
        }
        self.ready.push_back(packet);
        if self.ready.len() >= BATCH_MAX { self.unload() } else { Ok(()) }
    }

    /// Cuts a super-segment from where it lies; false, and nothing happened, if it does not go.
    fn cut_one(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        if self.lost || self.is_behind() && (self.unload().is_err() || self.is_behind()) {
            return false;
        }
        let len = payload.iter().map(|piece| piece.len()).sum();
        let Some(template) = self.template(headers.data(), meta, len) else { return false };
        self.take_frames(template.count());
        if self.frames.len() < template.count() {
            for frame in self.frames.drain(..) {
                self.below.retire(frame);
            }
            return false;
        }
        self.counts.supers += 1;
        let cut = Cut { template: &template, from: 0, payload, count: template.count() };
        if let Err(lost) = self.cut(&[Some(cut)]) {
            self.lose(lost);
            return false;
        }
        // What the port says it says again when it is asked next.
        self.unload().is_ok() || !self.lost
    }

    /// Cuts all of them, in order.
    fn cut_all(&mut self, all: &[Gather<'_>]) {
        let mut templates = [const { None }; GATHER_MAX];
        for (place, Gather { headers, meta, payload }) in templates.iter_mut().zip(all) {
            *place = self.template(headers, meta, payload.iter().map(|piece| piece.len()).sum());
            self.counts.invalid += u64::from(place.is_none());
            self.counts.supers += u64::from(place.is_some());
        }
        let wanted = templates.iter().flatten().map(Template::count).sum();
        self.take_frames(wanted);
        let mut left = self.frames.len();
        let mut cuts = [const { None }; GATHER_MAX];
        for ((cut, template), Gather { headers, meta, payload }) in cuts.iter_mut().zip(&templates).zip(all) {
            let Some(template) = template else { continue };
            let count = template.count().min(left);
            left -= count;
            *cut = Some(Cut { template, from: 0, payload, count });
            if count < template.count() {
                self.put_by(template, count, headers, *meta, payload);
            }
        }
        if let Err(lost) = self.cut(&cuts) {
            self.lose(lost);
            return;
        }
        // What the port says it says again when it is asked next.
        drop(self.unload());
    }
}

/// Has a batch no super-segment? A request or an answer mostly is alone in it.
#[inline]
fn is_whole(batch: &TxBatch) -> bool {
    if batch.len() == 1 { batch[0].meta.segmentation.is_none() } else { are_whole(batch) }
}

#[inline(never)]
fn are_whole(batch: &TxBatch) -> bool {
    let whole = |packets: &[TxPacket]| packets.iter().all(|packet| packet.meta.segmentation.is_none());
    let (first, rest) = batch.as_slices();
    whole(first) && whole(rest)
}

/// Makes the segments from the `first`th of all cuts on, one in each frame.
fn make(cuts: &[Option<Cut<'_>>], first: usize, frames: &mut [Frame], summing: Summing) {
    let (mut skip, mut frames) = (first, frames.iter_mut());
    for Cut { template, from, payload, count } in cuts.iter().flatten() {
        if skip >= *count {
            skip -= count;
            continue;
        }
        let begin = from + std::mem::take(&mut skip);
        let mut reader = Reader::at(payload, template.part(begin).start);
        for (nth, frame) in (begin..from + count).zip(&mut frames) {
            let packet = frame.data_mut();
            reader.read(&mut packet[template.header_len()..]);
            template.write(nth, packet, summing);
        }
    }
}

/// Where the checksum of a template's segments goes.
fn sum_of(template: &Template) -> ChecksumOffload {
    ChecksumOffload { start: template.tcp_start() as u16, offset: wire::tcp::CHECKSUM_OFFSET as u16 }
}

impl crate::Layer for Lanes {
    type Below = dyn PacketIo;

    fn below(&self) -> &Self::Below {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        &mut *self.below
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take_long(&mut self) -> Option<Frame> {
        let mut frame = self.supers.take()?;
        frame.set_range(self.caps.headroom, 0);
        Some(frame)
    }

    fn retire(&mut self, frame: Frame) {
        // Mostly it is short, and so none of ours.
        let ours = frame.capacity() == SLOT && self.supers.owns(&frame);
        if ours { self.supers.retire(frame) } else { self.below.retire(frame) }
    }

    #[inline]
    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if self.clear { self.below.rx(batch) } else { self.receive_behind(batch) }
    }

    #[inline]
    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        if self.clear && is_whole(batch) { self.below.tx(batch) } else { self.send_behind(batch) }
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.sharing.on_rest();
        self.below.arm(fds)
    }

    fn gather(&mut self) -> Option<&mut dyn TxGather> {
        Some(self)
    }

    fn delays(&self) -> Option<&dyn Delays> {
        Some(self)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let (counts, (trials, sharing)) = (&self.counts, self.sharing.told());
        vec![
            ("lanes", self.stashes.len() as u64),
            ("lanes_supers", counts.supers),
            ("lanes_segments", counts.segments),
            ("lanes_shared", counts.shared),
            ("lanes_invalid", counts.invalid),
            ("lanes_no_frame", counts.no_frame),
            ("lanes_trials", trials),
            ("lanes_sharing", sharing),
        ]
    }
}

impl TxGather for Lanes {
    fn gather_from(&mut self) -> usize {
        GATHER_FROM
    }

    fn tx_gather(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        let sent = self.cut_one(headers, meta, payload);
        self.settle();
        sent
    }

    fn gathers_at_once(&mut self) -> Option<usize> {
        self.worker_pool.as_ref()?;
        let alone = !self.clear || self.sharing.from() == usize::MAX;
        Some(if alone { 0 } else { (self.supers.available() as usize).min(GATHER_MAX) })
    }

    fn tx_gather_all(&mut self, all: &[Gather<'_>]) {
        self.cut_all(all);
        self.settle();
    }
}

impl Delays for Lanes {
    fn due(&self) -> Option<Instant> {
        let retry = self.behind_since.map(|since| since + RETRY);
        Instant::earliest(retry, self.below.delays().and_then(Delays::due))
    }

    fn on_round_trip(&self, key: &FlowKey, srtt: Duration) {
        if let Some(below) = self.below.delays() {
            below.on_round_trip(key, srtt);
        }
    }
}
