//! Ranges delivered beyond missing data.

use base::Seq;

/// Stretches remembered.
const MOST: usize = 4;

/// Stretches of sequence space beyond the next byte expected, not touching each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Islands {
    stretches: [(u32, u32); MOST],
    count: u8,
}

/// More stretches than are remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooMany;

impl Islands {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn all(&self) -> &[(u32, u32)] {
        &self.stretches[..usize::from(self.count)]
    }

    /// `start..end` went up, beyond `next`.
    pub(crate) fn add(&mut self, next: Seq, start: Seq, end: Seq) -> Result<(), TooMany> {
        // Told from what is next, so that they have an order.
        let (mut from, mut to) = (start.offset_from(next), end.offset_from(next));
        let mut kept = Islands::default();
        for &(a, b) in self.all() {
            let (left, right) = (Seq::new(a).offset_from(next), Seq::new(b).offset_from(next));
            if right < from || left > to {
                kept.stretches[usize::from(kept.count)] = (a, b);
                kept.count += 1;
            } else {
                (from, to) = (from.min(left), to.max(right));
            }
        }
        if usize::from(kept.count) == MOST {
            return Err(TooMany);
        }
        kept.stretches[usize::from(kept.count)] = ((next + from).raw(), (next + to).raw());
        kept.count += 1;
        *self = kept;
        Ok(())
    }

    /// Everything before `next` is there: where does what is there without a gap end? Stretches that it reaches are
    /// forgotten.
    pub(crate) fn absorb(&mut self, mut next: Seq) -> Seq {
        loop {
            let reached = self.all().iter().position(|&(start, _)| !Seq::new(start).after(next));
            let Some(at) = reached else { return next };
            next = next.later(Seq::new(self.stretches[at].1));
            self.count -= 1;
            self.stretches[at] = self.stretches[usize::from(self.count)];
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the same as a set of bytes says, also across the end of sequence space.
    use super::*;
    use base::Rng;

    extern crate std;

    #[test]
    fn stretches_are_what_a_set_of_bytes_says() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let origin = Seq::new(0_u32.wrapping_sub(rng.below(200) as u32));
            let (mut islands, mut set, mut next) = (Islands::default(), [false; 256], 0_u32);
            for _ in 0..60 {
                let start = next + 1 + rng.below(60) as u32;
                let end = start + 1 + rng.below(20) as u32;
                if end < 256 && islands.add(origin + next, origin + start, origin + end).is_ok() {
                    set[start as usize..end as usize].fill(true);
                }
                if rng.below(3) == 0 {
                    next += 1;
                    while next < 256 && set[next as usize] {
                        next += 1;
                    }
                    let got = islands.absorb(origin + (next.min(255)));
                    if next >= 255 {
                        break;
                    }
                    assert!(got.offset_from(origin) >= next, "seed {seed}");
                    next = got.offset_from(origin);
                }
                let beyond = set.iter().enumerate().any(|(at, there)| *there && at as u32 > next);
                assert_eq!(islands.is_empty(), !beyond, "seed {seed}, next {next}, {islands:?}");
            }
        }
    }

    #[test]
    fn a_fifth_stretch_is_refused_and_nothing_changes() {
        let mut islands = Islands::default();
        let next = Seq::new(0);
        for at in 1..=4 {
            islands.add(next, next + at * 10, next + (at * 10 + 5)).expect("room");
        }
        assert_eq!(islands.add(next, next + 50, next + 55), Err(TooMany));
        islands.add(next, next + 15, next + 20).expect("joins two");
        islands.add(next, next + 50, next + 55).expect("room again");
        assert_eq!(islands.absorb(next + 10).raw(), 25);
    }
}
