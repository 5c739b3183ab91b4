//! Connections that no application has accepted, from the stack of a process that ends or listens no more to that of
//! another process that shares the port.

use base::{Addr, Duration, Endpoint, FlowKey, Instant, Seq};
use pio::Answerer;
use tcp::{Connection, Handover};
use wire::tcp::Raw;

use crate::core::Core;
use crate::rx::Sender;
use crate::stats::PacketDrop;
use crate::tables::conns::{Meta, SlotFlags};
use crate::tables::flows::Flow;
use crate::tables::listeners::{Listener, ListenerId};

/// Bytes of a connection's state before its data.
const HEAD: usize = 64;

/// Where the byte of facts lies.
const FACTS: usize = 58;
/// Which facts hold, a bit each.
const SCALES: u8 = 1;
const SACK: u8 = 2;
const TIMESTAMPS: u8 = 4;
const ECN: u8 = 8;
const ESTABLISHED: u8 = 16;
const PEER_CLOSED: u8 = 32;
/// A SYN that is not answered: the sender's hardware address and the segment are the data.
const SYN: u8 = 64;
/// SYNs that are kept until a process answers them, at most.
const KEPT_MAX: usize = 256;
/// How long each is: its sender has sent it again by then.
const KEPT_FOR: Duration = Duration::from_secs(3);

/// A SYN that no process answers yet.
pub(crate) struct KeptSyn {
    key: FlowKey,
    /// See [`write_syn`].
    bytes: Vec<u8>,
    until: Instant,
    /// No other process has seen it.
    alone: bool,
}

fn write_key(key: &FlowKey) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * HEAD);
    for end in [key.local(), key.remote()] {
        bytes.extend(end.addr.bytes());
        bytes.extend(end.port.to_ne_bytes());
    }
    bytes
}

fn write_syn(key: &FlowKey, mac: [u8; 6], tcp: &[u8]) -> Vec<u8> {
    let mut bytes = write_key(key);
    bytes.resize(HEAD, 0);
    bytes[FACTS] = SYN;
    bytes.extend(mac);
    bytes.extend(tcp);
    bytes
}

fn write(key: &FlowKey, state: &Handover) -> Vec<u8> {
    let mut bytes = write_key(key);
    let fact = |holds: bool, bit: u8| if holds { bit } else { 0 };
    let (peers, ours) = state.scales.unwrap_or_default();
    let facts = fact(state.scales.is_some(), SCALES)
        | fact(state.sack, SACK)
        | fact(state.ts_recent.is_some(), TIMESTAMPS)
        | fact(state.ecn, ECN)
        | fact(state.window.is_some(), ESTABLISHED)
        | fact(state.peer_closed, PEER_CLOSED);
    for half in [state.isn.raw(), state.peer_isn.raw(), state.ts_value, state.ts_recent.unwrap_or_default()] {
        bytes.extend(half.to_ne_bytes());
    }
    bytes.extend(state.peer_mss.to_ne_bytes());
    bytes.extend(state.window.unwrap_or_default().to_ne_bytes());
    bytes.extend([peers, ours, facts]);
    bytes.resize(HEAD, 0);
    bytes
}

fn read_key(head: &[u8; HEAD]) -> FlowKey {
    let end = |at: usize| {
        let addr = head[at..].first_chunk::<16>().copied().unwrap_or_default();
        Endpoint::new(Addr::v6(addr), u16::from_ne_bytes([head[at + 16], head[at + 17]]))
    };
    FlowKey::new(end(0), end(18))
}

/// Reads what [`write_syn`] wrote: the flow, the sender's address, the segment.
fn read_syn(bytes: &[u8]) -> Option<(FlowKey, [u8; 6], &[u8])> {
    let (head, data) = bytes.split_first_chunk::<HEAD>()?;
    let (mac, tcp) = data.split_first_chunk()?;
    (head[FACTS] == SYN).then(|| (read_key(head), *mac, tcp))
}

/// Reads what [`write`] wrote, and the data behind it.
fn read(bytes: &[u8]) -> Option<(FlowKey, Handover, &[u8])> {
    let (head, data) = bytes.split_first_chunk::<HEAD>()?;
    let short = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let half = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let key = read_key(head);
    let [peers, ours, facts] = [head[56], head[57], head[FACTS]];
    let has = |bit: u8| facts & bit != 0;
    let state = Handover {
        isn: Seq::new(half(36)),
        peer_isn: Seq::new(half(40)),
        ts_value: half(44),
        ts_recent: has(TIMESTAMPS).then(|| half(48)),
        peer_mss: short(52),
        window: has(ESTABLISHED).then(|| short(54)),
        scales: has(SCALES).then_some((peers.min(14), ours.min(14))),
        sack: has(SACK),
        ecn: has(ECN),
        peer_closed: has(PEER_CLOSED),
    };
    Some((key, state, data))
}

impl Core {
    /// Parks every listener, and leaves the connections that wait there to other processes that share the ports.
    /// Returns true while some found no process, or while SYNs still come here.
    pub fn hand_over_all(&mut self, now: Instant) -> bool {
        self.now = now;
        let begins = !std::mem::replace(&mut self.ends, true);
        let ids: Vec<ListenerId> = self.listeners.ids().collect();
        for id in &ids {
            self.park(*id, true);
            if let Some(listener) = self.listeners.get(*id).filter(|_| begins) {
                self.ports.note_listener(self.port.io.as_mut(), listener.request.local, false);
            }
            self.hand_over_of(now, *id);
        }
        let waits =
            self.listeners.iter().any(|listener| !listener.queue.is_empty() || listener.half_open > 0);
        waits || !self.kept_syns.is_empty() || self.port.io.sharing().is_some_and(|sharing| sharing.owes())
    }

    /// Leaves the connections of a listener that is parked, those whose handshake is not over as well, to other
    /// processes that share its port.
    pub(crate) fn hand_over_of(&mut self, now: Instant, id: ListenerId) {
        self.hand_over_queue(now, id);
        if self.listeners.get(id).is_none_or(|listener| listener.half_open == 0) {
            return;
        }
        let half_open = |(index, meta, _): (u32, &Meta, &Connection)| {
            (meta.flags.has(SlotFlags::HALF_OPEN) && meta.listener == id.0).then_some(index)
        };
        let half_open: Vec<u32> = self.conns.iter().filter_map(half_open).collect();
        for index in half_open {
            self.hand_over(now, index);
        }
    }

    /// Leaves those that wait for accept to other processes.
    pub(crate) fn hand_over_queue(&mut self, now: Instant, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let mut queue = std::mem::take(&mut listener.queue);
        queue.retain(|index| !self.hand_over(now, *index));
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.queue = queue;
        }
    }

    fn hand_over(&mut self, now: Instant, index: u32) -> bool {
        let Some((_, tcp)) = self.conns.get(index) else { return false };
        let Some(state) = tcp.hand_over(now) else { return false };
        let key = *tcp.key();
        let mut bytes = write(&key, &state);
        tcp.peek(&self.shared.pool, Some(&self.shared.adopted), usize::MAX, &mut |piece| {
            bytes.extend_from_slice(piece);
            true
        });
        let done = self.port.io.sharing().is_some_and(|sharing| sharing.hand_over(&key, &bytes));
        if done {
            self.stats.handed_over += 1;
            self.conns.slot_mut(index).meta.flags.clear(SlotFlags::QUEUED);
            self.finish(now, index);
        }
        done
    }

    /// Takes the connections that other processes have left to this one. Returns true if there was one.
    #[inline(never)]
    pub(crate) fn take_over_all(&mut self, now: Instant) -> bool {
        let (before, mut bytes) = (self.stats.taken_over, Vec::new());
        while self.port.io.sharing().is_some_and(|sharing| sharing.take_over(&mut bytes)) {
            if read_syn(&bytes).is_some() {
                self.on_left_syn(now, &bytes);
            } else if let Some((key, state, data)) = read(&bytes) {
                self.go_on(now, &key, &state, data);
            }
        }
        self.stats.taken_over != before
    }

    /// Looks at the SYNs again that no process answered when they came.
    pub(crate) fn look_at_kept(&mut self, now: Instant) {
        for syn in std::mem::take(&mut self.kept_syns) {
            // It has been answered here, for another process had it too.
            if self.find(self.table.hash(&syn.key), &syn.key).is_some() {
                continue;
            }
            match self.answerer(&syn.key, true) {
                _ if syn.until <= now => self.drops.count(PacketDrop::AnothersFlow),
                Answerer::Ours | Answerer::OursLately => self.on_left_syn(now, &syn.bytes),
                Answerer::Next => self.leave_or_keep(syn),
                // Its bucket has moved: the owner has not seen it.
                Answerer::Another if syn.alone => self.leave_or_keep(syn),
                Answerer::Another => self.drops.count(PacketDrop::AnothersFlow),
                Answerer::OursSoon | Answerer::NoneYet | Answerer::None => self.kept_syns.push(syn),
            }
        }
    }

    /// Answers a SYN that this process or another one has kept.
    fn on_left_syn(&mut self, now: Instant, bytes: &[u8]) {
        let Some((key, mac, tcp)) = read_syn(bytes) else { return };
        let hash = self.table.hash(&key);
        let Ok(raw) = Raw::of(tcp) else { return self.drops.count(PacketDrop::TcpHeader) };
        // Answered meanwhile: it came here, too.
        if self.find(hash, &key).is_some() {
            return;
        }
        let mut segment = raw.segment();
        raw.read_options(&mut segment);
        let mut frame = [0; 12];
        frame[6..].copy_from_slice(&mac);
        let sender = Sender { key: &key, hash, tcp, frame: &frame, batch: &[] };
        self.answer_ours(now, &sender, &segment, None);
    }

    /// Keeps a SYN until a process answers such. `alone`: no other process has seen it.
    #[cold]
    pub(crate) fn keep_syn(&mut self, now: Instant, sender: &Sender<'_>, alone: bool) {
        let bytes = write_syn(sender.key, sender.mac(self.port.caps.medium), sender.tcp);
        self.keep(KeptSyn { key: *sender.key, bytes, until: now + KEPT_FOR, alone });
    }

    fn keep(&mut self, syn: KeptSyn) {
        // Its sender has repeated it.
        if let Some(known) = self.kept_syns.iter_mut().find(|known| known.key == syn.key) {
            *known = KeptSyn { alone: known.alone || syn.alone, ..syn };
        } else if self.kept_syns.len() == KEPT_MAX {
            self.drops.count(PacketDrop::BacklogFull);
        } else {
            self.kept_syns.push(syn);
        }
    }

    /// Leaves a SYN to the process that gets its bucket.
    #[cold]
    pub(crate) fn leave_syn(&mut self, now: Instant, sender: &Sender<'_>) {
        let bytes = write_syn(sender.key, sender.mac(self.port.caps.medium), sender.tcp);
        self.leave_or_keep(KeptSyn { key: *sender.key, bytes, until: now + KEPT_FOR, alone: true });
    }

    /// Leaves a SYN to the process that gets its bucket, or keeps it where there is no room for it yet.
    fn leave_or_keep(&mut self, syn: KeptSyn) {
        if !self.port.io.sharing().is_some_and(|sharing| sharing.hand_over(&syn.key, &syn.bytes)) {
            self.keep(syn);
        }
    }

    /// Returns the process that answers a segment of no flow.
    pub(crate) fn answerer(&mut self, key: &FlowKey, opens: bool) -> Answerer {
        self.port.io.sharing().map_or(Answerer::Ours, |sharing| sharing.answerer(key, opens))
    }

    fn go_on(&mut self, now: Instant, key: &FlowKey, state: &Handover, data: &[u8]) {
        let hash = self.table.hash(key);
        let sender = Sender { key, hash, tcp: &[], frame: &[], batch: &[] };
        let Some(id) = self.listeners.find(key.local(), hash) else {
            return self.drops.count(PacketDrop::NoFlow);
        };
        let known = matches!(self.find(hash, key), Some(Flow::Connection(_)));
        if known || self.listeners.get(id).is_none_or(Listener::is_full) || self.conns.is_full() {
            self.stats.accept_queue_full += 1;
            return self.drops.count(PacketDrop::BacklogFull);
        }
        let Some((open, control, meta)) = self.passive(now, id, &sender) else { return };
        let index = self.conns.claim(meta);
        let place = &mut self.conns.slot_mut(index).tcp;
        Connection::take_over(place, &mut self.shared.cx(now), &open, control, state);
        if !self.enter(index) {
            return self.drops.count(PacketDrop::NoRoom);
        }
        self.stats.taken_over += 1;
        if state.window.is_none() {
            self.conns.slot_mut(index).meta.flags.set(SlotFlags::HALF_OPEN);
            if let Some(listener) = self.listeners.get_mut(id) {
                listener.half_open += 1;
            }
            return;
        }
        self.queue_for_accept(index);
        let (Some(segment), Some((_, tcp))) = (state.segment(data), self.conns.get_mut(index)) else {
            return;
        };
        let disposition = tcp.on_segment(&mut self.shared.cx(now), &segment);
        let events = tcp.poll_event();
        self.delivered(now, index, disposition, events);
    }
}

#[cfg(test)]
mod tests;
