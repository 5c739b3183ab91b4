//! The window field and its scale (RFC 7323, section 2), and the timestamp clock (section 5.4).

use base::Instant;

use crate::Config;
use crate::bits::Bits;

/// Greatest shift the option may carry (RFC 7323, section 2.3).
pub(crate) const MAX_SHIFT: u8 = 14;

/// The smallest shift that lets the 16-bit field express a window of `largest` bytes.
/// RFC 7323, 2.3-1.
pub(crate) const fn shift_for(largest: u32) -> u8 {
    let bits = u32::BITS - largest.leading_zeros();
    let shift = bits.saturating_sub(u16::BITS) as u8;
    if shift < MAX_SHIFT { shift } else { MAX_SHIFT }
}

/// The window field for `window` bytes: rounded down, so that the peer never sends more than we meant.
/// RFC 7323, 2.3-2.
pub(crate) const fn to_field(window: u32, shift: u8) -> u16 {
    let scaled = window >> shift;
    if scaled > u16::MAX as u32 { u16::MAX } else { scaled as u16 }
}

/// Bytes a window field stands for. The field of a segment with SYN is never scaled: pass a shift of 0.
/// RFC 9293, MUST-1 and REC-1; RFC 7323, 2.3-2.
pub(crate) const fn from_field(field: u16, shift: u8) -> u32 {
    (field as u32) << shift
}

/// A timestamp echo older than this is a mistake of the peer.
pub(crate) const ECHO_LIMIT_MS: u32 = 1 << 24;
/// Oldest echo that is believed where timestamps count microseconds, which wrap within 72 minutes: longer than any
/// timeout.
pub(crate) const ECHO_LIMIT_US: u32 = 1 << 28;

/// Our timestamp clock: milliseconds plus the connection's offset.
/// RFC 7323, 5.4-1.
pub(crate) const fn ts_value(now: Instant, offset: u32) -> u32 {
    (now.as_millis() as u32).wrapping_add(offset)
}

/// Clock of a connection's timestamps: an offset of its own, and milliseconds, or microseconds where the
/// settings say so (RFC 7323, section 5.4, leaves both).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clock {
    Millis,
    Micros,
}

impl Bits {
    /// Returns what the timestamps count, if there are any.
    pub(crate) fn clock(self) -> Clock {
        if self.has(Bits::MICROS) { Clock::Micros } else { Clock::Millis }
    }
}

impl Clock {
    /// Returns that of connections which begin now.
    pub(crate) fn of(config: &Config) -> Clock {
        if config.usec_timestamps { Clock::Micros } else { Clock::Millis }
    }

    /// Returns the timestamp of `now`.
    /// RFC 7323, 5.4-1.
    #[inline]
    pub(crate) fn value(self, now: Instant, offset: u32) -> u32 {
        match self {
            Clock::Millis => ts_value(now, offset),
            Clock::Micros => (now.as_micros() as u32).wrapping_add(offset),
        }
    }

    /// Returns the length of a tick, microseconds.
    pub(crate) const fn tick_us(self) -> u32 {
        match self {
            Clock::Millis => 1_000,
            Clock::Micros => 1,
        }
    }

    /// Returns a time of so many microseconds in ticks.
    pub(crate) const fn ticks(self, micros: u32) -> u32 {
        match self {
            Clock::Millis => micros / 1_000,
            Clock::Micros => micros,
        }
    }

    /// Returns the greatest age of an echo that is believed, ticks.
    pub(crate) const fn echo_limit(self) -> u32 {
        match self {
            Clock::Millis => ECHO_LIMIT_MS,
            Clock::Micros => ECHO_LIMIT_US,
        }
    }

    /// Returns how long TS.Recent is believed without a segment, milliseconds: a little less than half the time in
    /// which the peer's clock, which counts the same, wraps (RFC 7323, section 5.5): 24 days, or 34 minutes.
    /// RFC 7323, 5.5-1.
    pub(crate) const fn recent_life_ms(self) -> u32 {
        24 * 24 * 3_600 * self.tick_us()
    }
}

/// Is timestamp `a` older than `b` on the circle (RFC 7323, section 5.2)?
/// RFC 7323, 5.3-3.
pub(crate) const fn ts_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests;
