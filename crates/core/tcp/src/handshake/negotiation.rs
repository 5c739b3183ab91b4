//! Options of a SYN or SYN-ACK: the offer, and what both ends agree on.

use wire::tcp::{Options, Segment};

use crate::Cx;
use crate::connection::{Bits, Connection};
use crate::mtu::path;
use crate::scale::{MAX_SHIFT, from_field};
use crate::sender::MIN_MSS;

crate::bits::writer!(MILLIS, MICROS, SACK, SCALING);

impl Connection {
    /// Adds the options that only a SYN or SYN-ACK has.
    #[inline(always)]
    pub(crate) fn offer_options(&mut self, cx: &Cx<'_>, options: &mut Options) {
        options.mss = Some(self.advertised_mss());
        options.window_scale = self.bits.has(Bits::SCALING).then_some(self.rcv.scale());
        options.sack_permitted = self.bits.has(Bits::SACK);
        if self.bits.has(Bits::COOKIE) {
            options.set_fast_open(self.syn_option());
        }
        if self.bits.has(Bits::ACCECN) {
            options.accecn = self.first_option(cx);
        }
        options.layout = cx.config.syn_layout();
    }

    /// Timestamps are not offered or agreed on.
    pub(crate) fn forgo_timestamps(&mut self) {
        self.bits.clear(Bits::MILLIS, WRITER);
        self.bits.clear(Bits::MICROS, WRITER);
    }

    /// The peer's SYN: its number, its options, its window (never scaled here, RFC 7323, section 2.2).
    /// RFC 7323, 2.2-1, 2.2-2, 2.2-3 and 3.2-1.
    pub(crate) fn take_syn(&mut self, cx: &mut Cx<'_>, syn: &Segment<'_>) {
        self.rcv.begin_behind(syn.seq);
        if self.bits.has(Bits::SIGNED) {
            self.complete_auth();
        }
        self.rcv.offer(self.syn_window());
        self.rcv.note_arrival(cx.now);
        self.negotiate_ecn(cx, syn);
        let ours = self.bits;
        self.bits.put(Bits::SACK, ours.has(Bits::SACK) && syn.options.sack_permitted, WRITER);
        let scale = syn.options.window_scale.filter(|_| ours.has(Bits::SCALING));
        if scale.is_none() {
            self.bits.clear(Bits::SCALING, WRITER);
            self.rcv.set_scale(0);
        }
        match syn.options.timestamps.filter(|_| ours.has(Bits::TIMESTAMPS)) {
            Some(ts) => self.rcv.note_timestamp(ts.val),
            None => self.forgo_timestamps(),
        }
        let peer_mss = syn.options.mss.unwrap_or(path::default_mss(self.key())).max(MIN_MSS);
        self.snd.agree(peer_mss, scale.map_or(0, |shift| shift.min(MAX_SHIFT)));
        self.refresh_mss(cx.config);
        self.rcv.set_mss(self.snd.mss().min(path::RCV_MSS_GUESS));
        if cx.config.quirks.round_rcvbuf && self.options.rcvbuf() == 0 {
            let each = self.advertised_mss().min(peer_mss);
            self.rcv.set_limit(self.rcv.limit().next_multiple_of(each.into()));
        }
        self.set_send_window(from_field(syn.window, 0), syn.seq);
    }
}
