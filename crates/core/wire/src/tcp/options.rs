//! Options: how they are read and how they are laid out.

use super::{AccEcn, FastOpen, Flags, Signature, fast_open};
use crate::bytes::{be16, be32, put};
use base::Seq;
use core::fmt::{self, Display, Formatter};

/// The timestamps option (RFC 7323, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamps {
    /// TSval.
    pub val: u32,
    /// TSecr.
    pub ecr: u32,
}

/// Up to four SACK blocks (RFC 2018), each `(left edge, right edge)`, in the order of the option.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); 4],
    len: u8,
    /// A SYN has no blocks: its Fast Open option lies in their place, so that nothing grows for it.
    syn: SynOption,
}

/// Which Fast Open option lies in the place of blocks, by the bytes of its cookie.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum SynOption {
    #[default]
    None,
    Standard(u8),
    Experimental(u8),
}

impl SackBlocks {
    /// No block.
    pub const fn none() -> Self {
        SackBlocks { blocks: [(Seq::new(0), Seq::new(0)); 4], len: 0, syn: SynOption::None }
    }

    /// Appends a block; false, and nothing changes, when four are there already.
    pub fn push(&mut self, left: Seq, right: Seq) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else { return false };
        *slot = (left, right);
        self.len += 1;
        true
    }

    /// The blocks in order.
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Is there no block?
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps only the first `n` blocks.
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n as u8);
    }
}

/// In which order the options of a SYN stand; a peer must take any (RFC 9293, section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SynLayout {
    /// MSS, SACK-permitted, timestamps, NOP, window scale.
    #[default]
    Linux,
    /// MSS, NOP, window scale, SACK-permitted, timestamps, and zeros at the end.
    Bsd,
}

/// The options this stack understands; unknown kinds are skipped by their length (RFC 9293, MUST-6).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Maximum segment size, only on SYN.
    pub mss: Option<u16>,
    /// Window scale shift, only on SYN; clamped to 14 when read (RFC 7323, section 2.3).
    pub window_scale: Option<u8>,
    /// SACK permitted, only on SYN.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// Accurate ECN's counters; never on a SYN without ACK.
    pub accecn: Option<AccEcn>,
    /// Signature of the segment. It is emitted first, with zeros for its MAC.
    pub signature: Option<Signature>,
    /// How a SYN is laid out; says nothing of what was received.
    pub layout: SynLayout,
}

/// Most bytes options may take (data offset is four bits of 32-bit words).
pub const MAX_LEN: usize = 40;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Greatest shift of the window (RFC 7323, section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

impl Options {
    /// No option.
    pub const NONE: Options = Options {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::none(),
        accecn: None,
        signature: None,
        layout: SynLayout::Linux,
    };

    /// Fast Open, only on SYN.
    pub fn fast_open(&self) -> Option<FastOpen> {
        let (len, experimental) = match self.sack.syn {
            SynOption::None => return None,
            SynOption::Standard(len) => (len, false),
            SynOption::Experimental(len) => (len, true),
        };
        let mut bytes = [0; 16];
        let words = self.sack.blocks.iter().flat_map(|&(left, right)| [left, right]);
        for (four, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *four = word.raw().to_be_bytes();
        }
        FastOpen::read(&bytes[..usize::from(len)], experimental)
    }

    /// Puts a Fast Open option, or none, in the place of SACK blocks, of which a SYN has none.
    pub fn set_fast_open(&mut self, option: Option<FastOpen>) {
        self.sack = SackBlocks::none();
        let Some(option) = option else { return };
        let len = option.bytes().len() as u8;
        self.sack.syn = match option.experimental {
            true => SynOption::Experimental(len),
            false => SynOption::Standard(len),
        };
        let mut bytes = [0; 16];
        bytes[..option.bytes().len()].copy_from_slice(option.bytes());
        for (block, &[l0, l1, l2, l3, r0, r1, r2, r3]) in
            self.sack.blocks.iter_mut().zip(bytes.as_chunks::<8>().0)
        {
            let word = |bytes| Seq::new(u32::from_be_bytes(bytes));
            *block = (word([l0, l1, l2, l3]), word([r0, r1, r2, r3]));
        }
    }

    /// Adds a Fast Open option.
    pub fn with_fast_open(mut self, option: Option<FastOpen>) -> Options {
        self.set_fast_open(option);
        self
    }

    /// Reads the bytes between the fixed header and the data into this, which holds none yet.
    ///
    /// An illegal length (below 2, or past the header) ends the walk and what was read before it counts: the
    /// segment is not dropped, because RFC 9293 (MUST-7) asks only that we survive it, and a reset would hand
    /// a middlebox's bug to the user. An option of a known kind with a length of its own is skipped like an
    /// unknown one (MUST-6).
    #[inline]
    pub(super) fn parse(&mut self, bytes: &[u8], flags: Flags) {
        // What nearly every segment of a connection with timestamps carries (RFC 7323, appendix A).
        if let Ok([NOP, NOP, TIMESTAMPS, 10, v0, v1, v2, v3, e0, e1, e2, e3]) = <&[u8; 12]>::try_from(bytes) {
            let val = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
            let ecr = u32::from_be_bytes([*e0, *e1, *e2, *e3]);
            self.timestamps = Some(Timestamps { val, ecr });
            return;
        }
        self.parse_all(bytes, flags);
    }

    /// RFC 9293, MUST-5.
    fn parse_all(&mut self, bytes: &[u8], flags: Flags) {
        if flags.has(Flags::SYN) && self.parse_usual_syn(bytes) {
            return;
        }
        let mut rest = bytes;
        while let Some((option, after)) = next_option(rest) {
            self.read(option, flags);
            rest = after;
        }
    }

    /// The options of nearly every SYN, in the order in which Linux and we lay them out; false if these are others.
    fn parse_usual_syn(&mut self, bytes: &[u8]) -> bool {
        let Ok(bytes) = <&[u8; 20]>::try_from(bytes) else { return false };
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let ([kind, four, m0, m1], [n, scale, three, shift]) = (word(0), word(16));
        if [kind, four] != [MSS, 4] || word(4) != [SACK_PERMITTED, 2, TIMESTAMPS, 10] {
            return false;
        }
        if [n, scale, three] != [NOP, WINDOW_SCALE, 3] {
            return false;
        }
        self.mss = Some(u16::from_be_bytes([m0, m1]));
        self.window_scale = Some(shift.min(MAX_WINDOW_SCALE));
        self.sack_permitted = true;
        self.timestamps =
            Some(Timestamps { val: u32::from_be_bytes(word(8)), ecr: u32::from_be_bytes(word(12)) });
        true
    }

    /// Takes in one option (kind, length, data). Those that only a SYN may carry are ignored elsewhere.
    /// RFC 9293, MUST-4, MUST-14 and MUST-68; RFC 7323, 2.2-4 and 2.3-1; RFC 9768, 3.2.3.2.1-1.
    fn read(&mut self, option: &[u8], flags: Flags) {
        let syn = flags.has(Flags::SYN);
        match (option[0], option.len()) {
            (MSS, 4) if syn => self.mss = be16(option, 2),
            (WINDOW_SCALE, 3) if syn => self.window_scale = Some(option[2].min(MAX_WINDOW_SCALE)),
            (SACK_PERMITTED, 2) if syn => self.sack_permitted = true,
            (fast_open::KIND, _) if syn => self.set_fast_open(FastOpen::read(&option[2..], false)),
            (fast_open::EXPERIMENT, 4..) if syn && option[2..4] == fast_open::MAGIC => {
                self.set_fast_open(FastOpen::read(&option[4..], true));
            }
            // RFC 9768, section 3.2.3.2.1: on a SYN it is ignored.
            (kind, _) if AccEcn::is_kind(kind) && (!syn || flags.has(Flags::ACK)) => {
                self.accecn = Some(AccEcn::read(kind, &option[2..]));
            }
            (SACK, 10 | 18 | 26 | 34) if !syn => {
                self.sack = SackBlocks::none();
                for block in option[2..].as_chunks::<8>().0 {
                    let [l0, l1, l2, l3, r0, r1, r2, r3] = *block;
                    self.sack.push(
                        Seq::new(u32::from_be_bytes([l0, l1, l2, l3])),
                        Seq::new(u32::from_be_bytes([r0, r1, r2, r3])),
                    );
                }
            }
            (TIMESTAMPS, 10) => {
                self.timestamps = match (be32(option, 2), be32(option, 6)) {
                    (Some(val), Some(ecr)) => Some(Timestamps { val, ecr }),
                    _ => None,
                }
            }
            _ => match (Signature::read(option), self.signature) {
                (None, _) => {}
                (one, None) => self.signature = one,
                (Some(_), Some(_)) => self.signature = Some(Signature::Several),
            },
        }
    }

    /// Bytes that the signature takes.
    fn signature_len(&self) -> usize {
        self.signature.map_or(0, Signature::len)
    }

    /// SACK blocks that fit beside the other options of a segment with these flags: three with timestamps,
    /// else four, none on a SYN; fewer beside accurate ECN's counters or a signature.
    pub(super) fn sack_count(&self, flags: Flags) -> usize {
        if flags.has(Flags::SYN) {
            return 0;
        }
        let stamps = if self.timestamps.is_some() { 12 } else { 0 };
        let counters = self.accecn.map_or(0, |option| AccEcn::padded_len(option.fields(), true));
        let room = MAX_LEN.saturating_sub(4 + stamps + counters + self.signature_len());
        self.sack.as_slice().len().min(room / 8)
    }

    /// The timestamps, if they are all that a segment with `flags` carries, as they mostly are.
    #[inline(always)]
    pub(crate) fn stamps_alone(&self, flags: Flags) -> Option<Timestamps> {
        let syn = flags.has(Flags::SYN);
        let other = syn || !self.sack.is_empty() || self.accecn.is_some() || self.signature.is_some();
        if other { None } else { self.timestamps }
    }

    /// The timestamps option with its padding, as three words (RFC 7323, appendix A).
    #[inline(always)]
    pub(crate) const fn stamps_words(stamps: Timestamps) -> [u32; 3] {
        [u32::from_be_bytes([NOP, NOP, TIMESTAMPS, 10]), stamps.val, stamps.ecr]
    }

    /// Bytes these options take on a segment with `flags`; a multiple of 4.
    #[inline]
    pub(crate) fn len(&self, flags: Flags) -> usize {
        if self.stamps_alone(flags).is_some() { 12 } else { self.len_of_all(flags) }
    }

    fn len_of_all(&self, flags: Flags) -> usize {
        if flags.has(Flags::SYN) {
            return self.syn_len() + self.counters_on_syn(flags).map_or(0, |option| self.syn_place(&option));
        }
        let counters = |pair| self.accecn.map_or(0, |option| AccEcn::padded_len(option.fields(), pair));
        let sack = match self.sack_count(flags) {
            0 => counters(false),
            n => 4 + 8 * n + counters(true),
        };
        self.signature_len() + 12 * usize::from(self.timestamps.is_some()) + sack
    }

    /// Bytes of all a SYN carries but accurate ECN's counters.
    fn syn_len(&self) -> usize {
        // SACK-permitted fills the two bytes of padding before the timestamps, if there are any.
        let pair = if self.timestamps.is_some() { 12 } else { 4 * usize::from(self.sack_permitted) };
        let len = 4 * usize::from(self.mss.is_some()) + pair + 4 * usize::from(self.window_scale.is_some());
        self.signature_len() + len + self.fast_open().map_or(0, |option| option.len().next_multiple_of(4))
    }

    /// Bytes that `option` takes on a SYN-ACK, where SACK-permitted may follow with its padding.
    fn syn_place(&self, option: &AccEcn) -> usize {
        AccEcn::padded_len(option.fields(), self.sack_permitted && self.timestamps.is_none())
    }

    /// As many of accurate ECN's counters as a SYN-ACK has room for; a SYN carries none.
    /// RFC 9768, 3.2.3.2.1-1.
    pub(crate) fn counters_on_syn(&self, flags: Flags) -> Option<AccEcn> {
        let option = self.accecn.filter(|_| flags.has(Flags::ACK))?;
        let room = MAX_LEN.saturating_sub(self.syn_len());
        (0..=option.fields()).rev().map(|n| option.cut(n)).find(|option| self.syn_place(option) <= room)
    }

    /// Lays the options out at the front of `into`.
    /// RFC 9293, MUST-4 and MUST-68.
    pub(crate) fn emit(&self, flags: Flags, into: &mut [u8]) {
        if self.layout == SynLayout::Bsd && flags.has(Flags::SYN) {
            return self.emit_bsd_syn(flags, into);
        }
        let into = self.emit_signature(into);
        let mut at = 0;
        let mut word = |field: [u8; 4]| {
            put(into, at, field);
            at += 4;
        };
        let syn = flags.has(Flags::SYN);
        if let (true, Some(mss)) = (syn, self.mss) {
            let [high, low] = mss.to_be_bytes();
            word([MSS, 4, high, low]);
        }
        let permitted = syn && self.sack_permitted;
        if let Some(Timestamps { val, ecr }) = self.timestamps {
            let [first, second] = if permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
            word([first, second, TIMESTAMPS, 10]);
            word(val.to_be_bytes());
            word(ecr.to_be_bytes());
        }
        let blocks = &self.sack.as_slice()[..self.sack_count(flags)];
        let alone = permitted && self.timestamps.is_none();
        // Two bytes in front of what tells of SACK, in which accurate ECN's counters may end.
        let mut pair = [NOP, NOP];
        let counters = if syn { self.counters_on_syn(flags) } else { self.accecn };
        if let Some(option) = counters {
            match option.emit(NOP, &mut word) {
                Some([first, second]) if !alone && blocks.is_empty() => word([first, second, NOP, NOP]),
                rest => pair = rest.unwrap_or(pair),
            }
        }
        if alone {
            word([pair[0], pair[1], SACK_PERMITTED, 2]);
        }
        if let (true, Some(shift)) = (syn, self.window_scale) {
            word([NOP, WINDOW_SCALE, 3, shift.min(MAX_WINDOW_SCALE)]);
        }
        if let (true, Some(option)) = (syn, self.fast_open()) {
            return emit_fast_open(&option, NOP, &mut into[at..]);
        }
        if !blocks.is_empty() {
            word([pair[0], pair[1], SACK, 2 + 8 * blocks.len() as u8]);
        }
        for (left, right) in blocks {
            word(left.raw().to_be_bytes());
            word(right.raw().to_be_bytes());
        }
    }
}

impl Options {
    /// The signature at the front of `into`, and what is left behind it.
    #[inline]
    fn emit_signature<'a>(&self, into: &'a mut [u8]) -> &'a mut [u8] {
        let Some(signature) = self.signature else { return into };
        signature.emit(into);
        &mut into[signature.len()..]
    }

    /// As long as the other layout, whichever options there are.
    #[cold]
    /// RFC 9293, MUST-69.
    fn emit_bsd_syn(&self, flags: Flags, into: &mut [u8]) {
        let into = &mut into[..self.len_of_all(flags)];
        into.fill(END);
        let into = self.emit_signature(into);
        let mut at = 0;
        let mut option = |bytes: &[u8]| {
            into[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            option(&[MSS, 4, high, low]);
        }
        if let Some(shift) = self.window_scale {
            option(&[NOP, WINDOW_SCALE, 3, shift.min(MAX_WINDOW_SCALE)]);
        }
        if self.sack_permitted {
            option(&[SACK_PERMITTED, 2]);
        }
        if let Some(Timestamps { val, ecr }) = self.timestamps {
            if !self.sack_permitted {
                option(&[NOP, NOP]);
            }
            option(&[TIMESTAMPS, 10]);
            option(&val.to_be_bytes());
            option(&ecr.to_be_bytes());
        }
        if let Some(counters) = self.counters_on_syn(flags)
            && let Some(rest) = counters.emit(NOP, |word| option(&word))
        {
            option(&rest);
        }
        if let Some(option) = self.fast_open() {
            emit_fast_open(&option, END, &mut into[at..]);
        }
    }
}

/// As tcpdump shows them.
impl Display for Options {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let mut item = |f: &mut Formatter<'_>, text: fmt::Arguments<'_>| {
            write!(f, "{comma}{text}")?;
            comma = ",";
            Ok(())
        };
        if let Some(mss) = self.mss {
            item(f, format_args!("mss {mss}"))?;
        }
        if self.sack_permitted {
            item(f, format_args!("sackOK"))?;
        }
        if let Some(stamps) = self.timestamps {
            item(f, format_args!("TS val {} ecr {}", stamps.val, stamps.ecr))?;
        }
        if let Some(shift) = self.window_scale {
            item(f, format_args!("wscale {shift}"))?;
        }
        if let Some(option) = self.fast_open() {
            item(f, format_args!("{option}"))?;
        }
        if let Some(option) = self.accecn {
            item(f, format_args!("{option}"))?;
        }
        match self.signature {
            Some(Signature::Md5) => item(f, format_args!("md5"))?,
            Some(Signature::Ao { key_id, next, .. }) => item(f, format_args!("ao {key_id} next {next}"))?,
            Some(Signature::Several) => item(f, format_args!("several signatures"))?,
            None => {}
        }
        if !self.sack.is_empty() {
            item(f, format_args!("sack {} ", self.sack.as_slice().len()))?;
            for (left, right) in self.sack.as_slice() {
                write!(f, "{{{}:{}}}", left.raw(), right.raw())?;
            }
        }
        Ok(())
    }
}

/// The option at the front of `into`, and `padding` behind it.
#[cold]
fn emit_fast_open(option: &FastOpen, padding: u8, into: &mut [u8]) {
    let (head, at) = option.head();
    // What lies behind the header may be the payload already.
    let into = &mut into[..option.len().next_multiple_of(4)];
    into.fill(padding);
    into[..at].copy_from_slice(&head[..at]);
    into[at..option.len()].copy_from_slice(option.bytes());
}

/// The first option that is not padding and what follows it; `None` at the end or at an illegal length.
/// RFC 9293, MUST-6, MUST-7 and MUST-64.
pub(super) fn next_option(mut bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    while let [NOP, rest @ ..] = bytes {
        bytes = rest;
    }
    match bytes {
        [] | [END, ..] => None,
        [_, len, ..] if *len >= 2 => bytes.split_at_checked(usize::from(*len)),
        _ => None,
    }
}
