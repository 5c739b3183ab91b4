//! Our end: the production stack with an application that sends or compares the stream.

use super::pattern::Pattern;
use super::{Job, PIECE};
use crate::ends::{self, SINK, SOURCE};
use base::Instant;
use emu::{App, CoreHost, SimPort};
use stack::{ConnId, Core, CoreConfig, ListenerId, Notice, OwnAddr};
use tcp::{ReadError, Shutdown, SocketOptions, WriteError};

/// An application that sends the stream or compares what comes with it.
pub(super) struct Ours {
    job: Job,
    listener: Option<ListenerId>,
    flow: Option<ConnId>,
    /// Bytes that the stack has taken, or that arrived and were compared.
    pub(super) bytes: u64,
    pattern: Pattern,
    piece: Vec<u8>,
    /// Bytes at the end of `piece` that the stack has not taken yet.
    rest: usize,
    shut: bool,
    /// Whether it ended as it should, once it has ended.
    pub(super) end: Option<Result<(), String>>,
}

/// A host with our stack, for this job.
pub(super) fn host(job: &Job, port: SimPort) -> CoreHost<Ours> {
    let addr = if job.they_connect { SINK } else { SOURCE };
    let tcp = tcp::Config { sack: job.sack, timestamps: job.timestamps, ..tcp::Config::default() };
    let addresses = vec![OwnAddr { addr, prefix: 24 }];
    let config = CoreConfig { seed: job.seed, addresses, tcp, ..CoreConfig::default() };
    let app = Ours {
        job: *job,
        listener: None,
        flow: None,
        bytes: 0,
        pattern: Pattern::new(job.seed),
        piece: vec![0; PIECE],
        rest: 0,
        shut: false,
        end: None,
    };
    CoreHost::new(Core::new(config, Box::new(port)), app)
}

impl Ours {
    fn open(&mut self, core: &mut Core, now: Instant) -> Option<ConnId> {
        if self.flow.is_some() {
            return self.flow;
        }
        let Job { they_send, window, max_seg, .. } = self.job;
        let rcvbuf = if they_send { window.unwrap_or(0) } else { 0 };
        let options = SocketOptions { rcvbuf, max_seg, ..SocketOptions::default() };
        self.flow = match (self.job.they_connect, self.listener) {
            (false, _) => Some(ends::connect(core, now, options)),
            (true, Some(listener)) => core.accept(listener, 0),
            (true, None) => {
                self.listener = Some(ends::listen(core, now, options));
                None
            }
        };
        self.flow
    }

    fn send(&mut self, core: &mut Core, now: Instant, flow: ConnId) -> Result<bool, String> {
        while self.bytes < self.job.bytes {
            if self.rest == 0 {
                self.rest = (self.job.bytes - self.bytes).min(PIECE as u64) as usize;
                self.pattern.fill(self.bytes, &mut self.piece[PIECE - self.rest..]);
            }
            match core.write(now, flow, &self.piece[PIECE - self.rest..]) {
                Ok(taken) => {
                    self.rest -= taken;
                    self.bytes += taken as u64;
                }
                Err(WriteError::Full | WriteError::NotConnected | WriteError::NoMemory) => return Ok(false),
                Err(error) => return Err(format!("our write after {} bytes: {error:?}", self.bytes)),
            }
        }
        if !self.shut {
            core.shutdown(now, flow, Shutdown::Write);
            self.shut = true;
        }
        match core.read(now, flow, &mut [0; 1]) {
            Ok(_) => Err("the receiver sent something".into()),
            Err(ReadError::Finished) => Ok(true),
            Err(ReadError::Empty | ReadError::NotConnected) => Ok(false),
            Err(error) => Err(format!("our end, with everything sent: {error:?}")),
        }
    }

    fn take(&mut self, core: &mut Core, now: Instant, flow: ConnId) -> Result<bool, String> {
        loop {
            match core.read(now, flow, &mut self.piece) {
                Ok(len) => {
                    self.pattern.check(self.bytes, &self.piece[..len])?;
                    self.bytes += len as u64;
                }
                Err(ReadError::Empty | ReadError::NotConnected) => return Ok(false),
                Err(ReadError::Finished) if self.bytes == self.job.bytes => return Ok(true),
                Err(ReadError::Finished) => {
                    return Err(format!("the stream ended after {} bytes", self.bytes));
                }
                Err(error) => return Err(format!("our read after {} bytes: {error:?}", self.bytes)),
            }
        }
    }
}

impl App for Ours {
    fn step(&mut self, core: &mut Core, now: Instant, _notices: &[Notice]) -> Option<Instant> {
        let flow = self.open(core, now)?;
        if self.end.is_none() {
            let ended =
                if self.job.they_send { self.take(core, now, flow) } else { self.send(core, now, flow) };
            self.end = ended.map(|all| all.then_some(())).transpose();
            if self.end.is_some() {
                core.close(now, flow);
            }
        }
        None
    }
}
