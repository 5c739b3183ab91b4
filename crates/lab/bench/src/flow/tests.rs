//! Goal: a log changes nothing about the traffic, whether segments are full ones, cut late, or super-segments.
use super::*;

#[test]
fn logged_or_not_the_same_passes() {
    for kind in [Kind::Plain, Kind::Late, Kind::Super] {
        let [there, back] = flow(kind, false, 2_000);
        assert!(there >= 2_000 && back > 0);
        assert_eq!(flow(kind, true, 2_000), [there, back]);
    }
}
