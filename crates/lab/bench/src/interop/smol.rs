//! smoltcp as the other end, in this process.

use super::pattern::Pattern;
use super::theirs::{Frames, Report, Stack};
use super::{Job, PIECE};
use crate::ends::PORT;
use crate::smol::{End, Shared};
use smoltcp::iface::SocketHandle;
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::{RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::IpAddress;
use std::cell::Cell;

/// Bytes of a buffer whose window is not meant to be tiny.
const BUFFER: usize = 64 << 10;

thread_local! {
    /// Milliseconds for timestamps, which smoltcp asks for by a function without arguments.
    static MILLIS: Cell<u32> = const { Cell::new(0) };
}

/// smoltcp with the application of one job.
pub(super) struct Smol {
    job: Job,
    end: End,
    incoming: Shared,
    outgoing: Shared,
    socket: SocketHandle,
    begun: bool,
    bytes: u64,
    pattern: Pattern,
    piece: Vec<u8>,
    shut: bool,
    done: bool,
}

impl Smol {
    pub(super) fn new(job: &Job) -> Smol {
        let (incoming, outgoing) = (Shared::default(), Shared::default());
        let last = if job.they_connect { 1 } else { 2 };
        let mut end = End::on(Medium::Ethernet, last, incoming.clone(), outgoing.clone());
        let window = job.window.map_or(BUFFER, |window| window as usize);
        let rx = if job.they_send { BUFFER } else { window };
        let buffer = |size| SocketBuffer::new(vec![0; size]);
        let mut socket = Socket::new(buffer(rx), buffer(BUFFER));
        socket.set_tsval_generator(Some(|| MILLIS.get()));
        let socket = end.sockets.add(socket);
        Smol {
            job: *job,
            end,
            incoming,
            outgoing,
            socket,
            begun: false,
            bytes: 0,
            pattern: Pattern::new(job.seed),
            piece: vec![0; PIECE],
            shut: false,
            done: false,
        }
    }

    fn begin(&mut self) -> Result<(), String> {
        self.begun = true;
        let socket = self.end.sockets.get_mut::<Socket<'_>>(self.socket);
        if self.job.they_connect {
            let remote = (IpAddress::v4(10, 0, 0, 2), PORT);
            socket.connect(self.end.iface.context(), remote, 49_152).map_err(|e| format!("smoltcp: {e}"))
        } else {
            socket.listen(PORT).map_err(|e| format!("smoltcp: {e}"))
        }
    }

    /// Runs the application. Returns true if it did something.
    fn work(&mut self) -> Result<bool, String> {
        let (job, before) = (self.job, (self.bytes, self.shut));
        let socket = self.end.sockets.get_mut::<Socket<'_>>(self.socket);
        if self.done || matches!(socket.state(), State::Listen | State::SynSent | State::SynReceived) {
            return Ok(false);
        }
        if socket.state() == State::Closed {
            return Err(format!("smoltcp: the connection ended after {} bytes", self.bytes));
        }
        while job.they_send && self.bytes < job.bytes && socket.can_send() {
            let room = socket.send_capacity() - socket.send_queue();
            let len = room.min(PIECE).min((job.bytes - self.bytes) as usize);
            self.pattern.fill(self.bytes, &mut self.piece[..len]);
            let sent = socket.send_slice(&self.piece[..len]).map_err(|e| format!("smoltcp: {e}"))?;
            self.bytes += sent as u64;
        }
        if job.they_send && self.bytes == job.bytes && !self.shut {
            socket.close();
            self.shut = true;
        }
        loop {
            match socket.recv_slice(&mut self.piece) {
                Ok(0) => break,
                Ok(_) if job.they_send => return Err("smoltcp: data for the sender".into()),
                Ok(len) => {
                    self.pattern.check(self.bytes, &self.piece[..len])?;
                    self.bytes += len as u64;
                }
                Err(RecvError::Finished) if self.bytes == job.bytes => {
                    socket.close();
                    self.done = true;
                    return Ok(true);
                }
                Err(error) => return Err(format!("smoltcp: {error} after {} bytes", self.bytes)),
            }
        }
        Ok((self.bytes, self.shut) != before)
    }
}

impl Stack for Smol {
    fn turn(&mut self, now: base::Instant, frames: &Frames, out: &mut Frames) -> Result<Report, String> {
        MILLIS.set((now.as_nanos() / 1_000_000) as u32);
        if !self.begun {
            self.begin()?;
        }
        frames.iter().for_each(|frame| self.incoming.borrow_mut().push(frame));
        let at = Instant::from_micros(now.as_micros() as i64);
        loop {
            self.end.poll(at);
            if !self.work()? {
                break;
            }
        }
        let next = self.end.iface.poll_at(at, &self.end.sockets);
        // A date that has come already is one that needs something else first.
        let next =
            next.map(|at| base::Instant::from_micros(at.total_micros() as u64).max(now + super::SHORTEST));
        self.outgoing.borrow_mut().drain(|frame| out.push(frame));
        Ok(Report { next, bytes: self.bytes, done: self.done })
    }
}
