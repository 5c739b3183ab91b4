//! The Internet checksum (RFC 1071), its incremental forms (RFC 1624), and TCP's pseudo headers.
//!
//! Sums are taken in the machine's own byte order over 64-bit words and put in network order once at the end,
//! which one's complement arithmetic allows (RFC 1071, section 2 (B)).

use base::Addr;

/// A one's complement sum of 16-bit words in network order, not complemented. Sums of pieces add up to the
/// sum of the whole, if every piece but the last is even; a piece at an odd offset is [`Sum::swapped`] first.
///
/// It is kept modulo 2^32 - 1, of which 2^16 - 1 is a divisor, and zero only if all words are.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sum(u32);

/// [`Sum::of`], or what says the same faster.
pub type Summer = fn(&[u8]) -> Sum;

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum(0);

    /// The sum of `bytes`; an odd last byte counts as the high half of a word.
    pub fn of(bytes: &[u8]) -> Sum {
        let (blocks, rest) = bytes.as_chunks::<{ 2 * CHAIN }>();
        // Two chains of additions with carry, so that they overlap.
        let (mut even, mut odd) = (0, 0);
        for block in blocks {
            let (first, second) = block.split_at(CHAIN);
            even = chained(even, first);
            odd = chained(odd, second);
        }
        let mut sum = carry_add(even, odd);
        let (chains, rest) = rest.as_chunks::<CHAIN>();
        for chain in chains {
            sum = chained(sum, chain);
        }
        finish(sum, rest)
    }

    /// The sum of 32-bit fields added up in 64 bits, fewer than 2^32 of them.
    #[inline(always)]
    pub(crate) const fn of_wide(sum: u64) -> Sum {
        Sum(carry_add32(sum as u32, (sum >> 32) as u32))
    }

    /// Is it `folded`, as [`Sum::fold`] says it? Mostly it has that form already.
    #[inline]
    pub const fn is(self, folded: u16) -> bool {
        self.0 == folded as u32 || self.fold() == folded
    }

    /// 16-bit words as they lie in memory, added up as numbers of the machine's byte order.
    #[inline]
    pub const fn of_words(sum: u64) -> Sum {
        Sum(u16::from_be(Sum::of_wide(sum).fold()) as u32)
    }

    /// One 16-bit word.
    pub const fn of_u16(word: u16) -> Sum {
        Sum(word as u32)
    }

    /// A 32-bit field, as its two words.
    pub const fn of_u32(word: u32) -> Sum {
        Sum(word)
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Sum) -> Sum {
        Sum(carry_add32(self.0, other.0))
    }

    /// The sum of what is summed here and `other`, whose bytes follow `offset` bytes of this.
    #[must_use]
    pub const fn plus_at(self, offset: usize, other: Sum) -> Sum {
        self.plus(if offset & 1 == 1 { other.swapped() } else { other })
    }

    /// The sum of the same bytes moved by one place (RFC 1071, section 2 (B)).
    #[must_use]
    pub const fn swapped(self) -> Sum {
        Sum(self.fold().swap_bytes() as u32)
    }

    /// Sixteen bits, not complemented: what goes into the field for a checksum that hardware completes.
    pub const fn fold(self) -> u16 {
        // The upper half of this sum is that of both halves, with the carry of the lower half's.
        (self.0.wrapping_add(self.0.rotate_left(16)) >> 16) as u16
    }

    /// The checksum: the complement of the sum.
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Does a sum that includes the checksum field say the bytes are whole?
    pub const fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

/// A sum of words and the bytes behind them.
#[inline(always)]
fn finish(mut sum: u64, tail: &[u8]) -> Sum {
    let (words, rest) = tail.as_chunks::<8>();
    for word in words {
        sum = carry_add(sum, u64::from_ne_bytes(*word));
    }
    Sum::of_words(carry_add(sum, last_word(rest)))
}

/// Bytes whose words are added one behind the other, each with the carry of the one before.
const CHAIN: usize = 64;

#[inline(always)]
fn chained(mut sum: u64, words: &[u8]) -> u64 {
    let mut carry = false;
    for word in words.as_chunks::<8>().0 {
        (sum, carry) = sum.carrying_add(u64::from_ne_bytes(*word), carry);
    }
    carry_add(sum, carry.into())
}

/// Fewer than eight bytes as a word, zeros behind them. Step by step: a copy of unknown length costs more.
#[inline(always)]
fn last_word(mut rest: &[u8]) -> u64 {
    let mut sum = 0;
    if let Some((word, after)) = rest.split_first_chunk::<4>() {
        sum = u64::from(u32::from_ne_bytes(*word));
        rest = after;
    }
    if let Some((word, after)) = rest.split_first_chunk::<2>() {
        sum += u64::from(u16::from_ne_bytes(*word));
        rest = after;
    }
    if let [last] = rest {
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    sum
}

#[inline(always)]
fn carry_add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

#[inline(always)]
const fn carry_add32(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u32
}

/// The pseudo header of an upper-layer packet of `len` bytes (RFC 9293, section 3.1; RFC 8200, section 8.1).
#[inline]
pub fn pseudo(src: Addr, dst: Addr, protocol: u8, len: u32) -> Sum {
    let v4 = src.is_v4();
    let (src, dst) = (src.words(), dst.words());
    // The two mapped prefixes of IPv4 must not count.
    let sum = if v4 {
        [src[3], dst[3]].iter().fold(0u64, |sum, word| sum + u64::from(*word))
    } else {
        src.iter().chain(&dst).fold(0u64, |sum, word| sum + u64::from(*word))
    };
    let sum = sum + u64::from(protocol) + u64::from(len);
    Sum::of_wide(sum)
}

/// Does the checksum field hold only the pseudo-header sum, left for hardware that the packet never met?
/// (Both zeros of one's complement are one number.)
pub const fn is_partial(field: u16, pseudo: Sum) -> bool {
    let sum = pseudo.fold();
    field == sum || (field == 0 && sum == 0xffff) || (field == 0xffff && sum == 0)
}

/// The checksum after one 16-bit word under it changed (RFC 1624, equation 3).
pub const fn update16(check: u16, old: u16, new: u16) -> u16 {
    Sum(!check as u32 + !old as u32 + new as u32).checksum()
}

#[cfg(test)]
mod tests;
