//! Where the headers of a plain packet lie, and which of their bytes the packets of a merged run share.

use wire::checksum::Sum;

/// Bytes of an Ethernet header.
const LINK: usize = 14;
/// Bytes before a segment's timestamps where there is no other option (RFC 7323, appendix A).
const STAMPS: u32 = 0x0101_080a;
/// Words of the longest headers: Ethernet, IPv6, TCP with timestamps.
const WORDS: usize = (LINK + 40 + 32usize).div_ceil(8);

/// The bytes of a packet's headers in words of eight, the last of which ends where the payload starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sight([u64; WORDS]);

/// The headers of TCP without options or with timestamps alone, behind IP without options.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Which of [`LAYOUTS`] it is.
    pub(crate) nth: usize,
    /// Where the IP header starts.
    pub(crate) ip: usize,
    pub(crate) v4: bool,
    /// Where TCP starts.
    pub(crate) tcp: usize,
    pub(crate) stamps: bool,
    /// Where the payload starts.
    pub(crate) text: usize,
    /// Which bits packets of a merged run share.
    shared: Sight,
    /// Which bits are the same where a packet is as long as the first and was sent at the same time.
    alike: Sight,
}

/// Every layout there is. As a constant, so that what depends on one can be compiled for each.
pub(crate) const LAYOUTS: [Layout; 8] = [
    Layout::new(0, 0, false, false),
    Layout::new(1, 0, false, true),
    Layout::new(2, 0, true, false),
    Layout::new(3, 0, true, true),
    Layout::new(4, LINK, false, false),
    Layout::new(5, LINK, false, true),
    Layout::new(6, LINK, true, false),
    Layout::new(7, LINK, true, true),
];

static ALL: [Layout; 8] = LAYOUTS;

impl Layout {
    const fn new(nth: usize, ip: usize, v4: bool, stamps: bool) -> Layout {
        let tcp = ip + if v4 { 20 } else { 40 };
        let text = tcp + if stamps { 32 } else { 20 };
        // What each packet has of its own: IP's length, and with IPv4 identification and checksum; sequence number,
        // PSH, checksum and the sender's timestamp of TCP.
        let checksum = (tcp + 16, 2, 0);
        let own = [
            if v4 { (ip + 2, 4, 0) } else { (ip + 4, 2, 0) },
            if v4 { (ip + 10, 2, 0) } else { checksum },
            (tcp + 4, 4, 0),
            (tcp + 13, 1, !0x08),
            checksum,
            if stamps { (tcp + 24, 4, 0) } else { checksum },
        ];
        // Of these, what it still has if it is no shorter than those before it, nor sent later.
        let still = [
            if v4 { (ip + 4, 2, 0) } else { checksum },
            if v4 { (ip + 10, 2, 0) } else { checksum },
            (tcp + 4, 4, 0),
            (tcp + 13, 1, !0x08),
            checksum,
        ];
        let none = Sight([0; WORDS]);
        let mut layout = Layout { nth, ip, v4, tcp, stamps, text, shared: none, alike: none };
        layout.shared = layout.without(&own);
        layout.alike = layout.without(&still);
        layout
    }

    /// All bits of the headers but for some: where they start, how many bytes they are, and what is left of each.
    const fn without(&self, some: &[(usize, usize, u8)]) -> Sight {
        let mut bytes = [0xff; 8 * WORDS];
        let mut nth = 0;
        while nth < some.len() {
            let (start, len, left) = some[nth];
            let mut at = start;
            while at < start + len {
                bytes[at] = left;
                at += 1;
            }
            nth += 1;
        }
        let mut sight = Sight([0; WORDS]);
        let mut word = 0;
        while word < self.words() {
            let mut bits = [0; 8];
            let mut at = 0;
            while at < 8 {
                bits[at] = bytes[self.place(word) + at];
                at += 1;
            }
            sight.0[word] = u64::from_ne_bytes(bits);
            word += 1;
        }
        sight
    }

    /// Words of its headers, and where the `nth` of them lies.
    const fn words(&self) -> usize {
        self.text.div_ceil(8)
    }

    const fn place(&self, nth: usize) -> usize {
        if nth * 8 + 8 > self.text { self.text - 8 } else { nth * 8 }
    }

    /// Returns the compared words of `packet`; `None` if it is too short.
    #[inline(always)]
    pub(crate) fn sight(&self, packet: &[u8]) -> Option<Sight> {
        let mut sight = Sight([0; WORDS]);
        for (nth, word) in sight.0.iter_mut().enumerate().take(self.words()) {
            *word = u64::from_ne_bytes(*packet.get(self.place(nth)..)?.first_chunk()?);
        }
        Some(sight)
    }

    /// Shares `packet`, which is no shorter than the headers, what it must with the one that `sight` is of?
    #[inline(always)]
    pub(crate) fn shares(&self, packet: &[u8], sight: &Sight) -> bool {
        self.agrees(packet, sight, &self.shared)
    }

    /// Returns true if the packet also has the same length and timestamp.
    #[inline(always)]
    pub(crate) fn is_alike(&self, packet: &[u8], sight: &Sight) -> bool {
        self.agrees(packet, sight, &self.alike)
    }

    /// Straight on, without a branch for each word.
    #[inline(always)]
    fn agrees(&self, packet: &[u8], sight: &Sight, bits: &Sight) -> bool {
        let (mut differs, mut nth) = (0, 0);
        while nth < self.words() {
            let word = packet.get(self.place(nth)..).and_then(<[u8]>::first_chunk);
            let word = word.copied().map_or(0, u64::from_ne_bytes);
            differs |= (word ^ sight.0[nth]) & bits.0[nth];
            nth += 1;
        }
        differs == 0
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
        let nth = usize::from(ip > 0) << 2 | usize::from(v4) << 1 | usize::from(stamps);
        ALL.get(nth).filter(|layout| layout.ip == ip)
    }

    /// Bytes of `packet` up to the end of its payload, as its IP header says.
    #[inline(always)]
    pub(crate) fn end(&self, packet: &[u8]) -> Option<usize> {
        let len = if self.v4 { half(packet, self.ip + 2)? } else { half(packet, self.ip + 4)? };
        Some(self.ip + usize::from(len) + if self.v4 { 0 } else { 40 })
    }

    /// The sum of both addresses.
    #[inline(always)]
    pub(crate) fn addresses(&self, packet: &[u8]) -> Option<Sum> {
        let first = self.ip + if self.v4 { 12 } else { 8 };
        let (mut sum, mut at) = (Sum::ZERO, first);
        while at < self.tcp {
            sum = sum.plus(Sum::of_u32(word(packet, at)?));
            at += 4;
        }
        Some(sum)
    }
}

/// Two bytes, in network order.
#[inline(always)]
pub(crate) fn half(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?))
}

/// Four bytes, in network order.
#[inline(always)]
pub(crate) fn word(packet: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?))
}
