//! The queue of a core that ended before the others of its link.
//!
//! Connections of other cores may be received there, where the card's rule is not known. A thread keeps the queue's
//! port, and brings what arrives to cores that live. It sends nothing. The last core to end waits for these threads, so
//! when all ports of a link are dropped, the kernel has everything back.

use super::mailbox::Outbox;
use super::{Shared, To};
use crate::port::*;
use crate::wait;
use base::Duration;
use ring::{Ringer, Sleeper, doorbell};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Between two looks whether there are cores left, in case that a wake was lost with its port.
const LOOK: Duration = Duration::from_secs(1);

/// Cores that live, and what became of the others.
pub(super) struct Ended {
    living: Box<[AtomicBool]>,
    keepers: Mutex<Vec<Keeper>>,
}

/// A thread that keeps the queue of a core that ended.
struct Keeper {
    bell: Ringer,
    thread: JoinHandle<()>,
}

impl Ended {
    pub(super) fn new(cores: usize) -> Ended {
        Ended { living: (0..cores).map(|_| AtomicBool::new(true)).collect(), keepers: Mutex::default() }
    }

    /// Returns `wanted` if that core lives, else the first one that does.
    fn living(&self, wanted: Option<u16>) -> Option<usize> {
        let lives = |core: &usize| self.living[*core].load(Ordering::Acquire);
        wanted.map(usize::from).filter(lives).or_else(|| (0..self.living.len()).find(lives))
    }
}

/// The core ends: its port is kept while others live, if the kernel has the packets otherwise.
pub(super) fn end<P: PacketIo + 'static>(
    below: P,
    core: u16,
    shared: &Arc<Shared>,
    outboxes: Vec<Option<Outbox>>,
) {
    let ended = &shared.ended;
    let mut keepers = ended.keepers.lock().unwrap_or_else(PoisonError::into_inner);
    ended.living[usize::from(core)].store(false, Ordering::Release);
    if ended.living(None).is_some() {
        if below.caps().shares_kernel_addresses {
            // Without a bell or a thread the port is dropped, and the kernel has the packets.
            let Ok((bell, sleeper)) = doorbell() else { return };
            let mut queue = Queue { below, core, shared: shared.clone(), outboxes, sleeper };
            let thread = Builder::new().name(format!("millstream-queue{core}")).spawn(move || queue.keep());
            keepers.extend(thread.ok().map(|thread| Keeper { bell, thread }));
        }
        return;
    }
    let all = std::mem::take(&mut *keepers);
    drop(keepers);
    for keeper in &all {
        keeper.bell.ring_anyway();
    }
    for keeper in all {
        // What it had to say it has said; its port is dropped either way.
        let _ = keeper.thread.join();
    }
}

/// The queue's port, and the ways to the other cores.
struct Queue<P> {
    below: P,
    core: u16,
    shared: Arc<Shared>,
    outboxes: Vec<Option<Outbox>>,
    sleeper: Sleeper,
}

impl<P: PacketIo> Queue<P> {
    /// Brings packets to living cores until there are none, or the port fails.
    fn keep(&mut self) {
        let (mut batch, mut events) = (RxBatch::new(), Vec::new());
        while self.shared.ended.living(None).is_some() {
            // The port follows changes of the interface only if it is asked for them.
            if let Some(net) = self.below.net() {
                net.net_events(&mut events);
                events.clear();
            }
            match self.below.rx(&mut batch) {
                Err(IoError::Gone) => return,
                Ok(0) | Err(_) => {
                    // A port that is only down waits as any other.
                    if wait([&mut self.below], &[self.sleeper.fd().as_raw_fd()], Some(LOOK)).is_err() {
                        return;
                    }
                }
                Ok(_) => self.hand_over(&mut batch),
            }
        }
    }

    fn hand_over(&mut self, batch: &mut RxBatch) {
        let mut at = 0;
        while at < batch.len() {
            let frames = 1 + batch[at..batch.len() - 1].iter().take_while(|piece| piece.meta.more).count();
            let packet = &batch[at..at + frames];
            let wanted = match self.shared.destination(self.core, self.below.caps(), packet) {
                To::Core(core) => Some(core),
                To::Here | To::All => None,
            };
            let to = self.shared.ended.living(wanted);
            // Without room it is lost, as with the mailboxes of living cores.
            if let Some(out) = to.and_then(|to| self.outboxes[to].as_mut()) {
                out.push(packet);
            }
            at += frames;
        }
        batch.drain(..).for_each(|packet| self.below.retire(packet.frame));
        for (core, out) in self.outboxes.iter_mut().enumerate() {
            if out.as_mut().is_some_and(Outbox::has_news) {
                self.shared.bells[core].ring();
            }
        }
    }
}
