//! Ports that several processes share, each with a stack of its own: which want new connections, and which flows are
//! here. Whose a segment is that belongs to no flow here is the port's to say ([`pio::Sharing::answerer`]).

use crate::core::Core;
use crate::tables::conns::SlotFlags;
use crate::tables::listeners::ListenerId;
use base::Instant;
use pio::Role;

/// Does a listener of this role leave what waits to others?
fn gives(role: Role) -> bool {
    matches!(role, Role::Master | Role::Servant)
}

impl Core {
    /// A parked listener keeps its port and the connections it has, and gets no new ones: they go to other listeners of
    /// this stack or other processes that share the port; while there are none their SYNs are kept a while.
    pub fn park(&mut self, id: ListenerId, parked: bool) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        if std::mem::replace(&mut listener.parked, parked) != parked {
            self.ports.serve(self.port.io.as_mut(), listener.request.local, !parked);
            self.listeners.touch();
        }
    }

    /// The listener has this role among those of other processes that share its port.
    pub fn set_role(&mut self, now: Instant, id: ListenerId, role: Role) {
        self.now = now;
        let Some(listener) = self.listeners.get_mut(id) else { return };
        listener.role = role;
        // A connection that is here need not be asked for.
        let asks = role == Role::Asking && listener.queue.is_empty();
        let told = if role == Role::Asking && !asks { Role::Servant } else { role };
        self.ports.set_role(self.port.io.as_mut(), listener.request.local, told);
        self.gives = self.listeners.iter().any(|listener| gives(listener.role));
        if self.gives {
            self.give(now);
        }
    }

    /// Gives what waits for accept at a master to those who ask for it, and at a servant that asks no more to the
    /// master.
    #[cold]
    pub(crate) fn give(&mut self, now: Instant) {
        let waits = |id: &ListenerId| {
            let listener = self.listeners.get(*id);
            listener.is_some_and(|it| gives(it.role) && !it.queue.is_empty())
        };
        let ids: Vec<ListenerId> = self.listeners.ids().filter(waits).collect();
        ids.into_iter().for_each(|id| self.hand_over_queue(now, id));
    }

    /// Another process shares `port` from now on, and must be able to learn which flows are here.
    #[cold]
    pub(crate) fn share(&mut self, port: u16) {
        if !self.ports.share(port) {
            return;
        }
        let Some(io) = self.port.io.sharing() else { return };
        let here = self.conns.iter().filter(|(_, meta, _)| meta.flags.has(SlotFlags::IN_TABLE));
        let keys = here.map(|(_, _, tcp)| *tcp.key()).chain(self.time_waits.iter().map(|wait| wait.key));
        keys.filter(|key| key.local().port == port).for_each(|key| io.on_flow(&key, true));
    }
}
