//! Turns of a server that has nothing to do.

use super::{Bed, Load};
use base::Duration;

/// Duration of a tick of the stack's timer wheel: each turn here finds the next slot due.
const TICK: Duration = Duration::from_nanos(1 << 16);

/// So many connections are opened and stay idle; then the server makes so many turns, a tick of its timing wheel apart.
///
/// # Panics
/// If a connection does not come to be.
pub fn turns(connections: u32, turns: u64) {
    let mut bed = Bed::new(Load::Keep, 1, connections + 1_024).stepping();
    (0..connections).for_each(|_| bed.open(1));
    for step in 0.. {
        if bed.served.len() == connections as usize {
            break;
        }
        assert!(step < connections, "{} of {connections} connections are established", bed.served.len());
        bed.idle_step();
    }
    let mut at = bed.now();
    for _ in 0..turns {
        at += TICK;
        let turn = bed.server.turn(at).expect("memory never fails");
        assert_eq!(turn.received, 0, "nothing comes");
    }
}
