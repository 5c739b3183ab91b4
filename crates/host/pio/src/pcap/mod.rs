//! `pcap:FILE`: a capture played back at its own pace, or another.
//!
//! Packets of the file are received; sent packets go to a file, or are discarded. At the end of the capture the
//! port is gone. For looking at how a stack takes what some network once did, not for conversation: the peer
//! in the file does not listen.

mod read;
mod record;
#[cfg(test)]
mod tests;

use crate::open_error::OpenError;
use crate::port::*;
use crate::regular;
use crate::sys;
use base::{Duration, Instant};
use read::Reader;
pub(crate) use read::fuzz;
use record::Recorder;
use ring::{Frame, FramePool};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use wire::pcap::LinkType;

/// Longest packet that is played.
const LONGEST: usize = 65535 + 22;
const SLOT: usize = 128 << 10;
const SLOTS: u32 = 512;

/// How to play a capture.
#[derive(Clone, Debug)]
pub struct PcapConfig {
    /// The capture: pcap or pcapng.
    pub file: PathBuf,
    /// How many seconds of the capture pass in one; 0 for as fast as it is read.
    pub speed: f64,
    /// Where to write what is sent.
    pub record: Option<PathBuf>,
    /// Our link-layer address: that of the host whose part we take.
    pub mac: [u8; 6],
    /// Largest IP packet to send.
    pub mtu: usize,
    /// Believe in TCP checksums: captures of a sender with offloads hold none.
    pub trust: bool,
}

impl PcapConfig {
    /// At its own pace, with nothing recorded.
    pub fn new(file: impl Into<PathBuf>) -> PcapConfig {
        let file = file.into();
        PcapConfig { file, speed: 1.0, record: None, mac: [2, 0x4d, 0x53, 0, 0, 1], mtu: 1500, trust: false }
    }
}

/// A capture being played.
pub struct Pcap {
    caps: Caps,
    reader: Reader<File>,
    link: LinkType,
    /// The packet read last, waiting for its time.
    next: Option<Waiting>,
    ended: bool,
    speed: f64,
    trust: bool,
    recorder: Option<Recorder>,
    /// When the first packet was played, and its date in the file.
    start: Option<(Instant, Instant)>,
    pool: FramePool,
    /// For callers that sleep on the descriptors: readable when the next packet is due.
    timer: OwnedFd,
    counts: Counts,
}

struct Waiting {
    frame: Frame,
    /// Its date in the file; `None` follows at once.
    at: Option<Instant>,
}

#[derive(Default)]
struct Counts {
    rx: u64,
    rx_truncated: u64,
    rx_other_link: u64,
    tx: u64,
}

/// Open a capture to be played.
pub fn open_pcap(config: &PcapConfig) -> Result<Pcap, OpenError> {
    let name = config.file.display();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => OpenError::Missing {
            what: format!("the capture {name}"),
            help: "check the path; `tcpdump -w FILE` makes one".into(),
        },
        io::ErrorKind::PermissionDenied => {
            OpenError::Privilege { what: format!("reading {name}"), help: "check who may read it".into() }
        }
        io::ErrorKind::InvalidData => OpenError::Unusable {
            what: name.to_string(),
            help: "it is neither a pcap nor a pcapng file".into(),
        },
        io::ErrorKind::InvalidInput => OpenError::Unusable {
            what: format!("the capture {name}: {error}"),
            help: "it is read twice: write the capture to a file first".into(),
        },
        _ => OpenError::os(&format!("open the capture {name}"), error),
    };
    let open =
        || regular::open(File::options().read(true), &config.file).and_then(Reader::new).map_err(failed);
    let mut reader = open()?;
    // Its first packet says what the medium is.
    let link = reader.packet().map_err(failed)?.map_or(LinkType::Ethernet, |packet| packet.link);
    let reader = open()?;
    let medium = match link {
        LinkType::Ethernet => Medium::Ethernet,
        LinkType::Raw => Medium::Ip,
        LinkType::Other(number) => {
            return Err(OpenError::Unusable {
                what: name.to_string(),
                help: format!("its link type {number} is not known; Ethernet (1) and raw IP (101) are"),
            });
        }
    };
    let mac = if medium == Medium::Ip { [0; 6] } else { config.mac };
    let caps =
        Caps { local_peer: config.trust, ..Caps::plain(&format!("pcap:{name}"), config.mtu, medium, mac) };
    let recorder = match &config.record {
        None => None,
        Some(path) => Some(
            Recorder::create(path, link, &caps.name)
                .map_err(|e| OpenError::os(&format!("write to {}", path.display()), e))?,
        ),
    };
    Ok(Pcap {
        caps,
        reader,
        link,
        next: None,
        ended: false,
        speed: config.speed.max(0.0),
        trust: config.trust,
        recorder,
        start: None,
        pool: FramePool::new(SLOTS, SLOT).map_err(failed)?,
        timer: sys::timer().map_err(failed)?,
        counts: Counts::default(),
    })
}

impl Pcap {
    /// Have the next packet at hand, unless the file ends or there is no frame.
    fn advance(&mut self) -> Result<(), IoError> {
        while self.next.is_none() && !self.ended {
            let Some(mut frame) = self.pool.take() else { return Ok(()) };
            let at = match self.reader.packet() {
                Ok(Some(p)) if p.link != self.link => {
                    self.counts.rx_other_link += 1;
                    None
                }
                Ok(Some(p)) if p.data.len() != p.original_len || p.data.len() > LONGEST => {
                    self.counts.rx_truncated += 1;
                    None
                }
                Ok(Some(p)) => {
                    frame.set_range(0, p.data.len());
                    frame.data_mut().copy_from_slice(p.data);
                    Some(p.at)
                }
                Ok(None) => {
                    self.ended = true;
                    None
                }
                Err(error) => {
                    self.pool.retire(frame);
                    self.ended = true;
                    return Err(IoError::Os(error));
                }
            };
            match at {
                Some(at) => self.next = Some(Waiting { frame, at }),
                None => self.pool.retire(frame),
            }
        }
        Ok(())
    }

    /// How long until the packet at hand is due.
    fn wait_for_next(&mut self, now: Instant) -> Duration {
        let Some(Waiting { at: Some(at), .. }) = self.next else { return Duration::ZERO };
        if self.speed == 0.0 {
            return Duration::ZERO;
        }
        let (start, first) = *self.start.get_or_insert((now, at));
        let due = at.since(first).as_secs_f64() / self.speed;
        // Years of silence in a file must not panic.
        Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX).saturating_sub(now.since(start))
    }
}

impl PacketIo for Pcap {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        let mut frame = self.pool.take()?;
        frame.set_range(0, 0);
        Some(frame)
    }

    fn retire(&mut self, frame: Frame) {
        self.pool.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let before = batch.len();
        let now = sys::monotonic();
        while batch.len() < BATCH_MAX {
            self.advance()?;
            if self.next.is_none() || !self.wait_for_next(now).is_zero() {
                break;
            }
            if let Some(Waiting { frame, .. }) = self.next.take() {
                let checksum = if self.trust { RxChecksum::Verified } else { RxChecksum::Unverified };
                batch.push(RxPacket { frame, meta: RxMeta { checksum, ..RxMeta::default() } });
            }
        }
        let got = batch.len() - before;
        self.counts.rx += got as u64;
        if got == 0 && self.ended { Err(IoError::Gone) } else { Ok(got) }
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let (at, count) = (sys::realtime(), batch.len());
        for packet in batch.drain(..) {
            if let Some(recorder) = &mut self.recorder {
                recorder.packet(at, packet.frame.data());
            }
            self.pool.retire(packet.frame);
        }
        self.counts.tx += count as u64;
        Ok(count)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
        self.advance()?;
        let due = match &self.next {
            Some(_) => self.wait_for_next(sys::monotonic()),
            // The end has to be told.
            None if self.ended => Duration::ZERO,
            None => Duration::MAX,
        };
        sys::set_timer(&self.timer, (due != Duration::MAX).then_some(due)).map_err(IoError::Os)?;
        fds.push(self.timer.as_raw_fd());
        Ok(!due.is_zero())
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        vec![
            ("rx_packets", counts.rx),
            ("rx_truncated", counts.rx_truncated),
            ("rx_other_link", counts.rx_other_link),
            ("tx_packets", counts.tx),
            ("no_frame", self.pool.refused()),
            ("recorder_lost", self.recorder.as_ref().map_or(0, Recorder::lost)),
            ("recorder_failed", self.recorder.as_ref().map_or(0, Recorder::failed)),
        ]
    }
}
