//! Where the headers of a plain packet lie, and which of their octets the packets of a train share.

use crate::octets::{half, word};

/// Octets looked at from the start of a packet on.
pub(crate) const FRONT: usize = 64;
/// Octets looked at that end where the payload starts. The longest headers (Ethernet, IPv6, TCP with timestamps) take
/// 86, so nothing lies between.
pub(crate) const BACK: usize = 24;

/// Octets of a packet's headers, as far as packets of a train share them, and zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sight {
    front: [u64; FRONT / 8],
    back: [u64; BACK / 8],
}

/// Octets of an Ethernet header.
const LINK: usize = 14;
/// What stands before a segment's timestamps where nothing else does (RFC 7323, appendix A).
const STAMPS: u32 = 0x0101_080a;

/// The headers of TCP without options or with timestamps alone, behind IP without options.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Where the IP header starts.
    pub(crate) ip: usize,
    pub(crate) v4: bool,
    /// Where TCP starts.
    pub(crate) tcp: usize,
    pub(crate) stamps: bool,
    /// Where the payload starts.
    pub(crate) text: usize,
    /// Which bits packets of a train share.
    shared: Sight,
}

static ALL: [Layout; 8] = [
    Layout::new(0, false, false),
    Layout::new(0, false, true),
    Layout::new(0, true, false),
    Layout::new(0, true, true),
    Layout::new(LINK, false, false),
    Layout::new(LINK, false, true),
    Layout::new(LINK, true, false),
    Layout::new(LINK, true, true),
];

impl Layout {
    const fn new(ip: usize, v4: bool, stamps: bool) -> Layout {
        let tcp = ip + if v4 { 20 } else { 40 };
        let text = tcp + if stamps { 32 } else { 20 };
        let mut octets = [0; FRONT + BACK];
        let mut at = 0;
        while at < text {
            octets[at] = 0xff;
            at += 1;
        }
        // What each packet has of its own: IP's length, and with IPv4 identification and checksum; sequence number,
        // PSH, checksum and the sender's timestamp of TCP.
        let own: [(usize, usize, u8); 7] = [
            if v4 { (ip + 2, 4, 0) } else { (ip + 4, 2, 0) },
            if v4 { (ip + 10, 2, 0) } else { (ip + 4, 2, 0) },
            (tcp + 4, 4, 0),
            (tcp + 13, 1, !0x08),
            (tcp + 16, 2, 0),
            if stamps { (tcp + 24, 4, 0) } else { (tcp + 16, 2, 0) },
            (text, 0, 0),
        ];
        let mut nth = 0;
        while nth < own.len() {
            let (start, len, left) = own[nth];
            let mut at = start;
            while at < start + len {
                octets[at] = left;
                at += 1;
            }
            nth += 1;
        }
        let shared = Sight { front: words(&octets, 0), back: words(&octets, text - BACK) };
        Layout { ip, v4, tcp, stamps, text, shared }
    }

    /// What is looked at of `packet`; `None` if it is too short.
    #[inline(always)]
    pub(crate) fn sight(&self, packet: &[u8]) -> Option<Sight> {
        let front = packet.first_chunk::<FRONT>()?.as_chunks::<8>().0;
        let back = packet.get(..self.text)?.last_chunk::<BACK>()?.as_chunks::<8>().0;
        let mut sight = self.shared;
        sight.front.iter_mut().zip(front).for_each(|(bits, word)| *bits &= u64::from_ne_bytes(*word));
        sight.back.iter_mut().zip(back).for_each(|(bits, word)| *bits &= u64::from_ne_bytes(*word));
        Some(sight)
    }

    /// How the headers of `packet` lie, whose IP header starts at `ip`; `None` if they hold anything more.
    pub(crate) fn of(packet: &[u8], ip: usize) -> Option<&'static Layout> {
        let (v4, tcp) = match packet.get(ip)? {
            // Not a fragment, and the first behind IP is TCP.
            0x45 if half(packet, ip + 6)? & 0x3fff == 0 && *packet.get(ip + 9)? == 6 => (true, ip + 20),
            0x60..=0x6f if *packet.get(ip + 6)? == 6 => (false, ip + 40),
            _ => return None,
        };
        let stamps = match packet.get(tcp + 12)? >> 4 {
            5 => false,
            8 if word(packet, tcp + 20)? == STAMPS => true,
            _ => return None,
        };
        ALL.iter().find(|layout| (layout.ip, layout.v4, layout.stamps) == (ip, v4, stamps))
    }

    /// Octets of `packet` up to the end of its payload, as its IP header says.
    #[inline]
    pub(crate) fn end(&self, packet: &[u8]) -> Option<usize> {
        let len = if self.v4 { half(packet, self.ip + 2)? } else { half(packet, self.ip + 4)? };
        Some(self.ip + usize::from(len) + if self.v4 { 0 } else { 40 })
    }

    /// Octets of both addresses.
    pub(crate) fn addresses<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        packet.get(self.ip + if self.v4 { 12 } else { 8 }..self.tcp)
    }
}

/// `N` words of `octets` from a place on.
const fn words<const N: usize>(octets: &[u8; FRONT + BACK], from: usize) -> [u64; N] {
    let mut all = [0; N];
    let mut nth = 0;
    while nth < N {
        let mut word = [0; 8];
        let mut at = 0;
        while at < 8 {
            word[at] = octets[from + nth * 8 + at];
            at += 1;
        }
        all[nth] = u64::from_ne_bytes(word);
        nth += 1;
    }
    all
}

impl Sight {
    /// Are they the same? Without a branch for each word.
    #[inline(always)]
    pub(crate) fn is(&self, other: &Sight) -> bool {
        let front = self.front.iter().zip(&other.front).fold(0, |differs, (a, b)| differs | (a ^ b));
        let back = self.back.iter().zip(&other.back).fold(0, |differs, (a, b)| differs | (a ^ b));
        front | back == 0
    }
}
