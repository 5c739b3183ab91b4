//! The port of the host under test: what the script injects comes in, what the stack sends is kept with its time.

use base::Instant;
use pio::{BATCH_MAX, Caps, IoError, Medium, PacketIo, RxBatch, RxMeta, RxPacket, TxBatch, TxMeta};
use ring::{Frame, FramePool, Pages};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames of the port: a turn fills a batch each way at most. They are few because the original tool locks all memory
/// that its plug-in takes.
const FRAMES: u32 = 2 * BATCH_MAX as u32;
/// Every packet of a script fits: IPv4's total length has 16 bits, and link headers there are none.
const SLOT: usize = 1 << 17;

/// Virtual time, shared by the port and the stack.
#[derive(Clone, Default)]
pub(super) struct Time(Arc<AtomicU64>);

impl Time {
    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, now: Instant) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl sock::Clock for Time {
    fn now(&self) -> Instant {
        Time::now(self)
    }
}

/// Both directions of the wire, packet by packet.
#[derive(Default)]
pub(super) struct Wire {
    /// On their way to the stack; with the payload of each segment of the wire where several came as one, or 0.
    pub(super) inbound: VecDeque<(Vec<u8>, u16)>,
    /// Packets that the stack sent, with their times.
    pub(super) outbound: VecDeque<(Instant, Vec<u8>)>,
    /// Super-segments reach the script uncut.
    pub(super) whole: bool,
}

/// The script's end of the port.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Wire>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stack's end: bare IP packets, and the offloads that Linux finds on a tun device.
pub(super) struct ScriptPort {
    caps: Caps,
    pool: FramePool,
    wire: Shared,
    time: Time,
}

impl ScriptPort {
    pub(super) fn new(mtu: usize, wire: Shared, time: Time) -> std::io::Result<Self> {
        Ok(ScriptPort {
            caps: Caps {
                tx_checksum: true,
                tso_max: 65_535,
                ..Caps::plain("drill", mtu, Medium::Ip, [0; 6])
            },
            pool: FramePool::with_pages(FRAMES, SLOT, Pages::Normal)?,
            wire,
            time,
        })
    }
}

impl PacketIo for ScriptPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        self.pool.take()
    }

    fn retire(&mut self, frame: Frame) {
        self.pool.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let mut wire = self.wire.lock();
        let before = batch.len();
        while batch.len() < BATCH_MAX {
            let Some((packet, gso_size)) = wire.inbound.pop_front() else { break };
            let Some(mut frame) = self.pool.take() else {
                wire.inbound.push_front((packet, gso_size));
                break;
            };
            frame.set_range(0, packet.len());
            frame.data_mut().copy_from_slice(&packet);
            batch.push(RxPacket { frame, meta: RxMeta { gso_size, ..RxMeta::default() } });
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let now = self.time.now();
        let mut wire = self.wire.lock();
        let mut sent = 0;
        while let Some(mut packet) = batch.pop_front() {
            let cut = packet.meta.segmentation.filter(|_| !wire.whole);
            let meta = TxMeta { segmentation: cut, ..packet.meta };
            let emit = |bytes: &[u8]| wire.outbound.push_back((now, bytes.to_vec()));
            emu::transmit(Medium::Ip, packet.frame.data_mut(), &meta, emit);
            self.pool.retire(packet.frame);
            sent += 1;
        }
        Ok(sent)
    }

    /// Nothing ever sleeps here.
    fn arm(&mut self, _: &mut Vec<RawFd>) -> Result<bool, IoError> {
        Ok(true)
    }
}
