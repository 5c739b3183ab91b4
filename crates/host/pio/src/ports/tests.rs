//! Goal: two places overlap where a segment can be to both, and one covers the other where every segment is.
use super::*;
use crate::tests::testnet::addr;

#[test]
fn places_overlap_where_segments_meet() {
    let segments = ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"].map(addr);
    let places = [("0.0.0.0", false), ("::", false), ("::", true), ("10.0.0.1", false), ("fd00::1", false)]
        .map(|(text, dual)| Place { port: 80, addr: addr(text), dual });
    for a in &places {
        for b in &places {
            let takes = |place: &Place, to: &Addr| place.rank(*to) > 0;
            assert_eq!(a.overlaps(b), segments.iter().any(|to| takes(a, to) && takes(b, to)), "{a:?} {b:?}");
            let all = segments.iter().all(|to| takes(a, to) || !takes(b, to));
            assert_eq!(a.covers(b), all, "{a:?} {b:?}");
        }
        assert!(!a.overlaps(&Place { port: 81, ..*a }), "{a:?}");
    }
}
