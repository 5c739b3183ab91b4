//! Goal: every answer agrees with RFC 6675's definitions taken literally, and the bound is safe.
use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;

/// RFC 2018, 5-1; RFC 2883, 5-1; RFC 6675, 3-1 and 4-1.
#[test]
fn agrees_with_the_definitions() {
    seeded("scoreboard", 400, 1_500, fuzz::scoreboard);
}

#[test]
fn the_bound_only_forgets() {
    let una = Seq::new(u32::MAX - 5_000);
    let nxt = una + 20_000;
    for (mss, most) in [(1, MAX_RUNS as u32), (2, SHORT_RUNS as u32)] {
        let mut board = Scoreboard::new();
        for i in 0..5_000 {
            let left = una + 1 + 3 * i;
            let newly = board.update(una, nxt, mss, &[(left, left + 1)]).newly;
            assert_eq!(newly, u32::from(i < most));
        }
        assert_eq!(board.sacked(), most);
        assert_eq!(board.pipe(una, nxt, una, una), 20_000 - most);
        board.advance(nxt);
        assert!(board.is_empty());
    }
}

/// A run of a whole segment is taken where short ones no longer are, and so is a short block that joins a run.
#[test]
fn what_is_short_leaves_room_for_whole_segments() {
    let una = Seq::new(0);
    let nxt = una + 1_000_000;
    let mut board = Scoreboard::new();
    for i in 0..2 * SHORT_RUNS as u32 {
        board.update(una, nxt, 1_000, &[(una + 1 + 2 * i, una + 2 + 2 * i)]);
    }
    assert_eq!(board.sacked(), SHORT_RUNS as u32);
    assert_eq!(board.update(una, nxt, 1_000, &[(una + 5_000, una + 6_000)]).newly, 1_000);
    assert_eq!(board.update(una, nxt, 1_000, &[(una + 6_000, una + 6_001)]).newly, 1);
    assert_eq!(board.update(una, nxt, 1_000, &[(una + 7_000, una + 7_999)]).newly, 0);
}

/// The attack of CVE-2019-11478: runs where each costs most, below all others, then blocks that are refused, join
/// or are new. No acknowledgment of four blocks costs more than the bound allows.
#[test]
fn no_acknowledgment_costs_more_than_the_bound_allows() {
    let una = Seq::new(u32::MAX - 5_000);
    let nxt = una + 1_000_000;
    let mut board = Scoreboard::new();
    let mut rng = base::Rng::new(1);
    for i in 0..20_000u32 {
        let block = |n: u32| {
            let at = match i {
                0..400 => 200_000 - 40 * (4 * i + n),
                _ => 1 + rng.below(200_000) as u32,
            };
            (una + at, una + at + 20)
        };
        let blocks = [0, 1, 2, 3].map(block);
        board.update(una, nxt, 10, &blocks);
        let (runs, steps) = (board.board.as_ref().map_or(0, |board| board.runs.len()), board.take_steps());
        assert!(runs <= MAX_RUNS && steps <= STEPS_MAX, "acknowledgment {i}: {steps} steps");
    }
    assert!(board.sacked() > 20 * MAX_RUNS as u32 / 2);
}
