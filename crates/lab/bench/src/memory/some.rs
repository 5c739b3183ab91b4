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

/// Opens connections until so many are established.
fn open(bed: &mut Bed, connections: u32) {
    let begin = now();
    while (bed.served.len() as u32) < connections {
        let ahead = (bed.conns.len() as u32).saturating_sub(bed.served.len() as u32);
        let room = AHEAD.saturating_sub(ahead).min(connections - bed.conns.len() as u32);
        (0..room).for_each(|_| bed.open(SOURCES));
        bed.step(SOURCES);
        assert!(begin.elapsed().as_secs_f64() < 100.0, "stalled at {} connections", bed.served.len());
    }
}

/// Requests a second over `active` of so many connections.
pub(crate) fn rate(connections: u32, active: u32, seconds: f64) -> f64 {
    let mut bed = bed(connections, active);
    open(&mut bed, connections);
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
    open(&mut bed, AHEAD);
    let before = resident()?;
    let more = connections.saturating_sub(AHEAD).max(1);
    open(&mut bed, AHEAD + more);
    Ok((resident()? - before) as f64 / f64::from(2 * more))
}
