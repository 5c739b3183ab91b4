//! Goal: a stall is explained by one timeout and what was lost after it, and by nothing else.
use super::*;

const TIMEOUT: Duration = Duration::from_millis(300);
const WINDOW: u64 = 1_000;
const BYTES: u64 = 10 * KNOWN;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn known() -> Watch {
    let mut watch = Watch::new(TIMEOUT, BYTES, WINDOW);
    assert!(watch.look(at(0), KNOWN, 0).is_ok());
    watch
}

#[test]
fn one_timeout_is_explained_and_two_are_not_without_a_loss() {
    let mut watch = known();
    assert!(watch.look(at(100), KNOWN, 5).is_ok(), "lost before the timeout");
    assert!(watch.look(at(300), KNOWN, 5).is_ok());
    let long = watch.look(at(301), KNOWN, 5).expect_err("nothing was lost since");
    assert_eq!((long.lasted, long.lost), (Duration::from_millis(301), 0));
}

#[test]
fn each_loss_after_the_timeout_doubles_it() {
    let mut watch = known();
    assert!(watch.look(at(100), KNOWN, 7).is_ok());
    assert!(watch.look(at(301), KNOWN, 8).is_ok(), "the retransmission was lost");
    assert!(watch.look(at(900), KNOWN, 8).is_ok());
    assert_eq!(watch.longest.lasted, Duration::from_millis(900));
    assert!(watch.look(at(901), KNOWN, 8).is_err());
}

#[test]
fn a_timeout_stays_doubled_until_the_transfer_has_settled() {
    for (moved, explained) in [(4 * WINDOW, 600), (4 * WINDOW + 1, 300)] {
        let mut watch = known();
        assert!(watch.look(at(300), KNOWN + 1, 0).is_ok(), "one timeout");
        assert!(watch.look(at(310), KNOWN + 1 + moved, 0).is_ok());
        assert!(watch.look(at(310 + explained), KNOWN + 1 + moved, 0).is_ok());
        assert!(watch.look(at(311 + explained), KNOWN + 1 + moved, 0).is_err(), "after {moved} bytes");
    }
}

#[test]
fn before_the_path_is_known_and_at_the_end_it_takes_seconds() {
    for progress in [0, BYTES, BYTES + 1] {
        let mut watch = Watch::new(TIMEOUT, BYTES, WINDOW);
        assert!(watch.look(at(0), progress, 0).is_ok());
        assert!(watch.look(at(3_560), progress, 0).is_ok());
        assert!(watch.look(at(3_561), progress, 0).is_err(), "{progress}");
    }
}
