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
mod tests;
