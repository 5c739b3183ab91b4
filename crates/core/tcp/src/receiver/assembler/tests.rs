//! Goal: every answer agrees with a bitmap, and nothing is allocated in order.
use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;

/// RFC 2018, 4-4.
#[test]
fn agrees_with_a_bitmap() {
    seeded("assembler", 400, 1_500, fuzz::assembler);
}

#[test]
fn in_order_data_allocates_nothing() {
    let mut assembler = Assembler::new();
    assert_eq!(assembler.insert(0, 1_000, 0), Inserted::New);
    assert_eq!(assembler.insert(1_000, 1_500, 0), Inserted::New);
    assert!(assembler.rest.is_none());
    assert_eq!(assembler.advance(), 1_500);
    assert_eq!(assembler.insert(1, 2, 0), Inserted::Refused);
    assert_eq!(assembler.insert(1, 2, 1), Inserted::New);
    assert_eq!(assembler.insert(0, 1, 1), Inserted::New);
    assert!(assembler.rest.is_none(), "the box goes with the last run");
    assert_eq!(assembler.advance(), 2);
}

#[test]
fn tiny_segments_are_bounded() {
    let mut assembler = Assembler::new();
    let taken = (0..100_000).filter(|i| assembler.insert(1 + 2 * i, 2 + 2 * i, 64) == Inserted::New).count();
    assert_eq!((taken, assembler.runs()), (64, 64));
    assert_eq!(assembler.insert(0, 1, 64), Inserted::New, "the hole filler is never refused");
    assert_eq!((assembler.advance(), assembler.runs()), (2, 63));
}

/// The attack of CVE-2018-6922: islands where each costs most, at the front of all others, and then segments that
/// are refused, join, or are held. No segment may cost more than the queue is long.
#[test]
fn no_segment_costs_more_than_the_limit_allows() {
    const LIMIT: u32 = 1_024;
    let mut assembler = Assembler::new();
    let mut rng = base::Rng::new(1);
    for i in 0..20_000u32 {
        let start = match i {
            0..LIMIT => 1 + 4 * (LIMIT - i),
            _ => 1 + rng.below(8 * u64::from(LIMIT)) as u32,
        };
        assembler.insert(start, start + 1, LIMIT as usize);
        let steps = assembler.take_steps();
        assert!(steps <= steps_max(LIMIT as u16), "segment {i}: {steps} runs moved or compared");
    }
    assert!(assembler.runs() as u32 <= LIMIT);
}
