//! Goal: a retransmission counts as lost exactly when its time is over, and as delivered when it arrived, byte by
//! byte, and no acknowledgment costs more than the bound allows.

use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;

fn seq(n: u32) -> Seq {
    Seq::new(n.wrapping_sub(500))
}

/// Everything that left before `at` is lost; what left by `at + 10` may still come.
fn before(at: u32) -> impl Fn(Left) -> Option<u32> {
    move |left| (left.at < at + 10).then(|| left.at.saturating_sub(at - 1))
}

#[test]
fn agrees_with_a_list_of_bytes() {
    seeded("resent", 400, 1_500, fuzz::resent);
}

#[test]
fn lost_when_its_time_is_over() {
    let mut resent = Resent::default();
    resent.push(seq(0), seq(100), 10);
    resent.push(seq(100), seq(200), 10);
    resent.push(seq(300), seq(400), 20);
    assert!(resent.covers(seq(150)) && !resent.covers(seq(250)));
    assert_eq!(resent.find_lost(seq(0), |_| None), (None, None));
    assert_eq!(resent.find_lost(seq(50), before(15)), (Some(10), Some(6)));
    assert_eq!(resent.lost(seq(50)), Some((seq(50), seq(200))));
    resent.settle(seq(50), seq(150));
    assert_eq!(resent.lost(seq(50)), Some((seq(150), seq(200))));
    assert_eq!(resent.find_lost(seq(160), before(21)), (Some(20), None));
    assert_eq!(resent.lost_bytes(), 150);
    assert_eq!(resent.lost(seq(200)), Some((seq(300), seq(400))));
    resent.settle(seq(300), seq(400));
    assert_eq!(resent.lost(seq(200)), None);
    assert_eq!(resent.find_lost(seq(0), |_| Some(0)), (None, None));
}

/// RFC 8985, 5.1-1.
#[test]
fn what_arrived_is_forgotten_and_the_latest_told() {
    let mut resent = Resent::default();
    for i in 0..4 {
        resent.push(seq(200 * i), seq(200 * i + 100), 10 * i);
    }
    let blocks = [(seq(0), seq(100)), (seq(400), seq(500))];
    let latest = resent.take_delivered(seq(0), blocks.into_iter());
    assert_eq!(latest, Some(Left { at: 20, end: seq(500), again: true }));
    assert_eq!(resent.find_lost(seq(0), |_| Some(0)), (Some(30), None));
    assert_eq!(resent.lost_bytes(), 200);
}

/// Three segments of one turn are one entry. The last of them arrives: the others are found lost by it.
#[test]
fn a_part_of_a_burst_tells_of_the_rest() {
    let mut resent = Resent::default();
    for i in 0..3 {
        resent.push(seq(100 * i), seq(100 * i + 100), 10);
    }
    let latest = resent.take_delivered(seq(0), [(seq(200), seq(300))].into_iter()).expect("a part arrived");
    assert_eq!(latest, Left { at: 10, end: seq(300), again: true });
    let (at, wait) = resent.find_lost(seq(0), |left| latest.after(left).then_some(0));
    assert_eq!((at, wait), (Some(10), None));
    assert_eq!((resent.lost(seq(0)), resent.lost_bytes()), (Some((seq(0), seq(200))), 200));
}

/// The first of them arrives: nothing that left later has, so nothing says that the others are lost.
#[test]
fn the_rest_of_a_burst_may_be_under_way() {
    let mut resent = Resent::default();
    for i in 0..3 {
        resent.push(seq(100 * i), seq(100 * i + 100), 10);
    }
    let latest = resent.take_delivered(seq(100), core::iter::empty()).expect("a part arrived");
    assert_eq!(resent.find_lost(seq(100), |left| latest.after(left).then_some(0)), (None, None));
    assert!(resent.covers(seq(100)) && !resent.covers(seq(99)));
}

#[test]
fn memory_is_bounded() {
    let mut resent = Resent::default();
    for i in 0..5000 {
        resent.push(seq(3 * i), seq(3 * i + 1), i);
    }
    assert_eq!((resent.log.len(), resent.open.list.len()), (MOST, MOST));
    resent.find_lost(seq(0), |_| Some(0));
    assert_eq!(resent.lost_bytes(), MOST as u32);
    assert_eq!(resent.lost(seq(0)).map(|(start, _)| start), Some(seq(3 * (5000 - MOST as u32))));
    let mut split = Resent::default();
    split.push(seq(0), seq(1 << 20), 1);
    for i in 0..5_000 {
        split.take_delivered(seq(0), [(seq(2 * i + 1), seq(2 * i + 2))].into_iter());
    }
    assert_eq!(split.open.list.len(), MOST);
    assert_eq!(split.open.bytes, split.open.list.iter().map(Piece::len).sum::<u32>());
}

/// SACKs of alternate bytes and of random ones over as many retransmissions as are remembered. An acknowledgment with
/// four blocks costs five searches in each list and what it moves there, and never a look at every entry.
#[test]
fn no_acknowledgment_costs_more_than_the_bound_allows() {
    let mut resent = Resent::default();
    let mut rng = base::Rng::new(1);
    for i in 0..MOST as u32 {
        resent.push(seq(16 * i), seq(16 * i + 8), i);
    }
    resent.take_steps();
    for i in 0..20_000u32 {
        let block = |n: u32| {
            let at = if i % 2 == 0 { 2 * (4 * i + n) } else { rng.below(16 * MOST as u64) as u32 };
            (seq(at), seq(at + if i % 1_000 == 999 { 4_000 } else { 1 }))
        };
        let blocks = [0, 1, 2, 3].map(block);
        resent.take_delivered(seq(0), blocks.into_iter());
        let steps = resent.take_steps();
        assert!(steps <= STEPS_MAX, "acknowledgment {i}: {steps} pieces compared or moved");
    }
}

/// All that is remembered, alternate bytes of it delivered, is lost again at once: searches for each piece, and moves
/// at the ends of two lists.
#[test]
fn finding_all_lost_again_costs_no_more_than_the_bound_allows() {
    let mut resent = Resent::default();
    for i in 0..MOST as u32 {
        resent.push(seq(16 * i), seq(16 * i + 8), i);
    }
    for i in 0..MOST as u32 / 2 {
        resent.take_delivered(seq(0), [(seq(32 * i + 2), seq(32 * i + 3))].into_iter());
    }
    assert_eq!(resent.open.list.len(), MOST, "as many pieces as there may be");
    resent.take_steps();
    resent.find_lost(seq(0), |_| Some(0));
    let steps = resent.take_steps();
    assert!(resent.open.list.is_empty() && resent.lost_bytes() > 4 * MOST as u32, "all are lost");
    assert!((MOST as u64..=LOST_STEPS_MAX).contains(&steps), "{steps} pieces compared or moved");
}
