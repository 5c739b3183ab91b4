//! One core's event loop: accept, read requests, write answers.

use super::Totals;
use super::content::{Body, Content, Memory, Refused};
use base::{Duration, Instant};
use sock::{
    Clock, EpollEvent, Errno, Fd, Poller, Ready, RecvFlags, SendFlags, Stack, SystemClock, TcpListener,
};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// The word of the listener's events; descriptors are the others'.
const LISTENER: u64 = u64::MAX;
/// A request head longer than this is refused.
const HEAD_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// Reads of a long body for one event at most, so that others have their turn.
const READS: u32 = 16;
/// Bytes of a body that are made at a time.
const CHUNK: usize = 64 * 1024;

/// Rest of an answer that could not be finished at once. Most never have one.
#[derive(Default)]
struct Unfinished {
    /// The beginning of a request.
    input: Vec<u8>,
    /// Bytes of a body we do not look at, still to come.
    skip: u64,
    /// An answer under way: bytes before the body, then the body.
    head: Vec<u8>,
    body: Option<Body>,
    closing: bool,
    /// EPOLLOUT is asked for.
    waiting_to_write: bool,
}

struct Worker<'a> {
    stack: &'a Stack,
    poller: Poller,
    content: &'a Content,
    memory: Memory,
    clock: SystemClock,
    /// The time when the last events came.
    now: Instant,
    /// By descriptor.
    unfinished: Vec<Option<Box<Unfinished>>>,
    totals: Totals,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The next bytes of a long body.
    chunk: Vec<u8>,
}

/// Serves until `stop`.
pub(crate) fn run(
    stack: &Stack,
    listener: &TcpListener,
    content: &Content,
    stop: &AtomicBool,
) -> Result<Totals, Errno> {
    let poller = Poller::new(stack)?;
    poller.add(listener.fd(), LISTENER, Ready::IN)?;
    let mut worker = Worker {
        stack,
        poller,
        content,
        memory: Memory::default(),
        now: Instant::ZERO,
        clock: SystemClock::new(),
        unfinished: Vec::new(),
        totals: Totals::default(),
        input: vec![0; 64 * 1024],
        output: Vec::with_capacity(CHUNK + 1_024),
        chunk: vec![0; CHUNK],
    };
    let mut events = vec![EpollEvent::default(); 1_024];
    while !stop.load(Ordering::Relaxed) {
        let n = match worker.poller.wait(&mut events, Some(Duration::from_millis(200))) {
            Ok(found) => found.len(),
            Err(e) => return Err(e),
        };
        worker.now = worker.clock.now();
        for event in &events[..n] {
            if event.data == LISTENER {
                worker.accept(listener.fd())?;
            } else {
                worker.serve(event.data as Fd, event.ready);
            }
        }
    }
    Ok(worker.totals)
}

impl Worker<'_> {
    fn accept(&mut self, listener: Fd) -> Result<(), Errno> {
        loop {
            match self.stack.accept(listener) {
                Ok((fd, _)) => {
                    self.stack.set_nonblocking(fd, true)?;
                    self.totals.connections += 1;
                    if self.unfinished.len() <= fd as usize {
                        self.unfinished.resize_with(fd as usize + 1, || None);
                    }
                    self.poller.add(fd, fd as u64, Ready::IN | Ready::RDHUP)?;
                }
                // Out of descriptors: those waiting stay in the queue until a connection ends.
                Err(Errno::EAGAIN | Errno::EMFILE) => return Ok(()),
                Err(Errno::ECONNABORTED) => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn serve(&mut self, fd: Fd, ready: Ready) {
        if ready.any(Ready::OUT) && !self.flush(fd) {
            return;
        }
        if ready.any(Ready::IN | Ready::ERR | Ready::HUP) {
            self.read(fd);
        }
    }

    fn close(&mut self, fd: Fd) {
        self.unfinished[fd as usize] = None;
        // It was ours and open; there is nothing to learn from the result.
        let _ = self.stack.close(fd);
    }

    fn read(&mut self, fd: Fd) {
        let slot = fd as usize;
        if self.unfinished[slot].as_ref().is_some_and(|u| u.body.is_some() || !u.head.is_empty()) {
            // An answer is under way: requests wait their turn in the receive buffer.
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        for _ in 0..READS {
            let got = self.stack.recv(fd, &mut input, RecvFlags::default());
            match got {
                Ok(0) => self.close(fd),
                Ok(n) => match self.unfinished[slot].take() {
                    Some(mut rest) if !rest.input.is_empty() => {
                        let mut whole = std::mem::take(&mut rest.input);
                        whole.extend_from_slice(&input[..n]);
                        self.requests(fd, &whole, Some(rest));
                    }
                    rest => self.requests(fd, &input[..n], rest),
                },
                Err(Errno::EAGAIN) => {}
                Err(_) => self.close(fd),
            }
            // Of a long body all is taken that is there: it is still where it arrived.
            let swallows = |u: &Unfinished| u.skip > 0 && u.body.is_none() && u.head.is_empty();
            if got != Ok(input.len()) || !self.unfinished[slot].as_deref().is_some_and(swallows) {
                break;
            }
        }
        self.input = input;
    }

    /// Answers every whole request in `data`; keeps what is left over.
    fn requests(&mut self, fd: Fd, mut data: &[u8], rest: Option<Box<Unfinished>>) {
        let mut rest = rest;
        self.output.clear();
        loop {
            if let Some(u) = rest.as_mut().filter(|u| u.skip > 0) {
                let n = u.skip.min(data.len() as u64);
                u.skip -= n;
                data = &data[n as usize..];
            }
            if data.is_empty() {
                break;
            }
            let answer = match parse(data) {
                Parsed::Partial if data.len() <= HEAD_MAX => {
                    rest.get_or_insert_default().input = data.to_vec();
                    break;
                }
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
            if let Some(body) = self.answer(&answer) {
                let u = rest.get_or_insert_default();
                (u.body, u.closing, u.input) = (Some(body), closing, data.to_vec());
                break;
            }
            if closing {
                rest.get_or_insert_default().closing = true;
                break;
            }
        }
        self.send(fd, rest);
    }

    /// Appends an answer to the output; the body if it is too long to go there whole.
    fn answer(&mut self, answer: &Answer<'_>) -> Option<Body> {
        let connection = if answer.closing { "Connection: close\r\n" } else { "" };
        let found = match answer.error {
            Some(refused) => Err(refused),
            None => self.memory.find(self.content, answer.path, self.now),
        };
        let out = &mut self.output;
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
                    return None;
                }
                while body.len() > 0 && out.len() < CHUNK {
                    let start = out.len();
                    out.resize(start + body.len().min(CHUNK as u64) as usize, 0);
                    match self.content.fill(&body, &mut out[start..]) {
                        Ok(n) => {
                            out.truncate(start + n);
                            body.advance(n);
                        }
                        // The length is promised already: the flush finds the same error and closes.
                        Err(_) => {
                            out.truncate(start);
                            return Some(body);
                        }
                    }
                }
                (body.len() > 0).then_some(body)
            }
            Err(Refused(status, reason)) => {
                self.totals.errors += 1;
                put(
                    out,
                    format_args!(
                        "HTTP/1.1 {status} {reason}\r\nServer: millstream\r\nContent-Length: 0\r\n{connection}\r\n"
                    ),
                );
                None
            }
        }
    }

    /// Sends the output; what does not go now stays with the connection.
    fn send(&mut self, fd: Fd, rest: Option<Box<Unfinished>>) {
        let sent = if self.output.is_empty() {
            0
        } else {
            match self.stack.send(fd, &self.output, SendFlags::default()) {
                Ok(n) => n,
                Err(Errno::EAGAIN) => 0,
                Err(_) => return self.close(fd),
            }
        };
        self.totals.octets += sent as u64;
        let left = &self.output[sent..];
        let mut rest = rest;
        if !left.is_empty() {
            rest.get_or_insert_default().head = left.to_vec();
        }
        match rest {
            None => {}
            Some(u) if u.head.is_empty() && u.body.is_none() && u.closing => self.close(fd),
            Some(u) => {
                let more_to_write = !u.head.is_empty() || u.body.is_some();
                self.unfinished[fd as usize] = Some(u);
                if more_to_write {
                    self.flush(fd);
                }
            }
        }
    }

    /// Goes on with an answer; true if the connection is free for the next request.
    fn flush(&mut self, fd: Fd) -> bool {
        let Some(mut u) = self.unfinished[fd as usize].take() else { return true };
        loop {
            let sent = match u.body.as_mut() {
                _ if !u.head.is_empty() => {
                    let sent = self.stack.send(fd, &u.head, SendFlags::default());
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
                _ => break,
            };
            match sent {
                Ok(n) => self.totals.octets += n as u64,
                Err(Errno::EAGAIN) => return self.wait_to_write(fd, u),
                Err(_) => {
                    self.close(fd);
                    return false;
                }
            }
        }
        u.body = None;
        if u.closing {
            self.close(fd);
            return false;
        }
        if u.waiting_to_write && self.poller.modify(fd, fd as u64, Ready::IN | Ready::RDHUP).is_err() {
            self.close(fd);
            return false;
        }
        u.waiting_to_write = false;
        let input = std::mem::take(&mut u.input);
        if !input.is_empty() {
            self.requests(fd, &input, Some(u));
            return self.unfinished[fd as usize].is_none();
        }
        self.unfinished[fd as usize] = (u.skip > 0).then_some(u);
        true
    }

    fn wait_to_write(&mut self, fd: Fd, mut u: Box<Unfinished>) -> bool {
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

/// How to answer one request.
struct Answer<'p> {
    path: &'p str,
    closing: bool,
    head_only: bool,
    error: Option<Refused>,
}

impl Answer<'_> {
    /// An error after which nothing more can be understood on this connection.
    fn error(status: u16, reason: &'static str) -> Answer<'static> {
        Answer { path: "", closing: true, head_only: false, error: Some(Refused(status, reason)) }
    }
}

enum Parsed<'p> {
    Partial,
    Bad,
    Request { head_len: usize, body_len: u64, answer: Answer<'p> },
}

/// Reads one request head (RFC 9112).
fn parse(data: &[u8]) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head_len = match request.parse(data) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::Bad,
    };
    // httparse hands out what it found; both are there once it says complete.
    let (Some(method), Some(path)) = (request.method, request.path) else { return Parsed::Bad };
    let mut closing = request.version == Some(0);
    let mut body_len = 0;
    let mut error = None;
    for header in request.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("connection") {
            if header.value.eq_ignore_ascii_case(b"close") {
                closing = true;
            } else if header.value.eq_ignore_ascii_case(b"keep-alive") {
                closing = false;
            }
        } else if is("content-length") {
            match std::str::from_utf8(header.value).ok().and_then(|v| v.trim().parse().ok()) {
                Some(n) => body_len = n,
                None => return Parsed::Bad,
            }
        } else if is("transfer-encoding") {
            // Bodies of requests are skipped by length; one without a length ends the connection.
            (closing, error) = (true, Some(Refused(411, "Length Required")));
        }
    }
    // A body that is sent to us (PUT, POST) is taken and dropped: good for measuring the way in.
    if error.is_none() && !matches!(method, "GET" | "HEAD" | "PUT" | "POST") {
        error = Some(Refused(405, "Method Not Allowed"));
    }
    Parsed::Request {
        head_len,
        body_len,
        answer: Answer { path, closing, head_only: method == "HEAD", error },
    }
}

#[cfg(test)]
mod tests {
    //! Goal: request heads split anywhere, keep-alive rules of both versions, and refusals.
    use super::*;

    #[test]
    fn heads() {
        let text = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET";
        for cut in 0..text.len() - 4 {
            assert!(matches!(parse(&text[..cut]), Parsed::Partial), "cut at {cut}");
        }
        let Parsed::Request { head_len, body_len, answer } = parse(text) else { panic!("whole") };
        assert_eq!((head_len, body_len, answer.path, answer.closing), (text.len() - 3, 0, "/x", false));
        let closing =
            |text: &[u8]| matches!(parse(text), Parsed::Request { answer: Answer { closing: true, .. }, .. });
        assert!(closing(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
        assert!(closing(b"GET / HTTP/1.0\r\n\r\n"));
        assert!(!closing(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        assert!(matches!(parse(b"\x01\x02\r\n\r\n"), Parsed::Bad));
        assert!(matches!(parse(b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"), Parsed::Bad));
        let status = |text: &[u8]| match parse(text) {
            Parsed::Request { answer, .. } => answer.error.map(|r| r.0),
            _ => None,
        };
        assert_eq!(status(b"DELETE / HTTP/1.1\r\n\r\n"), Some(405));
        assert_eq!(status(b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"), None);
        assert_eq!(status(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(411));
    }
}
