//! TCP Fast Open (RFC 7413) beside a core's connections: what its connects remember, and how many clients a listener
//! serves that have shown nothing but a cookie.

pub(crate) mod unproven;

use base::{FlowKey, Instant};
use tcp::{Connection, Cx, FastOpenAnswer, FastOpenKeys, FastOpenOffer, Open};
use wire::tcp::Segment;

use crate::core::Core;
use crate::error::OpError;
use crate::ops::Connect;
use crate::rx::Sender;
use crate::tables::conns::SlotFlags;
use crate::tables::listeners::{Listener, ListenerId};

/// Fast Open options of a listener (TCP_FASTOPEN, TCP_FASTOPEN_KEY).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FastOpenListen {
    /// Most connections whose clients have not answered the SYN-ACK yet; 0 takes no data with a SYN.
    /// `None` for what the settings say.
    pub queue: Option<u32>,
    /// Keys of its cookies; `None` for those of the settings, or of the stack.
    pub keys: Option<FastOpenKeys>,
}

impl Core {
    /// Changes what a listener grants.
    pub fn set_fast_open(&mut self, id: ListenerId, request: FastOpenListen) {
        if let Some(listener) = self.listeners.get_mut(id) {
            let unproven = &mut listener.unproven;
            unproven.queue = request.queue.unwrap_or(unproven.queue);
            unproven.keys = request.keys.or(unproven.keys);
        }
    }

    /// The keys of listeners that have none of their own.
    pub fn fast_open_keys(&self, now: Instant) -> FastOpenKeys {
        self.shared.config.fastopen_key.unwrap_or_else(|| self.cookie_keys.keys(now))
    }

    /// Forgets what connects learned of cookies.
    pub fn forget_fast_open(&mut self) {
        self.fast_open.clear();
    }

    /// Like [`Core::connect`], with as much of `data` in the SYN as it takes: how many bytes that is. Without a cookie
    /// the SYN asks for one and takes none, unless `no_cookie` lets data go without.
    ///
    /// # Errors
    /// Those of [`Core::connect`].
    pub fn connect_fast(
        &mut self,
        now: Instant,
        connect: &Connect,
        no_cookie: bool,
        data: &[u8],
    ) -> Result<(crate::ConnId, usize), OpError> {
        self.connect_with(now, connect, Some((no_cookie, data)))
    }

    /// Would [`Core::connect_fast`] send data with the SYN?
    pub fn may_send_with_syn(&mut self, now: Instant, connect: &Connect, no_cookie: bool) -> bool {
        let Ok(path) = self.path(now, connect.remote.addr) else { return false };
        let src = if connect.local.addr.is_unspecified() { path.src } else { connect.local.addr };
        self.offer(now, src, connect.remote.addr, no_cookie).is_some_and(|offer| offer.takes_data())
    }

    fn offer(
        &mut self,
        now: Instant,
        src: base::Addr,
        dst: base::Addr,
        no_cookie: bool,
    ) -> Option<FastOpenOffer> {
        let config = &self.shared.config;
        if !config.fastopen_client() {
            return None;
        }
        let no_cookie = no_cookie || config.fastopen_without_cookie();
        self.fast_open.offer(now, src, dst, no_cookie)
    }

    /// Begins a connect that wants Fast Open in the place of `index`; how many bytes go with its SYN.
    #[cold]
    pub(crate) fn begin_fast(
        &mut self,
        now: Instant,
        index: u32,
        open: &Open,
        control: cc::Control,
        (no_cookie, data): (bool, &[u8]),
    ) -> usize {
        let offer = self.offer(now, open.key.local().addr, open.key.remote().addr, no_cookie);
        let place = &mut self.conns.slot_mut(index).tcp;
        let cx: &mut Cx<'_> = &mut self.shared.cx(now);
        match offer {
            Some(offer) => Connection::connect_fast(place, cx, open, control, &offer, data),
            None => {
                Connection::connect(place, cx, open, control);
                0
            }
        }
    }

    /// Returns the decision of `listener` about a SYN that has data or the option.
    /// RFC 7413, 2.1-1 and 4.2.2-3; RFC 7413, 4.2-1.
    #[cold]
    pub(crate) fn judge_syn(
        &mut self,
        now: Instant,
        id: ListenerId,
        key: &FlowKey,
        syn: &Segment<'_>,
    ) -> FastOpenAnswer {
        let option = syn.options.fast_open();
        self.shared.counters.fastopen_cookie_requests +=
            u64::from(option.is_some_and(|option| option.is_request()));
        let own = self.fast_open_keys(now);
        let none = FastOpenAnswer::Handshake(None);
        let Some(Listener { unproven, .. }) = self.listeners.get_mut(id) else { return none };
        if unproven.queue == 0 {
            return none;
        }
        if !unproven.has_room(now) {
            self.shared.counters.fastopen_listen_overflow += 1;
            return none;
        }
        let keys = unproven.keys.unwrap_or(own);
        let Cx { config, counters, .. } = self.shared.cx(now);
        FastOpenAnswer::to(config, &keys, key, syn, counters)
    }

    /// A connection that began with a good cookie waits for accept at once. Its SYN-ACK waits for nothing.
    pub(crate) fn queue_unproven(&mut self, id: ListenerId, index: u32) {
        self.conns.slot_mut(index).meta.listener = id.0;
        self.queue_for_accept(index);
        let meta = &mut self.conns.slot_mut(index).meta;
        meta.flags.clear(SlotFlags::HELD);
        meta.flags.set(SlotFlags::UNPROVEN);
        meta.listener = id.0;
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.unproven.count += 1;
        }
    }

    /// A connection was proven, or is over without that.
    #[cold]
    pub(crate) fn leave_unproven(&mut self, index: u32) {
        let slot = self.conns.slot_mut(index);
        slot.meta.flags.clear(SlotFlags::UNPROVEN);
        let reset = slot.tcp.as_ref().is_some_and(|tcp| tcp.error() == Some(tcp::Error::Reset));
        let id = ListenerId(slot.meta.listener);
        slot.meta.listener = crate::tables::conns::NIL;
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.unproven.leave(self.now, reset);
        }
    }

    /// A connect with Fast Open learned something for the next.
    #[cold]
    pub(crate) fn learn_fast_open(&mut self, index: u32) {
        let Some((_, tcp)) = self.conns.get_mut(index) else { return };
        let (src, dst) = (tcp.key().local().addr, tcp.key().remote().addr);
        if let Some(outcome) = tcp.take_fast_open() {
            self.fast_open.learn(self.now, src, dst, &outcome, self.shared.config.fastopen_pause);
        }
    }

    /// The segment that a [`Sender`] sent opens a connection, or asks for a handshake.
    pub(crate) fn answer_syn(
        &mut self,
        now: Instant,
        id: ListenerId,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) -> FastOpenAnswer {
        match FastOpenAnswer::concerns(&self.shared.config, segment) {
            true => self.judge_syn(now, id, sender.key, segment),
            false => FastOpenAnswer::Handshake(None),
        }
    }
}

#[cfg(test)]
mod tests;
