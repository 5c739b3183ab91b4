//! Values of options, in Linux's layouts.

use crate::Errno;
use crate::c;
use base::{Duration, Rate};

/// An `int` at a level of options; those of IP may be a single byte, as on Linux.
pub(super) fn int(level: i32, value: &[u8]) -> Result<i32, Errno> {
    match value {
        [a, b, c, d, ..] => Ok(i32::from_ne_bytes([*a, *b, *c, *d])),
        // As on Linux, fewer bytes are one, and none is 0.
        short if level == c::IPPROTO_IP => Ok(short.first().copied().map_or(0, i32::from)),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns the user's choice, or the default without one.
pub(super) fn chosen(own: u32, usual: u32) -> i32 {
    i32::try_from(if own == 0 { usual } else { own }).unwrap_or(i32::MAX)
}

/// Returns microseconds of what the user chose, or of what holds without a choice.
pub(super) fn micros(own: Duration, usual: Duration) -> i32 {
    i32::try_from(if own.is_zero() { usual } else { own }.as_micros()).unwrap_or(i32::MAX)
}

/// Copies a value, cut to the room; returns the bytes copied.
pub(super) fn put(into: &mut [u8], value: &[u8]) -> usize {
    let n = into.len().min(value.len());
    into[..n].copy_from_slice(&value[..n]);
    n
}

/// Copies a number, as `put`; Linux tells IPv4's options in one byte where there is no room for four.
pub(super) fn put_int(into: &mut [u8], level: i32, value: i32) -> usize {
    match u8::try_from(value) {
        Ok(one) if level == c::IPPROTO_IP && (1..4).contains(&into.len()) => put(into, &[one]),
        _ => put(into, &value.to_ne_bytes()),
    }
}

fn long(value: &[u8], at: usize) -> Result<i64, Errno> {
    let word = value.get(at..at + 8).and_then(|w| w.try_into().ok()).ok_or(Errno::EINVAL)?;
    Ok(i64::from_ne_bytes(word))
}

/// Reads a `struct timeval`; all zeros are `None`, for ever.
pub(super) fn timeval(value: &[u8]) -> Result<Option<Duration>, Errno> {
    let (secs, micros) = (long(value, 0)?, long(value, 8)?);
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno::EDOM);
    }
    let time = Duration::from_secs(secs.max(0) as u64) + Duration::from_micros(micros as u64);
    Ok((!time.is_zero()).then_some(time))
}

/// A `struct timeval` as SO_RCVTIMEO and SO_SNDTIMEO take it; `None` is all zeros, for ever.
pub(crate) fn timeval_bytes(time: Option<Duration>) -> [u8; 16] {
    let time = time.unwrap_or_default();
    let mut value = [0; 16];
    value[..8].copy_from_slice(&(time.as_secs() as i64).to_ne_bytes());
    value[8..].copy_from_slice(&i64::from(time.subsec_micros()).to_ne_bytes());
    value
}

/// A rate in four bytes or eight, with all bits set where there is no limit.
pub(super) fn rate(value: &[u8]) -> Result<Option<Rate>, Errno> {
    let limit = match value {
        [_, _, _, _, _, _, _, _, ..] => Some(long(value, 0)? as u64).filter(|&rate| rate != u64::MAX),
        _ => Some(int(c::SOL_SOCKET, value)? as u32).filter(|&rate| rate != u32::MAX).map(u64::from),
    };
    Ok(limit.map(Rate::from_bytes_per_sec))
}

/// Returns the rate for a buffer of `len` bytes.
pub(super) fn rate_bytes(rate: Option<Rate>, len: usize) -> [u8; 8] {
    let rate = rate.map_or(u64::MAX, Rate::bytes_per_sec);
    let mut value = [0; 8];
    match len {
        8.. => value.copy_from_slice(&rate.to_ne_bytes()),
        _ => value[..4].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes()),
    }
    value
}

/// Returns so many seconds.
pub(super) fn secs(value: i32) -> Duration {
    Duration::from_secs(value as u64)
}
