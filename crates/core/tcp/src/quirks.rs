//! Quirks of other systems, for profiles that imitate them ([`crate::Config::quirks`]).
//!
//! No setting, since nothing needs one of these: scripts that were written for another system do. What a profile names
//! here becomes bits of its connections when they begin ([`Quirks::bits`]) wherever the warm path would meet it; the
//! rest is read where that path does not come by.

use base::Duration;

use crate::connection::Bits;

macro_rules! quirks {
    ($($field:ident: $kind:ty, $system:literal, $help:literal;)+) => {
        /// Deviations of other systems; none by default.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Quirks { $(#[doc = $help] pub $field: $kind,)+ }

        impl Quirks {
            /// Name, system and description of each, in declaration order.
            pub const ROWS: &'static [(&'static str, &'static str, &'static str)] =
                &[$((stringify!($field), $system, $help)),+];
        }
    };
}

quirks! {
    push_bursts: bool, "Linux",
        "Super-segments end with PSH, and hold at most half the congestion window and a millisecond of the pace.";
    reordering_tick: Duration, "Linux",
        "The timer for reordering runs whole ticks of this length and two more; zero: it is exact.";
    grow_reordered: bool, "Linux",
        "The window grows for what is SACKed, too, once the path was seen to reorder much (RFC 5681: not).";
    empty_probes: bool, "Linux",
        "A probe of a shut window carries an old number and no data (RFC 9293: the next byte).";
    charge_pieces: bool, "Linux",
        "The send buffer is charged by the piece of half the peer's window, with what each costs beside its bytes.";
    drop_crossed_text: bool, "Linux",
        "The text of a SYN that crossed ours is left to be sent again (RFC 9293: kept).";
    window_ramp: bool, "Linux",
        "A connection offers 64 KiB at first, and from then on twice what came, as far as its buffer goes.";
    icmp_ends_half_open: bool, "Linux",
        "An ICMP error about hosts or networks ends a half-open connection of a listener.";
    round_rcvbuf: bool, "FreeBSD",
        "The receive buffer is rounded up to whole segments of the connection.";
    ack_second_segment: bool, "FreeBSD",
        "Every second segment is acknowledged at once however small it is, and not only every second full one.";
    tell_all_room: bool, "FreeBSD",
        "Every segment offers all the room there is, however little more (RFC 9293: not).";
    window_by_buffer: bool, "FreeBSD",
        "A RST or SYN is in the window if the receive buffer has room for its number.";
    insecure_rst: bool, "FreeBSD",
        "A RST anywhere in the window ends the connection, as before RFC 5961, section 3 (`insecure_rst`).";
    insecure_syn: bool, "FreeBSD",
        "A SYN anywhere in the window resets the connection, as before RFC 5961, section 4 (`insecure_syn`).";
    repeat_fin: bool, "FreeBSD",
        "Acknowledgments carry the FIN again while it is under way.";
    reset_after_fin: bool, "FreeBSD",
        "A reset after the peer's FIN is told as ECONNRESET (Linux: EPIPE).";
    discard_after_shutdown: bool, "FreeBSD",
        "What arrives after shutdown(SHUT_RD) is acknowledged and thrown away.";
    syn_waits: bool, "FreeBSD",
        "A SYN that was challenged comes again when its timer says so, and not behind the reset of the challenge.";
    bsd_syn: bool, "FreeBSD",
        "Options of a SYN come in BSD's order: window scale, SACK, timestamps.";
}

impl Quirks {
    /// Returns those that the warm path would have to look for, as bits that it looks at for other reasons.
    #[inline(always)]
    pub(crate) fn bits(&self) -> Bits {
        if !(self.push_bursts | self.window_ramp | self.tell_all_room | self.repeat_fin) {
            return Bits::default();
        }
        let sent = Bits::BURSTS.when(self.push_bursts) | Bits::REPEATS_FIN.when(self.repeat_fin);
        sent | Bits::RAMP.when(self.window_ramp) | Bits::TELLS_ALL.when(self.tell_all_room)
    }
}
