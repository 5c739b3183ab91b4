//! Segments that belong to no connection: they may open one, or are answered by a reset.

use base::{FlowKey, Instant, Seq};
use pio::Answerer;
use tcp::Stray;
use tcp::auth::Auth;
use wire::tcp::{Flags, Segment};

use crate::core::Core;
use crate::rx::Sender;
use crate::stats::PacketDrop;
use crate::tables::flows::Flow;
use crate::tx::Envelope;

/// Hop limit of what belongs to no connection.
const TTL: u8 = 64;

impl Core {
    /// A segment of no connection. Of a run the first may open one, which then gets the others.
    pub(super) fn on_unconnected(
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

    /// A segment of no flow, which may begin one.
    pub(crate) fn on_unmatched(
        &mut self,
        now: Instant,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
        above: Option<Seq>,
    ) {
        if above.is_none() && self.may_be_cached(segment) && self.accept_cached(now, sender, segment) {
            return;
        }
        self.answer_unmatched(now, sender, segment, above);
        if self.shared.probes.is_some() && self.find(sender.hash, sender.key).is_none() {
            self.shared.show_stray(now, false, sender.key, Stray::Unknown);
        }
    }

    /// A SYN or the answer to a cookie for a listener, or something to be reset.
    /// RFC 9293, MUST-57 and MUST-63.
    fn answer_unmatched(
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
        let mut refuses = true;
        // What is left of a flow here may be revived here, whichever member has the bucket now.
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if above.is_none() && !self.looping {
            match self.answerer(sender.key, opens) {
                Answerer::Ours => {}
                Answerer::OursLately => refuses = false,
                Answerer::None if self.listeners.find(local, sender.hash).is_none() => {}
                Answerer::None | Answerer::NoneYet => return self.keep_syn(now, sender, true),
                Answerer::Another => return self.drops.count(PacketDrop::AnothersFlow),
                Answerer::OursSoon => return self.keep_syn(now, sender, false),
                Answerer::Next => return self.leave_syn(now, sender),
            }
        }
        self.refuses = refuses;
        self.answer_ours(now, sender, segment, above);
        self.refuses = true;
    }

    /// As [`Core::answer_unmatched`], where this process answers.
    pub(crate) fn answer_ours(
        &mut self,
        now: Instant,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
        above: Option<Seq>,
    ) {
        let local = sender.key.local();
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

    /// A segment that belongs to nothing (RFC 9293, section 3.10.7.1). Where the kernel shares our addresses,
    /// only what came for a port of ours is ours to answer. A peer that demands signatures believes only a signed
    /// answer, which TCP-AO cannot give without the connection's ISNs.
    ///
    /// Each segment has its own answer, which is no larger than it, whatever came before. A bound would delay clients
    /// that are refused, and one that came near what strangers send would tell them about each other (CVE-2016-5696).
    /// RFC 2385, section 4.1; RFC 5925, 7.7-1.
    pub(super) fn reset(
        &mut self,
        now: Instant,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
        auth: Option<&Auth>,
    ) {
        if !self.refuses {
            return self.drops.count(PacketDrop::MovedFlow);
        }
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
}
