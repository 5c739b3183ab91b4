//! An end on the kernel: a network namespace with nothing in it but a tap, whose other end is the path.

use crate::path::{End, Path};
use crate::play::{Host, Set, Socket};
use base::{Addr, Duration};
use pio::{PacketIo, RxBatch, Tap, TapConfig, TxBatch, TxMeta, TxPacket};
use ring::Sleeper;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::net::{self, sockopt};
use std::fs::File;
use std::io;
use std::net::SocketAddrV4;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sock::{Clock, SystemClock};

/// Sysctls of every script, so that neither the machine nor the script before decides. The kernel's own choices
/// otherwise.
const SYSCTLS: [(&str, &str); 9] = [
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_autocorking", "0"),
    ("net.ipv4.tcp_fastopen", "0"),
    ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
    ("net.ipv4.tcp_wmem", "4096 131072 4194304"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_window_scaling", "1"),
];
const MTU: usize = 1500;

/// A namespace. Nothing is left of it when its threads and descriptors end.
pub(crate) struct Namespace {
    netns: File,
    tap: Tap,
}

impl Namespace {
    /// A namespace whose kernel has this address.
    pub(crate) fn new(addr: [u8; 4]) -> Result<Namespace, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ms-diff-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name])?;
        let netns = File::open(format!("/run/netns/{name}")).map_err(|e| format!("{name}: {e}"));
        // The open file keeps it.
        ip(&["netns", "del", &name])?;
        let netns = netns?;
        let tap = within(&netns, || open_tap(addr))?;
        Ok(Namespace { netns, tap })
    }

    /// Settings for the next script.
    pub(crate) fn prepare(&self, sysctls: &[(&str, &str)], mtu: Option<usize>) -> Result<(), String> {
        let index = self.tap.caps().ifindex.ok_or("the tap has no index")?;
        within(&self.netns, || {
            pio::netlink::set_link(index, true, Some(mtu.unwrap_or(MTU))).map_err(|e| e.to_string())?;
            SYSCTLS.iter().chain(sysctls).try_for_each(|(name, value)| {
                let path = format!("/proc/sys/{}", name.replace('.', "/"));
                std::fs::write(&path, value).map_err(|e| format!("{path} = {value}: {e}"))
            })
        })
    }

    /// The namespace for a thread that plays in it, and the tap for the one that turns the path.
    pub(crate) fn parts(&mut self) -> (&File, &mut Tap) {
        (&self.netns, &mut self.tap)
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output().map_err(|e| format!("ip: {e}"))?;
    let why = || format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(()).ok_or_else(why)
}

fn open_tap(addr: [u8; 4]) -> Result<Tap, String> {
    let config = TapConfig { offload: false, mtu: Some(MTU), ..TapConfig::new("ms0") };
    let tap = pio::open_tap(&config).map_err(|e| e.to_string())?.pop().ok_or("no queue")?;
    let index = tap.caps().ifindex.ok_or("the tap has no index")?;
    pio::netlink::add_address(index, Addr::v4(addr), 24).map_err(|e| e.to_string())?;
    Ok(tap)
}

/// Runs `work` in a namespace, on a thread of its own.
fn within<R: Send>(netns: &File, work: impl FnOnce() -> Result<R, String> + Send) -> Result<R, String> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(netns)?;
            work()
        });
        thread.join().map_err(|_| "a thread in a namespace panicked".to_owned())?
    })
}

/// The calling thread lives in `netns` from now on.
pub(crate) fn enter(netns: &File) -> Result<(), String> {
    let network = rustix::thread::LinkNameSpaceType::Network;
    rustix::thread::move_into_link_name_space(netns.as_fd(), Some(network)).map_err(|e| e.to_string())
}

/// Carries frames between a tap and the path until told to stop.
pub(crate) fn turn(
    tap: &mut Tap,
    path: &Path,
    (end, mut bell): (End, Sleeper),
    stop: &AtomicBool,
) -> Result<(), String> {
    let (clock, mut received, mut sent) = (SystemClock::new(), RxBatch::new(), TxBatch::new());
    while !stop.load(Ordering::Acquire) {
        pio::NetEvents::net_events(tap, &mut Vec::new());
        let got = tap.rx(&mut received).map_err(|e| format!("{e:?}"))?;
        for packet in received.drain(..) {
            path.enter(end, packet.frame.data(), clock.now());
            tap.retire(packet.frame);
        }
        while let Some(bytes) = path.arrived(end, clock.now()) {
            let mut frame = tap.take().ok_or("no frame")?;
            let start = frame.headroom();
            frame.set_range(start, bytes.len());
            frame.data_mut().copy_from_slice(&bytes);
            sent.push_back(TxPacket { frame, meta: TxMeta::default() });
        }
        tap.tx(&mut sent).map_err(|e| format!("{e:?}"))?;
        if got == 0 {
            let most = Duration::from_millis(100);
            let time = path.next(end).map_or(most, |at| at.since(clock.now()).min(most));
            pio::wait([tap], &[bell.fd().as_raw_fd()], Some(time)).map_err(|e| format!("{e:?}"))?;
            bell.drain();
        }
    }
    Ok(())
}

/// The kernel's sockets, of the namespace in which the calling thread lives.
pub(crate) struct Kernel;

impl Host for Kernel {
    fn socket(&self) -> io::Result<Box<dyn Socket>> {
        let fd = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
        // Ours, whatever this machine's default is.
        sockopt::set_tcp_congestion(&fd, cc::Cubic::NAME)?;
        Ok(Box::new(KernelSocket(fd)))
    }
}

struct KernelSocket(OwnedFd);

impl Socket for KernelSocket {
    fn set(&self, option: Set) -> io::Result<()> {
        let fd = &self.0;
        match option {
            Set::NoDelay => sockopt::set_tcp_nodelay(fd, true)?,
            Set::Cork(on) => sockopt::set_tcp_cork(fd, on)?,
            Set::KeepAlive { idle, interval, count } => {
                sockopt::set_socket_keepalive(fd, true)?;
                sockopt::set_tcp_keepidle(fd, Duration::from_secs(idle.into()))?;
                sockopt::set_tcp_keepintvl(fd, Duration::from_secs(interval.into()))?;
                sockopt::set_tcp_keepcnt(fd, count)?;
            }
            Set::LingerZero => sockopt::set_socket_linger(fd, Some(Duration::ZERO))?,
            Set::ReceiveBuffer(size) => sockopt::set_socket_recv_buffer_size(fd, size as usize)?,
            Set::Timeout(time) => {
                sockopt::set_socket_timeout(fd, sockopt::Timeout::Recv, Some(time))?;
                sockopt::set_socket_timeout(fd, sockopt::Timeout::Send, Some(time))?;
            }
        }
        Ok(())
    }

    fn bind(&self, to: SocketAddrV4) -> io::Result<()> {
        sockopt::set_socket_reuseaddr(&self.0, true)?;
        Ok(net::bind(&self.0, &to)?)
    }

    fn listen(&self) -> io::Result<()> {
        Ok(net::listen(&self.0, 8)?)
    }

    fn accept(&self) -> io::Result<Box<dyn Socket>> {
        Ok(Box::new(KernelSocket(net::accept(&self.0)?)))
    }

    fn connect(&self, to: SocketAddrV4) -> io::Result<()> {
        Ok(net::connect(&self.0, &to)?)
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(net::recv(&self.0, into, net::RecvFlags::empty())?.0)
    }

    fn write(&self, data: &[u8]) -> io::Result<usize> {
        Ok(net::send(&self.0, data, net::SendFlags::NOSIGNAL)?)
    }

    fn shut_write(&self) -> io::Result<()> {
        Ok(net::shutdown(&self.0, net::Shutdown::Write)?)
    }
}
