//! Goal: the kernel of this machine is a peer like any other: it resolves, connects, sends and receives
//! through a tap, with offloads and without, as root and as nobody.

use super::*;
use crate::tests::testnet::Wait;
use crate::tests::testnet::{Puppet, addr, own_namespace, pattern};
use base::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

fn open_one(config: TapConfig) -> Tap {
    open_tap(&config).expect("a tap").remove(0)
}

fn demo(name: &str) -> TapConfig {
    let host = vec![(addr("10.77.0.1"), 24), (addr("fd77::1"), 64)];
    TapConfig { host, ..TapConfig::new(name) }
}

/// The kernel connects, sends `up` bytes, reads `down` bytes.
fn exchange(config: TapConfig, ours: &str, up: usize, down: usize) -> Puppet<Tap> {
    let ours = addr(ours);
    let mut puppet = Puppet::new(open_one(config), ours, 80);
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(std::net::SocketAddr::new(ours.into(), 80)).expect("connects");
        stream.write_all(&pattern(up)).expect("writes");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("reads");
        stream.shutdown(Shutdown::Write).expect("shuts down");
        got
    });
    assert!(puppet.run(|seen| seen.received.len() == up));
    assert_eq!(puppet.seen.received, pattern(up));
    puppet.send(&pattern(down));
    puppet.finish();
    assert!(puppet.run(|seen| seen.fin));
    assert_eq!(client.join().expect("client"), pattern(down));
    assert_eq!(puppet.seen.bad_checksum, 0);
    puppet
}

#[test]
fn kernel_peer_with_offloads() {
    if !own_namespace() {
        return;
    }
    for ours in ["10.77.0.2", "fd77::2"] {
        let puppet = exchange(demo("ms-a"), ours, 1 << 20, 1 << 20);
        let seen = &puppet.seen;
        assert!(seen.biggest > 30_000, "super-segments arrive whole: {}", seen.biggest);
        assert!(seen.gso > 0 && seen.partial > 0, "{} {}", seen.gso, seen.partial);
        let sent = puppet.port.stats().iter().find(|(name, _)| *name == "tx_packets").unwrap().1;
        assert!(sent < 1 << 20 >> 10, "super-segments leave whole: {sent} frames");
    }
}

/// Waiting packets are taken together, up to a megabyte: one acknowledgment for each flow in it is enough.
#[test]
fn a_batch_takes_a_megabyte() {
    if !own_namespace() {
        return;
    }
    let mut tap = open_one(demo("ms-h"));
    let ifindex = tap.caps().ifindex.unwrap();
    netlink::set_link(ifindex, true, Some(65_521)).unwrap();
    let socket = std::net::UdpSocket::bind("10.77.0.1:0").unwrap();
    socket.set_broadcast(true).unwrap();
    for _ in 0..40 {
        socket.send_to(&[7; 60_000], "10.77.0.255:9").unwrap();
    }
    let mut batch = RxBatch::new();
    tap.rx(&mut batch).unwrap();
    let bytes: usize = batch.iter().map(|packet| packet.frame.len()).sum();
    assert!((1 << 20..(1 << 20) + 65_536).contains(&bytes), "{bytes} of 2,400,000");
    tap.retire_all(&mut batch);
}

#[test]
fn kernel_peer_without_offloads() {
    if !own_namespace() {
        return;
    }
    for ours in ["10.77.0.2", "fd77::2"] {
        let seen = exchange(TapConfig { offload: false, ..demo("ms-b") }, ours, 100_000, 100_000).seen;
        assert!(seen.biggest <= 1514 && seen.gso == 0 && seen.partial == 0, "{}", seen.biggest);
    }
}

#[test]
fn mtu_and_link_state_follow() {
    if !own_namespace() {
        return;
    }
    let mut tap = open_one(TapConfig { mtu: Some(9000), ..demo("ms-c") });
    assert_eq!(tap.caps().mtu, 9000);
    let mut events = Vec::new();
    tap.net_events(&mut events);
    assert!(
        events.contains(&NetEvent::Mtu(9000)) && events.contains(&NetEvent::Link { up: true }),
        "{events:?}"
    );
    assert!(!events.iter().any(|e| matches!(e, NetEvent::AddrAdded { .. } | NetEvent::Mac(_))), "{events:?}");

    let ifindex = tap.caps().ifindex.unwrap();
    netlink::set_link(ifindex, false, Some(1400)).unwrap();
    assert_eq!(tap.wait(Some(Duration::from_secs(2))).unwrap(), Wake::Ready);
    events.clear();
    tap.net_events(&mut events);
    assert_eq!(tap.caps().mtu, 1400);
    assert!(events.contains(&NetEvent::Link { up: false }), "{events:?}");
    let mut frame = tap.take().unwrap();
    frame.set_range(frame.headroom(), 60);
    let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
    assert!(matches!(tap.tx(&mut batch), Err(IoError::Down)));
    assert_eq!(batch.len(), 1, "kept for when the link is back");
    while tap.rx(&mut RxBatch::new()).is_ok_and(|n| n > 0) {}
    assert!(matches!(tap.rx(&mut RxBatch::new()), Err(IoError::Down)));

    netlink::set_link(ifindex, true, None).unwrap();
    assert_eq!(tap.wait(Some(Duration::from_secs(2))).unwrap(), Wake::Ready);
    tap.net_events(&mut events);
    assert_eq!(tap.tx(&mut batch).unwrap(), 1);

    netlink::delete_link(ifindex).unwrap();
    tap.net_events(&mut events);
    assert!(matches!(tap.rx(&mut RxBatch::new()), Err(IoError::Gone)));
}

#[test]
fn queues_share_one_interface() {
    if !own_namespace() {
        return;
    }
    let taps = open_tap(&TapConfig { queues: 3, ..demo("ms-d%d") }).unwrap();
    assert_eq!(taps.len(), 3);
    for (queue, tap) in taps.iter().enumerate() {
        assert_eq!((tap.caps().queue, tap.caps().queues), (queue as u16, 3));
        assert_eq!((tap.caps().name.as_str(), tap.caps().mac), ("tap:ms-d0", taps[0].caps().mac));
    }
    assert!(netlink::interface("ms-d0").unwrap().is_some_and(|i| i.up));
    drop(taps);
    // The kernel takes it away behind the last close, on a busy machine a little later.
    let gone = || netlink::interface("ms-d0").unwrap().is_none();
    for _ in 0..500 {
        if gone() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone(), "goes with its last queue");
}

#[test]
fn wrong_requests_are_refused_not_sent() {
    if !own_namespace() {
        return;
    }
    let mut tap = open_one(demo("ms-e"));
    let checksum = Some(ChecksumOffload { start: 34, offset: 16 });
    let cut = |size, header_len| Some(SegmentationOffload { size, header_len, v6: false });
    let requests = [
        (60, TxMeta { checksum: Some(ChecksumOffload { start: 50, offset: 9 }), segmentation: None }),
        (60, TxMeta { checksum: None, segmentation: cut(10, 54) }),
        (60, TxMeta { checksum, segmentation: cut(0, 54) }),
        (60, TxMeta { checksum, segmentation: cut(10, 60) }),
        (60, TxMeta { checksum, segmentation: cut(10, 51) }),
        (66_000, TxMeta { checksum, segmentation: cut(1000, 54) }),
        (2000, TxMeta::default()),
        (2000, TxMeta { checksum, segmentation: None }),
    ];
    for (len, meta) in requests {
        let mut frame = tap.take().unwrap();
        frame.set_range(frame.headroom(), len);
        assert_eq!(tap.tx(&mut TxBatch::from([TxPacket { frame, meta }])).unwrap(), 1);
    }
    assert_eq!((tap.counts.tx, tap.counts.tx_invalid), (0, requests.len() as u64));
    assert_eq!(tap.pool.available(), SLOTS);
    // The same in pieces: refused, so that the caller queues it.
    let rest = [0; 70_000];
    let mut headers = tap.take().unwrap();
    for (len, meta) in requests {
        headers.set_range(headers.headroom(), 54);
        let payload = [IoSlice::new(&rest[..3]), IoSlice::new(&rest[..len - 57])];
        assert!(!tap.tx_gather(&mut headers, &meta, &payload), "{len} {meta:?}");
    }
    let many = [IoSlice::new(&rest[..1]); PIECES_MAX + 1];
    assert!(!tap.tx_gather(&mut headers, &TxMeta::default(), &many));
    assert_eq!(tap.counts.tx, 0);
    assert!(tap.tx_gather(&mut headers, &TxMeta::default(), &many[1..]));
    assert_eq!((tap.counts.tx, headers.len()), (1, 54));
}

/// Runs in a process of its own: two programs on one tap would have half of each other's connections.
#[test]
#[ignore = "started by a_tap_has_one_program"]
fn another_program() {
    let why = open_tap(&TapConfig::new("ms-one")).err().expect("it is held").to_string();
    let parent = std::os::unix::process::parent_id();
    assert!(why.contains(&format!("(pid {parent})")) && why.contains("stop that first"), "{why}");
}

#[test]
fn a_tap_has_one_program() {
    if !own_namespace() {
        return;
    }
    let held = open_one(TapConfig::new("ms-one"));
    let mut other = std::process::Command::new(std::env::current_exe().expect("a path"));
    other.args(["--exact", "--ignored", "--nocapture", "tap::tests::another_program"]);
    let output = other.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    drop(held);
    drop(open_one(TapConfig::new("ms-one")));
}

#[test]
fn refusals_say_what_to_do() {
    if !own_namespace() {
        return;
    }
    let text = |config: &TapConfig| open_tap(config).err().expect("refused").to_string();
    assert!(text(&TapConfig::new("a-name-of-20-letters")).contains("15"));
    let _held = open_one(TapConfig::new("ms-g"));
    assert!(text(&TapConfig::new("lo")).contains("not a tap"), "{}", text(&TapConfig::new("lo")));
}

/// Runs alone in a process of its own, as `nobody` in a user namespace.
#[test]
#[ignore = "started by nobody_in_a_user_namespace"]
fn as_nobody() {
    assert!(crate::userns::is_privileged());
    exchange(demo("ms-h"), "10.77.0.2", 50_000, 50_000);
}

/// In a child: a device that every user can open, as distributions have it, and no privilege.
fn become_nobody() -> io::Result<()> {
    const NOBODY: u32 = 65534;
    let (private, device) = (libc::MS_REC | libc::MS_PRIVATE, libc::makedev(10, 200));
    let null = std::ptr::null();
    // SAFETY: system calls with constant strings, in a child that execs next.
    unsafe {
        sys::check(libc::unshare(libc::CLONE_NEWNS))?;
        sys::check(libc::mount(null, c"/".as_ptr(), null, private, null.cast()))?;
        sys::check(libc::mount(c"none".as_ptr(), c"/dev/net".as_ptr(), c"tmpfs".as_ptr(), 0, null.cast()))?;
        sys::check(libc::mknod(DEVICE.as_ptr(), libc::S_IFCHR | 0o666, device))?;
        sys::check(libc::chmod(DEVICE.as_ptr(), 0o666))?;
        sys::check(libc::setgroups(0, std::ptr::null()))?;
        sys::check(libc::setgid(NOBODY))?;
        sys::check(libc::setuid(NOBODY)).map(drop)
    }
}

#[test]
fn nobody_in_a_user_namespace() {
    use std::os::unix::process::CommandExt;
    if !own_namespace() {
        return;
    }
    // The build's own folder need not be open to other users.
    let copy = std::env::temp_dir().join(format!("ms-tap-test-{}", std::process::id()));
    // Not by this process: a program that another thread starts meanwhile would hold the copy open, and what a program
    // writes to cannot be run (ETXTBSY).
    let copied = std::process::Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status();
    assert!(copied.unwrap().success());
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--map-root-user", "--net"])
        .arg(&copy)
        .args(["--exact", "tap::tests::as_nobody", "--ignored", "--test-threads=1", "--nocapture"])
        .current_dir("/");
    // SAFETY: `become_nobody` makes system calls only.
    let output = unsafe { command.pre_exec(become_nobody) }.output();
    std::fs::remove_file(&copy).unwrap();
    let output = match output {
        Ok(output) => output,
        Err(error) => return eprintln!("SKIPPED: cannot become nobody here: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if text.contains("unshare: ") {
        return eprintln!("SKIPPED: no user namespace here: {text}");
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
