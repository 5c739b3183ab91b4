//! How fast an XDP port on veth takes one flow from a kernel peer, and what each side pays per KiB.
//!
//! `cargo run --release -p millstream-pio --example xdp_bulk [native|generic] [mtu]`, as root. The receiver
//! acknowledges once per turn and looks at nothing but the headers. Makes namespaces of its own and leaves
//! none behind.
#![allow(clippy::disallowed_methods)] // a measuring program reads clocks

use base::{Addr, Duration, Seq};
use pio::xdp::{XdpConfig, XdpMode, XdpPort, open_xdp_with};
use pio::{Claims, PacketIo, PortClaim, RxBatch, TxBatch, TxMeta, TxPacket, netlink};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;
use wire::packet::{Below, Checksum, Content, Link, parse_frame};
use wire::tcp::{Flags, Header, Options};

const BYTES: usize = 2 << 30;
const PORT: u16 = 80;
const HERE: Addr = Addr::v4([10, 0, 0, 1]);
const THERE: Addr = Addr::v4([10, 0, 0, 2]);

fn own_namespace() -> File {
    // SAFETY: changes only which network this thread sees.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "this needs root");
    File::open("/proc/thread-self/ns/net").unwrap()
}

fn pin(core: usize) {
    // SAFETY: all zero is an empty set; the calls set a bit and hand the set over.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Sends `BYTES` to the port; CPU time spent.
fn send() -> Duration {
    let mut stream = TcpStream::connect(SocketAddr::new(HERE.into(), PORT)).unwrap();
    // Some machines' default paces itself, which would be measured instead.
    // SAFETY: the option is read within its length.
    let rc = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            c"cubic".as_ptr().cast(),
            5,
        )
    };
    assert_eq!(rc, 0, "no cubic here");
    let (data, cpu) = (vec![7; 1 << 20], cpu_time());
    for _ in 0..BYTES / data.len() {
        stream.write_all(&data).unwrap();
    }
    cpu_time() - cpu
}

#[derive(Default)]
struct Receiver {
    link: Option<Link>,
    peer_port: u16,
    expected: Option<Seq>,
    bytes: usize,
    packets: u64,
    biggest: usize,
    /// Out of order: start and end, from where the stream stands.
    early: BTreeMap<usize, usize>,
    misplaced: u64,
}

impl Receiver {
    /// Takes note of a packet of `len` bytes whose headers are in `head`; true if it wants a SYN-ACK.
    fn packet(&mut self, head: &[u8], len: usize) -> bool {
        let Ok(frame) = parse_frame(head, len) else { return false };
        let Content::Ip(ip) = frame.content else { return false };
        let Ok((peer_port, _, segment)) = ip.tcp(head) else { return false };
        if segment.flags.has(Flags::SYN) {
            self.link = Some(Link { dst: frame.link.src, src: frame.link.dst });
            self.peer_port = peer_port;
            self.expected = Some(Seq::new(segment.seq.raw().wrapping_add(1)));
            return true;
        }
        let data = len - (head.len() - segment.payload.len()).min(len);
        self.packets += 1;
        self.biggest = self.biggest.max(len);
        // Packets from two cores of the peer's overtake each other in generic mode.
        let ahead = segment.seq.raw().wrapping_sub(self.expected.unwrap().raw()) as i32;
        self.misplaced += u64::from(ahead != 0);
        let start = (self.bytes as i64 + i64::from(ahead)).max(0) as usize;
        let entry = self.early.entry(start).or_default();
        *entry = (start + data).max(*entry);
        let before = self.bytes;
        while let Some((&start, &end)) =
            self.early.first_key_value().filter(|(start, _)| **start <= self.bytes)
        {
            self.early.remove(&start);
            self.bytes = self.bytes.max(end);
        }
        let moved = (self.bytes - before) as u32;
        self.expected = self.expected.map(|seq| Seq::new(seq.raw().wrapping_add(moved)));
        false
    }

    fn answer(&self, port: &mut XdpPort, flags: Flags, mss: Option<u16>) {
        let mut frame = port.take().unwrap();
        let at = frame.headroom();
        frame.set_range(at, 128);
        let header = Header {
            src_port: PORT,
            dst_port: self.peer_port,
            seq: Seq::new(if mss.is_some() { 0 } else { 1 }),
            ack: self.expected.unwrap(),
            flags,
            // With ten bits of scale 2 MiB: what the receive ring holds, so that nothing is lost.
            window: 2048,
            options: Options { mss, window_scale: mss.map(|_| 10), ..Options::default() },
        };
        let below = Below { link: self.link, src: HERE, dst: THERE, tos: 0, ttl: 64, label: 0 };
        let len = below.emit_tcp(&header, 0, Checksum::Full, frame.data_mut());
        frame.set_range(at, len);
        port.tx(&mut TxBatch::from([TxPacket { frame, meta: TxMeta::default() }])).unwrap();
    }

    fn run(&mut self, port: &mut XdpPort, mtu: usize) {
        let (mut batch, start) = (RxBatch::new(), Instant::now());
        while self.bytes < BYTES {
            if port.rx(&mut batch).unwrap() == 0 {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "too slow: {} bytes, {} packets, {} misplaced, {:?}",
                    self.bytes,
                    self.packets,
                    self.misplaced,
                    port.stats()
                );
                pio::wait([&mut *port], &[], Some(Duration::from_millis(100))).unwrap();
                continue;
            }
            let (mut head, mut len) = (Vec::new(), 0);
            for packet in batch.drain(..) {
                if len == 0 {
                    head.clear();
                    head.extend_from_slice(packet.frame.data().get(..100).unwrap_or(packet.frame.data()));
                }
                len += packet.frame.len();
                let more = packet.meta.more;
                port.retire(packet.frame);
                if !more && self.packet(&head, std::mem::take(&mut len)) {
                    self.answer(port, Flags::SYN | Flags::ACK, Some((mtu - 40) as u16));
                }
            }
            self.answer(port, Flags::ACK, None);
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mode = match args.next().as_deref() {
        Some("generic") => XdpMode::Generic,
        _ => XdpMode::Native,
    };
    let mtu: usize = args.next().map_or(1500, |a| a.parse().unwrap());
    let far = std::thread::spawn(own_namespace).join().unwrap();
    own_namespace();
    let (index, other) = netlink::add_veth("x0", "x1", 1).unwrap();
    netlink::move_link(other, far.as_fd()).unwrap();
    netlink::set_link(index, true, Some(mtu)).unwrap();
    netlink::add_address(index, HERE, 24).unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            // SAFETY: changes only which network this thread sees.
            assert_eq!(unsafe { libc::setns(far.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            let index = netlink::interface("x1").unwrap().unwrap().index;
            netlink::set_link(index, true, Some(mtu)).unwrap();
            netlink::add_address(index, THERE, 24).unwrap();
            pin(1);
            std::thread::sleep(Duration::from_millis(300));
            send()
        });
        pin(0);
        let config = XdpConfig { mode, ..XdpConfig::default() };
        let mut port = open_xdp_with("x0", &config).unwrap().pop().unwrap();
        let (addr, reuse_port, ephemeral, v6_only) = (Addr::UNSPECIFIED_V4, false, false, false);
        port.claim(&PortClaim { addr, port: PORT, reuse_port, ephemeral, v6_only }).unwrap();
        std::thread::sleep(Duration::from_millis(350));
        let (start, cpu, mut receiver) = (Instant::now(), cpu_time(), Receiver::default());
        receiver.run(&mut port, mtu);
        let (time, ours, theirs) = (start.elapsed(), cpu_time() - cpu, sender.join().unwrap());
        let per = |cpu: Duration| cpu.as_nanos() as f64 / (BYTES / 1024) as f64;
        println!(
            "{mode:?}, MTU {mtu}: {:.2} Gbit/s; CPU per KiB: receiver {:.0} ns, sender {:.0} ns; \
             mean packet {} bytes, biggest {}; {} misplaced",
            BYTES as f64 * 8.0 / time.as_secs_f64() / 1e9,
            per(ours),
            per(theirs),
            receiver.bytes / receiver.packets as usize,
            receiver.biggest,
            receiver.misplaced,
        );
        println!("{:?}", port.stats());
    });
}
