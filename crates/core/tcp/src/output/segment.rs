//! From the connection's variables to a header.

use base::Seq;
use wire::tcp::{Flags, Header, MAX_OPTIONS_LEN, Options, SackBlocks, Timestamps};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::mtu::path::{SACK_BLOCK, SACK_HEAD, TIMESTAMPS_LEN};
use crate::output::WRITER;
use crate::scale::{Clock, to_field};
use crate::transmit::TxPlan;
use crate::{Cx, State, Transmit};

/// The part of the TOS byte that the application chooses; the rest is ECN's (RFC 3168).
const DSCP: u8 = 0xfc;
/// SACK blocks an option list has room for, beside the timestamps and without them.
const BLOCKS_WITH_TIMESTAMPS: usize = 3;
const BLOCKS: usize = 4;

impl Connection {
    /// The segment of a plan, before ECN has had its say. Whatever carries an ACK settles the acknowledgments owed.
    /// RFC 9293, MUST-48, MUST-49, SHLD-21 and SHLD-22.
    #[inline(always)]
    pub(crate) fn build(&mut self, cx: &mut Cx<'_>, plan: &TxPlan, options: Options) -> Transmit {
        let window = self.window_field::<false>(cx, plan.flags);
        self.build_with(plan, options, window)
    }

    /// As `build`, with this window field.
    #[inline(always)]
    pub(crate) fn build_with(&mut self, plan: &TxPlan, options: Options, window: u16) -> Transmit {
        let acknowledges = plan.flags.has(Flags::ACK);
        if acknowledges {
            self.acknowledged(plan);
        }
        Transmit {
            header: Header {
                src_port: self.key().local().port,
                dst_port: self.key().remote().port,
                seq: plan.seq,
                ack: if acknowledges { self.rcv.nxt() } else { Seq::new(0) },
                flags: plan.flags,
                window,
                options,
            },
            offset: if plan.len == 0 { 0 } else { plan.seq.offset_from(self.snd.una()) },
            len: plan.len,
            mss: if plan.mss == 0 { self.snd.mss() } else { plan.mss },
            class: plan.class,
            tos: self.options.tos() & DSCP,
            ttl: self.options.ttl(),
            retransmit: plan.retransmit,
        }
    }

    /// Data came with PSH.
    #[inline(always)]
    pub(crate) fn note_pushed(&mut self) {
        self.bits.set(Bits::PUSHED, WRITER);
    }

    /// The peer is about to learn RCV.NXT.
    /// RFC 9293, MUST-58; RFC 5681, 4.2-3.
    #[inline(always)]
    fn acknowledged(&mut self, plan: &TxPlan) {
        self.timers.stop_delack();
        self.bits.clear(Bits::PUSHED, WRITER);
        let told = self.rcv.acknowledge(plan.tells, self.bits.has(Bits::SACK), plan.len == 0);
        if told {
            self.clear_due(Due::ACK);
        }
    }

    /// RFC 2018, 4-4.
    fn blocks_max(&self) -> usize {
        let stamps = self.bits.has(Bits::TIMESTAMPS);
        if self.bits.has(Bits::SIGNED) {
            let taken = self.signature_len() + SACK_HEAD + if stamps { TIMESTAMPS_LEN } else { 0 };
            return usize::from((MAX_OPTIONS_LEN as u16).saturating_sub(taken) / SACK_BLOCK);
        }
        if stamps { BLOCKS_WITH_TIMESTAMPS } else { BLOCKS }
    }

    /// Bytes that SACK blocks take from the next segment's data (RFC 6691).
    pub(crate) fn blocks_len(&self) -> u16 {
        if !self.rcv.is_missing() {
            return 0;
        }
        match self.rcv.block_count().min(self.blocks_max()) as u16 {
            0 => 0,
            _ if !self.bits.has(Bits::SACK) => 0,
            n => SACK_HEAD + n * SACK_BLOCK,
        }
    }

    /// The SACK blocks for the next segment.
    fn sack_blocks(&mut self, cx: &mut Cx<'_>) -> SackBlocks {
        if !self.bits.has(Bits::SACK) {
            return SackBlocks::none();
        }
        let (blocks, duplicate) = self.rcv.sack_blocks(self.blocks_max());
        cx.counters.dsacks_out += u64::from(duplicate);
        cx.counters.sack_blocks_out += blocks.as_slice().len() as u64;
        if self.snd.flight() > 0 {
            let nxt = self.snd.nxt();
            self.cold_mut().sizes.note_uneven(nxt);
        }
        blocks
    }

    #[inline(always)]
    pub(crate) fn window_field<const ALL: bool>(&mut self, cx: &mut Cx<'_>, flags: Flags) -> u16 {
        if flags.any(Flags::SYN | Flags::RST) || self.state() == State::SynSent {
            return self.unscaled_window_field(cx, flags);
        }
        self.advance_window::<ALL>(cx);
        to_field(self.rcv.window(), self.rcv.scale())
    }

    /// That of a SYN; nothing else without a window has one to tell.
    #[inline(never)]
    fn unscaled_window_field(&mut self, cx: &Cx<'_>, flags: Flags) -> u16 {
        let window = match flags {
            _ if !flags.has(Flags::SYN) => 0,
            _ if flags.has(Flags::ACK) => self.syn_ack_window(cx),
            _ => self.syn_window(),
        };
        to_field(window, 0)
    }

    /// The timestamps of a connection where they count milliseconds: others are built by
    /// [`Connection::header_options`].
    #[inline(always)]
    pub(crate) fn stamps(&self, cx: &Cx<'_>, flags: Flags) -> Option<Timestamps> {
        self.stamps_of(Clock::Millis, cx, flags)
    }

    /// RFC 7323, 3.2-2 and 3.2-5; RFC 7323, 5.2-2.
    #[inline(always)]
    fn stamps_of(&self, clock: Clock, cx: &Cx<'_>, flags: Flags) -> Option<Timestamps> {
        // A bare reset answers a segment that agreed to nothing (RFC 7323, section 3.2).
        let bare = flags.has(Flags::RST) && !flags.has(Flags::ACK);
        if !self.bits.has(Bits::TIMESTAMPS) || bare {
            return None;
        }
        let ecr = if flags.has(Flags::ACK) { self.rcv.ts_recent() } else { 0 };
        Some(Timestamps { val: clock.value(cx.now, self.snd.ts_offset()), ecr })
    }

    /// RFC 9293, MUST-14, MUST-65, SHLD-5 and MAY-3; RFC 2018, 2-1 and 4-2; RFC 7323, 2.2-5 and 2.3-3.
    pub(crate) fn header_options(&mut self, cx: &mut Cx<'_>, plan: &TxPlan) -> Options {
        let flags = plan.flags;
        let timestamps = self.stamps_of(self.bits.clock(), cx, flags);
        let mut options = Options { timestamps, ..Options::NONE };
        if self.bits.has(Bits::SIGNED) {
            options.signature = self.signature_for(plan.seq);
        }
        if flags.has(Flags::SYN) {
            self.offer_options(cx, &mut options);
        } else if self.rcv.is_missing() && plan.tells {
            options.sack = self.sack_blocks(cx);
        }
        options
    }
}
