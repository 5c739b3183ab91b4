//! Goal: seconds become timeouts and seconds again as on Linux.
use super::*;

#[test]
fn seconds_are_rounded_up_to_timeouts() {
    let rounded =
        [(0, 0), (1, 1), (2, 3), (3, 3), (4, 7), (7, 7), (8, 15), (64, 127), (128, 247), (300, 367)];
    for (seconds, whole) in rounded {
        assert_eq!(seconds_of(timeouts_of(seconds)), whole, "{seconds}");
    }
    assert_eq!((timeouts_of(u32::MAX), seconds_of(u8::MAX)), (u8::MAX, 127 + 248 * 120));
}
