//! ICMP errors, as far as they may be believed (RFC 5927).

use base::Seq;

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::state::Phase;
use crate::{Cx, Error, State};

/// ICMP error, validated by the stack: it quotes a packet of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpError {
    /// Packet too big / fragmentation needed, with the next hop's MTU (0: not told, RFC 1191's plateau
    /// table).
    TooBig {
        /// MTU.
        mtu: u16,
    },
    /// Host unreachable and the like (soft error).
    HostUnreachable,
    /// Network unreachable (soft error).
    NetUnreachable,
    /// Port or protocol unreachable (hard only in SYN-SENT, RFC 5927).
    PortUnreachable,
}

/// MTUs that links commonly have (RFC 1191, section 7).
const PLATEAUS: [u16; 8] = [32000, 17914, 8166, 4352, 2002, 1492, 1006, 576];
/// Least MTU believed: below it a forged message costs us more than a true one gives.
const MIN_MTU_V4: u16 = 552;
/// Every IPv6 link carries this much (RFC 8200, section 5).
const MIN_MTU_V6: u16 = 1280;
/// Most path MTU reductions a second after which a connection sends what is in flight again at once. A path seldom has
/// more links that are each smaller than the one before. Each message that is believed costs a congestion window.
const RESEGMENTS: u8 = 4;

impl Connection {
    /// The soft error since which nothing was acknowledged.
    pub(crate) fn soft_error(&self) -> Option<Error> {
        let (error, una) = self.cold()?.path.soft_error?;
        (una == self.snd.una()).then_some(error)
    }

    pub(crate) fn take_soft_error(&mut self) -> Option<Error> {
        let error = self.soft_error();
        self.existing_rare()?.path.soft_error = None;
        error
    }

    /// A validated ICMP error quoting sequence number `seq` of ours (RFC 5927: acted on only if in flight).
    /// RFC 9293, MUST-47, MUST-54, MUST-56 and SHLD-25; RFC 5927, 4.1-1 and 5.2-1; RFC 8201, 4-5.
    pub fn on_icmp(&mut self, cx: &mut Cx<'_>, kind: IcmpError, seq: Seq) {
        let first = self.syn_seq();
        if self.state() == State::Closed || !seq.in_window(first, self.snd.nxt().offset_from(first)) {
            cx.counters.icmp_ignored += 1;
            return;
        }
        let error = match kind {
            IcmpError::TooBig { mtu } => return self.on_too_big(cx, mtu, seq),
            IcmpError::HostUnreachable => Error::HostUnreachable,
            IcmpError::NetUnreachable => Error::NetUnreachable,
            IcmpError::PortUnreachable => Error::Refused,
        };
        if self.state() == State::SynSent || (self.is_early() && self.state() == State::SynReceived) {
            cx.counters.icmp_hard += 1;
            if self.bits.has(Bits::FAST_OPEN) {
                self.note_unreachable();
            }
            return self.fail(cx, error);
        }
        let passive = self.state() == State::SynReceived && !self.bits.has(Bits::ACTIVE);
        if passive && error != Error::Refused && cx.config.quirks.icmp_ends_half_open {
            // Nothing knows of it yet: it goes without a word.
            cx.counters.icmp_hard += 1;
            cx.counters.attempt_fails += 1;
            return self.finish(cx);
        }
        // RFC 9293, section 3.9.2.2: no ICMP error may abort a connection; but it explains a later timeout.
        cx.counters.icmp_soft += 1;
        if error != Error::Refused {
            let una = self.snd.una();
            self.cold_mut().path.soft_error = Some((error, una));
        }
    }

    /// The path takes smaller packets only: what is in flight is cut anew and sent again, which is no sign of
    /// congestion (RFC 1191, section 6.4; RFC 8201). Beyond [`RESEGMENTS`] what is in flight is left to loss detection.
    /// RFC 1191, 3-1, 3-2, 3-3, 5-1 and 6.4-1; RFC 8201, 4-1, 4-2 and 4-3; RFC 7323, 5.7-1.
    fn on_too_big(&mut self, cx: &mut Cx<'_>, mtu: u16, seq: Seq) {
        let least = if self.key().is_v4() { MIN_MTU_V4 } else { MIN_MTU_V6 };
        let told = match mtu {
            0 => {
                // What was refused is no larger than the segments that left (RFC 1191, section 5).
                let sent = self.mtu_for(cx.config, self.snd.mss());
                let refused = self.mtu_refused(seq);
                let refused = if refused > self.snd.path_mtu() { refused } else { refused.min(sent) };
                let told = PLATEAUS.into_iter().find(|&plateau| plateau < refused).unwrap_or(least);
                // What was said of a probe does not touch what is known to pass.
                if refused > self.snd.path_mtu() { told.max(self.snd.path_mtu()) } else { told }
            }
            mtu => mtu,
        };
        let mtu = told.max(least);
        let is_passive = self.state() == State::SynReceived && !self.bits.has(Bits::ACTIVE);
        if is_passive && !self.is_early() {
            // Only a SYN-ACK has left, which every path has room for: a forged message.
            cx.counters.icmp_ignored += 1;
            return;
        }
        if self.bits.has(Bits::SEARCHING) && self.too_big_for_search(cx, mtu, seq) {
            cx.counters.mtu_probes_lost += 1;
            return;
        }
        if mtu >= self.snd.path_mtu() {
            cx.counters.icmp_ignored += 1;
            return;
        }
        cx.counters.mtu_reductions += 1;
        self.snd.set_path_mtu(mtu);
        if !self.state().is_synchronized() {
            if self.state() == State::SynSent && self.bits.has(Bits::SYN_DATA) {
                // The SYN was too large because of its data: a plain one is sure to pass.
                self.request(Due::SYN);
            }
            return;
        }
        let before = self.snd.mss();
        self.refresh_mss(cx.config);
        if self.snd.mss() >= before {
            return;
        }
        if self.may_resegment(cx) {
            // What a timeout sent again was too large, too: it goes on from the beginning, in its window.
            let phase = self.phase();
            self.send_again(if phase == Phase::Timeout { phase } else { Phase::Resegment });
            // What was too large is gone, and the timer counts for what leaves in its place.
            self.arm_rtx(cx);
        } else {
            cx.counters.resegments_withheld += 1;
            let nxt = self.snd.nxt();
            self.cold_mut().sizes.note_uneven(nxt);
        }
    }

    fn may_resegment(&mut self, cx: &Cx<'_>) -> bool {
        let now = cx.now.as_millis() as u32;
        let (since, count) = &mut self.cold_mut().path.resegments;
        if now.wrapping_sub(*since) >= 1_000 {
            (*since, *count) = (now, 0);
        }
        let may = *count < RESEGMENTS;
        *count += u8::from(may);
        may
    }
}
