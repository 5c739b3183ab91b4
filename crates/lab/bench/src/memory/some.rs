//! Many established connections of which few ask.

use super::{Bed, Load, ROUNDS, resident};
use crate::now;

/// The client's addresses: ports of one do not suffice for a million connections.
const SOURCES: u32 = 64;
/// Connections that may be on their way to being established.
const AHEAD: u32 = 1_024;

/// `connections` established ones, of which `active` ask.
fn opened(connections: u32, active: u32) -> Bed {
    let mut bed = Bed::new(Load::Keep, SOURCES, connections + AHEAD);
    bed.active = active;
    let begin = now();
    while (bed.served.len() as u32) < connections {
        let ahead = (bed.conns.len() as u32).saturating_sub(bed.served.len() as u32);
        let room = AHEAD.saturating_sub(ahead).min(connections - bed.conns.len() as u32);
        (0..room).for_each(|_| bed.open(SOURCES));
        bed.step(SOURCES);
        assert!(begin.elapsed().as_secs_f64() < 100.0, "stalled at {} connections", bed.served.len());
    }
    bed
}

/// Requests a second over `active` of so many connections.
pub(crate) fn rate(connections: u32, active: u32, seconds: f64) -> f64 {
    let mut bed = opened(connections, active);
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

/// Octets of resident memory for each end of so many idle connections.
pub(crate) fn rest(connections: u32) -> Result<f64, String> {
    let before = resident()?;
    let bed = opened(connections, 0);
    let after = resident()?;
    assert_eq!(bed.served.len(), connections as usize);
    Ok((after - before) as f64 / f64::from(2 * connections))
}
