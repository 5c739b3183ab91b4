//! One core's client loop.

use super::Measured;
use super::budget::Budget;
use super::idle::Idle;
use base::{Duration, Endpoint, Instant};
use sock::{Clock, EpollEvent, Errno, Family, Fd, Poller, Ready, RecvFlags, SendFlags, Stack, SystemClock};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Plan of one core.
pub(crate) struct Plan {
    /// The server.
    pub(crate) addr: SocketAddr,
    /// The request, whole.
    pub(crate) request: Vec<u8>,
    /// Connections at a time.
    pub(crate) connections: u32,
    /// How long.
    pub(crate) time: Duration,
    /// One request per connection.
    pub(crate) close: bool,
    /// Open loop: time between requests.
    pub(crate) interval: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Idle,
    /// A request is out; bytes of its answer still to come once the head was read.
    Waiting {
        left: Option<u64>,
    },
    /// The answer is whole; the server closes.
    Closing,
}

struct Conn {
    phase: Phase,
    /// When the request was sent, or was due.
    since: Instant,
    head: Vec<u8>,
}

struct Client<'a> {
    stack: &'a Stack,
    plan: &'a Plan,
    clock: SystemClock,
    poller: Poller,
    conns: Vec<Option<Conn>>,
    idle: Idle,
    /// Requests that are due and have no connection yet (open loop).
    due: VecDeque<Instant>,
    open: u32,
    measured: Measured,
    budget: &'a Budget,
    done: &'a AtomicU64,
    buf: Vec<u8>,
}

/// Runs the plan until its time is over, the budget is spent and everything answered, or `stop` is set.
pub(crate) fn run(
    stack: &Stack,
    plan: &Plan,
    stop: &AtomicBool,
    budget: &Budget,
    done: &AtomicU64,
) -> Result<Measured, Errno> {
    let mut client = Client {
        stack,
        plan,
        clock: SystemClock::new(),
        poller: Poller::new(stack)?,
        conns: Vec::new(),
        idle: Idle::default(),
        due: VecDeque::new(),
        open: 0,
        measured: Measured::new(),
        budget,
        done,
        buf: vec![0; 256 * 1024],
    };
    let begin = client.clock.now();
    let end = begin + plan.time;
    let mut next_due = begin;
    let mut events = vec![EpollEvent::default(); 1_024];
    loop {
        let now = client.clock.now();
        let answered = budget.is_spent() && client.idle.len() as u32 == client.open;
        if now >= end || stop.load(Ordering::Relaxed) || answered {
            client.measured.elapsed = now - begin;
            return Ok(client.measured);
        }
        while let Some(interval) = plan.interval.filter(|_| next_due <= now) {
            client.due.push_back(next_due);
            next_due += interval;
        }
        client.refill(now)?;
        let until = if plan.interval.is_some() { next_due.min(end) } else { end };
        let timeout = (until - now).min(Duration::from_millis(100));
        let n = client.poller.wait(&mut events, Some(timeout))?.len();
        for event in &events[..n] {
            client.on_event(event.data as Fd, event.ready);
        }
    }
}

impl Client<'_> {
    /// Opens connections up to the plan's number and gives idle ones work.
    fn refill(&mut self, now: Instant) -> Result<(), Errno> {
        // SYNs go out in bursts the peer's listen queue can take.
        const BURST: u32 = 256;
        let mut connecting = 0;
        while self.open < self.plan.connections && connecting < BURST && !self.budget.is_spent() {
            match self.connect(now) {
                Ok(()) => connecting += 1,
                // Ports or memory are used up for the moment: those in TIME-WAIT make room.
                Err(Errno::EADDRNOTAVAIL | Errno::ENOBUFS | Errno::EMFILE) => break,
                Err(e) => return Err(e),
            }
        }
        while !self.idle.is_empty() {
            let since = match self.plan.interval {
                None => now,
                Some(_) => match self.due.pop_front() {
                    Some(due) => due,
                    None => break,
                },
            };
            if !self.budget.take() {
                break;
            }
            if let Some(fd) = self.idle.pop() {
                self.request(fd, since);
            }
        }
        Ok(())
    }

    fn connect(&mut self, now: Instant) -> Result<(), Errno> {
        let family = if self.plan.addr.is_ipv4() { Family::V4 } else { Family::V6 };
        let fd = self.stack.socket(family)?;
        self.stack.set_nonblocking(fd, true)?;
        self.stack.setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32.to_ne_bytes())?;
        match self.stack.connect(fd, Endpoint::from(self.plan.addr)) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(e) => {
                self.stack.close(fd)?;
                return Err(e);
            }
        }
        self.poller.add(fd, fd as u64, Ready::OUT)?;
        if self.conns.len() <= fd as usize {
            self.conns.resize_with(fd as usize + 1, || None);
        }
        self.conns[fd as usize] = Some(Conn { phase: Phase::Connecting, since: now, head: Vec::new() });
        self.open += 1;
        self.measured.connections += 1;
        Ok(())
    }

    fn request(&mut self, fd: Fd, since: Instant) {
        let sent = self.stack.send(fd, &self.plan.request, SendFlags::default());
        match (&mut self.conns[fd as usize], sent) {
            (Some(conn), Ok(n)) if n == self.plan.request.len() => {
                conn.phase = Phase::Waiting { left: None };
                conn.since = since;
            }
            _ => self.fail(fd),
        }
    }

    fn fail(&mut self, fd: Fd) {
        self.measured.errors += 1;
        self.forget(fd);
    }

    fn forget(&mut self, fd: Fd) {
        if self.conns[fd as usize].take().is_some() {
            self.open -= 1;
        }
        self.idle.remove(fd);
        // It was ours and open; there is nothing to learn from the result.
        let _ = self.stack.close(fd);
    }

    fn on_event(&mut self, fd: Fd, ready: Ready) {
        let Some(conn) = &mut self.conns[fd as usize] else { return };
        if conn.phase == Phase::Connecting {
            if ready.any(Ready::ERR | Ready::HUP) {
                return self.fail(fd);
            }
            if self.poller.modify(fd, fd as u64, Ready::IN).is_err() {
                return self.fail(fd);
            }
            if self.plan.interval.is_none() {
                // The handshake is part of a short transaction: its time runs from the SYN.
                let since = if self.plan.close { conn.since } else { self.clock.now() };
                if self.budget.take() {
                    return self.request(fd, since);
                }
            }
            if let Some(conn) = &mut self.conns[fd as usize] {
                conn.phase = Phase::Idle;
            }
            self.idle.push(fd);
            return;
        }
        self.read(fd);
    }

    fn read(&mut self, fd: Fd) {
        let mut buf = std::mem::take(&mut self.buf);
        let result = self.stack.recv(fd, &mut buf, RecvFlags::default());
        match result {
            Err(Errno::EAGAIN) => {}
            Err(_) => self.fail(fd),
            Ok(0) => match self.conns[fd as usize].as_ref().map(|c| c.phase) {
                Some(Phase::Closing | Phase::Idle) => self.forget(fd),
                _ => self.fail(fd),
            },
            Ok(n) => {
                self.measured.bytes += n as u64;
                self.answer(fd, &buf[..n]);
            }
        }
        self.buf = buf;
    }

    fn answer(&mut self, fd: Fd, data: &[u8]) {
        let Some(conn) = &mut self.conns[fd as usize] else { return };
        let Phase::Waiting { left } = conn.phase else { return self.fail(fd) };
        let left = match left {
            Some(left) => left.checked_sub(data.len() as u64).map(Some),
            None if conn.head.is_empty() => body_left(data, &mut conn.head),
            None => {
                let mut whole = std::mem::take(&mut conn.head);
                whole.extend_from_slice(data);
                body_left(&whole, &mut conn.head)
            }
        };
        match left {
            None => self.fail(fd),
            Some(Some(0)) => self.whole(fd),
            Some(left) => conn.phase = Phase::Waiting { left },
        }
    }

    fn whole(&mut self, fd: Fd) {
        let now = self.clock.now();
        let Some(conn) = &mut self.conns[fd as usize] else { return };
        let took = (now - conn.since).as_nanos().max(1) as u64;
        self.measured.latency.saturating_record(took);
        self.measured.requests += 1;
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.plan.close {
            conn.phase = Phase::Closing;
        } else if self.plan.interval.is_none() && self.budget.take() {
            // Closed loop: on with it, without a detour through the idle queue.
            self.request(fd, now);
        } else {
            conn.phase = Phase::Idle;
            self.idle.push(fd);
        }
    }
}

/// An answer whose head has this many bytes is an error.
const HEAD_MAX: usize = 64 * 1024;

/// Bytes of the body still to come after `data`; `Some(None)` if the head is not whole yet (it is kept in `head`);
/// `None` if the answer is not a 200 whose end can be told.
fn body_left(data: &[u8], head: &mut Vec<u8>) -> Option<Option<u64>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let head_len = match response.parse(data).ok()? {
        httparse::Status::Complete(n) => n,
        httparse::Status::Partial if data.len() < HEAD_MAX => {
            *head = data.to_vec();
            return Some(None);
        }
        httparse::Status::Partial => return None,
    };
    let length = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"))?;
    let length: u64 = std::str::from_utf8(length.value).ok()?.trim().parse().ok()?;
    (response.code == Some(200)).then_some(())?;
    length.checked_sub((data.len() - head_len) as u64).map(Some)
}

#[cfg(test)]
mod tests;
