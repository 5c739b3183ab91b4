//! The stream: each byte follows from the seed and its place, so either end makes it by itself. The foreign programs
//! in `peers/interop` have the same.

/// A stream without end.
#[derive(Clone, Copy)]
pub(super) struct Pattern {
    seed: u64,
}

impl Pattern {
    pub(super) fn new(seed: u64) -> Pattern {
        Pattern { seed }
    }

    /// Bytes `8 * nth` to `8 * nth + 7`: SplitMix64's output number `nth`.
    fn word(self, nth: u64) -> [u8; 8] {
        let z = self.seed.wrapping_add(nth.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31).to_le_bytes()
    }

    /// Calls `each` for the parts of so many bytes from place `at` on: where in them a part begins, and the part.
    fn parts(self, at: u64, len: usize, mut each: impl FnMut(usize, &[u8]) -> bool) {
        let mut done = 0;
        while done < len {
            let place = at + done as u64;
            let word = self.word(place / 8);
            let part = &word[(place % 8) as usize..];
            let part = &part[..part.len().min(len - done)];
            if !each(done, part) {
                return;
            }
            done += part.len();
        }
    }

    /// Writes the stream from place `at` on.
    pub(super) fn fill(self, at: u64, into: &mut [u8]) {
        self.parts(at, into.len(), |done, part| {
            into[done..done + part.len()].copy_from_slice(part);
            true
        });
    }

    /// Compares `got` with the stream from place `at` on.
    ///
    /// # Errors
    /// Where the first difference is.
    pub(super) fn check(self, at: u64, got: &[u8]) -> Result<(), String> {
        let mut wrong = None;
        self.parts(at, got.len(), |done, part| {
            let differs = std::iter::zip(part, &got[done..]).position(|(a, b)| a != b);
            wrong = differs.map(|nth| at + (done + nth) as u64);
            wrong.is_none()
        });
        wrong.map_or(Ok(()), |place| Err(format!("byte {place} is not what was sent")))
    }
}

#[cfg(test)]
mod tests;
