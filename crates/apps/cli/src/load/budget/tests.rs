//! Goal: exactly as many as allowed, whichever threads take them; and no end where there is no limit.
use super::*;

#[test]
fn a_limit_is_kept_by_all_together() {
    let budget = Budget::new(Some(1000));
    let taken: usize = std::thread::scope(|scope| {
        let take = || (0..600).filter(|_| budget.take()).count();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 1000);
    assert!(budget.is_spent() && !budget.take());
    assert!(Budget::new(Some(0)).is_spent());
}

#[test]
fn without_a_limit_there_is_always_one_more() {
    let budget = Budget::new(None);
    assert!((0..1000).all(|_| budget.take()) && !budget.is_spent());
}
