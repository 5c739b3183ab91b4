//! Capture files, byte by byte: the classic format both ways and pcapng for writing. No file is opened here.

pub mod classic;
pub mod ng;
#[cfg(test)]
mod tests;

/// Link type of captured packets (the registry's LINKTYPE numbers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    Raw,
    /// Something we keep but do not read.
    Other(u16),
}

impl LinkType {
    /// The registered number.
    pub const fn number(self) -> u16 {
        match self {
            LinkType::Ethernet => 1,
            LinkType::Raw => 101,
            LinkType::Other(number) => number,
        }
    }

    /// The type of a registered number.
    pub const fn from_number(number: u16) -> Self {
        match number {
            1 => LinkType::Ethernet,
            101 => LinkType::Raw,
            number => LinkType::Other(number),
        }
    }
}

/// Most bytes of one packet that a reader accepts or a file announces (tcpdump's own limit).
pub const SNAPLEN: u32 = 262_144;
