//! Connections in TIME-WAIT: how they get there, what segments get as an answer, and how they end.

use base::Instant;
use tcp::{Stray, TimeWaitAnswer};
use wire::tcp::Segment;

use crate::core::Core;
use crate::rx::Sender;
use crate::stats::PacketDrop;
use crate::tables::conns::SlotFlags;
use crate::tables::flows::Flow;

impl Core {
    pub(super) fn on_time_wait(
        &mut self,
        now: Instant,
        entry: u32,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) {
        if self.time_waits.get(entry).until <= now {
            self.end_time_wait(now, entry);
            return self.on_unmatched(now, sender, segment, None);
        }
        let signed = !self.signed_waits.is_empty() || segment.options.signature.is_some();
        if signed && !self.admits_waiting(entry, sender, segment) {
            return self.shared.show_stray(now, false, sender.key, Stray::Withheld);
        }
        let wait = self.time_waits.get_mut(entry);
        let mut answer = wait.on_segment(now, &self.shared.config, segment);
        if matches!(answer, TimeWaitAnswer::Reuse { .. }) {
            let listener = self.listeners.find(sender.key.local(), sender.hash);
            match listener.and_then(|id| self.listeners.get(id)) {
                None => answer = wait.challenge(now),
                // The entry stays until there is room for what would replace it: the peer repeats its SYN.
                Some(listener) if listener.is_full() => {
                    self.stats.accept_queue_full += 1;
                    return self.drops.count(PacketDrop::BacklogFull);
                }
                Some(_) => {}
            }
        }
        if !matches!(answer, TimeWaitAnswer::Reuse { .. }) {
            self.shared.show_stray(now, false, sender.key, Stray::TimeWait);
        }
        match answer {
            TimeWaitAnswer::Ignore => {}
            TimeWaitAnswer::Ack(header) => {
                self.time_waits.restarted(entry);
                self.answer_waiting(now, entry, header, sender);
            }
            TimeWaitAnswer::Remove => self.end_time_wait(now, entry),
            TimeWaitAnswer::Reuse { isn_above } => {
                self.stats.time_wait_reused += 1;
                // At no moment may the flow be told to be gone: another process that shares the port has this SYN, and
                // would answer it.
                self.ports.hold(self.port.io.as_mut(), sender.key);
                self.end_time_wait(now, entry);
                self.on_unmatched(now, sender, segment, Some(isn_above));
                self.ports.let_go(self.port.io.as_mut(), now, sender.key);
            }
        }
    }

    /// A connection entered TIME-WAIT: its last acknowledgment goes out, a compact entry takes its place.
    pub(crate) fn enter_time_wait(&mut self, now: Instant, index: u32) {
        self.leave_listener(index);
        self.transmit(now, index);
        self.make_time_wait_room(now);
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return };
        let wait = tcp.time_wait(&self.shared.cx(now));
        let auth = tcp.take_auth();
        let (hash, local, flags) = (meta.hash, tcp.key().local(), meta.flags);
        meta.flags.clear(SlotFlags::IN_TABLE | SlotFlags::BOUND);
        let entry = self.time_waits.insert(wait, hash);
        if let Some(auth) = auth {
            self.signed_waits.insert(entry, auth);
        }
        self.table.replace(hash, Flow::Connection(index), Flow::TimeWait(entry));
        self.stats.time_wait_in += 1;
        self.leave(now, index, flags, local);
    }

    fn make_time_wait_room(&mut self, now: Instant) {
        if self.time_waits.is_full()
            && let Some(oldest) = self.time_waits.oldest()
        {
            self.stats.time_wait_evicted += u64::from(self.time_waits.get(oldest).until > now);
            self.end_time_wait(now, oldest);
            if let Some(hash) = self.time_waits.next_victim() {
                self.table.prefetch(hash);
            }
        }
    }

    /// A TIME-WAIT entry is over.
    pub(crate) fn end_time_wait(&mut self, now: Instant, entry: u32) {
        let key = self.time_waits.get(entry).key;
        self.table.remove(self.time_waits.hash(entry), Flow::TimeWait(entry));
        self.time_waits.remove(entry);
        if !self.signed_waits.is_empty() {
            self.signed_waits.remove(&entry);
        }
        self.ports.let_go(self.port.io.as_mut(), now, &key);
    }
}
