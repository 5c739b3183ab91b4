//! Goal: slots are mapped when they are needed, up to a bound, and each goes back where it came from.
use super::*;

#[test]
fn slots_are_mapped_when_they_are_needed() {
    let mut pool = GrowingPool::new(3, 4, 64).unwrap();
    let mut frames: Vec<Frame> = (0..4).map(|_| pool.take().unwrap()).collect();
    assert_eq!(pool.pools.len(), 1);
    frames.extend((4..12).map(|_| pool.take().unwrap()));
    assert_eq!(pool.pools.len(), 3);
    assert!(pool.take().is_none());
    assert_eq!(pool.refused(), 1);
    frames.drain(..).rev().for_each(|frame| pool.retire(frame));
    assert!(pool.pools.iter().all(|pool| pool.available() == 4 && pool.strays() == 0));
    frames.extend((0..12).map(|_| pool.take().unwrap()));
    assert_eq!((pool.pools.len(), pool.refused()), (3, 1));
    frames.into_iter().for_each(|frame| pool.retire(frame));
}

#[test]
#[should_panic(expected = "another pool")]
fn a_frame_of_another_pool_is_refused() {
    let (mut a, mut b) = (GrowingPool::new(1, 2, 64).unwrap(), GrowingPool::new(1, 2, 64).unwrap());
    let frame = a.take().unwrap();
    b.retire(frame);
}
