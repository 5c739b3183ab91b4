//! How many packets per second an XDP port bounces on a veth pair, and what each costs.
//!
//! ```text
//!   this thread, core 1: sends and receives on x1   <-- veth -->   the bouncer, core 0, on x0: sends back
//! ```
//! `cargo run --release -p millstream-pio --example xdp_bounce [native|generic] [bytes] [in flight]
//! [ring]`, as root.
//! Makes namespaces of its own and leaves none behind.
#![allow(clippy::disallowed_methods)] // a measuring program reads clocks

use base::{Addr, Duration};
use pio::xdp::{XdpConfig, XdpMode, XdpPort, open_xdp_with};
use pio::{BATCH_MAX, Claims, PacketIo, PortClaim, RxBatch, TxBatch, TxMeta, TxPacket, netlink};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const SECONDS: u64 = 3;
const PORT: u16 = 80;

fn own_namespace() -> File {
    // SAFETY: changes only which network this thread sees.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "this needs root");
    File::open("/proc/thread-self/ns/net").unwrap()
}

fn enter(netns: &File) {
    // SAFETY: changes only which network this thread sees.
    assert_eq!(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
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

fn open(name: &str, config: &XdpConfig, local: Addr) -> XdpPort {
    let index = netlink::interface(name).unwrap().unwrap().index;
    netlink::set_link(index, true, None).unwrap();
    netlink::add_address(index, local, 24).unwrap();
    let mut port = open_xdp_with(name, config).unwrap().pop().unwrap();
    let claim = PortClaim {
        addr: Addr::UNSPECIFIED_V4,
        port: PORT,
        reuse_port: false,
        ephemeral: false,
        v6_only: false,
    };
    port.claim(&claim).unwrap();
    port
}

/// Ethernet, IPv4 and TCP headers from `from` to `to`, to the port that both sides claimed.
fn template(from: (Addr, [u8; 6]), to: (Addr, [u8; 6]), len: usize) -> Vec<u8> {
    let mut packet = vec![0; len.max(54)];
    packet[..6].copy_from_slice(&to.1);
    packet[6..12].copy_from_slice(&from.1);
    packet[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    packet[16..18].copy_from_slice(&((len.max(54) - 14) as u16).to_be_bytes());
    packet[22..24].copy_from_slice(&[64, 6]);
    packet[26..30].copy_from_slice(&from.0.v4_bytes().unwrap());
    packet[30..34].copy_from_slice(&to.0.v4_bytes().unwrap());
    packet[34..36].copy_from_slice(&PORT.to_be_bytes());
    packet[36..38].copy_from_slice(&PORT.to_be_bytes());
    packet[46..48].copy_from_slice(&[0x50, 0x10]);
    packet
}

#[derive(Default)]
struct Work {
    packets: u64,
    turns: u64,
    cpu: Duration,
    idle_turns: u64,
}

/// Sends back what comes, with source and destination exchanged.
fn bounce(port: &mut XdpPort, stop: &AtomicBool) -> Work {
    let (mut rx, mut tx) = (RxBatch::with_capacity(BATCH_MAX), TxBatch::with_capacity(2 * BATCH_MAX));
    let mut work = Work::default();
    let start = cpu_time();
    while !stop.load(Ordering::Relaxed) {
        let count = port.rx(&mut rx).unwrap();
        work.turns += 1;
        if count == 0 {
            work.idle_turns += 1;
            pio::wait([&mut *port], &[], Some(Duration::from_millis(10))).unwrap();
            continue;
        }
        for mut packet in rx.drain(..) {
            let data = packet.frame.data_mut();
            let (to, from) = data.split_at_mut(6);
            to.swap_with_slice(&mut from[..6]);
            let (src, dst) = data[26..].split_at_mut(4);
            src.swap_with_slice(&mut dst[..4]);
            tx.push_back(TxPacket { frame: packet.frame, meta: TxMeta::default() });
        }
        work.packets += count as u64;
        while !tx.is_empty() {
            port.tx(&mut tx).unwrap();
        }
    }
    work.cpu = cpu_time() - start;
    work
}

/// Keeps `window` packets on their way.
fn drive(port: &mut XdpPort, packet: &[u8], window: u64) -> Work {
    let (mut rx, mut tx) = (RxBatch::with_capacity(BATCH_MAX), TxBatch::with_capacity(BATCH_MAX));
    let (mut sent, mut work) = (0, Work::default());
    let (start, mut last, cpu) = (Instant::now(), Instant::now(), cpu_time());
    while start.elapsed() < Duration::from_secs(SECONDS) {
        for back in rx.drain(..) {
            port.retire(back.frame);
        }
        let burst = (window - (sent - work.packets)).min(BATCH_MAX as u64);
        for _ in 0..burst {
            let mut frame = port.take().unwrap();
            let at = frame.headroom();
            frame.set_range(at, packet.len());
            frame.data_mut().copy_from_slice(packet);
            tx.push_back(TxPacket { frame, meta: TxMeta::default() });
        }
        sent += burst;
        port.tx(&mut tx).unwrap();
        let count = port.rx(&mut rx).unwrap() as u64;
        work.packets += count;
        work.turns += 1;
        if count > 0 {
            last = Instant::now();
        } else if last.elapsed() > Duration::from_millis(200) {
            println!("{} packets lost on the way", sent - work.packets);
            sent = work.packets;
        } else if burst == 0 {
            pio::wait([&mut *port], &[], Some(Duration::from_millis(1))).unwrap();
        }
    }
    work.cpu = cpu_time() - cpu;
    work
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mode = match args.next().as_deref() {
        Some("generic") => XdpMode::Generic,
        _ => XdpMode::Native,
    };
    let len: usize = args.next().map_or(60, |a| a.parse().unwrap());
    let window: u64 = args.next().map_or(256, |a| a.parse().unwrap());
    let mut config = XdpConfig { mode, ..XdpConfig::default() };
    if let Some(ring) = args.next() {
        config.rx_ring = ring.parse().unwrap();
        config.tx_ring = config.rx_ring.min(config.tx_ring);
    }

    let far = own_namespace();
    let near = own_namespace();
    let (_, other) = netlink::add_veth("x0", "x1", 1).unwrap();
    netlink::move_link(other, far.as_fd()).unwrap();
    let (here, there) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
    let mut bouncer = open("x0", &config, here);
    enter(&far);
    let mut driver = open("x1", &config, there);
    let packet = template((there, driver.caps().mac), (here, bouncer.caps().mac), len);

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = || {
            enter(&near);
            pin(0);
            bounce(&mut bouncer, &stop)
        };
        // By its name a profiler tells it from the other.
        let thread = std::thread::Builder::new().name("bouncer".into()).spawn_scoped(scope, work).unwrap();
        pin(1);
        let driven = drive(&mut driver, &packet, window);
        stop.store(true, Ordering::Relaxed);
        let bounced = thread.join().unwrap();
        let per = |work: &Work| work.cpu.as_nanos() as f64 / work.packets as f64;
        println!(
            "{mode:?}, {len} bytes, {window} in flight: {:.0} packets/s there and back; CPU per packet: \
             bouncer {:.0} ns ({:.1} packets a turn, {} idle turns), driver {:.0} ns",
            driven.packets as f64 / SECONDS as f64,
            per(&bounced),
            bounced.packets as f64 / (bounced.turns - bounced.idle_turns) as f64,
            bounced.idle_turns,
            per(&driven),
        );
    });
    println!("bouncer: {:?}", bouncer.stats());
}
