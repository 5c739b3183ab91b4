//! Goal: hops are named from one, and none that is not there.
use super::*;

#[test]
fn hops_are_named_from_one() {
    for (over, hops, is) in [("all", 3, (0, 2)), ("1", 1, (0, 0)), ("2-3", 3, (1, 2)), ("3", 3, (2, 2))] {
        assert_eq!(crossed(over, hops), Ok(is));
    }
    for over in ["0", "4", "3-2", "2-", "-1", "", "some"] {
        assert!(crossed(over, 3).is_err(), "{over}");
    }
}
