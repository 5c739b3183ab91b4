//! Accurate ECN on a connection at work: what arrives is counted and answered, what leaves tells.

use cc::{Controller, EcnFeedback};
use wire::Ecn;
use wire::tcp::{Flags, Segment};

use super::AccEcn;
use super::receiver::Room;
use super::sender::Feedback;
use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::ecn::WRITER;
use crate::mtu::path::ACCECN_LEN;
use crate::scale::ts_before;
use crate::stats::info::{AccEcnInfo, OptionSeen};
use crate::transmit::TxPlan;
use crate::{Config, Cx, Transmit, TransmitClass};

/// ECT(0) and ECT(1) in the IP header's last two bits (RFC 3168, section 5).
const ECT_0: u8 = Ecn::Capable0 as u8;
const ECT_1: u8 = Ecn::Capable1 as u8;

impl Connection {
    /// The state of a connection with [`Bits::ACCECN`]; none before the peer agreed.
    pub(crate) fn accecn(&self) -> Option<&AccEcn> {
        self.cold().and_then(|cold| cold.accecn.0.as_deref())
    }

    pub(crate) fn accecn_mut(&mut self) -> Option<&mut AccEcn> {
        self.accecn()?;
        self.cold_mut().accecn.0.as_deref_mut()
    }

    /// Returns the counters and state of accurate feedback.
    pub(crate) fn accecn_info(&self) -> Option<AccEcnInfo> {
        self.accecn().map(|state| {
            let mut info = AccEcnInfo::default();
            state.receiver.describe(&mut info);
            state.sender.describe(&mut info);
            info
        })
    }

    /// An acceptable segment: its codepoint is counted, and perhaps acknowledged at once.
    /// RFC 9768, 3.1.5-11, 3.2-1, 3.2-2 and 3.2.2.5.1-3.
    #[cold]
    pub(crate) fn count_codepoint(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let bytes = seg.payload.len() as u32;
        let data = bytes > 0 || self.rcv.unacknowledged() > 0;
        // An acknowledgment of acknowledgments alone must not pass for a duplicate, which to a peer with SACK it does
        // not as long as there are no blocks to send.
        let may_answer = data || (self.bits.has(Bits::SACK) && !self.rcv.is_missing());
        let marked = seg.ecn == Ecn::Marked;
        let Some(state) = self.accecn_mut() else { return };
        let now = state.receiver.on_packet(seg.ecn, seg.merged, bytes, data);
        cx.counters.marks_in += u64::from(marked);
        if now && may_answer {
            self.request(Due::ACK);
        }
    }

    /// Data arrived that had arrived before: if that is so again and again, perhaps what acknowledges it does not get
    /// through because of its counters.
    /// RFC 9768, 3.2.3.2.2-2.
    #[cold]
    pub(crate) fn suspect_option(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let Some(state) = self.accecn_mut() else { return };
        if state.receiver.on_repeated(seg.seq) {
            cx.counters.accecn_options_off += 1;
            self.refresh_mss(cx.config);
        }
    }

    /// Room that every segment leaves for counters.
    pub(crate) fn counters_len(&self, config: &Config) -> u16 {
        let Some(state) = self.accecn() else { return 0 };
        let unheard = config.accecn_linux && state.sender.seen == OptionSeen::Never;
        if state.receiver.tells(config.telling()) && !unheard { ACCECN_LEN } else { 0 }
    }

    /// Flags, counters and codepoint of a segment. Only new data may be marked (RFC 3168, sections 6.1.4 to 6.1.6),
    /// and nothing once there is reason to doubt; nothing says CWR.
    /// RFC 9768, 3.1.5-8, 3.1.5-9, 3.1.5-10, 3.2-3, 3.2.2-1, 3.2.2-2 and 3.2.2.1-1.
    #[cold]
    pub(crate) fn mark_accurately(&mut self, cx: &mut Cx<'_>, plan: &TxPlan, tx: &mut Transmit) {
        if plan.flags.any(Flags::SYN | Flags::RST) {
            return;
        }
        let greets = self.bits.has(Bits::GREETING)
            && plan.len == 0
            && !plan.flags.has(Flags::FIN)
            && tx.header.options.sack.is_empty();
        let fresh = plan.len > 0 && !plan.retransmit && plan.class == TransmitClass::Data;
        let codepoint = if self.control.wants_ect1() { ECT_1 } else { ECT_0 };
        self.put_counters(cx, tx);
        let linux = cx.config.accecn_linux;
        let Some(state) = self.accecn_mut() else { return };
        let count = if greets { state.receiver.greeting() } else { state.receiver.packets() };
        state.receiver.on_told();
        if plan.len > 0 {
            state.sender.on_sent(plan.len, tx.mss.into());
        }
        tx.header.flags = plan.flags.with_ace(count);
        if state.sender.is_capable() && (fresh || linux) {
            tx.tos |= codepoint;
        }
        if greets {
            self.bits.clear(Bits::GREETING, WRITER);
        }
    }

    /// The option, where one is due and fits.
    /// RFC 9768, 3.2.3.2.1-3, 3.2.3.3-1, 3.2.3.3-2 and 3.2.3.3-4.
    fn put_counters(&mut self, cx: &mut Cx<'_>, tx: &mut Transmit) {
        let beacons = u32::from(cx.config.ecn_option_beacon);
        let beacon_us = self.timers.rtt().srtt_micros().and_then(|rtt| rtt.checked_div(beacons));
        let blocks = tx.header.options.sack.as_slice().len();
        let linux = cx.config.accecn_linux;
        let room = Room { stamps: tx.header.options.timestamps.is_some(), blocks, linux };
        let now_us = cx.now.as_micros() as u32;
        let Some(state) = self.accecn_mut() else { return };
        let unheard = linux && state.sender.seen == OptionSeen::Never;
        if unheard || !state.receiver.owes_option(cx.config.telling(), now_us, beacon_us) {
            return;
        }
        if let Some((option, kept)) = state.receiver.option(now_us, room) {
            cx.counters.accecn_options_out += 1;
            cx.counters.sack_blocks_out -= (blocks - kept) as u64;
            tx.header.options.accecn = Some(option);
            tx.header.options.sack.truncate(kept);
        }
    }

    /// The low bits of our count stand in CWR's place, and a segmenting port clears CWR in all pieces but the
    /// first: then segments leave one by one.
    pub(crate) fn shows_cwr(&self) -> bool {
        self.accecn().is_some_and(|state| Flags::default().with_ace(state.receiver.packets()).has(Flags::CWR))
    }

    /// An acknowledgment in the range of what is in flight, before SND.UNA moves: `acked` bytes (or FIN) newly, and
    /// `sacked` beyond them. Marks reduce the window once for each window of data, as an echo does (RFC 3168, section
    /// 6.1.2), and the policy hears of every one.
    /// RFC 9768, 3.1.5-12, 3.2.2.2-1, 3.2.2.4-1 and 3.2.3.2.5-2.
    #[cold]
    pub(crate) fn take_accurate(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, acked: u32, sacked: u32) {
        if seg.flags.has(Flags::SYN) {
            return;
        }
        let data = self.snd.data_in(acked);
        let newer = seg.options.timestamps.filter(|_| self.bits.has(Bits::TIMESTAMPS));
        let progress = acked + sacked > 0 || newer.is_some_and(|ts| ts_before(self.rcv.ts_recent(), ts.val));
        let feedback = Feedback {
            ace: seg.flags.ace(),
            counters: seg.options.accecn,
            bytes: data + sacked,
            fin: acked > data,
            mss: self.snd.mss().into(),
            orderly: !self.recovery.is_active(),
        };
        let (una, nxt) = (self.snd.una() + acked, self.snd.nxt());
        let Some(state) = self.accecn_mut() else { return };
        let sender = &mut state.sender;
        let capable = sender.is_capable();
        if !core::mem::replace(&mut sender.checked, true) && feedback.ace == 0 {
            sender.faults.deaf = true;
            cx.counters.accecn_mangled += u64::from(capable);
        }
        if !progress || sender.faults.deaf {
            return;
        }
        let unheard = sender.seen == OptionSeen::Never;
        let told = sender.on_feedback(&feedback);
        sender.faults.mangled |= told.absurd;
        sender.faults.deaf |= sender.finds_fault(&told, una, nxt);
        let faults = sender.faults;
        let (lost_faith, heard) =
            (capable && !sender.is_capable(), unheard && sender.seen != OptionSeen::Never);
        cx.counters.accecn_mangled += u64::from(lost_faith);
        cx.counters.marks_told += u64::from(told.marks);
        if heard && cx.config.accecn_linux {
            self.refresh_mss(cx.config);
        }
        if faults.deaf {
            return;
        }
        self.control.on_ecn(&EcnFeedback {
            now: cx.now,
            segments: told.segments,
            marked_segments: told.marks,
            bytes: feedback.bytes,
            marked_bytes: told.marked_bytes,
        });
        if told.marks > 0 {
            self.on_marks(cx);
        }
    }
}
