//! Ports that several processes share, each with a stack of its own: who wants new connections, and which flows are
//! here. Whose a segment is that belongs to no flow here is the port's to say ([`pio::Sharing::is_ours`]).

use crate::core::Core;
use crate::tables::conns::SlotFlags;
use crate::tables::listeners::ListenerId;

impl Core {
    /// A parked listener keeps its port and the connections it has, and gets no new ones: they go to other processes
    /// that share the port, and are left unanswered while there are none.
    pub fn park(&mut self, id: ListenerId, parked: bool) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        if std::mem::replace(&mut listener.parked, parked) != parked {
            self.ports.serve(self.port.io.as_mut(), listener.request.local, !parked);
        }
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
