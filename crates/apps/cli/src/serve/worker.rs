//! One core's event loop: accept, read requests, write answers.
//!
//! Beside its socket a connection holds at most [`HEAD_MAX`] bytes of requests and [`OUTPUT_MAX`] bytes of answers:
//! what its peer sends beyond that waits in the receive buffer, and a body is made when there is room to send it.

use super::Totals;
use super::content::{Body, Content, Memory, Refused};
use super::request::{Answer, HEAD_MAX, Parsed, parse};
use base::{Duration, Instant};
use sock::{
    Clock, EpollEvent, Errno, Fd, Poller, Ready, RecvFlags, SendFlags, Stack, SystemClock, TcpListener,
};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// The word of the listener's events; descriptors are the others'.
const LISTENER: u64 = u64::MAX;
/// No request is looked at while this many bytes of answers are to be sent.
const OUTPUT_MAX: usize = 16 * 1024;
/// Reads, and times that a connection's answers are sent, for one event: then others have their turn.
const ROUNDS: u32 = 16;
/// Bytes of a body that are made at a time.
const CHUNK: usize = 64 * 1024;
/// Bytes that a client sends or takes within the time-out at least, unless it is between two requests.
const SLOWEST: usize = 1024;

/// State of a connection that is not between two requests. Most never have one.
#[derive(Default)]
struct Unfinished {
    /// Requests that wait, the last one perhaps not whole.
    input: Vec<u8>,
    /// Bytes of a body we do not look at, still to come.
    skip: u64,
    /// An answer under way: bytes before the body, then the body.
    head: Vec<u8>,
    body: Option<Body>,
    closing: bool,
    /// EPOLLOUT is asked for.
    waiting_to_write: bool,
    /// Bytes that the peer had not acknowledged when its time was over last.
    unacked: usize,
}

impl Unfinished {
    /// Returns true if an answer is under way.
    fn is_answering(&self) -> bool {
        self.body.is_some() || !self.head.is_empty() || self.waiting_to_write
    }
}

/// How long ago a connection got on.
#[derive(Clone, Copy)]
struct Pace {
    /// When it did; FAR_FUTURE where there is no connection.
    since: Instant,
    /// Bytes of bodies moved since then.
    moved: usize,
}

const NO_PACE: Pace = Pace { since: Instant::FAR_FUTURE, moved: 0 };

struct Worker<'a> {
    stack: &'a Stack,
    poller: Poller,
    listener: Fd,
    /// The listener is not watched: there was no descriptor left for a connection.
    full: bool,
    content: &'a Content,
    memory: Memory,
    /// The time when the last events came.
    now: Instant,
    /// By descriptor, as `paces`.
    unfinished: Vec<Option<Box<Unfinished>>>,
    paces: Vec<Pace>,
    totals: Totals,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The body at the end of `output`, and where it begins there.
    last: Option<(usize, Body)>,
    /// The next bytes of a long body.
    chunk: Vec<u8>,
}

/// Serves until `stop`. Connections that do not get on for `timeout` are closed.
pub(crate) fn run(
    stack: &Stack,
    listener: &TcpListener,
    content: &Content,
    stop: &AtomicBool,
    timeout: Option<Duration>,
) -> Result<Totals, Errno> {
    let mut worker = Worker::new(stack, listener.fd(), content)?;
    let mut events = vec![EpollEvent::default(); 1_024];
    let clock = SystemClock::new();
    let mut looked = clock.now();
    while !stop.load(Ordering::Relaxed) {
        worker.turn(&mut events, Duration::from_millis(200), || clock.now())?;
        if let Some(timeout) = timeout.filter(|_| worker.now - looked >= Duration::from_millis(500)) {
            looked = worker.now;
            worker.close_late(timeout);
        }
    }
    Ok(worker.totals)
}

impl<'a> Worker<'a> {
    fn new(stack: &'a Stack, listener: Fd, content: &'a Content) -> Result<Self, Errno> {
        let poller = Poller::new(stack)?;
        poller.add(listener, LISTENER, Ready::IN)?;
        Ok(Worker {
            stack,
            poller,
            listener,
            full: false,
            content,
            memory: Memory::default(),
            now: Instant::ZERO,
            unfinished: Vec::new(),
            paces: Vec::new(),
            totals: Totals::default(),
            input: vec![0; 64 * 1024],
            output: Vec::with_capacity(CHUNK + OUTPUT_MAX),
            last: None,
            chunk: vec![0; CHUNK],
        })
    }

    /// Serves what is there within `wait`. `now` is asked when that is known.
    fn turn(
        &mut self,
        events: &mut [EpollEvent],
        wait: Duration,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Errno> {
        let n = self.poller.wait(events, Some(wait))?.len();
        self.now = now();
        for event in &events[..n] {
            if event.data == LISTENER {
                self.accept()?;
            } else {
                self.serve(event.data as Fd, event.ready);
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<(), Errno> {
        loop {
            match self.stack.accept(self.listener) {
                Ok((fd, _)) => {
                    self.stack.set_nonblocking(fd, true)?;
                    self.totals.connections += 1;
                    if self.unfinished.len() <= fd as usize {
                        self.unfinished.resize_with(fd as usize + 1, || None);
                        self.paces.resize(fd as usize + 1, NO_PACE);
                    }
                    self.paces[fd as usize] = Pace { since: self.now, moved: 0 };
                    self.poller.add(fd, fd as u64, Ready::IN | Ready::RDHUP)?;
                }
                Err(Errno::EAGAIN) => return Ok(()),
                // Those waiting stay in the queue until a connection ends.
                Err(Errno::EMFILE) => {
                    self.full = true;
                    return self.poller.delete(self.listener);
                }
                Err(Errno::ECONNABORTED) => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn serve(&mut self, fd: Fd, ready: Ready) {
        // An earlier event of this round may have closed it.
        if self.paces[fd as usize].since == Instant::FAR_FUTURE {
            return;
        }
        if ready.any(Ready::OUT) && !self.go_on(fd) {
            return;
        }
        if ready.any(Ready::IN | Ready::ERR | Ready::HUP) {
            self.read(fd);
        }
    }

    fn close(&mut self, fd: Fd) {
        self.unfinished[fd as usize] = None;
        self.paces[fd as usize] = NO_PACE;
        // It was ours and open; there is nothing to learn from the result.
        let _ = self.stack.close(fd);
        if self.full && self.poller.add(self.listener, LISTENER, Ready::IN).is_ok() {
            self.full = false;
        }
    }

    /// Closes the connections that did not get on for `timeout`.
    fn close_late(&mut self, timeout: Duration) {
        for slot in 0..self.paces.len() {
            let since = self.paces[slot].since;
            if since > self.now || self.now - since < timeout {
                continue;
            }
            let fd = slot as Fd;
            // What lies in the send buffer may be on its way still.
            if let Some(u) = self.unfinished[slot].as_mut().filter(|u| u.is_answering()) {
                let (unacked, _) = self.stack.unsent(fd).unwrap_or_default();
                let before = std::mem::replace(&mut u.unacked, unacked);
                if before == 0 || unacked + SLOWEST <= before {
                    self.paces[slot].since = self.now;
                    continue;
                }
            }
            self.close(fd);
        }
    }

    /// A whole request came, or an answer was sent whole: the time begins again.
    fn got_on(&mut self, fd: Fd) {
        self.paces[fd as usize] = Pace { since: self.now, moved: 0 };
    }

    /// Bytes of a body came or were sent.
    fn moved(&mut self, fd: Fd, n: usize) {
        let pace = &mut self.paces[fd as usize];
        pace.moved += n;
        if pace.moved >= SLOWEST {
            *pace = Pace { since: self.now, moved: 0 };
        }
    }

    fn read(&mut self, fd: Fd) {
        let slot = fd as usize;
        let mut input = std::mem::take(&mut self.input);
        for _ in 0..ROUNDS {
            let (kept, skip) = match self.unfinished[slot].as_mut() {
                // Requests wait their turn in the receive buffer.
                Some(u) if u.is_answering() => break,
                Some(u) => {
                    input[..u.input.len()].copy_from_slice(&u.input);
                    (u.input.len(), u.skip)
                }
                None => (0, 0),
            };
            // Of a long body all is taken that is there: it is still where it arrived.
            let room = (input.len() as u64).min(skip + HEAD_MAX as u64) as usize;
            match self.stack.recv(fd, &mut input[kept..room], RecvFlags::default()) {
                Ok(0) => {
                    self.close(fd);
                    break;
                }
                Ok(n) => {
                    let rest = self.unfinished[slot].take();
                    self.moved(fd, skip.min(n as u64) as usize);
                    if !self.requests(fd, &input[..kept + n], rest) || kept + n < room {
                        break;
                    }
                }
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    self.close(fd);
                    break;
                }
            }
        }
        self.input = input;
    }

    /// Answers the whole requests in `data` as long as their answers can be sent; keeps what is left over. Returns true
    /// if the connection is free for the next request.
    fn requests(&mut self, fd: Fd, mut data: &[u8], mut rest: Option<Box<Unfinished>>) -> bool {
        for _ in 0..ROUNDS {
            let before = self.totals.requests;
            let more;
            (data, more) = self.answers(data, &mut rest);
            if self.totals.requests != before {
                self.got_on(fd);
            }
            match self.send(fd, &mut rest) {
                Ok(true) => {}
                Ok(false) => return self.wait_to_write(fd, data, rest.unwrap_or_default()),
                Err(_) => {
                    self.close(fd);
                    return false;
                }
            }
            if rest.as_ref().is_some_and(|u| u.closing) {
                self.close(fd);
                return false;
            }
            if !more {
                return self.wait_to_read(fd, data, rest);
            }
        }
        self.wait_to_write(fd, data, rest.unwrap_or_default())
    }

    /// Appends the answers of whole requests to the output, up to its bound. Returns the data left over, and whether
    /// there may be a whole request in it.
    fn answers<'d>(&mut self, mut data: &'d [u8], rest: &mut Option<Box<Unfinished>>) -> (&'d [u8], bool) {
        self.output.clear();
        self.last = None;
        loop {
            if let Some(u) = rest.as_mut().filter(|u| u.skip > 0) {
                let n = u.skip.min(data.len() as u64);
                u.skip -= n;
                data = &data[n as usize..];
            }
            if data.is_empty() {
                return (data, false);
            }
            if self.output.len() >= OUTPUT_MAX {
                return (data, true);
            }
            let answer = match parse(data) {
                Parsed::Partial if data.len() < HEAD_MAX => return (data, false),
                Parsed::Partial => Answer::error(431, "Request Header Fields Too Large"),
                Parsed::Bad => Answer::error(400, "Bad Request"),
                Parsed::Request { head_len, body_len, answer } => {
                    data = &data[head_len..];
                    if body_len > 0 {
                        rest.get_or_insert_default().skip = body_len;
                    }
                    answer
                }
            };
            self.totals.requests += 1;
            let closing = answer.closing;
            self.answer(&answer);
            if closing {
                rest.get_or_insert_default().closing = true;
                return (&[], false);
            }
            if self.last.as_ref().is_some_and(|(_, body)| body.len() > 0) {
                return (data, true);
            }
        }
    }

    /// Appends an answer to the output; of a long body the beginning.
    fn answer(&mut self, answer: &Answer<'_>) {
        let connection = if answer.closing { "Connection: close\r\n" } else { "" };
        let found = match answer.error {
            Some(refused) => Err(refused),
            None => self.memory.find(self.content, answer.path, self.now),
        };
        let out = &mut self.output;
        self.last = None;
        match found {
            Ok((mut body, media)) => {
                let len = body.len();
                put(
                    out,
                    format_args!(
                        "HTTP/1.1 200 OK\r\nServer: millstream\r\nContent-Type: {media}\r\n\
                         Content-Length: {len}\r\n{connection}\r\n"
                    ),
                );
                if answer.head_only {
                    return;
                }
                let begin = out.len();
                while body.len() > 0 && out.len() < CHUNK {
                    let start = out.len();
                    out.resize(start + body.len().min(CHUNK as u64) as usize, 0);
                    match self.content.fill(&body, &mut out[start..]) {
                        Ok(n) => {
                            out.truncate(start + n);
                            body.advance(n);
                        }
                        // The length is promised already: sending finds the same error and closes.
                        Err(_) => {
                            out.truncate(start);
                            break;
                        }
                    }
                }
                self.last = Some((begin, body));
            }
            Err(Refused(status, reason)) => {
                self.totals.errors += 1;
                put(
                    out,
                    format_args!(
                        "HTTP/1.1 {status} {reason}\r\nServer: millstream\r\nContent-Length: 0\r\n{connection}\r\n"
                    ),
                );
            }
        }
    }

    /// Sends the output and the rest of a long body. Returns true if all of it went; `rest` has what did not.
    fn send(&mut self, fd: Fd, rest: &mut Option<Box<Unfinished>>) -> Result<bool, Errno> {
        let sent = if self.output.is_empty() {
            0
        } else {
            match self.stack.send(fd, &self.output, SendFlags::default()) {
                Err(Errno::EAGAIN) => 0,
                sent => sent?,
            }
        };
        self.totals.bytes += sent as u64;
        let mut end = self.output.len();
        if let Some((begin, mut body)) = self.last.take() {
            // What did not go of a body is made again: cheaper than keeping it.
            let begin = begin.max(sent);
            body.step_back(end - begin);
            end = begin;
            if body.len() > 0 {
                rest.get_or_insert_default().body = Some(body);
            }
        }
        if sent < end {
            rest.get_or_insert_default().head = self.output[sent..end].to_vec();
        }
        match rest {
            Some(u) => self.flush(fd, u),
            None => Ok(true),
        }
    }

    /// Sends what is left of an answer. Returns true if all of it went.
    fn flush(&mut self, fd: Fd, u: &mut Unfinished) -> Result<bool, Errno> {
        for _ in 0..ROUNDS {
            let sent = match u.body.as_mut() {
                _ if !u.head.is_empty() => {
                    let more = u.body.is_some();
                    let sent = self.stack.send(fd, &u.head, SendFlags { more, ..SendFlags::default() });
                    sent.inspect(|&n| drop(u.head.drain(..n)))
                }
                Some(body) if body.len() > 0 => self
                    .content
                    .in_place(body)
                    .map(|(bytes, range)| self.stack.lend(fd, bytes, range, SendFlags::default()))
                    .unwrap_or_else(|| match self.content.fill(body, &mut self.chunk) {
                        // What does not go now is read again next time: cheaper than keeping it.
                        Ok(n) => self.stack.send(fd, &self.chunk[..n], SendFlags::default()),
                        Err(_) => Err(Errno::EIO),
                    })
                    .inspect(|&n| body.advance(n)),
                _ => {
                    // Its memory goes with the answer.
                    (u.head, u.body, u.unacked) = (Vec::new(), None, 0);
                    return Ok(true);
                }
            };
            match sent {
                Ok(n) => {
                    self.totals.bytes += n as u64;
                    self.moved(fd, n);
                }
                Err(Errno::EAGAIN) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }

    /// Goes on with an answer. Returns true if the connection is free for the next request.
    fn go_on(&mut self, fd: Fd) -> bool {
        let Some(mut u) = self.unfinished[fd as usize].take() else { return true };
        match self.flush(fd, &mut u) {
            Ok(true) if u.closing => {
                self.close(fd);
                false
            }
            Ok(true) => {
                self.got_on(fd);
                let input = std::mem::take(&mut u.input);
                self.requests(fd, &input, Some(u))
            }
            Ok(false) => {
                self.unfinished[fd as usize] = Some(u);
                false
            }
            Err(_) => {
                self.close(fd);
                false
            }
        }
    }

    fn wait_to_read(&mut self, fd: Fd, data: &[u8], rest: Option<Box<Unfinished>>) -> bool {
        let mut rest = rest;
        if let Some(u) = rest.as_mut().filter(|u| u.waiting_to_write) {
            u.waiting_to_write = false;
            if self.poller.modify(fd, fd as u64, Ready::IN | Ready::RDHUP).is_err() {
                self.close(fd);
                return false;
            }
        }
        if !data.is_empty() {
            rest.get_or_insert_default().input = data.to_vec();
        }
        self.unfinished[fd as usize] = rest.filter(|u| u.skip > 0 || !u.input.is_empty());
        true
    }

    fn wait_to_write(&mut self, fd: Fd, data: &[u8], mut u: Box<Unfinished>) -> bool {
        u.input = data.to_vec();
        if !u.waiting_to_write {
            u.waiting_to_write = true;
            if self.poller.modify(fd, fd as u64, Ready::OUT).is_err() {
                self.close(fd);
                return false;
            }
        }
        self.unfinished[fd as usize] = Some(u);
        false
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a Vec cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests;
