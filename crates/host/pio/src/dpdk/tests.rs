//! Goal: frames keep one owner and their bytes over DPDK's software devices, and a kernel at the other end is a peer
//! like any other; what cannot be opened says what to do.
//!
//! All tests share one environment, as links of one process do. They have device numbers of their own.

use super::*;
use crate::netlink;
use crate::open::open;
use crate::sys;
use crate::tests::testnet::Wait;
use crate::tests::testnet::{Puppet, addr, cable, own_namespace, pattern, within};
use base::Duration;
use base::Rng;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};

/// Of the device `written` as a user writes it.
fn config(written: &str) -> DpdkConfig {
    let (device, rest) = written.split_once(',').unwrap_or((written, ""));
    let arguments = rest.split(',').filter(|word| !word.is_empty()).map(Into::into).collect();
    DpdkConfig { arguments, ..DpdkConfig::new(device) }
}

fn open_one(config: &DpdkConfig) -> Dpdk {
    open_dpdk(config).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

fn stat(port: &Dpdk, name: &str) -> u64 {
    port.stats().iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
}

fn refusal(written: &str, queues: u16) -> String {
    open(written, queues).err().unwrap_or_else(|| panic!("{written} was opened")).to_string()
}

#[test]
fn both_languages_mean_the_same_structures() {
    let mut sizes = [0; 4];
    // SAFETY: room for four sizes.
    unsafe { ffi::ms_dpdk_sizes(sizes.as_mut_ptr()) };
    let ours =
        [size_of::<ffi::Info>(), size_of::<ffi::Setup>(), size_of::<Received>(), size_of::<TxRequest>()];
    assert_eq!(sizes, ours);
}

/// A frame of `bytes`, from `port`.
fn packet(port: &mut Dpdk, bytes: &[u8]) -> TxPacket {
    let mut frame = port.take().expect("a frame");
    assert_eq!((frame.headroom(), frame.len()), (port.caps().headroom, 0));
    frame.set_range(frame.headroom(), bytes.len());
    frame.data_mut().copy_from_slice(bytes);
    TxPacket { frame, meta: TxMeta::default() }
}

/// Packets sent to `net_ring` come back in the very buffers it left in: frames sent, received, held and given back
/// in any order, against a plain list.
#[test]
fn frames_have_one_owner_and_keep_their_bytes() {
    let mut port = open_one(&config("net_ring0"));
    for seed in 0..20 {
        eprintln!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut under_way = std::collections::VecDeque::new();
        let mut held = Vec::new();
        let mut batch = RxBatch::new();
        for _ in 0..400 {
            match rng.below(4) {
                0 | 1 => {
                    let mut sending = TxBatch::new();
                    for _ in 0..rng.below(80) {
                        let bytes: Vec<u8> =
                            (0..60 + rng.below(1400)).map(|_| rng.next_u32() as u8).collect();
                        sending.push_back(packet(&mut port, &bytes));
                        under_way.push_back(bytes);
                    }
                    port.tx(&mut sending).expect("sends");
                    // What the ring has no room for stays, in order.
                    for packet in sending.into_iter().rev() {
                        assert_eq!(under_way.pop_back().as_deref(), Some(packet.frame.data()));
                        port.retire(packet.frame);
                    }
                }
                2 => {
                    port.rx(&mut batch).expect("receives");
                    for packet in batch.drain(..) {
                        assert_eq!(under_way.pop_front().as_deref(), Some(packet.frame.data()));
                        held.push((packet.frame.data().to_vec(), packet.frame));
                    }
                }
                _ => {
                    for _ in 0..rng.below(100).min(held.len() as u64) {
                        let (bytes, frame) = held.swap_remove(rng.below(held.len() as u64) as usize);
                        assert_eq!(frame.data(), bytes, "nothing else writes to it");
                        port.retire(frame);
                    }
                }
            }
            if held.len() > 1000 {
                held.drain(..500).for_each(|(_, frame)| port.retire(frame));
            }
        }
        while !under_way.is_empty() {
            port.rx(&mut batch).expect("receives");
            for packet in batch.drain(..) {
                assert_eq!(under_way.pop_front().as_deref(), Some(packet.frame.data()));
                port.retire(packet.frame);
            }
        }
        held.drain(..).for_each(|(_, frame)| port.retire(frame));
    }
    assert_eq!((stat(&port, "rx_copied"), stat(&port, "rx_dropped"), stat(&port, "frames_lost")), (0, 0, 0));
    assert!(stat(&port, "rx_packets") > 10_000);
    // None went astray: all of them can be had at once.
    let all: Vec<_> = std::iter::from_fn(|| port.take()).collect();
    let count = u32::from(port.device.info.rx_desc) + u32::from(port.device.info.tx_desc) + 2048;
    assert!(all.len() as u32 > count - 600, "{} of {count}: a cache keeps some", all.len());
    let again = all.len();
    all.into_iter().for_each(|frame| port.retire(frame));
    let all: Vec<_> = std::iter::from_fn(|| port.take()).collect();
    assert_eq!(all.len(), again);
    all.into_iter().for_each(|frame| port.retire(frame));
}

/// Two devices on one ring: one receives what lies in the other's buffers, and copies it.
#[test]
fn buffers_of_another_device_are_copied_and_go_back() {
    let mut a = open_one(&config("net_ring10"));
    let mut b = open_one(&config("net_ring11"));
    let mut batch = RxBatch::new();
    let hand = |a: &mut Dpdk, bytes: &[u8]| {
        let frame = packet(a, bytes).frame;
        let mbuf = a.describe(frame, &TxRequest::default());
        // SAFETY: a described mbuf that nothing else has, and the ring's name.
        assert_eq!(unsafe { ffi::ms_dpdk_test_hand(c"ETH_RXTX0_net_ring11".as_ptr(), mbuf) }, 0);
    };
    // More than the one has frames: each goes back to its owner.
    for round in 0..300 {
        let bytes = pattern(60 + round * 5);
        (0..32).for_each(|_| hand(&mut a, &bytes));
        assert_eq!(b.rx(&mut batch).expect("receives"), 32);
        for packet in batch.drain(..) {
            assert_eq!(packet.frame.data(), bytes);
            b.retire(packet.frame);
        }
    }
    assert_eq!((stat(&b, "rx_copied"), stat(&b, "rx_dropped")), (9600, 0));
    // The one goes while the other holds its buffers.
    (0..8).for_each(|_| hand(&mut a, &[9; 100]));
    drop(a);
    assert_eq!(b.rx(&mut batch).expect("receives"), 8);
    assert!(batch.iter().all(|packet| packet.frame.data() == [9; 100]));
    batch.drain(..).for_each(|packet| b.retire(packet.frame));
}

/// `net_pcap` plays a capture back: what is longer than a buffer comes in several, and in one frame if it fits.
#[test]
fn packets_in_several_buffers_are_put_together() {
    let path = std::env::temp_dir().join(format!("ms-dpdk-{}.pcap", std::process::id()));
    let mut file = Vec::new();
    // Magic, version 2.4, zone, accuracy, longest packet, Ethernet.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_ne_bytes());
    }
    // Buffers of a slot start at several places of it, so the longest that fits a frame fits some buffers.
    let lengths: Vec<usize> = [60, 2048].into_iter().chain([2176; 64]).chain([9000, 100]).collect();
    for &len in &lengths {
        for word in [0, 0, len as u32, len as u32] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(pattern(len));
    }
    std::fs::write(&path, file).expect("a file");
    let mut port = open_one(&config(&format!("net_pcap15,rx_pcap={}", path.display())));
    std::fs::remove_file(&path).expect("ours");
    let mut batch = RxBatch::new();
    let mut got = Vec::new();
    while stat(&port, "rx_packets") + stat(&port, "rx_dropped") < lengths.len() as u64 {
        port.rx(&mut batch).expect("receives");
        for packet in batch.drain(..) {
            assert_eq!(packet.frame.data(), pattern(packet.frame.len()));
            got.push(packet.frame.len());
            port.retire(packet.frame);
        }
    }
    assert!(got.iter().eq(lengths.iter().filter(|len| **len != 9000)), "{got:?}");
    assert_eq!(stat(&port, "rx_dropped"), 1);
    assert!((1..64).contains(&stat(&port, "rx_copied")));
}

#[test]
fn what_has_no_room_stays_in_order() {
    let mut port = open_one(&DpdkConfig { tx_ring: 64, ..config("net_ring20") });
    let mut sending = TxBatch::new();
    let mut number = 0u32;
    // The ring of the device holds a thousand.
    while sending.is_empty() {
        assert!(number < 5000, "back-pressure at last");
        for _ in 0..32 {
            sending.push_back(packet(&mut port, &[&number.to_be_bytes()[..], &[0; 60]].concat()));
            number += 1;
        }
        port.tx(&mut sending).expect("sends");
    }
    assert!(stat(&port, "tx_full") > 0);
    let (mut batch, mut expected) = (RxBatch::new(), 0u32);
    while expected < number {
        port.tx(&mut sending).expect("sends");
        assert!(port.rx(&mut batch).expect("receives") > 0);
        for packet in batch.drain(..) {
            assert_eq!(packet.frame.data()[..4], expected.to_be_bytes());
            expected += 1;
            port.retire(packet.frame);
        }
    }
}

#[test]
fn wrong_requests_are_refused_not_sent() {
    let mut port = open_one(&config("net_ring30"));
    assert_eq!((port.caps().tx_checksum, port.caps().tso_max, port.gather().is_none()), (false, 0, true));
    let checksum = Some(ChecksumOffload { start: 34, offset: 16 });
    let cut = Some(SegmentationOffload { size: 10, header_len: 54, v6: false });
    for meta in [TxMeta { checksum, segmentation: None }, TxMeta { checksum, segmentation: cut }] {
        let mut sending = TxBatch::from([TxPacket { meta, ..packet(&mut port, &[0; 100]) }]);
        assert_eq!(port.tx(&mut sending).expect("is refused"), 1);
    }
    let too_long = port.caps().mtu + LINK + 1;
    let mut sending = TxBatch::from([packet(&mut port, &vec![0; too_long])]);
    let mut outside = packet(&mut port, &[0; 100]);
    outside.frame.set_range(START - 1, 100);
    sending.extend([outside, packet(&mut port, &[])]);
    assert_eq!(port.tx(&mut sending).expect("is refused"), 3);
    assert_eq!((stat(&port, "tx_invalid"), stat(&port, "tx_packets")), (5, 0));
    assert_eq!(port.rx(&mut RxBatch::new()).expect("nothing"), 0);
}

/// The kernel connects, sends `up` bytes, reads `down` bytes.
fn exchange(puppet: &mut Puppet<Dpdk>, ours: IpAddr, up: usize, down: usize, far: Option<&std::fs::File>) {
    let talk = move || {
        let mut stream = TcpStream::connect(SocketAddr::new(ours, 80)).expect("connects");
        stream.write_all(&pattern(up)).expect("writes");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("reads");
        stream.shutdown(Shutdown::Write).expect("shuts down");
        got
    };
    let far = far.map(|far| far.try_clone().expect("a descriptor"));
    let client = std::thread::spawn(move || far.map_or_else(talk, |far| within(&far, talk)));
    assert!(puppet.run(|seen| seen.received.len() == up));
    assert_eq!(puppet.seen.received, pattern(up));
    puppet.send(&pattern(down));
    puppet.finish();
    assert!(puppet.run(|seen| seen.fin));
    assert_eq!(client.join().expect("client"), pattern(down));
    assert_eq!(puppet.seen.bad_checksum, 0);
}

/// The kernel's end of a tap gets its addresses.
fn address(name: &str, net: u8) {
    let index = sys::index_of(name).expect("is there");
    netlink::set_link(index, true, None).expect("comes up");
    netlink::add_address(index, addr(&format!("10.{net}.0.1")), 24).expect("an address");
    netlink::add_address(index, addr(&format!("fd{net}::1")), 64).expect("an address");
}

#[test]
fn kernel_peer_behind_a_tap() {
    if !own_namespace() {
        return;
    }
    for (offload, device) in [(true, "net_tap40"), (false, "net_tap41")] {
        for ours in ["10.41.0.2", "fd41::2"] {
            let port = open_one(&DpdkConfig { offload, ..config(&format!("{device},iface=ms-d{offload}")) });
            address(&format!("ms-d{offload}"), 41);
            let caps = port.caps();
            assert_eq!((caps.tx_checksum, caps.tso_max), (offload, 0));
            assert!(port.has_interrupts() && caps.mtu == 1500 && !caps.shares_kernel_addresses);
            let told = ["interrupts", "tx_checksum", "tx_segments"].map(|name| stat(&port, name));
            assert_eq!(told, [1, u64::from(offload), 0]);
            let mut puppet = Puppet::new(port, addr(ours), 80);
            exchange(&mut puppet, ours.parse().unwrap(), 300_000, 300_000, None);
            assert_eq!(stat(&puppet.port, "rx_dropped"), 0);
        }
    }
}

/// A super-segment is a chain of buffers that says how it is to be cut; all of them come back.
#[test]
fn pieces_leave_as_one() {
    let mut port = open_one(&config("net_ring50"));
    // The device does not cut. What is asked of one that does is seen before it would.
    (port.caps.tx_checksum, port.caps.tso_max) = (true, SUPER);
    let whole = pattern(40_000);
    let headers = |v6: bool| {
        let mut headers = pattern(if v6 { 86 } else { 66 });
        headers[12..14].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
        // A TCP header of 32 bytes.
        headers[if v6 { 66 } else { 46 }] = 8 << 4;
        headers
    };
    for round in 0..1000 {
        let (v6, len) = (round % 2 == 1, 2049 + round * 37);
        let headers = headers(v6);
        let start = headers.len() as u16 - 32;
        let meta = TxMeta {
            checksum: Some(ChecksumOffload { start, offset: 16 }),
            segmentation: Some(SegmentationOffload { size: 1400, header_len: headers.len() as u16, v6 }),
        };
        let mut frame = port.take().expect("a frame");
        frame.set_range(START, headers.len());
        frame.data_mut().copy_from_slice(&headers);
        let pieces: Vec<_> = whole[..len].chunks(999).map(IoSlice::new).collect();
        let sent = port.tx_gather(&mut frame, &meta, &pieces);
        port.retire(frame);
        assert!(sent, "{:?}", port.stats());
        let mut came =
            [Received { mbuf: std::ptr::null_mut(), data: std::ptr::null(), len: 0, sum: 0, ours: 0 }];
        let mut bytes = vec![0; 65_536];
        let mut seen = [0; 7];
        // SAFETY: the port's own queue and pool; a packet that was received, and room for it and for what it says.
        unsafe {
            assert_eq!(
                ffi::ms_dpdk_rx(port.device.port, 0, port.frames().mempool(), came.as_mut_ptr(), 1),
                1
            );
            let copied = ffi::ms_dpdk_copy(came[0].mbuf, bytes.as_mut_ptr(), 65_536);
            bytes.truncate(copied as usize);
            ffi::ms_dpdk_test_look(came[0].mbuf, seen.as_mut_ptr());
            ffi::ms_dpdk_free(came[0].mbuf);
        }
        assert!(bytes[..headers.len()] == headers && bytes[headers.len()..] == whole[..len]);
        let buffers = (headers.len() + len).div_ceil(4096 - START) as u32;
        // Link, network, transport, segment; is the IPv4 header summed; buffers; is it to be cut.
        let network = if v6 { 40 } else { 20 };
        assert_eq!(seen, [14, network, 32, 1400, u32::from(!v6), buffers, 1]);
    }
    assert_eq!(
        (stat(&port, "tx_packets"), stat(&port, "no_frame"), stat(&port, "frames_lost")),
        (1000, 0, 0)
    );
}

/// Long frames leave as chains with the content of a frame in one piece; packets without frames left for a chain
/// stay in the batch.
#[test]
fn long_frames_leave_as_chains() {
    let mut port = open_one(&config("net_ring51"));
    (port.caps.tx_checksum, port.caps.tso_max) = (true, SUPER);
    port.long = Some(FramePool::new(LONG, LONG_SLOT).expect("memory"));
    let build = |port: &mut Dpdk| {
        let mut frame = port.take_long().expect("a long frame");
        frame.set_range(frame.headroom(), 60_000);
        frame.data_mut()[12..14].copy_from_slice(&[0x08, 0x00]);
        frame.data_mut()[46] = 5 << 4;
        let checksum = Some(ChecksumOffload { start: 34, offset: 16 });
        let segmentation = Some(SegmentationOffload { size: 1460, header_len: 54, v6: false });
        TxPacket { frame, meta: TxMeta { checksum, segmentation } }
    };
    let mut sending = TxBatch::from([build(&mut port)]);
    assert_eq!(port.tx(&mut sending).expect("sends"), 1);
    let all: Vec<_> = std::iter::from_fn(|| port.take()).collect();
    let mut sending = TxBatch::from([build(&mut port)]);
    assert_eq!(port.tx(&mut sending).expect("waits"), 0);
    assert_eq!(sending.len(), 1);
    all.into_iter().for_each(|frame| port.retire(frame));
    assert_eq!(port.tx(&mut sending).expect("sends"), 1);
    // They are longer than any frame, and so nothing that a port of this kind receives.
    assert_eq!(port.rx(&mut RxBatch::new()).expect("receives"), 0);
    assert_eq!(stat(&port, "rx_dropped"), 2);
    assert_eq!(port.long.as_ref().map(FramePool::available), Some(LONG));
}

#[test]
fn kernel_peer_behind_a_cable() {
    if !own_namespace() {
        return;
    }
    let (_index, far) = cable("ms-d60", "ms-d61", 60);
    // This driver takes frames as they travel, no larger than an MTU and with their checksums.
    within(&far, || {
        let mut ethtool = std::process::Command::new("ethtool");
        let output = ethtool.args(["-K", "ms-d61", "tx", "off", "tso", "off", "gso", "off"]).output();
        assert!(output.expect("ethtool runs").status.success());
    });
    for ours in ["10.60.0.3", "fd00:60::3"] {
        let port = open_one(&config("net_af_packet60,iface=ms-d60"));
        assert!(!port.has_interrupts() && port.caps().tso_max == 0);
        assert_eq!((stat(&port, "interrupts"), stat(&port, "tx_segments")), (0, 0));
        let mut puppet = Puppet::new(port, addr(ours), 80);
        exchange(&mut puppet, ours.parse().unwrap(), 100_000, 100_000, Some(&far));
    }
}

/// Signals that other tests' taps send to the process end no sleep of this thread.
fn undisturbed() {
    // SAFETY: all zero is a valid set, which is filled, and changes what this thread hears.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

#[test]
fn sleeps_end_in_time() {
    undisturbed();
    let mut port = open_one(&config("net_ring70"));
    assert!(!port.has_interrupts());
    let begin = sys::monotonic();
    assert_ne!(port.wait(None).expect("waits"), Wake::Timeout);
    let took = sys::monotonic() - begin;
    assert!(took >= Duration::from_micros(50), "{took:?}");

    // The sleeper is woken to look, though the device says nothing.
    let mut sending = TxBatch::from([packet(&mut port, &[1; 60])]);
    let mut fds = Vec::new();
    assert!(port.arm(&mut fds).expect("arms"));
    port.tx(&mut sending).expect("sends");
    assert_eq!(crate::sleep_on(&fds, Some(Duration::from_secs(10))).expect("polls"), Wake::Ready);
    assert!(!port.arm(&mut fds).expect("arms"));
    let mut batch = RxBatch::new();
    assert_eq!(port.rx(&mut batch).expect("receives"), 1);
    batch.drain(..).for_each(|packet| port.retire(packet.frame));
}

#[test]
fn interrupts_end_sleeps() {
    if !own_namespace() {
        return;
    }
    let mut port = open_one(&config("net_tap80,iface=ms-d80"));
    assert!(port.has_interrupts());
    address("ms-d80", 80);
    let mut batch = RxBatch::new();
    let mut came = 0;
    // What the kernel says by itself when an interface comes up.
    let mut fds = Vec::new();
    let mut heard = |port: &mut Dpdk, most| {
        fds.clear();
        // Not for want of time: the second descriptor is the timer of a look without an interrupt.
        match port.arm(&mut fds).expect("arms") {
            true => crate::sleep_on(&fds[..1], Some(Duration::from_millis(most))).expect("sleeps"),
            false => Wake::Ready,
        }
    };
    while heard(&mut port, 200) != Wake::Timeout {
        port.rx(&mut batch).expect("receives");
        batch.drain(..).for_each(|packet| port.retire(packet.frame));
    }
    for _ in 0..20 {
        let socket = std::net::UdpSocket::bind("10.80.0.1:0").expect("binds");
        socket.set_broadcast(true).expect("may");
        socket.send_to(b"hello", "10.80.0.255:9").expect("sends");
        // The driver sends signals, which end any sleep of the process.
        while match heard(&mut port, 10_000) {
            Wake::Interrupted => true,
            Wake::Timeout => panic!("nothing woke us"),
            Wake::Ready => false,
        } {}
        while port.wait(Some(Duration::ZERO)).expect("waits") == Wake::Ready {
            port.rx(&mut batch).expect("receives");
            came += batch.len();
            batch.drain(..).for_each(|packet| port.retire(packet.frame));
        }
    }
    assert!(came >= 20, "{came} packets came");
}

#[test]
fn queues_share_one_device() {
    let ports = open("dpdk:net_ring90", 3).expect("three queues");
    assert_eq!(ports.len(), 3);
    for (queue, port) in ports.iter().enumerate() {
        let caps = port.caps();
        assert_eq!((caps.queue, caps.queues, caps.name.as_str()), (queue as u16, 3, "dpdk:net_ring90"));
    }
    let said = refusal("dpdk:net_ring90", 1);
    assert!(said.contains("is in use") && said.contains("queues=N"), "{said}");
    // Queue by queue, in any order; then it can be had again.
    let mut ports = ports;
    drop(ports.remove(1));
    let said = refusal("dpdk:net_ring90", 1);
    assert!(said.contains("is in use"), "{said}");
    drop(ports);
    drop(open("dpdk:net_ring90,mtu=9000", 1).expect("free again"));
}

#[test]
fn news_of_the_link() {
    let mut port = open_one(&DpdkConfig { mtu: Some(9000), ..config("net_ring100") });
    let mut events = Vec::new();
    port.net_events(&mut events);
    assert_eq!(events, [NetEvent::Mtu(9000), NetEvent::Link { up: true }]);
    let bytes = pattern(9000);
    let mut sending = TxBatch::from([packet(&mut port, &bytes)]);
    assert_eq!(port.tx(&mut sending).expect("sends"), 1);
    let mut batch = RxBatch::new();
    assert_eq!(port.rx(&mut batch).expect("receives"), 1);
    assert_eq!(batch[0].frame.data(), bytes);
    batch.drain(..).for_each(|packet| port.retire(packet.frame));
    events.clear();
    (0..1000).for_each(|_| port.net_events(&mut events));
    assert!(events.is_empty());
}

#[test]
fn refusals_help() {
    for (written, queues, hints) in [
        ("dpdk:net_ring110,rx_ring=many", 1, ["rx_ring is a number", "many"]),
        ("dpdk:net_ring110,mtu=60000", 1, ["MTU of 60000", "it takes 68 to"]),
        ("dpdk:net_ring110", 64, ["64 cores", "it has 16 queues"]),
        ("dpdk:nonsense", 1, ["nonsense", "net_tap0,iface=NAME"]),
        ("dpdk:0000:ff:1f.7", 1, ["0000:ff:1f.7", "dpdk-devbind.py"]),
        ("dpdk:net_af_packet111,iface=ms-none", 1, ["net_af_packet111", "librte-net-"]),
        ("dpdk:net_ring110,eal=--file-prefix=other", 1, ["in use", "only once"]),
    ] {
        // The environment runs already.
        drop(open("dpdk:net_ring119", 1).map(drop));
        let said = refusal(written, queues);
        for hint in hints {
            assert!(said.contains(hint), "{written}: {said}");
        }
    }
    // What was refused can be had afterwards.
    drop(open("dpdk:net_ring110", 2).expect("opens"));
}
