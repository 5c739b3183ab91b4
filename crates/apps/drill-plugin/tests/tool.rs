//! Goal: the library does for the original tool what its interface promises: calls, packets and one virtual clock for
//! two threads of another library; and nothing that the tool hands over, or forgets, does any harm.

mod common;

use common::*;
use libc::{c_int, epoll_event, pollfd};
use std::ptr::{null, null_mut};
use std::time::Duration;

const SECOND: i64 = 1_000_000;

#[test]
fn a_connection_from_its_first_segment_to_its_last() {
    let tool = Tool::usual();
    let listener = tool.listener();
    assert!(eventfd_id(listener).is_some(), "the kernel's own descriptor");
    let begun = tool.now();
    let (fd, next) = tool.established(listener, 40_000);
    assert!(tool.now() - begun < 100, "nothing takes time");

    assert_eq!(tool.write(fd, b"hello"), 5);
    let (at, sent) = tool.sniff().unwrap();
    assert_eq!((sent.flags, sent.seq, &sent.data[..]), (PSH | ACK, next, &b"hello"[..]));
    assert!(at <= tool.now() && at >= begun);
    assert_eq!(tool.inject(&segment(40_000, PORT, 1, next + 5, PSH | ACK, &[], b"world")), 0);
    assert_eq!(tool.read(fd, 99), Ok(b"world".to_vec()));

    let connections_own = eventfd_id(fd);
    assert!(connections_own.is_some());
    assert_eq!(tool.close(fd), 0);
    assert_ne!(eventfd_id(fd), connections_own, "closed in the kernel, too");
    assert_eq!((tool.close(fd), errno()), (-1, libc::EBADF));
    let fin = std::iter::from_fn(|| tool.sniff()).find(|(_, sent)| sent.flags & FIN != 0).unwrap().1;
    assert_eq!((fin.seq, fin.ack), (next + 5, 6));
    assert_eq!(tool.inject(&segment(40_000, PORT, 6, next + 6, FIN | ACK, &[], &[])), 0);
    let (_, last) = tool.sniff().unwrap();
    assert_eq!((last.flags, last.ack), (ACK, 7));
    assert_eq!(tool.close(listener), 0);
    tool.free();
}

#[test]
fn timers_fire_in_virtual_time_and_packets_keep_their_date() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let (fd, next) = tool.established(listener, 40_000);
    #[allow(
        clippy::disallowed_methods,
        reason = "that virtual time takes none of the machine's is what is tested"
    )]
    let machine = std::time::Instant::now();
    let begun = tool.now();
    assert_eq!(tool.write(fd, b"x"), 1);
    let dates: Vec<i64> = (0..7).map(|_| tool.sniff().unwrap().0 - begun).collect();
    let gaps: Vec<i64> = dates.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[1..].windows(2).all(|pair| (pair[1] - 2 * pair[0]).abs() < 10_000), "doubled: {gaps:?}");
    assert!(tool.now() - begun >= dates[6], "time went on with them");
    assert!(machine.elapsed() < Duration::from_secs(5), "on the machine's clock it took no time");

    // The program that sleeps first and looks then finds out when it really left.
    assert_eq!(tool.inject(&segment(40_000, PORT, 1, next + 1, ACK, &[], &[])), 0);
    let begun = tool.now();
    assert_eq!(tool.write(fd, b"y"), 1);
    tool.sleep(900_000);
    let (at, sent) = tool.sniff().unwrap();
    assert_eq!(sent.data, b"y");
    assert!(at - begun < 1_000, "{} us late", at - begun);
    assert!(tool.now() - begun >= 900_000);
    // The clock of a loop that waits for a date goes on.
    let before = tool.now();
    assert!((0..100).all(|step| tool.now() > before + step));
    tool.free();
}

#[test]
fn a_listener_alone_sends_nothing() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let before = tool.now();
    assert!(tool.sniff().is_none(), "a length of zero: nothing will come");
    assert!(tool.now() - before < 100, "and no time is lost with it");
    assert_eq!(tool.close(listener), 0);
    tool.free();
}

/// Is a thread of this process asleep?
fn asleep(thread: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{thread}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S')))
}

#[test]
fn a_call_that_waits_sleeps_on_its_own_thread() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let (tell, told) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        // All of it, not only the members that are used here.
        let tool = tool;
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(own.to_str().unwrap().to_string()).unwrap();
        let accepted = tool.accept(listener);
        (accepted, tool.now())
    });
    let thread = told.recv().unwrap();
    while !asleep(&thread) {
        std::thread::sleep(Duration::from_millis(1));
    }
    tool.sleep(500_000);
    let begun = tool.now();
    assert_eq!(tool.inject(&segment(40_000, PORT, 0, 0, SYN, &[2, 4, 5, 0xb4], &[])), 0);
    let (_, answer) = tool.sniff().unwrap();
    assert!(asleep(&thread), "a SYN is not yet a connection");
    tool.sleep(250_000);
    assert_eq!(tool.inject(&segment(40_000, PORT, 1, answer.seq + 1, ACK, &[], &[])), 0);
    tool.sleep(SECOND as u32);
    let ((fd, port), returned) = other.join().unwrap();
    assert!(fd >= 0);
    assert_eq!(port, 40_000);
    assert!((250_000..251_000).contains(&(returned - begun)), "not when it was asked: {}", returned - begun);
    assert_eq!(tool.write(fd, b"x"), 1);
    tool.free();
}

#[test]
fn a_call_that_the_tool_waits_for_moves_time_on_alone() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let (fd, _) = tool.established(listener, 40_000);
    let timeout = libc::timeval { tv_sec: 3, tv_usec: 0 };
    // SAFETY: a whole timeval.
    let set = unsafe {
        (tool.ifc.setsockopt)(
            tool.user(),
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const timeout).cast(),
            16,
        )
    };
    assert_eq!(set, 0);
    let begun = tool.now();
    let other = std::thread::spawn(move || {
        let tool = tool;
        (tool.read(fd, 10), tool.now())
    });
    // Joining is what the tool does: it sleeps until the other thread is done, and asks for no time.
    let (result, returned) = other.join().unwrap();
    assert_eq!(result, Err(libc::EAGAIN));
    assert!((3 * SECOND..3 * SECOND + 1_000).contains(&(returned - begun)), "{}", returned - begun);
    tool.free();
}

#[test]
fn errors_of_the_network_reach_the_socket() {
    let tool = Tool::usual();
    let fd = tool.socket();
    tool.nonblocking(fd);
    assert_eq!((tool.connect(fd), errno()), (-1, libc::EINPROGRESS));
    let (_, syn) = tool.sniff().unwrap();
    assert_eq!((syn.flags, syn.to), (SYN, PORT));
    assert_eq!(tool.inject(&unreachable(3, &syn)), 0);
    assert_eq!(tool.option(fd, libc::SOL_SOCKET, libc::SO_ERROR), libc::ECONNREFUSED);
    assert_eq!(tool.close(fd), 0);

    let listener = tool.listener();
    let (fd, next) = tool.established(listener, 40_000);
    assert_eq!(tool.inject(&segment(40_000, PORT, 1, next, RST | ACK, &[], &[])), 0);
    assert_eq!(tool.read(fd, 1), Err(libc::ECONNRESET));
    assert_eq!((tool.write(fd, b"x"), errno()), (-1, libc::EPIPE));
    tool.free();
}

#[test]
fn poll_and_epoll() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let (fd, next) = tool.established(listener, 40_000);
    let poll = |events: i16, millis: c_int| {
        let mut rows = [pollfd { fd, events, revents: 0 }, pollfd { fd: -1, events: -1, revents: -1 }];
        // SAFETY: two rows.
        let ready = unsafe { (tool.ifc.poll)(tool.user(), rows.as_mut_ptr(), 2, millis) };
        assert_eq!(rows[1].revents, 0, "a row that is skipped");
        (ready, rows[0].revents)
    };
    assert_eq!(poll(libc::POLLOUT | libc::POLLIN, 0), (1, libc::POLLOUT));
    let begun = tool.now();
    assert_eq!(poll(libc::POLLIN, 700), (0, 0));
    assert!((700_000..701_000).contains(&(tool.now() - begun)), "time passed");

    // SAFETY: no pointer but userdata.
    let epoll = unsafe { (tool.ifc.epoll_create)(tool.user(), 1) };
    assert!(epoll >= 0);
    let ctl = |op: c_int, event: *mut epoll_event| {
        // SAFETY: NULL or an event.
        unsafe { (tool.ifc.epoll_ctl)(tool.user(), epoll, op, fd, event) }
    };
    let wait = |millis: c_int| {
        let mut events = [epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: four events.
        let count = unsafe { (tool.ifc.epoll_wait)(tool.user(), epoll, events.as_mut_ptr(), 4, millis) };
        (count, { events[0].events }, { events[0].u64 })
    };
    let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 0x1234_5678_9abc };
    assert_eq!((ctl(libc::EPOLL_CTL_ADD, null_mut()), errno()), (-1, libc::EFAULT));
    assert_eq!(ctl(libc::EPOLL_CTL_ADD, &raw mut event), 0);
    assert_eq!(wait(0).0, 0);
    assert_eq!(tool.inject(&segment(40_000, PORT, 1, next, PSH | ACK, &[], b"data")), 0);
    assert_eq!(wait(-1), (1, libc::EPOLLIN as u32, 0x1234_5678_9abc));
    assert_eq!(poll(libc::POLLIN, -1), (1, libc::POLLIN));
    assert_eq!(ctl(libc::EPOLL_CTL_DEL, null_mut()), 0);
    assert_eq!(wait(0).0, 0);
    assert_eq!(tool.close(epoll), 0);
    tool.free();
}

#[test]
fn a_file_of_sysctls_is_read_whenever_it_changes() {
    let path = std::env::temp_dir().join(format!("millstream-drill-{}", std::process::id()));
    std::fs::write(&path, "net.ipv4.tcp_timestamps=0\n").unwrap();
    let tool = Tool::new(Some(&format!("local_ip=192.168.0.1,sysctl_file={}", path.display())));
    tool.listener();
    // What the stack answers to a SYN that offers everything.
    let options = |port: u16| {
        let all = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        assert_eq!(tool.inject(&segment(port, PORT, 0, 0, SYN, &all, &[])), 0);
        let answer = std::iter::from_fn(|| tool.sniff()).find(|(_, sent)| sent.to == port).unwrap().1;
        kinds(&answer.options)
    };
    assert_eq!(options(1_001), [2, 4, 3], "MSS, SACK permitted, window scale");
    std::fs::write(&path, "net.ipv4.tcp_timestamps=1\nsack.enable=0\n").unwrap();
    assert_eq!(options(1_002), [2, 8, 3], "timestamps instead of SACK");
    std::fs::write(&path, "").unwrap();
    assert_eq!(options(1_003), [2, 4, 8, 3], "as at the beginning");
    std::fs::remove_file(&path).unwrap();
    tool.free();
}

/// Kinds of options, without the padding.
fn kinds(mut options: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [kind, rest @ ..] = options {
        options = match kind {
            0 | 1 => rest,
            _ => {
                kinds.push(*kind);
                &options[usize::from(rest[0])..]
            }
        };
    }
    kinds
}

#[test]
fn what_the_tool_closed_behind_our_back_is_gone() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let (fd, next) = tool.established(listener, 40_000);
    assert_eq!(tool.write(fd, b"x"), 1);
    // At its end the tool closes what is left in the kernel, resets each connection, and frees the plug-in.
    for number in [fd, listener] {
        // SAFETY: descriptors that nothing else uses.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }
    assert_eq!(tool.inject(&segment(40_000, PORT, 1, next, RST | ACK, &[], &[])), 0);
    // A number that the kernel gives again stands for the new socket only.
    let again = tool.socket();
    assert_eq!(tool.read(again, 1), Err(libc::ENOTCONN));
    tool.free();
}

#[test]
fn what_is_no_packet_does_no_harm() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let whole = segment(40_000, PORT, 0, 0, SYN, &[2, 4, 5, 0xb4], &[]);
    for len in 1..whole.len() {
        assert_eq!(tool.inject(&whole[..len]), 0, "the stack drops what is cut off after {len}");
    }
    for at in 0..whole.len() {
        for byte in [0, 0xff, 0x4f, 0x60] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            assert_eq!(tool.inject(&damaged), 0);
        }
    }
    let long = segment(40_000, PORT, 0, 0, ACK, &[], &[7; 65_000]);
    assert_eq!(tool.inject(&long), 0, "larger than the MTU");
    assert_eq!((tool.inject(&[]), errno()), (-1, libc::EINVAL));
    assert_eq!((tool.inject(&[0x45; 70_000]), errno()), (-1, libc::EINVAL));
    // SAFETY: NULL is what this asks about.
    assert_eq!(unsafe { (tool.ifc.netdev_send)(tool.user(), null(), 40) }, -1);
    tool.sleep(1);
    let (fd, _) = tool_after_noise(&tool, listener);
    assert!(fd >= 0);
    tool.free();
}

/// A connection although RSTs for the noise before may still be on the wire.
fn tool_after_noise(tool: &Tool, listener: c_int) -> (c_int, u16) {
    assert_eq!(tool.inject(&segment(41_000, PORT, 0, 0, SYN, &[2, 4, 5, 0xb4], &[])), 0);
    let mut answers = std::iter::from_fn(|| tool.sniff());
    let answer = answers.find(|(_, sent)| sent.to == 41_000 && sent.flags == SYN | ACK).unwrap().1;
    assert_eq!(tool.inject(&segment(41_000, PORT, 1, answer.seq + 1, ACK, &[], &[])), 0);
    tool.accept(listener)
}

#[test]
fn null_where_the_tool_could_pass_it() {
    let tool = Tool::new(None);
    let user = tool.user();
    let fd = tool.socket();
    let fails = |result: i64, with: i32| assert_eq!((result, errno()), (-1, with));
    // SAFETY: NULL is what this asks about; nothing else is a pointer.
    unsafe {
        fails((tool.ifc.bind)(user, fd, null(), 16).into(), libc::EFAULT);
        fails((tool.ifc.connect)(user, fd, null(), 16).into(), libc::EFAULT);
        fails((tool.ifc.getsockopt)(user, fd, 1, 7, null_mut(), null_mut()).into(), libc::EFAULT);
        fails((tool.ifc.setsockopt)(user, fd, 1, 7, null(), 4).into(), libc::EFAULT);
        fails((tool.ifc.pipe)(user, null_mut()).into(), libc::EFAULT);
        fails((tool.ifc.poll)(user, null_mut(), 1, 0).into(), libc::EFAULT);
        fails((tool.ifc.epoll_wait)(user, fd, null_mut(), 1, 0).into(), libc::EFAULT);
        fails((tool.ifc.netdev_receive)(user, null_mut(), null_mut(), null_mut()).into(), libc::EFAULT);
        fails((tool.ifc.recvmsg)(user, fd, null_mut(), 0) as i64, libc::EFAULT);
        fails((tool.ifc.sendmsg)(user, fd, null(), 0) as i64, libc::EFAULT);
        fails((tool.ifc.readv)(user, fd, null(), 1) as i64, libc::EFAULT);
        fails((tool.ifc.readv)(user, fd, null(), -1) as i64, libc::EINVAL);
        // Not connected comes first, as on Linux.
        fails((tool.ifc.write)(user, fd, null(), 10) as i64, libc::EPIPE);
        fails((tool.ifc.read)(user, fd, null_mut(), 10) as i64, libc::ENOTCONN);
        assert_eq!((tool.ifc.gettimeofday)(user, null_mut(), null_mut()), 0);
        fails((tool.ifc.read)(user, 12_345, null_mut(), 0) as i64, libc::EBADF);
    }
    tool.free();

    let tool = Tool::usual();
    let listener = tool.listener();
    let (fd, next) = tool.established(listener, 40_000);
    let user = tool.user();
    // SAFETY: as above.
    unsafe {
        fails((tool.ifc.send)(user, fd, null(), 10, 0) as i64, libc::EFAULT);
        assert_eq!((tool.ifc.send)(user, fd, null(), 0, 0), 0);
        assert_eq!(tool.inject(&segment(40_000, PORT, 1, next, PSH | ACK, &[], b"four")), 0);
        fails((tool.ifc.recv)(user, fd, null_mut(), 4, 0) as i64, libc::EFAULT);
        assert_eq!((tool.ifc.recv)(user, fd, null_mut(), 3, libc::MSG_TRUNC), 3, "thrown away");
        assert_eq!(tool.read(fd, 9), Ok(b"r".to_vec()));
        // An address that no call asked for.
        fails((tool.ifc.accept)(user, listener, null_mut(), null_mut()).into(), libc::EINTR);
    }
    tool.free();
}

#[test]
fn tcp_info_has_linuxs_layout() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let (fd, _) = tool.established(listener, 40_000);
    assert_eq!(tool.write(fd, b"x"), 1);
    let (mut info, mut len) = ([0_u8; 300], 300);
    // SAFETY: the array.
    let got = unsafe {
        (tool.ifc.getsockopt)(
            tool.user(),
            fd,
            libc::SOL_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!((got, len), (0, 280));
    let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().unwrap());
    assert_eq!(info[0], 1, "established");
    assert_eq!((word(24), word(80)), (1, 10), "a segment in flight of a window of ten");
    assert!(word(8) >= 200_000, "the timeout in microseconds");
    tool.free();
}

/// The tool reads them beside TCP_INFO; without the library in LD_PRELOAD they have an answer, too.
#[test]
fn tcp_cc_info_and_so_meminfo_are_answered() {
    const CC_INFO: c_int = 26;
    const MEMINFO: c_int = 55;
    let tool = Tool::usual();
    let listener = tool.listener();
    let (fd, _) = tool.established(listener, 40_000);
    let mut value = [0_u32; 9];
    let mut ask = |fd, level, name, mut len| {
        // SAFETY: the array, which has room for 36 bytes.
        let got = unsafe {
            (tool.ifc.getsockopt)(tool.user(), fd, level, name, value.as_mut_ptr().cast(), &raw mut len)
        };
        (got, len, value)
    };
    assert_eq!(ask(fd, libc::SOL_TCP, CC_INFO, 36).1, 0, "CUBIC tells nothing");
    let (got, len, numbers) = ask(fd, libc::SOL_SOCKET, MEMINFO, 36);
    let limits =
        [libc::SO_RCVBUF, libc::SO_SNDBUF].map(|name| tool.option(fd, libc::SOL_SOCKET, name) as u32);
    assert_eq!((got, len, [numbers[1], numbers[3]]), (0, 36, limits));
    assert_eq!(ask(fd, libc::SOL_SOCKET, MEMINFO, 8).1, 8, "cut to the room");
    assert_eq!((ask(12_345, libc::SOL_SOCKET, MEMINFO, 36).0, errno()), (-1, libc::EBADF));
    tool.free();
}

/// Returns the standard error of a child of this test, which runs `name` alone.
fn said_by(name: &str) -> String {
    let own = std::env::current_exe().unwrap();
    let child = std::process::Command::new(own)
        .args(["--exact", name, "--nocapture", "--ignored"])
        .output()
        .expect("the child of a test");
    assert!(child.status.success());
    String::from_utf8_lossy(&child.stderr).into_owned()
}

#[test]
fn complaints_are_told_once_and_counted() {
    let said = said_by("complains");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("millstream_drill: ")).collect();
    assert_eq!(
        lines,
        [
            "millstream_drill: so_flags: `colour=red` is not understood",
            "millstream_drill: so_flags: `mtu=1` is not understood",
            "millstream_drill: setsockopt(6, 999): no such option",
            "millstream_drill: socket(2, 2, 17) is no TCP socket",
            "millstream_drill: 5 complaints, each told once above",
        ]
    );
}

#[test]
#[ignore = "the child of complaints_are_told_once_and_counted"]
fn complains() {
    let tool = Tool::new(Some("colour=red,mtu=1,local_ip=10.0.0.1"));
    let fd = tool.socket();
    for _ in 0..2 {
        let value = 1_i32;
        // SAFETY: an int.
        let set = unsafe {
            (tool.ifc.setsockopt)(tool.user(), fd, libc::SOL_TCP, 999, (&raw const value).cast(), 4)
        };
        assert_eq!((set, errno()), (-1, libc::ENOPROTOOPT));
    }
    // SAFETY: no pointer but userdata.
    let datagrams = unsafe { (tool.ifc.socket)(tool.user(), libc::AF_INET, libc::SOCK_DGRAM, 17) };
    assert_eq!((datagrams, errno()), (-1, libc::ESOCKTNOSUPPORT));
    tool.free();
}

#[test]
fn an_address_that_only_bind_names_becomes_ours() {
    let tool = Tool::new(None);
    let fd = tool.socket();
    let addr = address([192, 168, 77, 5], PORT);
    // SAFETY: a whole address.
    unsafe {
        assert_eq!((tool.ifc.bind)(tool.user(), fd, (&raw const addr).cast(), 16), 0);
        assert_eq!((tool.ifc.listen)(tool.user(), fd, 1), 0);
    }
    let syn = segment_to([192, 168, 77, 5], 40_000, PORT, 0, 0, SYN, &[2, 4, 5, 0xb4], &[]);
    assert_eq!(tool.inject(&syn), 0);
    assert_eq!(tool.sniff().unwrap().1.flags, SYN | ACK);
    tool.free();
}

#[test]
fn an_address_beside_the_one_that_a_flag_names_is_not_ours() {
    let tool = Tool::new(Some("local_ip=192.168.77.4"));
    let fd = tool.socket();
    let (other, own) = (address([192, 168, 77, 5], PORT), address([192, 168, 77, 4], PORT));
    // SAFETY: whole addresses.
    unsafe {
        let refused = (tool.ifc.bind)(tool.user(), fd, (&raw const other).cast(), 16);
        assert_eq!((refused, errno()), (-1, libc::EADDRNOTAVAIL));
        assert_eq!((tool.ifc.bind)(tool.user(), fd, (&raw const own).cast(), 16), 0);
    }
    tool.free();
}

#[test]
fn pipes_and_splice() {
    let tool = Tool::usual();
    let listener = tool.listener();
    let (fd, next) = tool.established(listener, 40_000);
    let mut ends = [-1; 2];
    // SAFETY: room for two.
    assert_eq!(unsafe { (tool.ifc.pipe)(tool.user(), ends.as_mut_ptr()) }, 0);
    assert_eq!(tool.inject(&segment(40_000, PORT, 1, next, PSH | ACK, &[], b"through a pipe")), 0);
    let splice = |from: c_int, to: c_int, at: i64, len: usize| {
        let (mut from_at, mut to_at) = (at, 0);
        // SAFETY: two numbers.
        unsafe { (tool.ifc.splice)(tool.user(), from, &raw mut from_at, to, &raw mut to_at, len, 0) }
    };
    assert_eq!((splice(fd, ends[1], 1, 7), errno()), (-1, libc::ESPIPE));
    assert_eq!(splice(fd, ends[1], 0, 7), 7);
    assert_eq!(tool.read(ends[0], 99), Ok(b"through".to_vec()));
    assert_eq!(splice(fd, ends[1], 0, 99), 7);
    assert_eq!(splice(ends[0], fd, 0, 99), 7);
    let echoed = std::iter::from_fn(|| tool.sniff()).find(|(_, sent)| !sent.data.is_empty()).unwrap().1;
    assert_eq!(echoed.data, b" a pipe");
    assert_eq!((tool.close(ends[0]), tool.close(ends[1])), (0, 0));
    tool.free();
}
