//! Segments for listeners: SYNs, answers to SYN cookies, and what half-open connections get.

use base::{Instant, Seq};
use tcp::auth::Auth;
use tcp::{Connection, FastOpenAnswer};
use wire::tcp::{Flags, Segment};

use crate::core::Core;
use crate::rx::Sender;
use crate::stats::PacketDrop;
use crate::tables::conns::{Meta, NIL, SlotFlags};
use crate::tables::listeners::{Listener, ListenerId};

/// How long acknowledgments of SYN cookies are believed after the last one was sent.
const COOKIES_LAST: base::Duration = base::Duration::from_secs(128);

impl Core {
    /// May a segment of a connection be delivered that is half-open or signed?
    pub(super) fn lets_through(
        &mut self,
        now: Instant,
        index: u32,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) -> bool {
        let flags = self.conns.slot(index).meta.flags;
        let signed = flags.has(SlotFlags::SIGNED) || segment.options.signature.is_some();
        if signed && !self.admits(now, index, sender, segment) {
            return false;
        }
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return false };
        if !meta.flags.has(SlotFlags::HALF_OPEN) {
            return true;
        }
        match self.listeners.get(ListenerId(meta.listener)) {
            // Nothing wants it any more. A reset ends it without an answer (RFC 9293, section 3.10.7.4).
            None if segment.flags.has(Flags::RST) => true,
            None => {
                tcp.abort(&mut self.shared.cx(now));
                self.touch(index);
                false
            }
            Some(listener)
                if listener.request.options.defer_accept > 0
                    && tcp.defers(
                        &mut self.shared.cx(now),
                        segment,
                        listener.request.options.defer_accept,
                    ) =>
            {
                self.stats.deferred += 1;
                self.touch(index);
                false
            }
            Some(listener)
                if listener.is_full()
                    && self.shared.config.abort_on_overflow
                    && tcp.completes_handshake(segment) =>
            {
                self.stats.accept_queue_full += 1;
                tcp.abort(&mut self.shared.cx(now));
                self.touch(index);
                false
            }
            // As Linux does: the peer repeats itself, and by then there may be room.
            Some(listener) if listener.is_full() && !segment.flags.any(Flags::RST | Flags::SYN) => {
                self.stats.accept_queue_full += 1;
                self.drops.count(PacketDrop::BacklogFull);
                false
            }
            Some(_) => true,
        }
    }

    /// RFC 9293, MUST-41 and MUST-42.
    pub(super) fn on_syn(
        &mut self,
        now: Instant,
        id: ListenerId,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
        (above, mut auth): (Option<Seq>, Option<Auth>),
    ) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        if listener.is_full() {
            self.stats.accept_queue_full += 1;
            return self.drops.count(PacketDrop::BacklogFull);
        }
        if listener.half_open >= listener.request.backlog.max(1) || self.conns.is_full() {
            listener.cookies_until = now + COOKIES_LAST;
            return self.send_cookie(now, sender, segment, auth);
        }
        let Some((mut open, control, meta)) = self.passive(now, id, sender) else { return };
        if let Some(above) = above {
            open.isn = Core::isn_above(open.isn, above);
        }
        let answer = match &mut auth {
            None => self.answer_syn(now, id, sender, segment),
            Some(auth) => {
                auth.complete(open.isn, segment.seq);
                FastOpenAnswer::Handshake(None)
            }
        };
        let index = self.conns.claim(meta);
        let place = &mut self.conns.slot_mut(index).tcp;
        let cx = &mut self.shared.cx(now);
        match answer {
            FastOpenAnswer::Handshake(cookie) => {
                Connection::accept(place, cx, &open, control, segment).grant(cookie);
            }
            FastOpenAnswer::Open(cookie) => {
                Connection::accept_fast(place, cx, &open, control, segment, cookie);
            }
        }
        self.sign_from_now(index, auth);
        if !self.enter(index) {
            self.drops.count(PacketDrop::NoRoom);
        } else if matches!(answer, FastOpenAnswer::Open(_)) {
            self.queue_unproven(id, index);
        } else {
            self.conns.slot_mut(index).meta.flags.set(SlotFlags::HALF_OPEN);
            if let Some(listener) = self.listeners.get_mut(id) {
                listener.half_open += 1;
            }
        }
    }

    /// Returns the arguments of a connection of `listener` with `sender`.
    pub(crate) fn passive(
        &mut self,
        now: Instant,
        id: ListenerId,
        sender: &Sender<'_>,
    ) -> Option<(tcp::Open, cc::Control, Meta)> {
        let remote = sender.key.remote().addr;
        let Ok(path) = self.path(now, remote) else {
            self.drops.count(PacketDrop::NoRoute);
            return None;
        };
        if !path.is_looped() {
            self.neighbours.hint(now, path.hop, sender.mac(self.port.caps.medium));
        }
        let Listener { request, .. } = self.listeners.get(id)?;
        // What the listener wants, or the default where that has been withdrawn meanwhile.
        let control = self.registry.create_or_default(request.control);
        let options = request.options;
        let open = self.opening(now, *sender.key, &path, options);
        let mut meta = Meta::new(sender.hash, path.hop, self.way_of(&path));
        meta.listener = id.0;
        Some((open, control, meta))
    }

    fn send_cookie(
        &mut self,
        now: Instant,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
        mut auth: Option<Auth>,
    ) {
        let mtu = self.ip.mtu();
        let mut header = self.cookies.answer(now, &self.shared.config, sender.key, mtu, segment);
        if let Some(auth) = &mut auth {
            auth.complete(header.seq, segment.seq);
            header.options.signature = Some(auth.signature());
        }
        self.stats.cookies_sent += 1;
        self.answer(now, sender.key, &header, sender, auth.as_ref());
    }

    /// An ACK for a listener: the end of a handshake of which we kept nothing, or a stray.
    pub(super) fn on_cookie(
        &mut self,
        now: Instant,
        id: ListenerId,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
        auth: Option<Auth>,
    ) {
        let believed = self.listeners.get(id).is_some_and(|listener| now < listener.cookies_until);
        let plain = believed && !segment.flags.has(Flags::SYN);
        let Some(cookie) = plain.then(|| self.cookies.check(now, sender.key, segment)).flatten() else {
            return self.reset(now, sender, segment, auth.as_ref());
        };
        if self.listeners.get(id).is_none_or(Listener::is_full) || self.conns.is_full() {
            self.stats.accept_queue_full += 1;
            if self.shared.config.abort_on_overflow {
                return self.reset(now, sender, segment, auth.as_ref());
            }
            return self.drops.count(PacketDrop::BacklogFull);
        }
        let Some((mut open, control, meta)) = self.passive(now, id, sender) else { return };
        open.ts_offset = cookie.ts_offset;
        let index = self.conns.claim(meta);
        let place = &mut self.conns.slot_mut(index).tcp;
        Connection::accept_cookie(place, &mut self.shared.cx(now), &open, control, &cookie, segment);
        self.sign_from_now(index, auth);
        if !self.enter(index) {
            return self.drops.count(PacketDrop::NoRoom);
        }
        self.stats.cookies_good += 1;
        self.queue_for_accept(index);
        self.deliver(now, index, sender, segment);
    }

    /// A connection whose handshake is complete waits for accept.
    pub(crate) fn queue_for_accept(&mut self, index: u32) {
        self.leave_listener(index);
        self.touch_cached(index);
        let meta = &mut self.conns.slot_mut(index).meta;
        let id = ListenerId(meta.listener);
        meta.listener = NIL;
        let Some(listener) = self.listeners.get_mut(id) else { return };
        meta.flags.set(SlotFlags::QUEUED | SlotFlags::HELD);
        listener.queue.push_back(index);
        if !listener.noticed {
            listener.noticed = true;
            self.noticed_listeners.push(id);
        }
    }

    /// A connection is half-open no more.
    pub(crate) fn leave_listener(&mut self, index: u32) {
        let meta = &mut self.conns.slot_mut(index).meta;
        if meta.flags.has(SlotFlags::HALF_OPEN) {
            meta.flags.clear(SlotFlags::HALF_OPEN);
            if let Some(listener) = self.listeners.get_mut(ListenerId(meta.listener)) {
                listener.half_open -= 1;
            }
        } else if meta.flags.has(SlotFlags::UNPROVEN) {
            self.leave_unproven(index);
        }
    }
}
