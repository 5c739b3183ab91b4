//! TCP headers and options (RFC 9293 section 3.1, RFC 7323, RFC 2018).

use base::Seq;

/// Control bits of a TCP header, as on the wire (CWR is 0x80, FIN is 0x01).
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is significant.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// Are all of `other`'s bits set?
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Is any of `other`'s bits set?
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl core::fmt::Debug for Flags {
    /// In tcpdump's letters: `[S.]`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        const LETTERS: [(Flags, &str); 8] = [
            (Flags::FIN, "F"),
            (Flags::SYN, "S"),
            (Flags::RST, "R"),
            (Flags::PSH, "P"),
            (Flags::URG, "U"),
            (Flags::ECE, "E"),
            (Flags::CWR, "W"),
            (Flags::ACK, "."),
        ];
        f.write_str("[")?;
        for (_, letter) in LETTERS.iter().filter(|(flag, _)| self.has(*flag)) {
            f.write_str(letter)?;
        }
        f.write_str("]")
    }
}

impl core::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, rhs: Flags) -> Flags {
        Flags(self.0 | rhs.0)
    }
}

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
}

impl SackBlocks {
    /// No block.
    pub const fn none() -> Self {
        SackBlocks { blocks: [(Seq::new(0), Seq::new(0)); 4], len: 0 }
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
}

/// A TCP segment as the connection sees it: header values, options, and its payload still in the frame.
/// The checksum has been dealt with before one of these exists.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number of the first octet (of SYN, if that is set).
    pub seq: Seq,
    /// Acknowledgment number; meaningful if `flags` has ACK.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The window field as sent, unscaled.
    pub window: u16,
    /// The urgent pointer (RFC 6093 lets us ignore it).
    pub urgent: u16,
    /// Decoded options.
    pub options: Options,
    /// How many segments of the wire this one stands for; 1 unless offload merged several.
    pub merged: u16,
    /// The IP header carried the CE codepoint (RFC 3168).
    pub congestion_experienced: bool,
    /// The data.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// SEG.LEN: octets of sequence space, SYN and FIN included.
    pub fn seq_len(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }
}

/// A TCP header to be emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: Seq,
    /// Acknowledgment number; emitted as 0 without ACK.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Window field, already scaled.
    pub window: u16,
    /// Options; those that do not fit in 40 octets are a bug of the caller (debug assertion).
    pub options: Options,
}
