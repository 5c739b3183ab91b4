//! Goal: over the worst path every byte that goes to or comes from smoltcp arrives once and in order, whatever
//! connects, with and without SACK and timestamps and with windows of 4 KiB; nothing stands still for longer than what
//! was lost explains, and the same seed gives the same run.

use bench::interop::{Peer, Row, play};

/// Bytes of each transfer.
const BYTES: u64 = 1_000_000;

#[test]
fn smoltcp_and_ours_understand_each_other_in_every_role() {
    let rows = Row::all().filter(|row| row.peer() == Peer::Smoltcp);
    let mut played = 0;
    for row in rows {
        for seed in 1..=3 {
            let outcome = play(&row, BYTES, seed, None);
            assert_eq!(outcome.verdict, Ok(()), "{} with seed {seed}", row.name());
            assert_eq!(outcome.bytes, BYTES, "{} with seed {seed}", row.name());
            played += 1;
        }
    }
    assert_eq!(played, 48, "two roles at the opening, two in the transfer, four variants, three seeds");
}

#[test]
fn a_run_follows_from_its_seed() {
    let row = Row::all().find(|row| row.name() == "smoltcp-connects-sends-plain").expect("there is this row");
    let [first, again, other] = [5, 5, 6].map(|seed| play(&row, BYTES, seed, None).took);
    assert_eq!(first, again);
    assert_ne!(first, other);
}
