//! Signed segments (RFC 2385, RFC 5925) beside a core's connections: what listeners demand, and what TIME-WAIT goes on
//! with. What is not signed as it must be is dropped in silence: no RST, no acknowledgment.

use base::{Instant, Seq};
use std::sync::Arc;
use tcp::auth::{AoReport, Auth, KeyChange, KeyError, Keyring, Refused};
use wire::tcp::{Flags, Header, Segment};

use crate::core::Core;
use crate::error::OpError;
use crate::ops::Connect;
use crate::rx::Sender;
use crate::stats::PacketDrop;
use crate::tables::conns::{ConnId, SlotFlags};
use crate::tables::listeners::ListenerId;

impl Core {
    /// Is this segment, of a connection that signs or with a signature, to be delivered?
    #[cold]
    pub(crate) fn admits(
        &mut self,
        now: Instant,
        index: u32,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) -> bool {
        match self.conns.get_mut(index) {
            Some((_, tcp)) if tcp.is_signed() => {
                let verdict = tcp.verify(&mut self.shared.cx(now), sender.tcp, segment);
                verdict.is_ok() || self.refuse(None)
            }
            _ => self.admits_unmatched(segment),
        }
    }

    /// Decides about a segment from a peer without keys.
    fn admits_unmatched(&mut self, segment: &Segment<'_>) -> bool {
        let takes_ao = self.shared.config.ao_without_key;
        let refused = segment.options.signature.and_then(|one| Refused::by_stranger(one, takes_ao));
        refused.is_none() || self.refuse(refused)
    }

    /// Counts; always false. What a connection refuses it has counted itself.
    fn refuse(&mut self, why: Option<Refused>) -> bool {
        if let Some(why) = why {
            why.count(&mut self.shared.counters);
        }
        self.drops.count(PacketDrop::Signature);
        false
    }

    /// Decides about a segment for a TIME-WAIT entry.
    #[cold]
    pub(crate) fn admits_waiting(&mut self, entry: u32, sender: &Sender<'_>, segment: &Segment<'_>) -> bool {
        let Some(auth) = self.signed_waits.get_mut(&entry) else { return self.admits_unmatched(segment) };
        match auth.verify(sender.tcp, segment) {
            Ok(_) => true,
            Err(why) => self.refuse(Some(why)),
        }
    }

    /// An answer of a TIME-WAIT entry, signed if it signs.
    pub(crate) fn answer_waiting(
        &mut self,
        now: Instant,
        entry: u32,
        mut header: Header,
        sender: &Sender<'_>,
    ) {
        // Out for the moment: what sends needs all of the core.
        let auth = self.signed_waits.remove(&entry);
        let key = self.time_waits.get(entry).key;
        if let Some(auth) = &auth {
            header.options.signature = Some(auth.signature());
        }
        self.answer(now, &key, &header, sender, auth.as_deref());
        if let Some(auth) = auth {
            self.signed_waits.insert(entry, auth);
        }
    }

    /// Checks the signature of a segment that belongs to no connection: `Ok` says how to answer it, and with which
    /// keys a connection begins. An error was counted. RFC 2385, 4.1-1; RFC 5925, 7.3-1 and 7.3-4.
    pub(crate) fn authorize(
        &mut self,
        listener: Option<ListenerId>,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) -> Result<Option<Auth>, ()> {
        let ring = listener.and_then(|id| self.listeners.get(id)?.request.keys.as_ref());
        if ring.is_none() && segment.options.signature.is_none() {
            return Ok(None);
        }
        self.authorize_signed(listener, sender, segment)
    }

    #[cold]
    fn authorize_signed(
        &mut self,
        listener: Option<ListenerId>,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) -> Result<Option<Auth>, ()> {
        let ring = listener.and_then(|id| self.listeners.get(id)?.request.keys.clone());
        let required = ring.as_ref().is_some_and(|ring| ring.ao_required);
        let isn = segment.ack - 1;
        let verdict = match ring.and_then(|ring| Auth::new(&ring, sender.key, isn)) {
            Some(mut auth) => {
                if !segment.flags.has(Flags::SYN) {
                    // Both ISNs are those of a handshake of which nothing was kept.
                    auth.complete(isn, segment.seq - 1);
                }
                auth.verify(sender.tcp, segment).map(|_| Some(auth))
            }
            None if required => Err(Refused::AoMissing),
            None if listener.is_none() && segment.options.signature.is_some() => Err(Refused::Unwanted),
            None => return if self.admits_unmatched(segment) { Ok(None) } else { Err(()) },
        };
        verdict.map_err(|why| {
            self.refuse(Some(why));
        })
    }

    /// The place of a connection signs from now on.
    pub(crate) fn sign_from_now(&mut self, index: u32, auth: Option<Auth>) {
        let slot = self.conns.slot_mut(index);
        if let (Some(auth), Some(tcp)) = (auth, &mut slot.tcp) {
            tcp.authenticate(auth);
            slot.meta.flags.set(SlotFlags::SIGNED);
        }
    }

    /// How a connect signs; an error if it may not without.
    pub(crate) fn auth_of(
        &self,
        connect: &Connect,
        flow: &base::FlowKey,
        isn: Seq,
    ) -> Result<Option<Auth>, OpError> {
        let Some(ring) = &connect.keys else { return Ok(None) };
        match Auth::new(ring, flow, isn) {
            Some(auth) if ring.ao_required && auth.report().is_none() => Err(OpError::KeyRejected),
            None if ring.ao_required => Err(OpError::KeyRejected),
            auth => Ok(auth),
        }
    }

    /// Replaces the keys that connections accepted from now on begin with.
    pub fn set_listener_keys(&mut self, id: ListenerId, keys: Option<Arc<Keyring>>) {
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.request.keys = keys;
            self.listeners.touch();
        }
    }

    /// See [`tcp::Connection::change_keys`].
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn change_keys(&mut self, id: ConnId, change: &KeyChange) -> Result<(), KeyError> {
        let Some((meta, tcp)) = self.conns.get_mut(id.0) else { return Err(KeyError::NotSigned) };
        let changed = tcp.change_keys(change);
        if tcp.is_signed() {
            meta.flags.set(SlotFlags::SIGNED)
        } else {
            meta.flags.clear(SlotFlags::SIGNED)
        }
        changed
    }

    /// See [`tcp::Connection::ao_report`].
    pub fn ao_report(&self, id: ConnId) -> Option<AoReport> {
        self.conns.get(id.0)?.1.ao_report()
    }
}
