//! Goal: with workers and without, all that was written is read.
use super::*;

#[test]
fn what_is_written_is_read() {
    for way in WAYS.iter().filter(|way| way.workers > 0 || way.name == "receive-on" || way.asks()) {
        let mut bulk = Bulk::new(3, way);
        for _ in 0..WARM {
            bulk.burst();
        }
        assert!(bulk.written > 0 && bulk.scratch.bytes > bulk.written / 2, "{}", way.name);
        assert!(!way.asks() || bulk.written == u64::from(WARM) * 3 * REQUEST as u64, "each is answered");
    }
}
