//! `shm:PATH`: a cable between two processes of this machine, through memory they share.
//!
//! Frames are copied into the memory by one and out of it by the other, with their virtio-net headers, so
//! checksums stay partial and super-segments whole. System calls happen only when a program sleeps. The
//! processes need not trust each other ([`lane`], [`ring::shared`]): a hostile partner can lose or forge its own
//! packets, as on any cable, and no more. Each queue is a cable of its own, at `PATH`, `PATH.1`, and so on; a
//! partner that went may come back.

mod lane;
mod meet;
#[cfg(test)]
mod tests;

use crate::open_error::OpenError;
use crate::port::*;
use crate::sys::{self, interest};
use crate::vnet;
use crate::vnet::start_of;
use base::Duration;
pub(crate) use lane::fuzz;
use lane::{Broken, Consumer, FRAME_MAX, Producer};
use meet::{Meeting, Partner};
use ring::{Frame, FramePool};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

/// Bytes of the largest super-segment's IP packet.
const SUPER: usize = 65535;
const LINK_HEADER: usize = 22;
const SLOT: usize = 128 << 10;
const SLOTS: u32 = 512;
/// Empty calls of `rx` after which it looks whether the partner still lives.
const LOOK_EVERY: u32 = 256;

const _: () = assert!(FRAME_MAX + start_of(u32::MAX) <= SLOT);
// Under Miri, which takes its time, lanes are small.
const _: () = assert!(FRAME_MAX >= SUPER + LINK_HEADER || cfg!(miri));
const _: () = assert!(lane::VNET == vnet::LEN);

/// How to open one end of a cable.
#[derive(Clone, Debug)]
pub struct ShmConfig {
    /// Where the two ends meet.
    pub path: PathBuf,
    /// Queues; both ends should have as many.
    pub queues: u16,
    /// Largest IP packet that is not a super-segment.
    pub mtu: usize,
    /// Our link-layer address; `None` takes a random one.
    pub mac: Option<[u8; 6]>,
}

impl ShmConfig {
    /// One queue, MTU 1500.
    pub fn new(path: impl Into<PathBuf>) -> ShmConfig {
        ShmConfig { path: path.into(), queues: 1, mtu: 1500, mac: None }
    }
}

/// One queue of a cable through shared memory.
pub struct Shm {
    caps: Caps,
    pool: FramePool,
    meeting: Meeting,
    link: Option<Link>,
    /// State of the link as the owner was told last.
    told: Option<bool>,
    empty: u32,
    counts: Counts,
}

/// A partner, and the lanes to and from it.
struct Link {
    connection: OwnedFd,
    producer: Producer,
    consumer: Consumer,
    /// We asked to be woken.
    armed: bool,
}

#[derive(Default)]
struct Counts {
    rx: u64,
    rx_malformed: u64,
    tx: u64,
    tx_full: u64,
    tx_invalid: u64,
    partners: u64,
    partners_broken: u64,
}

/// Open one end of a cable. It is down until the other end is open too.
pub fn open_shm(config: &ShmConfig) -> Result<Vec<Shm>, OpenError> {
    let path = config.path.display();
    if !(68..=SUPER).contains(&config.mtu) {
        let why = format!("an MTU is 68 to {SUPER} bytes");
        return Err(OpenError::Spec { spec: format!("shm:{path}"), why });
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => OpenError::Missing {
            what: format!("the folder of {path}"),
            help: "make it, or choose a path in one that exists".into(),
        },
        // What another user has put there, or may.
        io::ErrorKind::PermissionDenied if error.get_ref().is_some() => {
            OpenError::Unusable { what: format!("the link shm:{path}"), help: error.to_string() }
        }
        io::ErrorKind::PermissionDenied => OpenError::Privilege {
            what: format!("{path}"),
            help: "both processes must be allowed to write to the folder and the files in it".into(),
        },
        io::ErrorKind::InvalidInput => OpenError::Unusable {
            what: format!("the path {path}"),
            help: "a socket's path has 1 to 100 bytes".into(),
        },
        io::ErrorKind::InvalidData => OpenError::Unusable {
            what: format!("{path}"),
            help: "who listens there is no Millstream of this version; choose another path".into(),
        },
        _ => OpenError::os(&format!("meet at {path}"), error),
    };
    let queues = config.queues.max(1);
    let mac = config.mac.map_or_else(sys::random_mac, Ok).map_err(failed)?;
    let ports = (0..queues).map(|queue| {
        let caps = Caps {
            queues,
            queue,
            tx_checksum: true,
            tso_max: SUPER,
            ..Caps::plain(&format!("shm:{path}"), config.mtu, Medium::Ethernet, mac)
        };
        let mut path = config.path.as_os_str().to_owned();
        if queue > 0 {
            path.push(format!(".{queue}"));
        }
        Shm::new(caps, path.into()).map_err(failed)
    });
    ports.collect()
}

impl Shm {
    fn new(caps: Caps, path: PathBuf) -> io::Result<Shm> {
        let mut port = Shm {
            caps,
            pool: FramePool::new(SLOTS, SLOT)?,
            meeting: Meeting::new(path),
            link: None,
            told: None,
            empty: 0,
            counts: Counts::default(),
        };
        port.meet()?;
        Ok(port)
    }

    /// Is a partner there, or has one just come?
    fn meet(&mut self) -> io::Result<bool> {
        if self.link.is_none()
            && let Some(Partner { connection, region, lanes }) = self.meeting.find()?
        {
            self.counts.partners += 1;
            let (producer, consumer) =
                (Producer::new(region.clone(), lanes.0), Consumer::new(region, lanes.1));
            self.link = Some(Link { connection, producer, consumer, armed: false });
        }
        Ok(self.link.is_some())
    }

    /// As [`Shm::meet`]; a partner that does not behave is none.
    fn is_up(&mut self) -> bool {
        self.meet().unwrap_or_else(|_| {
            self.counts.partners_broken += 1;
            false
        })
    }

    /// The partner broke the rules: no more of it.
    fn part(&mut self, _: Broken) -> IoError {
        self.counts.partners_broken += 1;
        self.link = None;
        IoError::Down
    }

    /// Move records to frames.
    fn receive(&mut self, batch: &mut RxBatch) -> Result<(), Broken> {
        let Some(link) = &mut self.link else { return Ok(()) };
        while batch.len() < BATCH_MAX
            && let Some(record) = link.consumer.peek()?
        {
            let Some(meta) = vnet::received(&record.vnet, record.len) else {
                self.counts.rx_malformed += 1;
                link.consumer.skip(&record);
                continue;
            };
            let Some(mut frame) = self.pool.take() else { break };
            frame.set_range(start_of(frame.index()), record.len);
            link.consumer.take(&record, frame.data_mut());
            batch.push(RxPacket { frame, meta });
        }
        if link.consumer.publish() {
            link.ring();
        }
        Ok(())
    }

    /// Write frames from the front of the batch to records; how many left the batch.
    fn send(&mut self, batch: &mut TxBatch) -> Result<usize, Broken> {
        let Some(link) = &mut self.link else { return Ok(0) };
        let mut taken = 0;
        while let Some(packet) = batch.front() {
            let bytes = packet.frame.data();
            let header = vnet::request(
                &packet.meta,
                bytes,
                bytes.len(),
                self.caps.mtu + LINK_HEADER,
                SUPER + LINK_HEADER,
            );
            match header {
                None => self.counts.tx_invalid += 1,
                Some(header) => {
                    let mut head = [0; vnet::LEN];
                    vnet::emit(&header, &mut head);
                    if !link.producer.push(&head, bytes)? {
                        if !link.producer.arm() {
                            // Room came before the partner could see that we wait for it.
                            continue;
                        }
                        self.counts.tx_full += 1;
                        break;
                    }
                    self.counts.tx += 1;
                }
            }
            taken += 1;
            if let Some(packet) = batch.pop_front() {
                self.pool.retire(packet.frame);
            }
        }
        if link.producer.publish() {
            link.ring();
        }
        Ok(taken)
    }

    /// Nothing came: ask to be woken, and now and then look whether the partner lives. True if something came
    /// now.
    fn idle(&mut self) -> bool {
        let Some(link) = &mut self.link else { return false };
        self.empty = self.empty.wrapping_add(1);
        if link.armed && link.consumer.was_woken() || self.empty.is_multiple_of(LOOK_EVERY) {
            link.armed = false;
            if !link.hear() {
                self.link = None;
                return false;
            }
        }
        if !link.armed {
            link.armed = link.consumer.arm();
            return !link.armed;
        }
        false
    }
}

impl Link {
    /// Wake the partner. A connection that is full holds rings enough.
    fn ring(&self) {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: one byte is read from a constant.
        unsafe { libc::send(self.connection.as_raw_fd(), [0_u8].as_ptr().cast(), 1, flags) };
    }

    /// Forget the rings so far; false if the partner is gone.
    fn hear(&self) -> bool {
        // A partner may ring without need, but not keep us here for ever.
        for _ in 0..RINGS {
            let mut byte = 0_u8;
            let fd = self.connection.as_raw_fd();
            // SAFETY: one byte is written to `byte`.
            let got = unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) };
            match got {
                0 => return false,
                1.. => {}
                _ => {
                    let error = io::Error::last_os_error();
                    return matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
                }
            }
        }
        true
    }
}

impl PacketIo for Shm {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        let mut frame = self.pool.take()?;
        frame.set_range(start_of(frame.index()), 0);
        Some(frame)
    }

    fn retire(&mut self, frame: Frame) {
        self.pool.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if !self.is_up() {
            return Err(IoError::Down);
        }
        let before = batch.len();
        self.receive(batch).map_err(|broken| self.part(broken))?;
        if batch.len() == before && self.idle() {
            self.receive(batch).map_err(|broken| self.part(broken))?;
        }
        let got = batch.len() - before;
        self.counts.rx += got as u64;
        if got == 0 && self.link.is_none() { Err(IoError::Down) } else { Ok(got) }
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        if !self.is_up() {
            return Err(IoError::Down);
        }
        self.send(batch).map_err(|broken| self.part(broken))
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        let alone = self.link.is_none();
        if self.is_up() && alone {
            return Ok(false);
        }
        if let Some(link) = &mut self.link {
            link.armed = link.consumer.arm();
            if !link.armed {
                return Ok(false);
            }
        }
        // Without one, nothing can tell us when a listener appears that we could connect to.
        let partner = self.link.as_ref().map(|link| link.connection.as_raw_fd()).or(self.meeting.fd());
        let mut rows = [interest(partner.unwrap_or(-1), libc::POLLIN)];
        if sys::poll(&mut rows, Some(Duration::ZERO)).map_err(IoError::Os)? == 0 {
            fds.extend(partner);
            return Ok(true);
        }
        if let Some(link) = &mut self.link {
            // Whatever was in the connection: the flag may still be up if the partner rang for room or not at
            // all.
            link.armed = false;
            if !link.hear() {
                self.link = None;
            }
        }
        Ok(false)
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        vec![
            ("rx_packets", counts.rx),
            ("rx_malformed", counts.rx_malformed),
            ("tx_packets", counts.tx),
            ("tx_full", counts.tx_full),
            ("tx_invalid", counts.tx_invalid),
            ("no_frame", self.pool.refused()),
            ("partners", counts.partners),
            ("partners_broken", counts.partners_broken),
        ]
    }
}

impl NetEvents for Shm {
    /// Only whether the other end is there.
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        let up = self.is_up();
        if self.told.replace(up) != Some(up) {
            events.push(NetEvent::Link { up });
        }
    }
}

/// More rings than a connection holds.
const RINGS: usize = 512;
