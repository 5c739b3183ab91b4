//! A port for tests and the fuzz target: what comes is put there, and what is sent is taken.

use crate::port::*;
use ::wire::packet::{Below, Checksum, Link};
use ::wire::tcp::{Flags, Header, Options, Timestamps};
use base::{Addr, Duration, Instant, Seq};
use ring::{EventFd, Frame, FramePool};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets received and sent.
pub(super) struct Traffic {
    /// Packets, each in so many frames.
    pub(super) coming: VecDeque<(Vec<Vec<u8>>, RxMeta)>,
    pub(super) sent: Vec<Vec<u8>>,
    /// Packets that it still takes.
    pub(super) takes: usize,
    /// Error that it returns when it is asked for packets.
    pub(super) says: Option<fn() -> IoError>,
    pub(super) panics: bool,
    /// Frames of the port that others have.
    pub(super) out: usize,
    /// Requests that it got.
    pub(super) asked: Vec<String>,
    pub(super) denies: bool,
}

pub(super) struct Wire {
    caps: Caps,
    pool: FramePool,
    traffic: Arc<Mutex<Traffic>>,
    bell: Arc<EventFd>,
}

/// The far end.
#[derive(Clone)]
pub(super) struct Far {
    traffic: Arc<Mutex<Traffic>>,
    bell: Arc<EventFd>,
}

impl Wire {
    pub(super) fn new(slots: u32) -> (Wire, Far) {
        let caps =
            Caps { shares_kernel_addresses: true, ..Caps::plain("wire", 1500, Medium::Ethernet, [2; 6]) };
        let traffic = Traffic {
            coming: VecDeque::new(),
            sent: Vec::new(),
            takes: usize::MAX,
            says: None,
            panics: false,
            out: 0,
            asked: Vec::new(),
            denies: false,
        };
        let traffic = Arc::new(Mutex::new(traffic));
        let bell = Arc::new(EventFd::new().expect("a descriptor"));
        let far = Far { traffic: traffic.clone(), bell: bell.clone() };
        (Wire { caps, pool: FramePool::new(slots, 2048).expect("memory"), traffic, bell }, far)
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&mut self, what: String) {
        self.traffic().asked.push(what);
    }
}

impl Far {
    pub(super) fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A packet comes, in so many frames.
    pub(super) fn put_in(&self, frames: Vec<Vec<u8>>, meta: RxMeta) {
        self.traffic().coming.push_back((frames, meta));
        self.wake();
    }

    pub(super) fn wake(&self) {
        self.bell.ring();
    }
}

impl PacketIo for Wire {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        let frame = self.pool.take();
        self.traffic().out += usize::from(frame.is_some());
        frame
    }

    fn retire(&mut self, frame: Frame) {
        self.traffic().out -= 1;
        self.pool.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let Wire { pool, traffic, .. } = self;
        let mut traffic = traffic.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!traffic.panics, "as the test wants it");
        if let Some(says) = traffic.says {
            return Err(says());
        }
        let before = batch.len();
        while let Some((frames, _)) = traffic.coming.front()
            && batch.len() + frames.len() <= BATCH_MAX
            && pool.available() as usize >= frames.len()
            && let Some((frames, meta)) = traffic.coming.pop_front()
        {
            let last = frames.len() - 1;
            for (nth, bytes) in frames.into_iter().enumerate() {
                let Some(mut frame) = pool.take() else { break };
                traffic.out += 1;
                frame.set_range(0, bytes.len());
                frame.data_mut().copy_from_slice(&bytes);
                batch.push(RxPacket { frame, meta: RxMeta { more: nth < last, ..meta } });
            }
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let mut sent = 0;
        while self.traffic().takes > 0
            && let Some(packet) = batch.pop_front()
        {
            let mut traffic = self.traffic();
            traffic.takes -= 1;
            traffic.sent.push(packet.frame.data().to_vec());
            drop(traffic);
            self.retire(packet.frame);
            sent += 1;
        }
        Ok(sent)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.bell.drain();
        fds.push(self.bell.as_fd().as_raw_fd());
        Ok(self.traffic().coming.is_empty())
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        Some(self)
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        vec![("sent", self.traffic().sent.len() as u64)]
    }
}

impl Claims for Wire {
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        self.ask(format!("claim {}", claim.port));
        if self.traffic().denies { Err(ClaimError::InUse) } else { Ok(()) }
    }

    fn release(&mut self, claim: &PortClaim) {
        self.ask(format!("release {}", claim.port));
    }
}

impl NetEvents for Wire {
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        events.push(NetEvent::Mtu(1500));
    }
}

/// A segment of a flow as it lies in a frame, IPv6 where the flow's number is odd.
pub(super) fn segment(flow: u16, seq: u32, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let end = |last: u8| match flow.is_multiple_of(2) {
        true => Addr::v4([10, 0, 0, last]),
        false => Addr::v6([last; 16]),
    };
    let link = Link { dst: [2; 6], src: [4; 6] };
    let below = Below { link: Some(link), src: end(7), dst: end(8), tos: 0, ttl: 64, label: 0 };
    let header = Header {
        src_port: 1000 + flow,
        dst_port: 80,
        seq: Seq::new(seq),
        ack: Seq::new(9),
        flags,
        window: 100,
        options: Options { timestamps: Some(Timestamps { val: 6, ecr: 7 }), ..Options::default() },
    };
    let headers = below.len() + header.len();
    let mut bytes = vec![0; headers + payload.len()];
    bytes[headers..].copy_from_slice(payload);
    below.emit_tcp(&header, payload.len(), Checksum::Full, &mut bytes);
    bytes
}

/// A time that goes when it is told to.
#[derive(Clone)]
pub(super) struct Hands(Arc<AtomicU64>);

impl Hands {
    pub(super) fn new() -> Hands {
        Hands(Arc::new(AtomicU64::new(1_000_000_000)))
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}
