//! From the connection's variables to a header.

use base::{Instant, Seq};
use wire::tcp::{Flags, Header, Options, SackBlocks, Timestamps};

use crate::connection::{Bits, Connection};
use crate::output::Due;
use crate::path::{SACK_BLOCK, SACK_HEAD};
use crate::scale::{to_field, ts_value};
use crate::{Cx, State, Transmit, TransmitClass};

/// SACK blocks an option list has room for, beside the timestamps and without them.
const BLOCKS_WITH_TIMESTAMPS: usize = 3;
const BLOCKS: usize = 4;

/// Does the segment tell what arrived out of order?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocks {
    /// Yes, if SACK was negotiated; the caller left room for it.
    Carried,
    /// No: a bare acknowledgment follows if one is owed.
    Omitted,
}

impl Connection {
    /// A segment without data.
    pub(crate) fn emit(&mut self, cx: &mut Cx<'_>, seq: Seq, flags: Flags, class: TransmitClass) -> Transmit {
        let tx = self.emit_with(cx, seq, flags, class, Blocks::Carried);
        let sack = self.bits.has(Bits::SACK);
        if let Some(reassembly) = &mut self.reassembly {
            // One SACK tells as much as many duplicates.
            reassembly.owed = if sack { 0 } else { reassembly.owed.saturating_sub(1) };
            self.due.clear(Due::ACK);
            if reassembly.owed > 0 {
                self.due |= Due::ACK;
            }
        }
        tx
    }

    /// A segment, to which the caller may add data. Whatever carries an ACK settles the acknowledgments owed.
    pub(crate) fn emit_with(
        &mut self,
        cx: &mut Cx<'_>,
        seq: Seq,
        flags: Flags,
        class: TransmitClass,
        blocks: Blocks,
    ) -> Transmit {
        let window = self.window_field(cx, flags);
        let options = self.header_options(cx, flags, blocks);
        let header = Header {
            src_port: self.key.local().port,
            dst_port: self.key.remote().port,
            seq,
            ack: if flags.has(Flags::ACK) { self.rcv_nxt } else { Seq::new(0) },
            flags,
            window,
            options,
        };
        if flags.has(Flags::ACK) {
            self.acknowledged(blocks);
        }
        Transmit {
            header,
            offset: 0,
            len: 0,
            mss: self.snd_mss,
            class,
            tos: self.options.tos,
            ttl: self.options.ttl(),
            retransmit: false,
        }
    }

    /// The peer is about to learn RCV.NXT.
    fn acknowledged(&mut self, blocks: Blocks) {
        self.last_ack_sent = self.rcv_nxt;
        self.timers.delack = Instant::FAR_FUTURE;
        self.quick = self.quick.saturating_sub(1);
        self.bits.clear(Bits::PUSHED);
        // A duplicate acknowledgment counts only without data, and SACK only if it was there (RFC 5681, RFC 6675).
        let told = match (&self.reassembly, blocks) {
            (None, _) => true,
            (Some(_), Blocks::Omitted) => false,
            (Some(reassembly), Blocks::Carried) => reassembly.owed == 0 || self.bits.has(Bits::SACK),
        };
        if told {
            self.due.clear(Due::ACK);
        }
    }

    fn blocks_max(&self) -> usize {
        if self.bits.has(Bits::TIMESTAMPS) { BLOCKS_WITH_TIMESTAMPS } else { BLOCKS }
    }

    /// Octets that SACK blocks take from the next segment's data (RFC 6691).
    pub(crate) fn blocks_len(&self) -> u16 {
        let Some(reassembly) = &self.reassembly else { return 0 };
        match reassembly.blocks().min(self.blocks_max()) as u16 {
            0 => 0,
            _ if !self.bits.has(Bits::SACK) => 0,
            n => SACK_HEAD + n * SACK_BLOCK,
        }
    }

    /// The SACK blocks for the next segment. A duplicate is reported once (RFC 2883, section 4).
    fn sack_blocks(&mut self, cx: &mut Cx<'_>) -> SackBlocks {
        let max = self.blocks_max();
        let Some(reassembly) = self.reassembly.as_mut().filter(|_| self.bits.has(Bits::SACK)) else {
            return SackBlocks::none();
        };
        let duplicate = reassembly.duplicate.take();
        cx.counters.dsacks_out += u64::from(duplicate.is_some());
        let blocks = reassembly.held.sack_blocks(self.rcv_nxt, duplicate, max);
        cx.counters.sack_blocks_out += blocks.as_slice().len() as u64;
        blocks
    }

    fn window_field(&mut self, cx: &Cx<'_>, flags: Flags) -> u16 {
        if flags.has(Flags::SYN) {
            return to_field(self.syn_window(), 0);
        }
        if flags.has(Flags::RST) || self.state == State::SynSent {
            return 0;
        }
        self.advance_window(cx);
        to_field(self.receive_window(), self.rcv_scale)
    }

    fn header_options(&mut self, cx: &mut Cx<'_>, flags: Flags, blocks: Blocks) -> Options {
        let mut options = Options::default();
        if self.bits.has(Bits::TIMESTAMPS) {
            let ecr = if flags.has(Flags::ACK) { self.ts_recent } else { 0 };
            options.timestamps = Some(Timestamps { val: ts_value(cx.now, self.ts_offset), ecr });
        }
        if flags.has(Flags::SYN) {
            options.mss = Some(self.advertised_mss());
            options.window_scale = self.bits.has(Bits::SCALING).then_some(self.rcv_scale);
            options.sack_permitted = self.bits.has(Bits::SACK);
        } else if self.reassembly.is_some() && blocks == Blocks::Carried {
            options.sack = self.sack_blocks(cx);
        }
        options
    }
}
