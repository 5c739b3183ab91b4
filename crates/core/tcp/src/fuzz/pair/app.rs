//! The application of one end. It acts on events alone, as with an edge-triggered epoll: an edge that is never told
//! shows as a connection that does not end.

use alloc::vec;
use alloc::vec::Vec;

use base::Duration;

use super::end::Act;
use super::{Pair, byte};
use crate::{Error, Events, ReadError, Shutdown, State, WriteError};

impl Pair<'_, '_> {
    /// The application at end `i` looks at what happened.
    pub(super) fn app(&mut self, i: usize) {
        let now = self.now;
        let fresh = core::mem::take(&mut self.ends[i].fresh);
        if self.ends[i].conn.is_none() {
            return;
        }
        let app = &mut self.ends[i].app;
        app.may_read |= fresh.any(Events::CONNECTED | Events::READABLE | Events::PEER_CLOSED | Events::ERROR);
        app.may_write |= fresh.any(Events::CONNECTED | Events::WRITABLE | Events::ERROR);
        if app.wake.is_some_and(|at| at <= now) {
            app.wake = None;
        }
        if let Some((_, act)) = app.act.take_if(|(at, _)| *at <= now) {
            self.act(i, act);
        }
        let app = &self.ends[i].app;
        if app.may_write && !app.shut && !app.let_go {
            self.write(i);
        }
        let app = &self.ends[i].app;
        if app.may_read && app.wake.is_none() && !app.done_reading && !app.let_go {
            self.read(i);
        }
        if self.ends[i].app.drains && !self.ends[i].app.let_go {
            self.drain(i);
        }
    }

    /// Takes what came after the reading half was shut, as Linux lets one: or it would fill the memory.
    fn drain(&mut self, i: usize) {
        let (now, mut into) = (self.now, [0; 2048]);
        loop {
            match self.ends[i].with(now, |conn, cx| conn.read(cx, &mut into)) {
                Ok(n) => self.ends[i].app.read += n as u32,
                Err(ReadError::Failed(error)) => return self.failed(i, error),
                Err(_) => return,
            }
        }
    }

    fn act(&mut self, i: usize, act: Act) {
        let now = self.now;
        if self.ends[i].app.let_go {
            return;
        }
        self.tell(format_args!("{i} {act:?}"));
        match act {
            Act::Close => self.let_go(i),
            Act::Abort => {
                self.ends[i].with(now, |conn, cx| conn.abort(cx));
                self.let_go(i);
            }
            // In SYN-SENT either half ends the connection (RFC 9293, section 3.10.4).
            Act::ShutRead | Act::ShutWrite if self.is_opening(i) => {}
            Act::ShutRead => {
                self.ends[i].with(now, |conn, cx| conn.shutdown(cx, Shutdown::Read));
                (self.ends[i].app.done_reading, self.ends[i].app.drains) = (true, true);
                self.maybe_let_go(i);
            }
            Act::ShutWrite if self.ends[i].conn.is_some() => self.shut(i),
            Act::ShutWrite => {}
            Act::Options => {
                let mut options = self.ends[i].options;
                options.nodelay = !options.nodelay;
                options.cork = !options.cork && options.notsent_lowat == 0;
                options.quickack = Some(options.quickack != Some(true));
                self.ends[i].options = options;
                self.ends[i].with(now, |conn, cx| conn.set_options(cx, options));
            }
        }
    }

    fn is_opening(&self, i: usize) -> bool {
        self.ends[i].conn.as_ref().is_some_and(|conn| conn.state() == State::SynSent)
    }

    fn shut(&mut self, i: usize) {
        let now = self.now;
        self.ends[i].app.shut = true;
        let written = self.ends[i].app.written;
        self.tell(format_args!("{i} shuts its half after {written} bytes"));
        self.ends[i].with(now, |conn, cx| conn.shutdown(cx, Shutdown::Write));
        if self.ends[i].app.hasty {
            self.let_go(i);
        }
        self.maybe_let_go(i);
    }

    fn write(&mut self, i: usize) {
        let now = self.now;
        while self.ends[i].app.written < self.ends[i].app.total {
            let app = &self.ends[i].app;
            let len = (app.write_max - self.input.below(app.write_max)).min(app.total - app.written);
            let data: Vec<u8> = (app.written..app.written + len).map(|at| byte(i, at)).collect();
            match self.ends[i].with(now, |conn, cx| conn.write(cx, &data)) {
                Ok(took) => {
                    assert!(took > 0 && took <= data.len());
                    self.ends[i].app.written += took as u32;
                }
                Err(WriteError::Full | WriteError::NoMemory) => {
                    self.ends[i].app.may_write = false;
                    return;
                }
                Err(WriteError::Failed(error)) => return self.failed(i, error),
                Err(WriteError::Shutdown) => {
                    // After an error was told, or after our own shutdown.
                    assert!(self.ends[i].app.error.is_some() || !self.ends[i].lives(), "EPIPE for nothing");
                    self.ends[i].app.shut = true;
                    return self.maybe_let_go(i);
                }
                Err(WriteError::NotConnected) => panic!("told to write before the connection stands"),
            }
        }
        self.shut(i);
    }

    fn read(&mut self, i: usize) {
        let now = self.now;
        loop {
            let app = &self.ends[i].app;
            let mut into = vec![0; (app.read_max - self.input.below(app.read_max)) as usize];
            match self.ends[i].with(now, |conn, cx| conn.read(cx, &mut into)) {
                Ok(n) => {
                    let app = &mut self.ends[i].app;
                    for (place, &got) in (app.read..).zip(&into[..n]) {
                        assert_eq!(got, byte(1 - i, place), "byte {place} read by {i}");
                    }
                    app.read += n as u32;
                    let stall = app.stall.take_if(|(from, _)| app.read >= *from);
                    let rest = stall.map_or(app.rest, |(_, rest)| rest);
                    if rest > Duration::ZERO {
                        app.wake = Some(now + rest);
                        return;
                    }
                }
                Err(ReadError::Empty) => {
                    self.ends[i].app.may_read = false;
                    return;
                }
                Err(ReadError::Finished) => return self.finished(i),
                Err(ReadError::Failed(error)) => return self.failed(i, error),
                Err(ReadError::NotConnected) => panic!("told to read before the connection stands"),
            }
        }
    }

    /// The peer's stream ended in order: then it ended where the peer ended it, unless an error was told before.
    fn finished(&mut self, i: usize) {
        let (read, written) = (self.ends[i].app.read, self.ends[1 - i].app.written);
        self.tell(format_args!("{i} read the end after {read} bytes"));
        let app = &mut self.ends[i].app;
        app.done_reading = true;
        if app.error.is_none() {
            app.finished = true;
            let all = self.ends[1 - i].app.shut && read == written;
            assert!(all, "{i} saw the end after {read} of {written} bytes");
        }
        self.maybe_let_go(i);
    }

    fn failed(&mut self, i: usize, error: Error) {
        self.tell(format_args!("{i} is told {error:?}"));
        let app = &mut self.ends[i].app;
        assert!(app.error.replace(error).is_none(), "an error is told once");
        (app.shut, app.done_reading) = (true, true);
        self.let_go(i);
    }

    fn maybe_let_go(&mut self, i: usize) {
        if self.ends[i].app.done_reading && self.ends[i].app.shut {
            self.let_go(i);
        }
    }

    fn let_go(&mut self, i: usize) {
        let app = &mut self.ends[i].app;
        if core::mem::replace(&mut app.let_go, true) {
            return;
        }
        (app.shut, app.done_reading) = (true, true);
        self.tell(format_args!("{i} lets go"));
        let now = self.now;
        self.ends[i].with(now, |conn, cx| conn.close(cx));
    }
}
