//! The applications of a [`Net`]: they act on events alone, as with an edge-triggered epoll, so an edge that
//! is never told shows as a stall.

use base::{Duration, Instant};
use tcp::{Events, ReadError, State, WriteError};

use crate::net::Net;
use crate::police::byte;

/// Application at one end.
pub(crate) struct App {
    /// Bytes to write, then close our half.
    pub(crate) total: u64,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Most bytes it reads at once, and how long it rests afterwards.
    pub(crate) read_max: usize,
    pub(crate) rest: Duration,
    pub(crate) finished: bool,
    pub(crate) shut: bool,
    pub(crate) wake: Instant,
    may_read: bool,
    may_write: bool,
    dead: bool,
}

impl App {
    pub(crate) fn new(total: u64) -> Self {
        App {
            total,
            written: 0,
            read: 0,
            read_max: 30_000,
            rest: Duration::ZERO,
            finished: false,
            shut: false,
            wake: Instant::ZERO,
            may_read: false,
            may_write: false,
            dead: false,
        }
    }
}

impl Net {
    /// The application at end `i` looks at its events.
    pub(crate) fn app(&mut self, i: usize) {
        let fresh = core::mem::take(&mut self.hosts[i].fresh);
        if self.hosts[i].conn.is_none() || self.apps[i].dead {
            return;
        }
        let app = &mut self.apps[i];
        app.may_read |= fresh.any(Events::CONNECTED | Events::READABLE | Events::PEER_CLOSED | Events::ERROR);
        app.may_write |= fresh.any(Events::CONNECTED | Events::WRITABLE);
        if app.may_write && !app.shut {
            self.write(i);
        }
        if self.apps[i].may_read && self.apps[i].wake <= self.now {
            self.read(i);
        }
    }

    fn write(&mut self, i: usize) {
        let now = self.now;
        while self.apps[i].written < self.apps[i].total {
            let app = &mut self.apps[i];
            let n = (1 + self.rng.below(20_000)).min(app.total - app.written);
            let data: Vec<u8> = (app.written..app.written + n).map(|at| byte(i, at)).collect();
            match self.hosts[i].with(now, |conn, cx| conn.write(cx, &data)) {
                Ok(took) => self.apps[i].written += took as u64,
                Err(WriteError::Full | WriteError::NoMemory) => {
                    self.apps[i].may_write = false;
                    return;
                }
                Err(WriteError::Failed(_) | WriteError::Shutdown) if self.kill.is_some() => {
                    return self.killed(i);
                }
                Err(other) => panic!("seed {}: write: {other:?}", self.seed),
            }
        }
        self.apps[i].shut = true;
        self.hosts[i].with(now, |conn, cx| conn.shutdown(cx, tcp::Shutdown::Write));
    }

    fn read(&mut self, i: usize) {
        let now = self.now;
        let mut into = [0; 65_536];
        while !self.apps[i].finished {
            let most = 1 + self.rng.below(self.apps[i].read_max as u64) as usize;
            match self.hosts[i].with(now, |conn, cx| conn.read(cx, &mut into[..most])) {
                Ok(n) => {
                    let app = &mut self.apps[i];
                    for (k, &got) in into[..n].iter().enumerate() {
                        let at = app.read + k as u64;
                        assert_eq!(got, byte(1 - i, at), "seed {}: byte {at} read by {i}", self.seed);
                    }
                    app.read += n as u64;
                    if app.rest > Duration::ZERO {
                        app.wake = now + app.rest;
                        return;
                    }
                }
                Err(ReadError::Empty) => {
                    self.apps[i].may_read = false;
                    return;
                }
                Err(ReadError::Finished) => return self.finished(i),
                Err(ReadError::Failed(_)) if self.kill.is_some() => return self.killed(i),
                Err(other) => panic!("seed {}: read: {other:?}", self.seed),
            }
        }
    }

    fn finished(&mut self, i: usize) {
        let all = self.apps[i].read == self.apps[1 - i].total;
        assert!(all || self.kill.is_some(), "seed {}: the end comes after all data", self.seed);
        self.apps[i].finished = true;
        let now = self.now;
        self.hosts[i].with(now, |conn, cx| {
            if conn.write_closed() {
                conn.close(cx)
            }
        });
        if self.kill.is_some() && self.hosts[i].state() == State::Closed {
            self.killed(i);
        }
    }

    /// The process is gone: what it had open is closed.
    pub(crate) fn killed(&mut self, i: usize) {
        if !self.apps[i].dead && self.hosts[i].conn.is_some() {
            self.apps[i].dead = true;
            let now = self.now;
            self.hosts[i].with(now, |conn, cx| conn.close(cx));
        }
    }
}
