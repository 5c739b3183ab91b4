//! The control bits.

/// Where AE, CWR and ECE stand.
const ACE_SHIFT: u32 = 6;

/// Control bits of a TCP header, as on the wire (AE is 0x100, CWR is 0x80, FIN is 0x01).
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u16);

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
    /// Accurate ECN (RFC 9768, section 3.1.1).
    pub const AE: Flags = Flags(0x100);
    /// The three bits that on a connection with accurate ECN count marks (RFC 9768, section 3.2.2).
    pub const ACE: Flags = Flags(Flags::AE.0 | Flags::CWR.0 | Flags::ECE.0);
    /// All of them.
    pub const ALL: Flags = Flags(0x1ff);

    /// Are all of `other`'s bits set?
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// AE, CWR and ECE as one number, 0 to 7.
    pub const fn ace(self) -> u8 {
        (self.0 >> ACE_SHIFT) as u8 & 7
    }

    /// Returns the control bits with the low three bits of `count` as AE, CWR and ECE.
    pub const fn with_ace(self, count: u32) -> Flags {
        Flags(self.0 & !Flags::ACE.0 | ((count & 7) as u16) << ACE_SHIFT)
    }

    /// Is any of `other`'s bits set?
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl core::fmt::Debug for Flags {
    /// In tcpdump's letters: `[S.]`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        const LETTERS: [(Flags, &str); 9] = [
            (Flags::FIN, "F"),
            (Flags::SYN, "S"),
            (Flags::RST, "R"),
            (Flags::PSH, "P"),
            (Flags::URG, "U"),
            (Flags::ECE, "E"),
            (Flags::CWR, "W"),
            (Flags::AE, "e"),
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
