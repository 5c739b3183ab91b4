//! Goal: whatever happens to the interface or to us, the port says so, comes back if it can, and leaves
//! nothing behind.
#![allow(clippy::disallowed_methods)] // real interfaces take real time

use super::host::{Cable, OURS, PEER, listener, open_xdp};
use crate::tests::testnet::Wait;
use crate::tests::testnet::{Puppet, addr, pattern};
use crate::xdp::device::Device;
use crate::xdp::{NATIVE_FIRST, XdpConfig, open_ports};
use crate::{Claims, NetEvents};
use crate::{IoError, NetEvent, OpenError, PacketIo, RxBatch, TxBatch, TxMeta, TxPacket, Wake, netlink};
use base::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Instant;

fn to(port: u16) -> SocketAddr {
    SocketAddr::new(OURS.parse().unwrap(), port)
}

/// A frame to the peer's kernel which it will ignore.
fn frame(port: &mut impl PacketIo) -> TxPacket {
    let mut frame = port.take().unwrap();
    let start = frame.headroom();
    frame.set_range(start, 60);
    frame.data_mut().fill(0);
    frame.data_mut()[..6].fill(0xff);
    TxPacket { frame, meta: TxMeta::default() }
}

/// Does a SYN of the peer's reach the port within a few seconds?
fn a_syn_arrives(cable: &Cable, port: &mut impl PacketIo, to: SocketAddr) -> bool {
    (0..30).any(|_| {
        let failed = cable.on_peer(|| TcpStream::connect_timeout(&to, Duration::from_millis(100))).is_err();
        failed && port.rx(&mut RxBatch::new()).is_ok_and(|count| count > 0)
    })
}

/// Not a test by itself: the process that [`a_killed_process_leaves_nothing`] kills.
#[test]
fn victim() {
    if std::env::var_os("MILLSTREAM_XDP_VICTIM").is_none() {
        return;
    }
    let mut port = open_xdp("x0", 1).unwrap().pop().unwrap();
    port.claim(&listener(80)).unwrap();
    println!("victim ready");
    port.wait(Some(Duration::from_secs(60))).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_process_leaves_nothing() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    if cable.port().is_none() {
        return;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "xdp::tests::life::victim", "--nocapture"])
        .env("MILLSTREAM_XDP_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(
        lines.map_while(Result::ok).any(|line| line.contains("victim ready")),
        "the victim did not start"
    );

    // It holds the interface and the port, and a program that comes second hears who it is.
    let error = open_xdp("x0", 1).map(drop).unwrap_err().to_string();
    assert!(error.contains(&format!("(pid {})", victim.id())), "{error}");
    assert!(TcpListener::bind(("0.0.0.0", 80)).is_err());

    victim.kill().unwrap();
    victim.wait().unwrap();
    let kernel = TcpListener::bind(("0.0.0.0", 80)).unwrap();
    std::thread::scope(|scope| {
        scope
            .spawn(|| cable.on_peer(|| TcpStream::connect_timeout(&to(80), Duration::from_secs(2)).unwrap()));
        kernel.accept().unwrap().0.read_to_end(&mut Vec::new()).unwrap();
    });
    assert!(cable.port().is_some(), "the interface is free again");
}

#[test]
fn down_and_up_again() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let Some(mut port) = cable.port() else { return };
    port.claim(&listener(7)).unwrap();
    netlink::set_link(cable.index, false, None).unwrap();
    let mut batch = TxBatch::from([frame(&mut port)]);
    assert!(matches!(port.tx(&mut batch), Err(IoError::Down)));
    assert!(matches!(port.rx(&mut RxBatch::new()), Err(IoError::Down)));
    batch.drain(..).for_each(|packet| port.retire(packet.frame));
    let mut events = Vec::new();
    (0..20).for_each(|_| port.net_events(&mut events));
    assert!(events.contains(&NetEvent::Link { up: false }), "{events:?}");

    std::thread::scope(|scope| {
        scope.spawn(|| {
            crate::tests::testnet::within(&cable.here, || {
                std::thread::sleep(Duration::from_millis(50));
                netlink::set_link(cable.index, true, None).unwrap();
                // The kernel forgets IPv6 addresses of an interface that goes down, not IPv4 ones.
            });
        });
        let start = Instant::now();
        let mut batch = RxBatch::new();
        while port.rx(&mut batch).is_err() {
            port.wait(Some(Duration::from_secs(2))).unwrap();
            assert!(start.elapsed() < Duration::from_secs(5), "it did not come back");
        }
    });
    let mut puppet = Puppet::new(port, addr(OURS), 7);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            cable.on_peer(|| {
                let mut stream = TcpStream::connect_timeout(&to(7), Duration::from_secs(5)).unwrap();
                stream.write_all(&pattern(20_000)).unwrap();
            })
        });
        assert!(puppet.run(|seen| seen.fin));
        client.join().unwrap();
    });
    assert!(puppet.seen.received == pattern(20_000));
}

#[test]
fn opens_again_at_once() {
    let Some(cable) = Cable::new(2, 1500) else { return };
    for _ in 0..5 {
        let Some(port) = cable.port() else { return };
        drop(port);
    }
}

#[test]
fn opens_while_the_interface_is_down() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    netlink::set_link(cable.index, false, None).unwrap();
    let Some(mut port) = cable.port() else { return };
    port.claim(&listener(80)).unwrap();
    assert!(matches!(port.rx(&mut RxBatch::new()), Err(IoError::Down)));
    netlink::set_link(cable.index, true, None).unwrap();
    assert!(a_syn_arrives(&cable, &mut port, to(80)));
}

#[test]
fn gone_it_waits() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let Some(mut port) = cable.port() else { return };
    netlink::delete_link(cable.index).unwrap();
    assert!(matches!(port.wait(None), Ok(Wake::Ready)));
    let mut batch = TxBatch::from([frame(&mut port)]);
    assert!(matches!(port.tx(&mut batch), Err(IoError::Down)));
    assert!(matches!(port.rx(&mut RxBatch::new()), Err(IoError::Down)));
    batch.drain(..).for_each(|packet| port.retire(packet.frame));
    // News of the interface may be left; then it sleeps, as long as it was told.
    let start = Instant::now();
    while !matches!(port.wait(Some(Duration::from_millis(200))), Ok(Wake::Timeout)) {
        assert!(start.elapsed() < Duration::from_secs(10), "it does not sleep");
    }
}

/// Not a test by itself: the process whose interface [`loss_and_return_of_an_interface_are_told`] deletes.
#[test]
fn bereaved() {
    let Ok(link) = std::env::var("MILLSTREAM_BEREAVED") else { return };
    let mut port = crate::open(&link, 1).unwrap().pop().unwrap();
    println!("bereaved ready");
    let start = Instant::now();
    let (mut events, mut down) = (Vec::new(), false);
    while start.elapsed() < Duration::from_secs(20) {
        port.net().unwrap().net_events(&mut events);
        let wait = crate::wait([&mut *port], &[], Some(Duration::from_millis(10))).map(drop);
        let gone = [port.rx(&mut RxBatch::new()).map(drop), wait];
        let says_down = gone.iter().any(|result| matches!(result, Err(IoError::Down)));
        if says_down && !std::mem::replace(&mut down, true) {
            println!("bereaved down");
        }
        if port.stats().contains(&("returns", 1)) {
            return;
        }
    }
    panic!("it did not notice");
}

#[test]
fn loss_and_return_of_an_interface_are_told() {
    let Some(mut cable) = Cable::new(1, 1500) else { return };
    if cable.port().is_none() {
        return;
    }
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "xdp::tests::life::bereaved", "--nocapture"])
        .env("MILLSTREAM_BEREAVED", "xdp:x0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("bereaved ready")), "it did not start");
    netlink::delete_link(cable.index).unwrap();
    assert!(lines.any(|line| line.contains("bereaved down")), "it did not notice");
    cable.again(1, || {});
    let mut told = String::new();
    process.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(process.wait().unwrap().success(), "{told}");
    for what in ["gone (deleted", "back; connections go on"] {
        assert_eq!(told.matches(&format!("xdp:x0: the interface is {what}")).count(), 1, "{told}");
    }
}

#[test]
fn a_bell_ends_the_wait_and_time_does() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let Some(mut port) = cable.port() else { return };
    // What the interface says to itself when it comes up (multicast) is not for us, but the monitor hears of
    // it.
    let mut start = Instant::now();
    while port.wait(Some(Duration::from_millis(50))).unwrap() != Wake::Timeout {
        start = Instant::now();
    }
    assert!(start.elapsed() >= Duration::from_millis(50));
    let (bell, mut sleeper) = ring::doorbell().unwrap();
    let on_bell = [sleeper.fd().as_raw_fd()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            bell.ring_anyway();
        });
        assert_eq!(crate::wait([&mut port], &on_bell, None).unwrap(), Wake::Ready);
    });
    sleeper.drain();
    assert_eq!(crate::wait([&mut port], &on_bell, Some(Duration::ZERO)).unwrap(), Wake::Timeout);
}

#[test]
fn nothing_is_lost_and_every_slot_comes_back() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let Some(mut port) = cable.port() else { return };
    // A sent packet counts at the peer; nothing is lost between the two however often the ring fills.
    let total = 20_000;
    let mut batch = TxBatch::new();
    let mut sent = 0;
    while sent < total {
        while batch.len() < crate::BATCH_MAX.min(total - sent) {
            let packet = frame(&mut port);
            batch.push_back(packet);
        }
        sent += port.tx(&mut batch).unwrap();
    }
    let count = || cable.on_peer(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
    let received = || -> usize {
        let text = count();
        let line = text.lines().find(|line| line.trim_start().starts_with("x1:")).unwrap();
        line.split_whitespace().nth(2).unwrap().parse().unwrap()
    };
    let start = Instant::now();
    while received() < total {
        port.rx(&mut RxBatch::new()).unwrap();
        assert!(start.elapsed() < Duration::from_secs(3), "{} of {total}: {:?}", received(), port.stats());
    }
    let value = |name| port.stats().iter().find(|s| s.0 == name).unwrap().1;
    assert_eq!((value("tx_lost"), value("tx_invalid"), value("tx_refused")), (0, 0, 0));

    // Every slot can be had, none twice, and then there is none.
    let mut held = Vec::new();
    while let Some(frame) = port.take() {
        held.push(frame);
    }
    assert_eq!(held.len(), 2 * XdpConfig::default().tx_ring as usize);
    assert_eq!(port.tx(&mut TxBatch::new()).unwrap(), 0);
    held.into_iter().for_each(|frame| port.retire(frame));
    assert!(port.take().map(|frame| port.retire(frame)).is_some());
}

#[test]
fn errors_say_what_to_do() {
    let Some(cable) = Cable::new(2, 1500) else { return };
    let says = |error: Option<OpenError>, words: &[&str]| {
        let text = error.expect("refused").to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    says(open_xdp("x7", 1).err(), &["x7", "there are: x0"]);
    says(open_xdp("lo", 1).err(), &["lo", "Ethernet", "packet:lo"]);
    says(open_xdp("x0", 0).err(), &["queue"]);
    says(crate::open("xdp:x0,mode=fast", 1).err(), &["xdp:x0,mode=fast", "generic"]);
    if cable.port().is_none() {
        return;
    }
    says(open_xdp("x0", 3).err(), &["2 receive queue", "ethtool -L x0 rx 3 tx 3"]);
    let first = open_xdp("x0", 2).unwrap();
    says(open_xdp("x0", 1).err(), &["x0", "in use", &format!("pid {}", std::process::id())]);
    says(crate::open("xdp:x0,mode=generic,zerocopy=off", 1).err(), &["in use"]);
    drop(first);

    // Without privilege there is another way.
    drop_privileges();
    says(open_xdp("x0", 1).err(), &["sudo", "tap:NAME"]);
}

/// Takes this thread's capabilities away.
fn drop_privileges() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let (mut header, none) = (Header { version: VERSION_3, pid: 0 }, [0_u32; 6]);
    // SAFETY: the kernel reads a header and two sets of three words, and changes only what this thread may
    // do.
    let rc = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, none.as_ptr()) };
    assert_eq!(rc, 0);
}

/// The peer's address stays in use here so that both ends are named in one place.
#[test]
fn addresses_follow_the_kernel() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let Some(mut port) = cable.port() else { return };
    port.claim(&listener(80)).unwrap();
    let late = "10.9.0.77";
    netlink::add_address(cable.index, addr(late), 24).unwrap();
    // The owner looks at the kernel's news now and then.
    let mut events = Vec::new();
    (0..20).for_each(|_| port.net_events(&mut events));
    assert!(events.iter().any(|e| matches!(e, NetEvent::AddrAdded { addr: a, .. } if *a == addr(late))));
    assert!(a_syn_arrives(&cable, &mut port, SocketAddr::new(late.parse().unwrap(), 80)));
    assert_ne!(addr(PEER), addr(late));
}

#[test]
fn an_interface_that_vanishes_while_it_is_opened_is_told() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let device = Device::find("x0", true).expect("it is there");
    netlink::delete_link(cable.index).expect("it goes");
    let config = XdpConfig::default();
    let told = match open_ports(&device, &config, NATIVE_FIRST) {
        Ok(_) => panic!("opened what is not there"),
        Err(error) => error.to_string(),
    };
    assert!(told.contains("no interface 'x0'"), "{told}");
    let told = crate::open("nic:x0", 1).err().expect("refused").to_string();
    assert!(told.contains("no interface 'x0'"), "{told}");
}
