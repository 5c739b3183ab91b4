//! Seeded randomness: a failure is replayed from its seed, on every machine alike.

/// xoshiro256++ seeded through splitmix64. Not for secrets: those come from [`crate::SipKey`].
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A generator whose whole future follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        Rng(core::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Uniform in `0..bound`; 0 if `bound` is 0. (Multiply-shift; the bias is below 2^-32 for 32-bit bounds.)
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `p`, clamped to 0..=1.
    pub fn chance(&mut self, p: f64) -> bool {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64) < p
    }

    /// A time after an exponential distribution of mean 1, as between events that do not know of each other. Made of
    /// operations that every machine rounds alike, which the logarithms of libraries are not.
    pub fn exponential(&mut self) -> f64 {
        // Uniform over (0, 1].
        -ln(((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64)
    }

    /// Fill `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// The natural logarithm of a positive normal number: 2^e m with m within a factor of the square root of 2 of 1, and
/// ln m = 2 artanh((m - 1) / (m + 1)) by its series.
fn ln(x: f64) -> f64 {
    const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> MANTISSA) as i64 - 1023;
    let mut m = f64::from_bits(bits & ((1 << MANTISSA) - 1) | 1023 << MANTISSA);
    if m > core::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    // |s| < 0.172: the twelfth term is below 1e-19.
    let series = (0..12).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests;
