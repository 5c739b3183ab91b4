//! An end on our stack, whose port is the path.

use crate::path::{End, Path};
use crate::play::{Host, Set, Socket};
use base::{Addr, Endpoint, Instant};
use drill::run::{Profile, set_sysctl, settings};
use pio::{BATCH_MAX, Caps, Delays, IoError, Medium, PacketIo, RxBatch, RxMeta, RxPacket, TxBatch, TxPacket};
use ring::{Frame, FramePool, Pages, Sleeper};
use sock::{Clock, Engine, Family, Fd, Limits, RecvFlags, Runner, SendFlags, Stack, SystemClock};
use stack::{Core, CoreConfig, OwnAddr};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

const FRAMES: u32 = 1024;
const SLOT: usize = 2048;

/// A port whose wire is the near end of a path.
struct PathPort {
    caps: Caps,
    pool: FramePool,
    path: Arc<Path>,
    bell: Sleeper,
    clock: SystemClock,
}

impl PathPort {
    fn new(path: Arc<Path>) -> io::Result<PathPort> {
        let (ringer, bell) = ring::doorbell()?;
        path.set_bell(End::Near, ringer);
        let caps = Caps::plain("path", 1500, Medium::Ethernet, [0x02, 0x4d, 0x53, 0, 0, 1]);
        let pool = FramePool::with_pages(FRAMES, SLOT, Pages::Normal)?;
        Ok(PathPort { caps, pool, path, bell, clock: SystemClock::new() })
    }
}

impl PacketIo for PathPort {
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
        let before = batch.len();
        while batch.len() < BATCH_MAX {
            let Some(bytes) = self.path.arrived(End::Near, self.clock.now()) else { break };
            // A slot takes whatever an MTU allows; a frame that finds none is lost, as on any port.
            let Some(mut frame) = self.pool.take() else { break };
            frame.set_range(0, bytes.len());
            frame.data_mut().copy_from_slice(&bytes);
            batch.push(RxPacket { frame, meta: RxMeta::default() });
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let taken = batch.len();
        for TxPacket { frame, .. } in batch.drain(..) {
            self.path.enter(End::Near, frame.data(), self.clock.now());
            self.pool.retire(frame);
        }
        Ok(taken)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.bell.drain();
        fds.push(self.bell.fd().as_raw_fd());
        Ok(self.due().is_none_or(|at| at > self.clock.now()))
    }

    fn delays(&self) -> Option<&dyn Delays> {
        Some(self)
    }
}

impl Delays for PathPort {
    fn due(&self) -> Option<Instant> {
        self.path.next(End::Near)
    }
}

/// Our sockets over a stack of their own, with the settings of a profile.
pub(crate) struct Ours(Stack);

impl Ours {
    pub(crate) fn new(
        path: Arc<Path>,
        addr: [u8; 4],
        profile: Profile,
        sysctls: &[(&str, &str)],
    ) -> Result<Ours, String> {
        let mut config = CoreConfig {
            tcp: settings(profile),
            max_connections: 16,
            max_time_wait: 16,
            seed: 4711,
            addresses: vec![OwnAddr { addr: Addr::v4(addr), prefix: 24 }],
            ..CoreConfig::default()
        };
        for (name, value) in sysctls {
            set_sysctl(&mut config, name, value)?;
        }
        let port = PathPort::new(path).map_err(|e| e.to_string())?;
        let core = Core::new(config, Box::new(port));
        let engine = Engine::new(core, Box::new(SystemClock::new()), Limits::default());
        Ok(Ours(Runner::start(engine).map_err(|e| e.to_string())?))
    }
}

impl Host for Ours {
    fn socket(&self) -> io::Result<Box<dyn Socket>> {
        Ok(Box::new(OurSocket { stack: self.0.clone(), fd: self.0.socket(Family::V4)? }))
    }
}

struct OurSocket {
    stack: Stack,
    fd: Fd,
}

impl Drop for OurSocket {
    fn drop(&mut self) {
        // The only failure is a descriptor that is closed already, which its owner makes impossible.
        let _ = self.stack.close(self.fd);
    }
}

impl OurSocket {
    fn set_int(&self, level: i32, name: i32, value: u32) -> io::Result<()> {
        Ok(self.stack.setsockopt(self.fd, level, name, &value.to_ne_bytes())?)
    }
}

impl Socket for OurSocket {
    fn set(&self, option: Set) -> io::Result<()> {
        let tcp = |name, value| self.set_int(libc::IPPROTO_TCP, name, value);
        match option {
            Set::NoDelay => tcp(libc::TCP_NODELAY, 1),
            Set::Cork(on) => tcp(libc::TCP_CORK, on.into()),
            Set::KeepAlive { idle, interval, count } => {
                self.set_int(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
                tcp(libc::TCP_KEEPIDLE, idle)?;
                tcp(libc::TCP_KEEPINTVL, interval)?;
                tcp(libc::TCP_KEEPCNT, count)
            }
            Set::LingerZero => {
                let linger = [1_u32.to_ne_bytes(), [0; 4]].concat();
                Ok(self.stack.setsockopt(self.fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger)?)
            }
            Set::ReceiveBuffer(size) => self.set_int(libc::SOL_SOCKET, libc::SO_RCVBUF, size),
            Set::Timeout(time) => {
                let micros = u64::from(time.subsec_micros());
                let time = [time.as_secs().to_ne_bytes(), micros.to_ne_bytes()].concat();
                for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
                    self.stack.setsockopt(self.fd, libc::SOL_SOCKET, name, &time)?;
                }
                Ok(())
            }
        }
    }

    fn bind(&self, to: SocketAddrV4) -> io::Result<()> {
        self.set_int(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        Ok(self.stack.bind(self.fd, endpoint(to))?)
    }

    fn listen(&self) -> io::Result<()> {
        Ok(self.stack.listen(self.fd, 8)?)
    }

    fn accept(&self) -> io::Result<Box<dyn Socket>> {
        let (fd, _) = self.stack.accept(self.fd)?;
        Ok(Box::new(OurSocket { stack: self.stack.clone(), fd }))
    }

    fn connect(&self, to: SocketAddrV4) -> io::Result<()> {
        Ok(self.stack.connect(self.fd, endpoint(to))?)
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.stack.recv(self.fd, into, RecvFlags::default())?)
    }

    fn write(&self, data: &[u8]) -> io::Result<usize> {
        Ok(self.stack.send(self.fd, data, SendFlags::default())?)
    }

    fn shut_write(&self) -> io::Result<()> {
        Ok(self.stack.shutdown(self.fd, tcp::Shutdown::Write)?)
    }
}

fn endpoint(addr: SocketAddrV4) -> Endpoint {
    std::net::SocketAddr::V4(addr).into()
}
