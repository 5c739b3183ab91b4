//! Negotiation of accurate ECN, and the flags of the handshake's segments (sections 3.1 and 3.2.2.1).

use alloc::boxed::Box;

use wire::Ecn;
use wire::tcp::{Flags, Segment};

use super::AccEcn;
use super::receiver::Telling;
use crate::connection::{Bits, Connection, NOTHING};
use crate::due::Due;
use crate::ecn::WRITER;
use crate::{Config, Cx, Error, State};

/// Timeouts of our SYN, or of our SYN-ACK, after which it does without ECN.
const PLAIN_AFTER: u8 = 2;
/// AE, CWR and ECE of an ECN-setup SYN as RFC 3168 has it, and of the SYN-ACK that agrees.
const CLASSIC_SYN: u8 = 0b011;
const CLASSIC_SYN_ACK: u8 = 0b001;
/// A SYN-ACK of a server that sends back what it got.
const REFLECTED: u8 = 0b111;
/// A SYN-ACK reserved for later: it agrees, and says that the SYN's codepoint arrived unchanged.
const RESERVED: u8 = 0b101;

/// Feedback mode that a SYN or SYN-ACK negotiates (table 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Without,
    Classic,
    Accurate,
}

impl Mode {
    /// A server's, by a SYN with these three bits.
    /// RFC 9768, 3.1.2-3, 3.1.2-4 and 3.1.3-1.
    pub(crate) fn of_syn(config: &Config, ace: u8) -> Mode {
        match ace {
            0 => Mode::Without,
            CLASSIC_SYN if config.ecn.accepts_classic() => Mode::Classic,
            CLASSIC_SYN => Mode::Without,
            _ if config.ecn.accepts_accurate() => Mode::Accurate,
            // Who knows RFC 3168 alone looks at two of the bits.
            _ if ace & CLASSIC_SYN == CLASSIC_SYN && config.ecn.accepts_classic() => Mode::Classic,
            _ => Mode::Without,
        }
    }

    /// That of a client that asked for accurate ECN, by a SYN-ACK with these three bits.
    /// RFC 9768, 3.1.2-1, 3.1.2-2, 3.1.2-5 and 3.1.3-2.
    pub(crate) fn of_syn_ack(ace: u8) -> Mode {
        match ace {
            0 | REFLECTED => Mode::Without,
            CLASSIC_SYN_ACK => Mode::Classic,
            _ => Mode::Accurate,
        }
    }
}

impl Config {
    /// When counters of bytes are sent.
    pub(crate) fn telling(&self) -> Telling {
        match self.ecn_option {
            0 => Telling::Never,
            1 => Telling::Changed,
            2 => Telling::Always,
            _ => Telling::Stubborn,
        }
    }
}

impl Connection {
    /// The three bits of our SYN or SYN-ACK. One that was not answered twice does without.
    /// RFC 9768, 3.1.1-1, 3.1.1-2, 3.1.4.1-1, 3.1.4.1-2, 3.2.3.2.2-1 and 3.1.5-9.
    #[cold]
    pub(crate) fn accurate_setup(&mut self) -> Flags {
        let plain = self.timers.retries() >= PLAIN_AFTER;
        if self.state() == State::SynSent {
            return if plain { Flags::default() } else { Flags::ACE };
        }
        match self.accecn_mut() {
            Some(state) if plain => {
                state.sender.faults.unsure = true;
                Flags::default()
            }
            Some(state) => Flags::default().with_ace(state.receiver.greeting()),
            None => Flags::default(),
        }
    }

    /// The peer's SYN or SYN-ACK agrees on accurate ECN.
    /// RFC 9768, 3.1.1-2, 3.1.1-3 and 3.2.1-1.
    #[cold]
    pub(crate) fn enter_accurate(&mut self, cx: &mut Cx<'_>, syn: &Segment<'_>) {
        cx.counters.accecn_agreed += 1;
        let acknowledges = syn.flags.has(Flags::ACK);
        let mut state = Box::new(AccEcn::new(syn.ecn));
        if acknowledges {
            state.receiver.on_greeting(syn.ecn, true);
            state.receiver.on_packet(syn.ecn, 0, syn.payload.len() as u32, true);
            // Our acknowledgment, and the first data, show whether options get through.
            state.receiver.demand(2);
            state.sender.meet_option(syn.options.accecn);
        }
        self.cold_mut().accecn.0 = Some(state);
        self.bits.set(Bits::ACCECN, WRITER);
        self.predict(NOTHING);
        if acknowledges {
            self.greet();
            self.judge_greeting(cx, syn.flags.ace());
        }
    }

    /// Checks the codepoint with which our SYN or SYN-ACK arrived, as the peer reports it: it left as Not-ECT,
    /// anything else was changed on the path. RFC 9768, 3.2.2.2-2 and 3.2.2.3-1.
    fn judge_greeting(&mut self, cx: &mut Cx<'_>, ace: u8) {
        const ARRIVED_UNCHANGED: u8 = 0b010;
        const ARRIVED_MARKED: u8 = 0b110;
        if ace == ARRIVED_UNCHANGED || ace == RESERVED {
            return;
        }
        let checks = cx.config.ecn_fallback;
        let Some(state) = self.accecn_mut() else { return };
        state.sender.marked_greeting = ace == ARRIVED_MARKED;
        if checks {
            state.sender.faults.mangled = true;
            cx.counters.accecn_mangled += 1;
        }
    }

    /// Did the handshake meet congestion, so that the window begins with a single segment?
    pub(crate) fn takes_marked_greeting(&mut self) -> bool {
        self.accecn_mut().is_some_and(|state| core::mem::take(&mut state.sender.marked_greeting))
    }

    /// The SYN-ACK is acknowledged by a segment of its own, which says with what codepoint it came.
    /// RFC 9768, 3.2.2.1-2.
    fn greet(&mut self) {
        self.bits.set(Bits::GREETING, WRITER);
        self.request(Due::GREETING);
    }

    /// The acknowledgment of our SYN-ACK (table 4).
    /// RFC 9768, 3.2.2.1-3, 3.2.2.1-4, 3.2.2.3-2 and 3.2.2.4-1.
    #[cold]
    pub(crate) fn take_greeting(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let ace = seg.flags.ace();
        let pure = seg.seq_len() == 0 && seg.options.sack.is_empty();
        let Some(state) = self.accecn_mut().filter(|_| !seg.flags.has(Flags::SYN)) else { return };
        state.sender.checked = true;
        state.sender.meet_option(seg.options.accecn);
        self.refresh_mss(cx.config);
        let Some(state) = self.accecn_mut() else { return };
        match ace {
            0 => {
                cx.counters.accecn_mangled += 1;
                state.sender.faults.deaf = true;
            }
            0b010 | 0b011 | 0b100 | 0b110 if pure => {
                if ace == 0b110 {
                    state.sender.count_greeting();
                }
                self.judge_greeting(cx, ace);
            }
            _ => {}
        }
    }

    /// The SYN that this connection began with came again, perhaps with other bits. False if that cannot be: then the
    /// connection is over.
    /// RFC 9768, 3.1.5-1, 3.1.5-3, 3.1.5-4, 3.1.5-5, 3.1.5-6 and 3.1.5-7.
    pub(crate) fn meet_syn_again(&mut self, cx: &mut Cx<'_>, syn: &Segment<'_>) -> bool {
        let ace = syn.flags.ace();
        let again = match self.bits.has(Bits::ECN) {
            true => Mode::of_syn(cx.config, ace) != Mode::Accurate,
            false => !self.bits.has(Bits::ACCECN) || ace != CLASSIC_SYN,
        };
        if !again {
            self.fail(cx, Error::Reset);
            self.request_only(Due::RST);
            return false;
        }
        if let Some(state) = self.accecn_mut() {
            state.receiver.on_greeting(syn.ecn, false);
            state.sender.faults.unsure |= ace == 0;
            state.met_again = true;
        }
        true
    }

    /// A SYN-ACK in a synchronized state: is it the one of this connection?
    pub(crate) fn is_syn_ack_again(&self, seg: &Segment<'_>) -> bool {
        let first = seg.seq + 1 == self.rcv.nxt() && seg.flags.has(Flags::SYN | Flags::ACK);
        first && self.bits.has(Bits::ACTIVE) && self.rcv.bytes() == 0 && seg.ack.at_or_before(self.snd.nxt())
    }

    /// A SYN-ACK arrived again, or as the second half of a simultaneous open: our acknowledgment of it says once more
    /// with what codepoint it came.
    /// RFC 9768, 3.2.2.1-2 and 3.1.5-5.
    pub(crate) fn meet_syn_ack_again(&mut self, syn: &Segment<'_>) {
        if let Some(state) = self.accecn_mut() {
            state.receiver.on_greeting(syn.ecn, true);
            state.receiver.demand(1);
            state.sender.meet_option(syn.options.accecn);
            self.greet();
        }
    }

    /// The counters of our SYN-ACK, unless it or the SYN came again: perhaps the option was to blame.
    /// RFC 9768, 3.2.3.2.1-2 and 3.2.3.2.2-1.
    #[cold]
    pub(crate) fn first_option(&mut self, cx: &Cx<'_>) -> Option<wire::tcp::AccEcn> {
        let first = self.timers.retries() == 0 && self.state() == State::SynReceived;
        let state = self.accecn_mut().filter(|state| first && !state.met_again)?;
        let now_us = cx.now.as_micros() as u32;
        state.receiver.tells(cx.config.telling()).then(|| state.receiver.first_option(now_us))
    }
}

/// AE, CWR and ECE of a stateless SYN-ACK, and whether the SYN it answers asked for accurate ECN (section 5.1).
pub(crate) fn stateless_setup(config: &Config, syn: &Segment<'_>) -> Option<Flags> {
    let accurate = Mode::of_syn(config, syn.flags.ace()) == Mode::Accurate;
    let greeting = |codepoint: Ecn| super::Receiver::new(codepoint).greeting();
    accurate.then(|| Flags::default().with_ace(greeting(syn.ecn)))
}

/// Returns the ECN flags of the SYN, from the acknowledgment of a stateless SYN-ACK: only a peer that agreed on
/// accurate ECN sends these values. RFC 9768, 5.1-1.
pub(crate) fn recall(config: &Config, ack: &Segment<'_>) -> Flags {
    if config.ecn.accepts_accurate() && ack.flags.ace() > 0b001 { Flags::ACE } else { Flags::default() }
}

/// The counters of a stateless SYN-ACK.
pub(crate) fn stateless_option(config: &Config) -> Option<wire::tcp::AccEcn> {
    let mut receiver = super::Receiver::new(Ecn::NotCapable);
    receiver.tells(config.telling()).then(|| receiver.first_option(0))
}
