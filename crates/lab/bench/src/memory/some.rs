//! Many established connections of which few ask.

use super::{Bed, Load, ROUNDS, resident};
use crate::now;

/// The client's addresses: ports of one do not suffice for a million connections.
const SOURCES: u32 = 64;
/// Connections that may be on their way to being established.
const AHEAD: u32 = 1_024;

/// A bed with room for so many, of which `active` ask.
fn bed(connections: u32, active: u32) -> Bed {
    let mut bed = Bed::new(Load::Keep, SOURCES, connections + 2 * AHEAD);
    bed.active = active;
    bed
}

/// Requests a second over `active` of so many connections.
pub(crate) fn rate(connections: u32, active: u32, seconds: f64) -> f64 {
    let mut bed = bed(connections, active);
    bed.open_by(connections, SOURCES, Bed::step).expect("progress");
    let warm = now();
    while warm.elapsed().as_secs_f64() < seconds / 4.0 {
        bed.step(SOURCES);
    }
    let (done, begin) = (bed.done, now());
    while begin.elapsed().as_secs_f64() < seconds {
        (0..ROUNDS).for_each(|_| bed.step(SOURCES));
    }
    (bed.done - done) as f64 / begin.elapsed().as_secs_f64()
}

/// Bytes of resident memory for each end of so many idle connections, beyond what a few have warmed up.
pub(crate) fn rest(connections: u32) -> Result<f64, String> {
    let mut bed = bed(connections, 0);
    bed.open_by(AHEAD, SOURCES, Bed::step)?;
    let before = resident()?;
    let more = connections.saturating_sub(AHEAD).max(1);
    bed.open_by(AHEAD + more, SOURCES, Bed::step)?;
    Ok((resident()? - before) as f64 / f64::from(2 * more))
}
