//! Late segmentation, on as many cores as one likes: a layer on a port that takes neither super-segments nor checksums.
//!
//! ```text
//!   connection ── headers + where the payload lies ──> Lanes ── frames of the port below, in order ──> its tx
//!   (sequence numbers, windows, ACKs,                    │
//!    losses: once for up to 64 KiB)                      └─ runs of segments, pulled by the owner and its helpers:
//!                                                           copy, headers, checksum ([`Template`])
//! ```
//! The stack above sees a port with segmentation and checksums, and hands over super-segments; what one core did for
//! each segment is done here, by the owner alone or by a [`Crew`]. While a super-segment is cut the owner works along
//! and waits, so nothing is half sent when it goes on: the order on the wire, and every octet of it, is the same for
//! any number of lanes, no retransmission meets a segment that is still being made, and payload need not be kept for
//! anybody. A helper that is late takes less; one that panics ends the port.

mod cut;
#[cfg(test)]
mod tests;

use self::cut::Reader;
use crate::layer::Layer;
use crate::port::*;
use base::{Duration, Instant};
use ring::{Crew, Frame, FramePool, Lost};
use std::io::{self, IoSlice};
use wire::checksum::Sum;
use wire::ethernet;
use wire::template::{Summing, Template};

/// Most lanes of a port.
pub const LANES_MAX: u16 = 16;
/// Octets of a frame that holds a whole super-segment, for payload that does not go from where it lies.
const SLOT: usize = 1 << 16;
/// As many as a core builds before it kicks.
const SLOTS: u32 = 8;
/// Payload from which a super-segment is cut from where it lies.
const GATHER_FROM: usize = 4 << 10;
/// When to try again where the port below takes no more, or has no frame.
const RETRY: Duration = Duration::from_micros(100);
/// Segments of a run: few enough that each lane gets some of a super-segment, enough to stay in a cache.
const RUN: std::ops::RangeInclusive<usize> = 4..=16;

/// A port that has super-segments cut and summed by a crew.
pub struct Lanes {
    below: Box<dyn PacketIo>,
    /// The port's, with segmentation and checksums.
    caps: Caps,
    crew: Crew,
    clock: Box<dyn Fn() -> Instant + Send>,
    supers: FramePool,
    /// Frames of the segments in the making.
    frames: Vec<Frame>,
    /// Which lane last wrote to each frame, and free frames by that: their memory is in its cache.
    homes: Vec<u8>,
    stashes: Vec<Vec<Frame>>,
    /// Segments that are made, and what came between them.
    ready: TxBatch,
    /// A super-segment for the rest of which there was no frame.
    partial: Option<Partial>,
    /// When the port below did not take everything.
    behind_since: Option<Instant>,
    lost: bool,
    counts: Counts,
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
    /// sums by itself is given back as it is: there is nothing to share.
    ///
    /// # Errors
    /// No memory or no thread is to be had.
    pub fn over(
        below: Box<dyn PacketIo>,
        lanes: u16,
        name: &str,
        clock: impl Fn() -> Instant + Send + 'static,
        begin: impl Fn(usize) + Send + Clone + 'static,
    ) -> io::Result<Box<dyn PacketIo>> {
        let caps = below.caps();
        if caps.tx_checksum && caps.tso_max > 0 {
            return Ok(below);
        }
        let helpers = usize::from(lanes.clamp(1, LANES_MAX)) - 1;
        Ok(Box::new(Lanes::on(below, Crew::start(helpers, name, begin)?, clock)?))
    }

    /// A crew's lanes on a port.
    fn on(
        below: Box<dyn PacketIo>,
        crew: Crew,
        clock: impl Fn() -> Instant + Send + 'static,
    ) -> io::Result<Lanes> {
        let caps = below.caps();
        let tso_max = (SLOT - caps.headroom.min(SLOT / 2) - ethernet::HEADER_LEN).min(65_535);
        let caps = Caps { tx_checksum: true, tso_max, ..caps.clone() };
        Ok(Lanes {
            caps,
            clock: Box::new(clock),
            supers: FramePool::new(SLOTS, SLOT)?,
            frames: Vec::with_capacity(BATCH_MAX),
            homes: Vec::new(),
            stashes: (0..crew.lanes()).map(|_| Vec::with_capacity(BATCH_MAX)).collect(),
            ready: TxBatch::with_capacity(2 * BATCH_MAX),
            partial: None,
            behind_since: None,
            lost: false,
            counts: Counts::default(),
            crew,
            below,
        })
    }

    /// The template of a super-segment whose frame begins with `headers`, `None` if it makes no sense.
    fn template(&self, headers: &[u8], meta: &TxMeta, payload: usize) -> Option<Template> {
        let (cut, sum) = (meta.segmentation?, meta.checksum?);
        let ip = if self.caps.medium == Medium::Ethernet { ethernet::HEADER_LEN } else { 0 };
        let headers = headers.get(..cut.header_len.into())?;
        let template = Template::read(headers, ip, sum.start.into(), payload, cut.size.into())?;
        (headers.len() - ip + usize::from(cut.size) <= self.caps.mtu).then_some(template)
    }

    /// Takes frames for segments, as far as there are any.
    fn take_frames(&mut self, count: usize) {
        while self.frames.len() < count {
            let Some(frame) = self.below.take() else {
                self.counts.no_frame += 1;
                break;
            };
            self.frames.push(frame);
        }
    }

    /// Segments of a run of a job: twice as many runs as lanes, so that one that comes late finds some.
    fn run(&self, count: usize) -> usize {
        count.div_ceil(2 * self.crew.lanes()).clamp(*RUN.start(), *RUN.end())
    }

    /// Puts the frames that were taken where those lanes begin that wrote to them last.
    fn arrange(&mut self, run: usize) {
        let Lanes { crew, frames, homes, stashes, .. } = self;
        let count = frames.len();
        for frame in frames.drain(..) {
            let index = frame.index() as usize;
            if index >= homes.len() {
                homes.resize(index + 1, 0);
            }
            stashes[usize::from(homes[index])].push(frame);
        }
        for lane in 0..crew.lanes() {
            for _ in crew.share(lane, count, run) {
                let other = || (0..stashes.len()).max_by_key(|other| stashes[*other].len()).unwrap_or(lane);
                let from = if stashes[lane].is_empty() { other() } else { lane };
                frames
                    .extend(stashes[from].pop().inspect(|frame| homes[frame.index() as usize] = lane as u8));
            }
        }
    }

    /// Makes a segment in each frame that was taken, from the `from`th on, of payload that lies in pieces.
    fn cut(&mut self, template: &Template, from: usize, payload: &[IoSlice<'_>]) -> Result<(), Lost> {
        let (count, lanes) = (self.frames.len(), self.crew.lanes());
        let run = self.run(count);
        let shared = lanes > 1 && count > run;
        if shared {
            self.arrange(run);
        }
        let summing = if self.below.caps().tx_checksum { Summing::Later } else { Summing::Here };
        self.crew.each(&mut self.frames, run, &|first, frames: &mut [Frame]| {
            let mut reader = Reader::at(payload, template.part(from + first).start);
            for (nth, frame) in (from + first..).zip(frames) {
                let (headers, len) = (template.header_len(), template.part(nth).len());
                frame.set_range(frame.headroom(), headers + len);
                let packet = frame.data_mut();
                reader.read(&mut packet[headers..]);
                template.write(nth, packet, summing);
            }
        })?;
        self.counts.segments += count as u64;
        self.counts.shared += u64::from(shared);
        let meta = match summing {
            Summing::Here => TxMeta::default(),
            Summing::Later => TxMeta { checksum: Some(sum_of(template)), segmentation: None },
        };
        self.ready.extend(self.frames.drain(..).map(|frame| TxPacket { frame, meta }));
        Ok(())
    }

    /// Somebody panicked: nothing of what was in the making can be trusted.
    #[cold]
    fn lose(&mut self, _: Lost) -> IoError {
        eprintln!("millstream: {}: a lane's thread panicked; the port is closed", self.caps.name);
        self.lost = true;
        for frame in self.frames.drain(..) {
            self.below.retire(frame);
        }
        IoError::Gone
    }

    /// Is there something that was accepted and is not sent?
    fn is_behind(&self) -> bool {
        !self.ready.is_empty() || self.partial.is_some()
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
            let Some(partial) = self.partial.take() else { break };
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
        let cut = self.cut(template, *next, &[IoSlice::new(payload)]);
        *next += got;
        let whole = *next == template.count();
        if whole || cut.is_err() {
            self.retire_above(partial.packet.frame);
        } else {
            self.partial = Some(partial);
        }
        cut.map_err(|lost| self.lose(lost))?;
        Ok(got > 0)
    }

    /// Takes a packet that the stack has built in a frame.
    fn accept(&mut self, mut packet: TxPacket) -> Result<(), IoError> {
        let payload = |header_len: u16| packet.frame.len().checked_sub(header_len.into());
        if let Some(cut) = packet.meta.segmentation {
            let template = payload(cut.header_len)
                .and_then(|payload| self.template(packet.frame.data(), &packet.meta, payload));
            let Some(template) = template else {
                self.counts.invalid += 1;
                self.retire_above(packet.frame);
                return Ok(());
            };
            self.counts.supers += 1;
            self.partial = Some(Partial { packet, template, next: 0 });
            return self.unload();
        }
        if let Some(sum) = packet.meta.checksum.filter(|_| !self.below.caps().tx_checksum) {
            if !complete(packet.frame.data_mut(), sum) {
                self.counts.invalid += 1;
                self.retire_above(packet.frame);
                return Ok(());
            }
            packet.meta.checksum = None;
        }
        self.ready.push_back(packet);
        if self.ready.len() >= BATCH_MAX { self.unload() } else { Ok(()) }
    }
}

/// Where the checksum of a template's segments goes.
fn sum_of(template: &Template) -> ChecksumOffload {
    ChecksumOffload { start: template.tcp_start() as u16, offset: wire::tcp::CHECKSUM_OFFSET as u16 }
}

/// Does to a packet what `sum` asks for; false if that makes no sense.
fn complete(packet: &mut [u8], sum: ChecksumOffload) -> bool {
    let Some(summed) = packet.get_mut(usize::from(sum.start)..) else { return false };
    let field = Sum::of(summed).checksum().to_be_bytes();
    match summed.get_mut(usize::from(sum.offset)..).and_then(<[u8]>::first_chunk_mut) {
        Some(place) => *place = field,
        None => return false,
    }
    true
}

impl Layer for Lanes {
    type Below = dyn PacketIo;

    fn below(&self) -> &Self::Below {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        &mut *self.below
    }

    fn caps_above(&self) -> &Caps {
        &self.caps
    }

    fn take_long_above(&mut self) -> Option<Frame> {
        let mut frame = self.supers.take()?;
        frame.set_range(self.caps.headroom, 0);
        Some(frame)
    }

    fn retire_above(&mut self, frame: Frame) {
        if self.supers.owns(&frame) { self.supers.retire(frame) } else { self.below.retire(frame) }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let sent = if self.is_behind() || self.lost { self.unload() } else { Ok(()) };
        match self.below.rx(batch) {
            // What is handed up is not lost for what the port says: it will say so again.
            Ok(count) if count > 0 => Ok(count),
            got => sent.and(got),
        }
    }

    fn send(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
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

    fn gather_from(&self) -> Option<usize> {
        Some(GATHER_FROM)
    }

    fn send_gathered(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
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
        if let Err(lost) = self.cut(&template, 0, payload) {
            self.lose(lost);
            return false;
        }
        // What the port says it says again when it is asked next.
        self.unload().is_ok() || !self.lost
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        self.crew.rest();
        self.below.wait(timeout)
    }

    fn due_above(&self) -> Option<Instant> {
        Instant::earliest(self.behind_since.map(|since| since + RETRY), self.below.due())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        vec![
            ("lanes", self.crew.lanes() as u64),
            ("lanes_supers", counts.supers),
            ("lanes_segments", counts.segments),
            ("lanes_shared", counts.shared),
            ("lanes_invalid", counts.invalid),
            ("lanes_no_frame", counts.no_frame),
        ]
    }
}
