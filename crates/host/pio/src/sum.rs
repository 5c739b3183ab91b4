//! The checksum of what a port delivered, by vectors where the machine has them: that takes two thirds of the
//! instructions of [`Sum::of`], and half of its time.

use crate::port::ChecksumOffload;
use wire::checksum::{Sum, Summer};

/// The fastest way to sum bytes up on this machine.
pub fn summer() -> Summer {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx2") {
        return by_avx2;
    }
    Sum::of
}

/// Does to a packet what `sum` asks for; false if that makes no sense.
pub(crate) fn complete(packet: &mut [u8], sum: ChecksumOffload) -> bool {
    let Some(summed) = packet.get_mut(usize::from(sum.start)..) else { return false };
    let field = Sum::of(summed).checksum().to_be_bytes();
    match summed.get_mut(usize::from(sum.offset)..).and_then(<[u8]>::first_chunk_mut) {
        Some(place) => *place = field,
        None => return false,
    }
    true
}

/// Bytes for which vectors pay, and which they hold the sum of: what a packet may have.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LONG: core::ops::RangeInclusive<usize> = 256..=1 << 16;

/// To be called only where there is AVX2, so [`summer`] alone gives it away.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn by_avx2(bytes: &[u8]) -> Sum {
    if !LONG.contains(&bytes.len()) {
        return Sum::of(bytes);
    }
    // SAFETY: the processor has AVX2, as `summer` asked before it gave this function away.
    unsafe { avx2::sum_of(bytes) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use core::arch::x86_64::*;
    use wire::checksum::Sum;

    /// Bytes of a vector, and of those that are summed in one step; so many sums grow side by side.
    const VECTOR: usize = 32;
    const STEP: usize = 8 * VECTOR;
    const SUMS: usize = 4;

    /// The sums of two signed words go to a lane, of which there are eight.
    const _: () = assert!(
        ((*super::LONG.end() + STEP) as u64 / 2) << 15 < 1 << 31,
        "no sum overflows, nor that of all lanes"
    );
    const _: () = assert!(*super::LONG.start() >= STEP, "there is a step to take part of");

    /// `HEAD[STEP - n..][..STEP]` leaves the first `n` bytes.
    static HEAD: [u8; 2 * STEP] = {
        let mut mask = [0; 2 * STEP];
        let mut at = 0;
        while at < STEP {
            mask[at] = 0xff;
            at += 1;
        }
        mask
    };

    /// [`Sum::of`] of no fewer bytes than a step has. Vectors add products of signed words only, so each word is taken
    /// as what it has above 32,768, and these are added in the end. Steps end where the bytes do, but for an odd one;
    /// what is before them is part of a step, and all else of that counts as zeros: so nothing branches but a loop.
    #[target_feature(enable = "avx2")]
    pub(super) fn sum_of(bytes: &[u8]) -> Sum {
        let (lowest, one) = (_mm256_set1_epi16(i16::MIN), _mm256_set1_epi16(1));
        let add = |sum: &mut __m256i, words: __m256i| {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_xor_si256(words, lowest), one));
        };
        let (pairs, last) = bytes.as_chunks::<2>();
        let (before, steps) = pairs.as_flattened().as_rchunks::<STEP>();
        let mut sums = [_mm256_setzero_si256(); SUMS];
        if let (Some(first), Some(mask)) =
            (bytes.first_chunk::<STEP>(), HEAD[STEP - before.len()..].first_chunk::<STEP>())
        {
            for (nth, (vector, mask)) in first.as_chunks().0.iter().zip(mask.as_chunks().0).enumerate() {
                add(&mut sums[nth % SUMS], _mm256_and_si256(load(vector), load(mask)));
            }
        }
        for step in steps {
            for (nth, vector) in step.as_chunks().0.iter().enumerate() {
                add(&mut sums[nth % SUMS], load(vector));
            }
        }
        let [a, b, c, d] = sums;
        let lanes = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
        let words = (steps.len() + 1) * (STEP / 2);
        let sum = i64::from(lanes_sum(lanes)) + ((words as i64) << 15);
        Sum::of_words(sum as u64 + last.first().map_or(0, |byte| u64::from(*byte)))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(bytes: &[u8; VECTOR]) -> __m256i {
        // SAFETY: an array of 32 bytes may be read, wherever it lies.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn lanes_sum(sum: __m256i) -> i32 {
        let four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
        _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
    }
}

#[cfg(test)]
mod tests;
