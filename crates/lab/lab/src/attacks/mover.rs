//! An application that moves bytes: honest clients, the server that they use, and clients that ask for much.

use base::{Addr, Endpoint, Instant};
use emu::App;
use stack::{ConnId, Connect, Core, Listen, ListenerId, Notice};
use std::collections::VecDeque;
use tcp::{Events, ReadError, Shutdown, SocketOptions, WriteError};

/// Bytes offered to the stack at once. What they are does not matter.
const PIECE: &[u8] = &[0x5a; 64 << 10];
/// Owners from here on are listeners.
const LISTENERS: u32 = 1 << 31;
/// Owner of connections that are never looked at.
const NOBODY: u32 = 1 << 30;

/// A connection to be made: it sends so many bytes, and reads until the peer has closed.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) remote: Endpoint,
    pub(super) send: u64,
}

struct Flow {
    id: ConnId,
    left: u64,
    shut: bool,
    finished: bool,
    /// Connections to be made, one after the other, once this one has ended.
    then: VecDeque<Order>,
}

pub(super) struct Mover {
    listeners: Vec<(ListenerId, u64)>,
    flows: Vec<Option<Flow>>,
    vacant: Vec<u32>,
    scratch: Vec<u8>,
    options: SocketOptions,
    /// Bytes read.
    pub(super) received: u64,
    /// Connections that ended otherwise than in order.
    pub(super) failed: u64,
}

impl Mover {
    pub(super) fn new(options: SocketOptions) -> Mover {
        Mover {
            listeners: Vec::new(),
            flows: Vec::new(),
            vacant: Vec::new(),
            scratch: vec![0; 256 << 10],
            options,
            received: 0,
            failed: 0,
        }
    }

    /// Has every connection ended?
    pub(super) fn is_idle(&self) -> bool {
        self.vacant.len() == self.flows.len()
    }

    /// Sends `send` bytes to each client of `local`.
    pub(super) fn listen(&mut self, core: &mut Core, now: Instant, local: Endpoint, send: u64) {
        let owner = LISTENERS + self.listeners.len() as u32;
        let listen = Listen { options: self.options, ..Listen::new(local, 4096, owner) };
        let (id, _) = core.listen(now, &listen).expect("a host of its own has the port free");
        self.listeners.push((id, send));
    }

    /// Makes the connections of `orders`, one after the other; or only the first, and never looks at it, unless it
    /// `reads`.
    pub(super) fn order(&mut self, core: &mut Core, now: Instant, mut orders: VecDeque<Order>, reads: bool) {
        while let Some(order) = orders.pop_front() {
            let any = if order.remote.addr.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
            let owner = if reads { self.next_owner() } else { NOBODY };
            let (options, connect) = (self.options, Connect::new(Endpoint::new(any, 0), order.remote, owner));
            let connect = Connect { reuse_addr: true, options, ..connect };
            match core.connect(now, &connect) {
                Ok(id) if reads => return self.keep(id, order.send, orders),
                Ok(_) => return,
                Err(_) => self.failed += 1,
            }
        }
    }

    fn next_owner(&self) -> u32 {
        self.vacant.last().copied().unwrap_or(self.flows.len() as u32)
    }

    fn keep(&mut self, id: ConnId, left: u64, then: VecDeque<Order>) {
        let flow = Some(Flow { id, left, shut: false, finished: false, then });
        match self.vacant.pop() {
            Some(owner) => self.flows[owner as usize] = flow,
            None => self.flows.push(flow),
        }
    }

    fn accept_all(&mut self, core: &mut Core, now: Instant, nth: usize) {
        let (listener, send) = self.listeners[nth];
        loop {
            let owner = self.next_owner();
            let Some(id) = core.accept(listener, owner) else { return };
            self.keep(id, send, VecDeque::new());
            self.drive(core, now, owner);
        }
    }

    /// Reads and writes as long as the connection lets it.
    fn drive(&mut self, core: &mut Core, now: Instant, owner: u32) {
        let Some(mut flow) = self.flows.get_mut(owner as usize).and_then(Option::take) else { return };
        let lives = self.pump(core, now, &mut flow);
        if lives.is_ok() && !(flow.shut && flow.finished) {
            self.flows[owner as usize] = Some(flow);
            return;
        }
        self.failed += u64::from(lives.is_err());
        core.close(now, flow.id);
        self.vacant.push(owner);
        self.order(core, now, flow.then, true);
    }

    fn pump(&mut self, core: &mut Core, now: Instant, flow: &mut Flow) -> Result<(), tcp::Error> {
        while !flow.finished {
            match core.read(now, flow.id, &mut self.scratch) {
                Ok(len) => self.received += len as u64,
                Err(ReadError::Empty | ReadError::NotConnected) => break,
                Err(ReadError::Finished) => flow.finished = true,
                Err(ReadError::Failed(why)) => return Err(why),
            }
        }
        while flow.left > 0 {
            match core.write(now, flow.id, &PIECE[..flow.left.min(PIECE.len() as u64) as usize]) {
                Ok(taken) => flow.left -= taken as u64,
                Err(WriteError::Full | WriteError::NotConnected | WriteError::NoMemory) => return Ok(()),
                Err(WriteError::Shutdown) => return Err(tcp::Error::BrokenPipe),
                Err(WriteError::Failed(why)) => return Err(why),
            }
        }
        if !flow.shut {
            core.shutdown(now, flow.id, Shutdown::Write);
            flow.shut = true;
        }
        Ok(())
    }

    /// A connection that failed while it was being opened has nothing to read or write that would say so.
    fn bury(&mut self, core: &mut Core, now: Instant, owner: u32) {
        let Some(flow) = self.flows.get_mut(owner as usize).and_then(Option::take) else { return };
        if core.take_error(flow.id).is_none() {
            self.flows[owner as usize] = Some(flow);
            return;
        }
        core.close(now, flow.id);
        self.failed += 1;
        self.vacant.push(owner);
        self.order(core, now, flow.then, true);
    }
}

impl App for Mover {
    fn step(&mut self, core: &mut Core, now: Instant, notices: &[Notice]) -> Option<Instant> {
        for notice in notices {
            if notice.owner >= LISTENERS {
                self.accept_all(core, now, (notice.owner - LISTENERS) as usize);
            } else {
                self.drive(core, now, notice.owner);
                if notice.events.any(Events::ERROR) {
                    self.bury(core, now, notice.owner);
                }
            }
        }
        None
    }
}
