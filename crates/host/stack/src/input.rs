//! Processing of a segment: for a connection, a TIME-WAIT entry, a listener, or none.

use base::{FlowKey, Instant, Seq};
use tcp::auth::Auth;
use tcp::{Connection, Disposition, Events, FastOpenAnswer, Stray, TimeWaitAnswer};
use wire::tcp::{Flags, Segment};

use crate::core::Core;
use crate::rx::Sender;
use crate::stats::PacketDrop;
use crate::tables::conns::{Meta, NIL, SlotFlags};
use crate::tables::flows::Flow;
use crate::tables::listeners::{Listener, ListenerId};
use crate::tx::Envelope;

/// How long acknowledgments of SYN cookies are believed after the last one was sent.
const COOKIES_LAST: base::Duration = base::Duration::from_secs(128);
/// Hop limit of what belongs to no connection.
const TTL: u8 = 64;

impl Core {
    /// A sound segment arrived, or a run ([`Connection::on_segment`]).
    #[inline]
    pub(crate) fn on_segment(
        &mut self,
        now: Instant,
        flow: Option<Flow>,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) {
        match flow {
            Some(Flow::Connection(index)) => self.deliver(now, index, sender, segment),
            _ => self.on_unconnected(now, flow, sender, segment),
        }
    }

    #[inline]
    fn deliver(&mut self, now: Instant, index: u32, sender: &Sender<'_>, segment: &Segment<'_>) {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return };
        if meta.flags.has(SlotFlags::HALF_OPEN | SlotFlags::SIGNED) || segment.options.signature.is_some() {
            return self.deliver_checked(now, index, sender, segment);
        }
        let disposition = self.shared.with_batch(now, sender.batch, |cx| tcp.on_segment(cx, segment));
        let events = tcp.poll_event();
        self.delivered(now, index, disposition, events);
    }

    /// To a connection that is half-open or signed, or with a signature.
    #[inline(never)]
    fn deliver_checked(&mut self, now: Instant, index: u32, sender: &Sender<'_>, segment: &Segment<'_>) {
        if !self.lets_through(now, index, sender, segment) {
            return self.shared.show_stray(now, false, sender.key, Stray::Withheld);
        }
        let Some((_, tcp)) = self.conns.get_mut(index) else { return };
        let disposition = self.shared.with_batch(now, sender.batch, |cx| tcp.on_segment(cx, segment));
        let events = tcp.poll_event();
        self.delivered(now, index, disposition, events);
    }

    /// A segment of no connection. Of a run the first may open one, which then gets the others.
    fn on_unconnected(
        &mut self,
        now: Instant,
        flow: Option<Flow>,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) {
        let last = if segment.rest.is_some() { Flags::FIN.0 | Flags::PSH.0 } else { 0 };
        let first = Segment { rest: None, flags: Flags(segment.flags.0 & !last), ..*segment };
        match flow {
            Some(Flow::TimeWait(entry)) => self.on_time_wait(now, entry, sender, &first),
            _ => self.on_unmatched(now, sender, &first, None),
        }
        if segment.rest.is_some()
            && let Some(Flow::Connection(index)) = self.find(sender.hash, sender.key)
        {
            let seq = segment.seq + segment.payload.len() as u32;
            self.deliver(now, index, sender, &Segment { seq, payload: &[], ..*segment });
        }
    }

    /// Reports the effect of a segment on its connection.
    #[inline(always)]
    pub(crate) fn delivered(&mut self, now: Instant, index: u32, disposition: Disposition, events: Events) {
        if !events.is_empty() {
            let flags = self.conns.slot(index).meta.flags;
            if flags.has(SlotFlags::HALF_OPEN | SlotFlags::UNPROVEN) || events.any(Events::FAST_OPEN) {
                self.tell(index, events);
            } else {
                self.notice(index, events);
            }
        }
        if disposition == Disposition::TimeWait {
            self.enter_time_wait(now, index);
        } else {
            self.touch(index);
        }
    }

    /// May a segment of a connection be delivered that is half-open or signed?
    fn lets_through(&mut self, now: Instant, index: u32, sender: &Sender<'_>, segment: &Segment<'_>) -> bool {
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
            // Nothing wants it any more.
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

    fn on_time_wait(&mut self, now: Instant, entry: u32, sender: &Sender<'_>, segment: &Segment<'_>) {
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
                self.end_time_wait(now, entry);
                self.on_unmatched(now, sender, segment, Some(isn_above));
            }
        }
    }

    /// A segment of no flow, which may begin one.
    fn on_unmatched(&mut self, now: Instant, sender: &Sender<'_>, segment: &Segment<'_>, above: Option<Seq>) {
        if above.is_none() && self.may_repeat(segment) && self.accept_again(now, sender, segment) {
            return;
        }
        self.serve_stranger(now, sender, segment, above);
        if self.shared.probes.is_some() && self.find(sender.hash, sender.key).is_none() {
            self.shared.show_stray(now, false, sender.key, Stray::Unknown);
        }
    }

    /// A SYN or the answer to a cookie for a listener, or something to be reset.
    /// RFC 9293, MUST-57 and MUST-63.
    fn serve_stranger(
        &mut self,
        now: Instant,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
        above: Option<Seq>,
    ) {
        let (local, remote) = (sender.key.local(), sender.key.remote());
        let absurd = remote.addr.is_unspecified()
            || self.ip.is_of_many(remote.addr)
            || self.ip.is_of_many(local.addr)
            || local == remote;
        if self.looping {
            // Its way has been looked at by the sender, which is this stack.
        } else if absurd
            || self.is_martian(local.addr, remote.addr)
            || !self.port.caps.shares_kernel_addresses && !self.ip.is_own(local.addr)
        {
            return self.drops.count(PacketDrop::NotForUs);
        }
        // What is left of a flow here may be revived here, whichever member has the bucket now.
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if above.is_none() && !self.looping && !self.port.io.is_ours(sender.key, opens) {
            return self.drops.count(PacketDrop::AnothersFlow);
        }
        let listener = self.listeners.find(local, sender.hash);
        let Ok(auth) = self.authorize(listener, sender, segment) else { return };
        let Some(id) = listener.filter(|_| !segment.flags.has(Flags::RST)) else {
            return self.reset(now, sender, segment, auth.as_ref());
        };
        if segment.flags.has(Flags::ACK) {
            return self.on_cookie(now, id, sender, segment, auth);
        }
        let dropped = segment.flags.has(Flags::FIN) && self.shared.config.drop_synfin;
        if !segment.flags.has(Flags::SYN) || dropped {
            return self.drops.count(PacketDrop::BadSyn);
        }
        self.on_syn(now, id, sender, segment, (above, auth));
    }

    /// RFC 9293, MUST-41 and MUST-42.
    fn on_syn(
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
    fn on_cookie(
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

    /// A segment that belongs to nothing (RFC 9293, section 3.10.7.1). Where the kernel shares our addresses,
    /// only what came for a port of ours is ours to answer. A peer that demands signatures believes only a signed
    /// answer, which TCP-AO cannot give without the connection's ISNs.
    ///
    /// Each segment has its own answer, which is no larger than it, whatever came before. A bound would delay clients
    /// that are refused, and one that came near what strangers send would tell them about each other (CVE-2016-5696).
    /// RFC 2385, section 4.1; RFC 5925, 7.7-1.
    fn reset(&mut self, now: Instant, sender: &Sender<'_>, segment: &Segment<'_>, auth: Option<&Auth>) {
        self.drops.count(PacketDrop::NoFlow);
        let all_ours = self.looping || !self.port.caps.shares_kernel_addresses;
        let ours = all_ours || self.ports.is_ours(sender.key.local().port);
        if !ours || auth.is_some_and(|auth| !auth.signs_resets()) {
            return;
        }
        let Some(mut header) = tcp::reset_for(sender.key, segment) else { return };
        header.options.signature = auth.map(Auth::signature);
        self.stats.resets_out += 1;
        self.answer(now, sender.key, &header, sender, auth);
    }

    /// Sends what belongs to no connection back where the segment came from, signed if its header has room for that.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        key: &FlowKey,
        header: &wire::tcp::Header,
        sender: &Sender<'_>,
        auth: Option<&Auth>,
    ) {
        let envelope =
            Envelope { mac: sender.mac(self.port.caps.medium), hash: sender.hash, tos: 0, ttl: TTL };
        if !self.port.header_only(key, header, &envelope, auth, self.looping) {
            self.stats.no_frame += 1;
            return self.drops.count(PacketDrop::NoFrame);
        }
        if self.shared.probes.is_some() {
            let waiting = matches!(self.find(sender.hash, key), Some(Flow::TimeWait(_)));
            self.shared.show_stray(now, true, key, if waiting { Stray::TimeWait } else { Stray::Unknown });
        }
    }

    /// A connection whose handshake is complete waits for accept.
    pub(crate) fn queue_for_accept(&mut self, index: u32) {
        self.leave_listener(index);
        self.note_proven(index);
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
}
