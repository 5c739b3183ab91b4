//! Goal: times are as poll takes them.
use super::*;

#[test]
fn times() {
    assert_eq!((timeout(-1), timeout(0)), (None, Some(Duration::ZERO)));
    assert_eq!(timeout(5), Some(Duration::from_millis(5)));
}
