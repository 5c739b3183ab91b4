//! Applications on the hosts: senders, receivers, and a source of datagrams.

use base::{Duration, Endpoint, Instant, Rng};
use emu::{App, Host, SimPort};
use pio::{PacketIo, TxBatch, TxMeta, TxPacket};
use stack::{ConnId, Connect, Core, Listen, ListenerId, Notice};
use std::collections::VecDeque;
use tcp::{ReadError, Shutdown, SocketOptions, WriteError};

/// Most bytes offered to the stack at once.
pub(crate) const PIECE_MAX: usize = 64 << 10;
/// Payload; its content does not matter.
const PIECE: &[u8] = &[0x5a; PIECE_MAX];

/// When a flow begins and what it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) at: Instant,
    /// `None` is endless.
    pub(crate) bytes: Option<u64>,
}

/// How a sender writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Bytes of a write at most.
    pub(crate) piece: usize,
    /// Time from one to the next.
    pub(crate) every: Duration,
    /// The receiver's FIN comes first.
    pub(crate) half_closed: bool,
}

/// A flow that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) id: ConnId,
    pub(crate) at: Instant,
    /// `None` is endless.
    pub(crate) bytes: Option<u64>,
    sent: u64,
    shut: bool,
    /// When it may write again.
    next: Instant,
    /// When the receiver had everything and said so.
    pub(crate) finished: Option<Instant>,
}

/// Opens flows at their times and keeps them full.
pub(crate) struct Sender {
    starts: VecDeque<Start>,
    manner: Manner,
    remote: Endpoint,
    pub(crate) flows: Vec<Begun>,
    /// Flows that failed; none should.
    pub(crate) failed: u64,
}

impl Sender {
    /// `starts` in the order of time.
    pub(crate) fn new(starts: Vec<Start>, manner: Manner, remote: Endpoint) -> Sender {
        Sender { starts: starts.into(), manner, remote, flows: Vec::new(), failed: 0 }
    }

    fn open(&mut self, core: &mut Core, now: Instant, start: Start) {
        let any = base::Addr::UNSPECIFIED_V4;
        let options =
            SocketOptions { nodelay: self.manner.every > Duration::ZERO, ..SocketOptions::default() };
        let connect = Connect::new(Endpoint::new(any, 0), self.remote, self.flows.len() as u32);
        let connect = Connect { reuse_addr: true, options, ..connect };
        match core.connect(now, &connect) {
            Ok(id) => self.flows.push(Begun {
                id,
                at: now,
                bytes: start.bytes,
                sent: 0,
                shut: false,
                next: Instant::ZERO,
                finished: None,
            }),
            Err(_) => self.failed += 1,
        }
    }

    fn drive(&mut self, core: &mut Core, now: Instant, owner: usize) {
        let (flow, Manner { piece, every, half_closed }) = (&mut self.flows[owner], self.manner);
        if flow.finished.is_some() {
            return;
        }
        if half_closed
            && flow.sent == 0
            && !matches!(core.read(now, flow.id, &mut [0; 1]), Err(ReadError::Finished))
        {
            return;
        }
        loop {
            let left = flow.bytes.map_or(u64::MAX, |bytes| bytes - flow.sent).min(piece as u64);
            if left == 0 {
                break;
            }
            if now < flow.next {
                return;
            }
            match core.write(now, flow.id, &PIECE[..left as usize]) {
                Ok(taken) => {
                    flow.sent += taken as u64;
                    flow.next = if every > Duration::ZERO { now + every } else { flow.next };
                }
                Err(WriteError::Full | WriteError::NotConnected | WriteError::NoMemory) => return,
                Err(WriteError::Shutdown | WriteError::Failed(_)) => {
                    self.failed += 1;
                    core.close(now, flow.id);
                    flow.finished = Some(now);
                    return;
                }
            }
        }
        if !flow.shut {
            core.shutdown(now, flow.id, Shutdown::Write);
            flow.shut = true;
        }
        if half_closed {
            core.close(now, flow.id);
            flow.finished = Some(now);
            return;
        }
        if matches!(core.read(now, flow.id, &mut [0; 1]), Err(ReadError::Finished)) {
            core.close(now, flow.id);
            flow.finished = Some(now);
        }
    }
}

impl App for Sender {
    fn step(&mut self, core: &mut Core, now: Instant, notices: &[Notice]) -> Option<Instant> {
        while let Some(start) = self.starts.pop_front_if(|start| start.at <= now) {
            self.open(core, now, start);
        }
        for notice in notices {
            self.drive(core, now, notice.owner as usize);
        }
        let due = |flow: &Begun| flow.next > Instant::ZERO && flow.next <= now && !flow.shut;
        for owner in 0..self.flows.len() {
            if due(&self.flows[owner]) {
                self.drive(core, now, owner);
            }
        }
        let writes = self.flows.iter().filter(|flow| flow.next > now).map(|flow| flow.next).min();
        Instant::earliest(self.starts.front().map(|start| start.at), writes)
    }
}

/// Accepts every flow and reads what comes.
pub(crate) struct Receiver {
    listener: Option<ListenerId>,
    local: Endpoint,
    /// It half-closes each flow when that comes.
    half_closes: bool,
    /// Bytes read of each flow, in the order of their coming.
    pub(crate) received: Vec<u64>,
    /// When each came, and its end.
    pub(crate) spans: Vec<(Instant, Option<Instant>)>,
    flows: Vec<Option<ConnId>>,
    scratch: Vec<u8>,
}

/// The listener's owner number; connections count from 0.
const LISTENER: u32 = u32::MAX;

impl Receiver {
    pub(crate) fn new(local: Endpoint, half_closes: bool) -> Receiver {
        Receiver {
            listener: None,
            local,
            half_closes,
            received: Vec::new(),
            spans: Vec::new(),
            flows: Vec::new(),
            scratch: vec![0; 256 << 10],
        }
    }

    fn listen(&mut self, core: &mut Core, now: Instant) {
        let listen = Listen::new(self.local, 4096, LISTENER);
        self.listener = Some(core.listen(now, &listen).expect("a host of its own has the port free").0);
    }

    fn drain(&mut self, core: &mut Core, now: Instant, owner: usize) {
        let Some(id) = self.flows[owner] else { return };
        loop {
            match core.read(now, id, &mut self.scratch) {
                Ok(len) => self.received[owner] += len as u64,
                Err(ReadError::Empty | ReadError::NotConnected) => return,
                Err(ReadError::Finished) => {
                    self.spans[owner].1 = Some(now);
                    break;
                }
                Err(ReadError::Failed(_)) => break,
            }
        }
        core.close(now, id);
        self.flows[owner] = None;
    }
}

impl App for Receiver {
    fn step(&mut self, core: &mut Core, now: Instant, notices: &[Notice]) -> Option<Instant> {
        let Some(listener) = self.listener else {
            self.listen(core, now);
            return None;
        };
        for notice in notices {
            if notice.owner == LISTENER {
                while let Some(id) = core.accept(listener, self.flows.len() as u32) {
                    self.flows.push(Some(id));
                    self.received.push(0);
                    self.spans.push((now, None));
                    if self.half_closes {
                        core.shutdown(now, id, Shutdown::Write);
                    }
                    self.drain(core, now, self.flows.len() - 1);
                }
            } else {
                self.drain(core, now, notice.owner as usize);
            }
        }
        None
    }
}

/// Sends a datagram every so often, a little early or late.
pub(crate) struct Metronome {
    port: SimPort,
    frame: Vec<u8>,
    every: Duration,
    jitter: Duration,
    next: Instant,
    /// The earliest date of the next one.
    beat: Instant,
    rng: Rng,
}

impl Metronome {
    pub(crate) fn new(
        port: SimPort,
        frame: Vec<u8>,
        every: Duration,
        jitter: Duration,
        seed: u64,
    ) -> Metronome {
        // Beats keep their order.
        let jitter = jitter.min(every / 2);
        let first = Instant::from_millis(1);
        Metronome { port, frame, every, jitter, next: first, beat: first, rng: Rng::new(seed) }
    }
}

impl Host for Metronome {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let mut rx = pio::RxBatch::new();
        while self.port.rx(&mut rx).is_ok_and(|received| received > 0) {
            rx.drain(..).for_each(|packet| self.port.retire(packet.frame));
        }
        while self.next <= now {
            if let Some(mut frame) = self.port.take() {
                frame.set_range(0, self.frame.len());
                frame.data_mut().copy_from_slice(&self.frame);
                let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
                self.port.tx(&mut batch).expect("a simulated port does not fail");
            }
            self.beat += self.every;
            let spread = self.rng.below(2 * self.jitter.as_nanos() as u64 + 1);
            self.next = self.beat + Duration::from_nanos(spread);
        }
        Some(self.next)
    }
}
