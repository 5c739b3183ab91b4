//! Goal: an event loop that sleeps where we cannot see, on one descriptor, misses nothing: events, timers, threads that
//! wait on the same stack and threads that call; and while it is busy the stack goes on. Two stacks over shared memory.

use base::Duration;
use pio::Wake;
use sock::runner::{ExternalLoop, Runner, Threads};
use sock::{EpollEvent, EpollOp, Family, Fd, Ready, RecvFlags, SendFlags, Settings, Sockets};
use std::sync::Arc;

/// Long for a machine that is busy with something else.
const LONG: Duration = Duration::from_secs(20);

fn stack(link: &str, address: &str) -> Arc<Runner> {
    let mut settings = Settings::default();
    settings.set("link", link).unwrap();
    settings.set("address", address).unwrap();
    sock::open_beside(&settings, Box::new(Threads)).unwrap().1
}

/// A pair of stacks; the second listens at port 7.
fn pair(name: &str) -> (Arc<Runner>, Arc<Runner>, Fd) {
    let link = format!("shm:{}/ms-outside-{}-{name}", std::env::temp_dir().display(), std::process::id());
    let (one, two) = (stack(&link, "10.9.0.1/24"), stack(&link, "10.9.0.2/24"));
    let listener = two.socket(Family::V4).unwrap();
    two.bind(listener, "10.9.0.2:7".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    two.listen(listener, 8).unwrap();
    two.set_nonblocking(listener, true).unwrap();
    (one, two, listener)
}

fn connect(stack: &Runner) -> Fd {
    let fd = stack.socket(Family::V4).unwrap();
    stack.connect(fd, "10.9.0.2:7".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    fd
}

/// An event loop with one epoll set and its place.
struct Loop {
    stack: Arc<Runner>,
    set: Fd,
    outside: ExternalLoop,
}

impl Loop {
    fn new(stack: &Arc<Runner>) -> Loop {
        let set = stack.epoll_create().unwrap();
        Loop { stack: stack.clone(), set, outside: ExternalLoop::new(stack, set).unwrap() }
    }

    fn watch(&self, fd: Fd) {
        let event = EpollEvent { ready: Ready::IN, data: fd as u64 };
        self.stack.epoll_ctl(self.set, fd, EpollOp::Add(event)).unwrap();
    }

    fn is_lit(&self, within: Duration) -> bool {
        matches!(pio::sleep_on(&[self.outside.fd()], Some(within)), Ok(Wake::Ready))
    }

    fn poll(&self) -> Vec<Fd> {
        let mut events = [EpollEvent::default(); 8];
        let found = self.outside.poll(&mut events).unwrap();
        events[..found].iter().map(|event| event.data as Fd).collect()
    }

    /// Until there is an event.
    fn next(&self) -> Vec<Fd> {
        loop {
            assert!(self.is_lit(LONG), "no thread wakes the loop");
            match self.poll() {
                found if found.is_empty() => {}
                found => return found,
            }
        }
    }

    /// Until there is nothing to do.
    fn settle(&self) {
        while self.is_lit(Duration::from_millis(20)) {
            assert!(self.poll().is_empty());
        }
    }
}

#[test]
fn events_wake_it_and_stay_until_they_are_dealt_with() {
    let (one, two, listener) = pair("events");
    let at = Loop::new(&two);
    at.watch(listener);
    at.settle();
    let client = connect(&one);
    assert_eq!(at.next(), [listener]);
    assert!(at.is_lit(Duration::ZERO));
    assert_eq!(at.poll(), [listener]);
    let (accepted, _) = two.accept(listener).unwrap();
    at.watch(accepted);
    for bytes in [&b"a"[..], b"second"] {
        at.settle();
        one.send(client, bytes, SendFlags::default()).unwrap();
        assert_eq!(at.next(), [accepted]);
        let mut room = [0; 16];
        let got = two.recv(accepted, &mut room, RecvFlags::default()).unwrap();
        assert_eq!(&room[..got], bytes);
    }
    // What the loop's program sends while it counts as asleep leaves at once.
    at.settle();
    two.send(accepted, b"back", SendFlags::default()).unwrap();
    let mut room = [0; 16];
    assert_eq!(one.recv(client, &mut room, RecvFlags::default()), Ok(4));
}

#[test]
fn a_busy_loop_is_stood_in_for() {
    let (one, two, listener) = pair("busy");
    let at = Loop::new(&two);
    at.watch(listener);
    at.settle();
    // No client comes to the loop, and yet the handshake ends and bytes are acknowledged.
    let client = connect(&one);
    one.send(client, b"bytes", SendFlags::default()).unwrap();
    let mut looks = 0;
    while one.unsent(client).unwrap().0 > 0 {
        looks += 1;
        assert!(looks < 2_000, "no peer acknowledges");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(at.next(), [listener]);
}

#[test]
fn threads_that_wait_take_the_lead_and_give_it_back() {
    let (one, two, listener) = pair("threads");
    let at = Loop::new(&two);
    at.watch(listener);
    at.settle();
    let first = connect(&one);
    assert_eq!(at.next(), [listener]);
    let (accepted, _) = two.accept(listener).unwrap();
    at.settle();
    let waiting = std::thread::spawn({
        let two = two.clone();
        move || two.recv(accepted, &mut [0; 16], RecvFlags::default())
    });
    std::thread::sleep(Duration::from_millis(20));
    // The thread leads now; what concerns the loop still wakes it.
    let second = connect(&one);
    assert_eq!(at.next(), [listener]);
    two.accept(listener).unwrap();
    at.settle();
    one.send(first, b"for the thread", SendFlags::default()).unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(14));
    // It has gone, and the loop leads again.
    at.settle();
    let third = connect(&one);
    assert_eq!(at.next(), [listener]);
    assert!(second != third);
}

#[test]
fn a_loop_that_ends_leaves_the_stack_to_others() {
    let (one, two, listener) = pair("ends");
    let at = Loop::new(&two);
    at.watch(listener);
    at.settle();
    drop(at);
    two.set_nonblocking(listener, false).unwrap();
    // The other stack must not end before the last of its handshake is taken.
    let client = std::thread::spawn({
        let one = one.clone();
        move || connect(&one)
    });
    assert!(two.accept(listener).is_ok());
    client.join().unwrap();
}
