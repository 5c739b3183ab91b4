//! Explicit congestion notification (RFC 3168): routers mark instead of dropping, the receiver echoes, the sender
//! reduces once a window and says so.

pub(crate) mod accecn;
pub(crate) mod ecn_policy;

use cc::{Controller, EcnFeedback, Signal};
use wire::Ecn;
use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::ecn::accecn::Mode;
use crate::state::Phase;
use crate::transmit::TxPlan;
use crate::{Config, Cx, State, Transmit, TransmitClass};

crate::bits::writer!(ECN, ACCECN, GREETING, ECHO, REDUCED);

/// ECT(0) in the IP header's last two bits (RFC 3168, section 5): this packet may be marked.
const ECT_0: u8 = 0b10;
/// Flags of an ECN-setup SYN; an ECN-setup SYN-ACK carries only ECE of them (section 6.1.1).
pub(crate) const SETUP: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

impl Connection {
    /// The flags of our SYN or SYN-ACK.
    /// RFC 3168, 6.1.1-1.
    pub(crate) fn ecn_setup(&mut self) -> Flags {
        match self.state() {
            _ if self.bits.has(Bits::ACCECN) => self.accurate_setup(),
            _ if !self.bits.has(Bits::ECN) => Flags::default(),
            State::SynSent => SETUP,
            _ => Flags::ECE,
        }
    }

    /// The peer's SYN or SYN-ACK: is ECN agreed on, and which feedback?
    /// RFC 9293, SHLD-8; RFC 3168, 6.1.1-4; RFC 9768, 3.1.1-4.
    pub(crate) fn negotiate_ecn(&mut self, cx: &mut Cx<'_>, syn: &Segment<'_>) {
        let mode = if !syn.flags.has(Flags::ACK) {
            Mode::of_syn(cx.config, syn.flags.ace())
        } else if self.bits.has(Bits::ACCECN) {
            Mode::of_syn_ack(syn.flags.ace())
        } else if self.bits.has(Bits::ECN) && syn.flags.0 & SETUP.0 == Flags::ECE.0 {
            Mode::Classic
        } else {
            Mode::Without
        };
        self.bits.clear(Bits::ACCECN, WRITER);
        self.bits.put(Bits::ECN, mode == Mode::Classic, WRITER);
        if mode == Mode::Accurate {
            self.enter_accurate(cx, syn);
        }
    }

    /// Asks for what the settings say, in our SYN.
    #[inline(always)]
    pub(crate) fn ask_ecn(&mut self, config: &Config) {
        self.bits.put(Bits::ECN, config.ecn.asks_classic(), WRITER);
        self.bits.put(Bits::ACCECN, config.ecn.asks_accurate(), WRITER);
    }

    /// The next SYN does not ask for classic ECN.
    pub(crate) fn give_up_ecn(&mut self) {
        self.bits.clear(Bits::ECN, WRITER);
    }

    /// Beside a signature there is no room for accurate ECN's counters: while that can still be agreed on, classic
    /// feedback serves; later none does.
    pub(crate) fn forgo_accurate_ecn(&mut self) {
        if self.bits.has(Bits::ACCECN) {
            self.bits.clear(Bits::ACCECN, WRITER);
            self.bits.put(Bits::ECN, matches!(self.state(), State::SynSent | State::SynReceived), WRITER);
            self.cold_mut().accecn.forgo();
            self.refresh_prediction();
        }
    }

    /// A segment in the window: marks and echoes. Marks are echoed on every acknowledgment until the sender says that
    /// it has reduced (section 6.1.3).
    /// RFC 3168, 6.1.3-1.
    pub(crate) fn take_ecn(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        if !self.bits.has(Bits::ECN) {
            return;
        }
        if seg.flags.has(Flags::CWR) {
            self.bits.clear(Bits::ECHO, WRITER);
            // Its window may be a single segment now: it should not wait for a delayed acknowledgment.
            if !seg.payload.is_empty() {
                self.request(Due::ACK);
            }
        }
        if seg.ecn == Ecn::Marked {
            cx.counters.marks_in += 1;
            self.bits.set(Bits::ECHO, WRITER);
            self.request(Due::ACK);
        }
    }

    /// An acknowledgment of `acked` bytes (or FIN), before SND.UNA moves: the counter of marks is told how many of them
    /// came with an echo, and every packet of the echo.
    pub(crate) fn take_classic(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, acked: u32) {
        let echoed = seg.flags.has(Flags::ECE);
        let bytes = self.snd.data_in(acked);
        if bytes > 0 && self.control.needs().echoes {
            let segments = bytes.div_ceil(self.snd.mss().into());
            let marked = |count: u32| if echoed { count } else { 0 };
            self.control.on_ecn(&EcnFeedback {
                now: cx.now,
                segments,
                marked_segments: marked(segments),
                bytes,
                marked_bytes: marked(bytes),
            });
        }
        if echoed {
            self.on_echo(cx);
        }
    }

    /// An acknowledgment that echoes a mark, before SND.UNA moves: reduce, once for each window of data (section
    /// 6.1.2), and not during a repair, which has reduced already.
    /// RFC 3168, 6.1.2-1 and 6.1.2-2.
    pub(crate) fn on_echo(&mut self, cx: &mut Cx<'_>) {
        cx.counters.echoes_in += 1;
        if self.on_marks(cx) {
            self.bits.set(Bits::REDUCED, WRITER);
        }
    }

    /// Something of ours was marked. True if the window was reduced for it.
    /// RFC 3168, 6.1.2-1 and 6.1.2-2.
    pub(crate) fn on_marks(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.phase() != Phase::Disorder || self.snd.flight() == 0 {
            return false;
        }
        cx.counters.ecn_reductions += 1;
        self.tell_congestion(cx, Signal::Ecn);
        self.meter();
        true
    }

    /// Sets the ECN fields of a segment of a connection that has negotiated ECN.
    #[cold]
    pub(crate) fn mark(&mut self, cx: &mut Cx<'_>, plan: &TxPlan, tx: &mut Transmit) {
        if self.bits.has(Bits::ACCECN) {
            return self.mark_accurately(cx, plan, tx);
        }
        let (flags, codepoint) = self.mark_classically(plan, plan.flags);
        tx.header.flags = flags;
        tx.tos |= codepoint;
    }

    /// Flags and codepoint of a segment with RFC 3168's feedback. Only new data may be marked, and only
    /// new data tells of the reduction (sections 6.1.2, 6.1.4 to 6.1.6).
    /// RFC 3168, 5-1, 6.1.1-2, 6.1.1-3, 6.1.2-3, 6.1.4-1, 6.1.5-1 and 6.1.6-1.
    fn mark_classically(&mut self, plan: &TxPlan, flags: Flags) -> (Flags, u8) {
        let mut flags = flags;
        if flags.0 & (Flags::SYN.0 | Flags::RST.0) != 0 {
            return (flags, 0);
        }
        if self.bits.has(Bits::ECHO) {
            flags = flags | Flags::ECE;
        }
        let fresh = plan.len > 0 && !plan.retransmit && plan.class == TransmitClass::Data;
        if !fresh {
            return (flags, 0);
        }
        if self.bits.has(Bits::REDUCED) {
            self.bits.clear(Bits::REDUCED, WRITER);
            flags = flags | Flags::CWR;
        }
        (flags, ECT_0)
    }
}
