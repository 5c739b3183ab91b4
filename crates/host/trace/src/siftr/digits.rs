//! Numbers and addresses as a log writes them, without what a general formatter costs: a line has 27 of them.

use base::Addr;

const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut n = 0;
    while n < 100 {
        pairs[2 * n] = b'0' + (n / 10) as u8;
        pairs[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    pairs
};

/// Appends `n` in decimal.
#[inline]
pub(super) fn decimal(out: &mut Vec<u8>, n: u64) {
    let (digits, at) = digits(n);
    out.extend_from_slice(&digits[at..]);
}

/// The digits of `n`, and where they begin.
#[inline]
pub(super) fn digits(mut n: u64) -> ([u8; 20], usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while n >= 100 {
        at -= 2;
        let pair = 2 * (n % 100) as usize;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[2 * n as usize..2 * n as usize + 2]);
    } else {
        at -= 1;
        digits[at] = b'0' + n as u8;
    }
    (digits, at)
}

/// Appends a number below a million in six digits.
pub(super) fn six(out: &mut Vec<u8>, n: u64) {
    for pair in [n / 10_000 % 100, n / 100 % 100, n % 100] {
        out.extend_from_slice(&PAIRS[2 * pair as usize..2 * pair as usize + 2]);
    }
}

/// Appends `n` in lower-case hexadecimal, with at least `least` digits.
pub(super) fn hex(out: &mut Vec<u8>, n: u32, least: u32) {
    let digits = (32 - n.leading_zeros()).div_ceil(4).max(least);
    for nth in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(n >> (4 * nth) & 0xf) as usize]);
    }
}

/// Appends an IPv4 address as a dotted quad, an IPv6 address as eight groups.
pub(super) fn address(out: &mut Vec<u8>, addr: Addr) {
    if let Some(bytes) = addr.v4_bytes() {
        for (nth, byte) in bytes.into_iter().enumerate() {
            if nth > 0 {
                out.push(b'.');
            }
            decimal(out, byte.into());
        }
        return;
    }
    let bytes = addr.bytes();
    for (nth, &group) in bytes.as_chunks::<2>().0.iter().enumerate() {
        if nth > 0 {
            out.push(b':');
        }
        hex(out, u16::from_be_bytes(group).into(), 1);
    }
}

#[cfg(test)]
mod tests;
