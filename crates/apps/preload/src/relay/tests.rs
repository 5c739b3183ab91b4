//! Goal: whatever a child says, it has what it was given and no more, and nothing that it sends stays here.
use super::*;
use libc::{iovec, msghdr, ssize_t};
use std::mem::MaybeUninit;

fn child(taken: &[usize]) -> (Child, c_int) {
    let [channel, childs] = pair(libc::SOCK_SEQPACKET).unwrap();
    (Child { channel, streams: Vec::new(), taken: taken.to_vec(), root: channel, port: None }, childs)
}

fn is_open(fd: c_int) -> bool {
    // SAFETY: numbers alone.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Sends words, and one descriptor several times.
fn say_with(channel: c_int, words: &[u64], fd: c_int, times: usize) {
    let mut control = [0_u64; 16];
    let mut part = iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(words) };
    let bytes = (times * size_of::<c_int>()) as u32;
    // SAFETY: as in `send`, with room for `times` descriptors.
    unsafe {
        let mut message: msghdr = MaybeUninit::zeroed().assume_init();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        ((*header).cmsg_level, (*header).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as usize;
        (0..times).for_each(|at| libc::CMSG_DATA(header).cast::<c_int>().add(at).write_unaligned(fd));
        assert_eq!(libc::sendmsg(channel, &raw const message, 0), size_of_val(words) as ssize_t);
    }
}

/// Waits until no process has the other end of a pipe.
fn ends(reader: c_int) -> bool {
    let mut row = libc::pollfd { fd: reader, events: libc::POLLIN, revents: 0 };
    // SAFETY: one row.
    unsafe { libc::poll(&raw mut row, 1, 10_000) == 1 && row.revents & libc::POLLHUP != 0 }
}

#[test]
fn what_a_child_sends_unasked_is_closed() {
    let take = Request::Take as u64;
    let share = Request::Share as u64;
    for (words, times) in [
        (&[take, 7][..], 1),
        (&[take, 7], 4),
        (&[share, 7], 4),
        (&[77, 7], 1),
        (&[], 1),
        (&[take], 1),
        (&[Request::GetOption as u64, 7, 0, 0], 3),
    ] {
        let (mut child, childs) = child(&[7]);
        let mut ends_of_pipe = [NONE; 2];
        // SAFETY: room for two.
        unsafe { assert_eq!(libc::pipe(ends_of_pipe.as_mut_ptr()), 0) };
        say_with(childs, words, ends_of_pipe[1], times);
        close(ends_of_pipe[1]);
        assert!(matches!(child.hear(), Heard::Gone), "{words:?}");
        assert!(ends(ends_of_pipe[0]), "{words:?}, {times} times");
        [ends_of_pipe[0], childs, child.channel].into_iter().for_each(close);
    }
}

#[test]
fn of_several_channels_one_is_taken() {
    let (mut child, childs) = child(&[]);
    let [theirs, ours] = pair(libc::SOCK_SEQPACKET).unwrap();
    say_with(childs, &[Request::Share as u64, 7], ours, 5);
    close(ours);
    let Heard::Share(shared, None) = child.hear() else { panic!("a channel") };
    close(shared);
    assert!(ends(theirs), "the others are nowhere");
    assert!(is_open(child.channel) && matches!(child.hear(), Heard::Nothing));
    [theirs, childs, child.channel].into_iter().for_each(close);
}

#[test]
fn a_connection_that_was_not_given_is_none() {
    let (mut child, childs) = child(&[]);
    say_with(childs, &[Request::Take as u64, 7], childs, 1);
    assert!(matches!(child.hear(), Heard::Take(None)));
    assert!(refuse(child.channel));
    // A child that does not read its answers is not waited for.
    assert!((0..1_000_000).any(|_| !refuse(child.channel)));
    [childs, child.channel].into_iter().for_each(close);
}

#[test]
fn a_lent_channel_serves_one_connection() {
    let (mut child, childs) = child(&[7, 8]);
    for (lent, has) in [(7, &[7][..]), (9, &[])] {
        let [theirs, ours] = pair(libc::SOCK_SEQPACKET).unwrap();
        say_with(childs, &[Request::Lend as u64, lent], ours, 1);
        let Heard::Share(channel, Some(heard)) = child.hear() else { panic!("a channel") };
        let other = child.shared(channel, Some(heard));
        assert_eq!((&other.taken[..], other.streams.len(), other.root), (has, 0, child.root));
        [channel, theirs, ours].into_iter().for_each(close);
    }
    [childs, child.channel].into_iter().for_each(close);
}

/// A TCP socket on the device, bound to a port of the kernel's choice, which listens if that is wanted.
fn bound(device: &[u8], listens: bool) -> c_int {
    // SAFETY: an address of this frame's, and a name.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let (name, len) = (device.as_ptr().cast::<c_void>(), device.len() as libc::socklen_t);
        assert_eq!(libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name, len), 0);
        let mut any: libc::sockaddr_in = MaybeUninit::zeroed().assume_init();
        any.sin_family = libc::AF_INET as libc::sa_family_t;
        let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        assert_eq!(libc::bind(fd, (&raw const any).cast::<libc::sockaddr>(), len), 0);
        assert!(!listens || libc::listen(fd, 1) == 0);
        fd
    }
}

#[test]
fn a_port_that_the_kernel_has_not_given_is_refused() {
    // SAFETY: numbers alone.
    let [fresh, datagrams] =
        [libc::SOCK_STREAM, libc::SOCK_DGRAM].map(|kind| unsafe { libc::socket(libc::AF_INET, kind, 0) });
    let [listens, binds] = [true, false].map(|listens| bound(b"lo\0", listens));
    // Where the kernel's parts of others do not stand in the way.
    let elsewhere = bound(b"\0", true);
    let [one, other] = pair(libc::SOCK_SEQPACKET).unwrap();
    let port = |fd, listens| ports::proven(fd, listens).map(|name| name.port() != 0);
    assert_eq!(port(listens, true), Some(true));
    for (fd, to_connect) in [
        (binds, Some(true)),
        (fresh, Some(false)),
        (elsewhere, None),
        (datagrams, None),
        (one, None),
        (NONE, None),
    ] {
        assert_eq!((port(fd, true), port(fd, false)), (None, to_connect));
    }
    // In a network namespace of its own everybody has any port.
    let moved = std::thread::spawn(|| {
        // SAFETY: numbers alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 { bound(b"lo\0", true) } else { NONE }
    });
    let moved = moved.join().unwrap();
    assert_eq!(port(moved, true), None);
    [fresh, datagrams, listens, binds, elsewhere, one, other, moved].into_iter().for_each(close);
}

#[test]
fn a_channel_of_its_own_opens_one_port() {
    let listen = [Request::Listen as u64, 5];
    let socket = bound(b"lo\0", true);
    let (mut root, childs) = child(&[]);
    say_with(childs, &listen, socket, 1);
    assert!(matches!(root.hear(), Heard::Gone), "this one is for connections");
    let [channel, theirs] = pair(libc::SOCK_SEQPACKET).unwrap();
    let mut own = root.shared(channel, Some(LISTENER));
    say_with(theirs, &listen, socket, 1);
    let Heard::Port(Wanted::Listen(5), proof) = own.hear() else { panic!("a port") };
    own.port = Some(Port::of_proof(proof));
    say_with(theirs, &listen, socket, 1);
    assert!(matches!(own.hear(), Heard::Gone), "one port a channel");
    [channel, theirs, childs, root.channel, proof, socket].into_iter().for_each(close);
}
