//! The end of a core in which a panic happened: its tables may be half changed, so nothing is sent from them any
//! more.
//!
//! The port is dropped, so the kernel has its ports and packets back; connections fail with ENETDOWN; every turn from
//! then on says [`IoError::Gone`]. The panic itself goes on to the caller, as any other does.

use pio::{Caps, IoError, PacketIo, RxBatch, TxBatch};
use ring::Frame;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tcp::Events;

use crate::core::Core;
use crate::tables::conns::{List, SlotFlags};
use crate::tables::listeners::ListenerId;

/// Ends the core unless it is forgotten: what is not forgotten is dropped by a panic.
pub(crate) struct Fuse<'c>(pub(crate) &'c mut Core);

impl Drop for Fuse<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Core {
    /// Returns true if a panic has ended this core: it receives and sends nothing any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.scratch.is_none()
    }

    /// Ends the core after a panic. Each step is on its own, as the panic may have left anything half done.
    #[cold]
    fn end(&mut self) {
        self.scratch = None;
        let caps = self.port.io.caps().clone();
        eprintln!(
            "millstream: a panic has ended the stack on {}: its connections fail with ENETDOWN, and the kernel has its \
             ports back",
            caps.name
        );
        let alone = |step: &mut dyn FnMut()| drop(catch_unwind(AssertUnwindSafe(step)));
        alone(&mut || self.ports.release_all(self.port.io.as_mut()));
        alone(&mut || self.port.drain());
        let mut port = Some(std::mem::replace(&mut self.port.io, Box::new(Gone(caps))));
        // The interface is the kernel's from here on.
        alone(&mut || drop(port.take()));
        (self.dirty, self.held) = (List::new(), List::new());
        let connections: Vec<u32> = self.conns.iter().map(|(index, ..)| index).collect();
        for index in connections {
            alone(&mut || self.fail_by_end(index));
        }
        let listeners: Vec<ListenerId> = self.listeners.ids().collect();
        for id in listeners {
            if let Some(listener) = self.listeners.get_mut(id)
                && !std::mem::replace(&mut listener.noticed, true)
            {
                self.noticed_listeners.push(id);
            }
        }
    }

    /// A connection fails because its core is over.
    fn fail_by_end(&mut self, index: u32) {
        let now = self.now;
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return };
        meta.flags.clear(SlotFlags::IN_TABLE | SlotFlags::LISTED | SlotFlags::HELD);
        if tcp.state() != tcp::State::Closed {
            tcp.on_port_gone(&mut self.shared.cx(now));
        }
        self.notice(index, Events::ERROR | Events::READABLE | Events::WRITABLE | Events::CLOSED);
    }
}

/// Placeholder of a port that was dropped.
struct Gone(Caps);

impl PacketIo for Gone {
    fn caps(&self) -> &Caps {
        &self.0
    }

    fn take(&mut self) -> Option<Frame> {
        None
    }

    fn retire(&mut self, _: Frame) {}

    fn rx(&mut self, _: &mut RxBatch) -> Result<usize, IoError> {
        Err(IoError::Gone)
    }

    fn tx(&mut self, _: &mut TxBatch) -> Result<usize, IoError> {
        Err(IoError::Gone)
    }

    fn arm(&mut self, _: &mut Vec<RawFd>) -> Result<bool, IoError> {
        Err(IoError::Gone)
    }
}
