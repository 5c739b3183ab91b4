//! The Fast Open option (RFC 7413, section 4.1.1), under its own kind and under the experimental one (RFC 6994).

/// Kind of the option.
pub(super) const KIND: u8 = 34;
/// The kind that experiments share, and what tells this one from others.
pub(super) const EXPERIMENT: u8 = 254;
pub(super) const MAGIC: [u8; 2] = [0xf9, 0x89];
/// Bytes a cookie has.
const SIZES: core::ops::RangeInclusive<usize> = 4..=16;

/// Fast Open option of a SYN: a request for a cookie, or a cookie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FastOpen {
    bytes: [u8; 16],
    len: u8,
    /// Under kind 254, as servers and clients did before RFC 7413.
    pub experimental: bool,
}

impl FastOpen {
    /// "Give me a cookie."
    /// RFC 7413, 9-1.
    pub const fn request(experimental: bool) -> FastOpen {
        FastOpen { bytes: [0; 16], len: 0, experimental }
    }

    /// A cookie of 4 to 16 bytes, an even number; `None` for any other.
    /// RFC 7413, 4.1.1-1.
    pub fn cookie(bytes: &[u8], experimental: bool) -> Option<FastOpen> {
        if !SIZES.contains(&bytes.len()) || !bytes.len().is_multiple_of(2) {
            return None;
        }
        let mut option = FastOpen::request(experimental);
        option.bytes[..bytes.len()].copy_from_slice(bytes);
        option.len = bytes.len() as u8;
        Some(option)
    }

    /// The cookie; empty if it asks for one.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Does it ask for a cookie?
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Reads the option behind kind and length: magic, if experimental, and cookie. An illegal length is no option
    /// at all, as if it had been left out (RFC 7413, section 4.1.1). RFC 7413, 4.1.1-2.
    pub(super) fn read(data: &[u8], experimental: bool) -> Option<FastOpen> {
        if data.is_empty() {
            Some(FastOpen::request(experimental))
        } else {
            FastOpen::cookie(data, experimental)
        }
    }

    /// Bytes of the option without padding.
    pub(super) const fn len(&self) -> usize {
        2 + self.len as usize + if self.experimental { MAGIC.len() } else { 0 }
    }

    /// Kind, length and, if experimental, magic; how many bytes those are.
    pub(super) const fn head(&self) -> ([u8; 4], usize) {
        let len = self.len() as u8;
        match self.experimental {
            true => ([EXPERIMENT, len, MAGIC[0], MAGIC[1]], 4),
            false => ([KIND, len, 0, 0], 2),
        }
    }
}

impl core::fmt::Display for FastOpen {
    /// As tcpdump shows it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.experimental { "exp-tfo" } else { "tfo" })?;
        match self.is_request() {
            true => f.write_str(" cookiereq"),
            false => {
                f.write_str(" cookie ")?;
                self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl core::fmt::Debug for FastOpen {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}
