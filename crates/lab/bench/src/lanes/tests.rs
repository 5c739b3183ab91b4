//! Goal: the flow flows however it is written and shared, and what leaves adds up.
use super::*;

#[test]
fn lanes_alone_send_each_segment() {
    assert!((1..3).all(|lanes| share(lanes, 0.01) > 0.0));
}

#[test]
fn it_flows_over_any_number_of_lanes() {
    for way in [Way::Write, Way::Lend] {
        for lanes in [0, 1, 2] {
            let begin = now();
            let mut flow = Flow::open(lanes, way, begin);
            for _ in 0..2_000 {
                flow.turn(time(begin));
            }
            let (segments, bytes) = (flow.of("segments"), flow.of("bytes"));
            assert!(bytes > 1 << 20 && segments >= bytes / 1_460, "{way:?} {lanes}: {bytes}");
            assert_eq!(flow.of("lanes_segments") > 0, lanes > 0);
            assert_eq!((flow.of("gaps"), flow.of("lanes_invalid")), (0, 0), "in order, whole");
        }
    }
}
