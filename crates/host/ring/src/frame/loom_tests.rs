//! Goal: pool and frames may end in any order on any threads, and the mapping goes once, after the last.
use super::*;

/// `owners` is a loom atomic inside the mapping, so a use after the end would be seen; a leak is a leak of its
/// state, which loom reports.
fn ends(retire_first: bool) {
    loom::model(move || {
        let mut pool = FramePool::new(3, 64).unwrap();
        let (mut a, mut b) = (pool.take().unwrap(), pool.take().unwrap());
        a.slot_mut()[0] = 1;
        let one = loom::thread::spawn(move || {
            a.slot_mut()[1] = 2;
            drop(a);
        });
        let two = loom::thread::spawn(move || {
            b.slot_mut()[1] = 2;
            if retire_first { Some(b) } else { None }
        });
        if retire_first {
            pool.retire(two.join().unwrap().unwrap());
            drop(pool);
        } else {
            drop(pool);
            assert!(two.join().unwrap().is_none());
        }
        one.join().unwrap();
    });
}

#[test]
fn loom_frames_and_pool_end_in_any_order() {
    ends(true);
    ends(false);
}
