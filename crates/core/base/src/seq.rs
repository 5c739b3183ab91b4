//! Sequence numbers of RFC 9293, section 3.4: a circle, so they have no order.

use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number. Comparing two with `<` does not compile: on a circle that order is not
/// transitive. Ask [`Seq::before`], [`Seq::in_window`] or [`Seq::distance_from`] instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(u32);

impl Seq {
    /// The sequence number with this value on the wire.
    pub const fn new(raw: u32) -> Self {
        Seq(raw)
    }

    /// The value on the wire.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Signed distance from `origin` to `self`, exact while the two are within 2^31 of each other.
    pub const fn distance_from(self, origin: Seq) -> i32 {
        self.0.wrapping_sub(origin.0) as i32
    }

    /// Bytes from `origin` forward to `self`, around the circle.
    pub const fn offset_from(self, origin: Seq) -> u32 {
        self.0.wrapping_sub(origin.0)
    }

    /// `self` comes strictly before `other` (`SEG.SEQ < RCV.NXT` in the RFC's notation).
    pub const fn before(self, other: Seq) -> bool {
        self.distance_from(other) < 0
    }

    /// `self` is `other` or comes before it.
    pub const fn at_or_before(self, other: Seq) -> bool {
        self.distance_from(other) <= 0
    }

    /// `self` comes strictly after `other`.
    pub const fn after(self, other: Seq) -> bool {
        self.distance_from(other) > 0
    }

    /// `self` is `other` or comes after it.
    pub const fn at_or_after(self, other: Seq) -> bool {
        self.distance_from(other) >= 0
    }

    /// `start <= self < start + len` on the circle.
    pub const fn in_window(self, start: Seq, len: u32) -> bool {
        self.0.wrapping_sub(start.0) < len
    }

    /// The later of two numbers less than 2^31 apart.
    pub fn later(self, other: Seq) -> Seq {
        if self.after(other) { self } else { other }
    }

    /// The earlier of two numbers less than 2^31 apart.
    pub fn earlier(self, other: Seq) -> Seq {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Seq;
    fn add(self, rhs: u32) -> Seq {
        Seq(self.0.wrapping_add(rhs))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, rhs: u32) {
        self.0 = self.0.wrapping_add(rhs);
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;
    fn sub(self, rhs: u32) -> Seq {
        Seq(self.0.wrapping_sub(rhs))
    }
}

impl core::fmt::Debug for Seq {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests;
