//! Goal: each number keeps to its range, the thresholds to their order, and a refusal changes nothing.
use super::*;

#[test]
fn every_number_takes_its_ends_and_nothing_beyond() {
    for (i, row) in HyStartLimits::rows().iter().enumerate() {
        for (number, good) in
            [(row.min, true), (row.max, true), (row.min - 1, false), (row.max + 1, false), (i64::MIN, false)]
        {
            let mut limits = HyStartLimits::WIDE;
            let before = limits.numbers();
            assert_eq!(limits.set(row.name, number).is_ok(), good, "{} = {number}", row.name);
            assert_eq!(limits.get(row.name), Some(if good { number } else { before[i] }));
            assert_eq!(limits.numbers()[i], limits.get(row.name).unwrap());
        }
    }
    assert_eq!(HyStartLimits::STANDARD.get("magic"), None);
    let mut limits = HyStartLimits::STANDARD;
    assert_eq!(limits.set("magic", 1), Err(TunableError::Unknown));
}

/// RFC 9406, 4.3-2.
#[test]
fn a_floor_stays_below_its_ceiling() {
    let mut limits = HyStartLimits::STANDARD;
    assert_eq!(limits.set("minrtt_thresh", 16_001), Err(TunableError::OutOfRange { min: 64, max: 16_000 }));
    assert_eq!(limits, HyStartLimits::STANDARD);
    limits.set("minrtt_thresh", 16_000).unwrap();
    assert!(HyStartLimits::from_numbers([20_000, 30_000, 8, 4, 5]).is_ok(), "both above the old ceiling");
    assert!(HyStartLimits::from_numbers([30_000, 20_000, 8, 4, 5]).is_err());
    assert_eq!(HyStartLimits::from_numbers([4_000, 16_000, 8, 4, 5]), Ok(HyStartLimits::STANDARD));
}

#[test]
fn numbers_of_others_come_into_range() {
    assert_eq!(HyStartLimits::clamped([4_000, 16_000, 8, 4, 5]), HyStartLimits::STANDARD);
    assert_eq!(HyStartLimits::clamped([0; 5]), HyStartLimits::LEAST);
    assert_eq!(HyStartLimits::clamped([u32::MAX; 5]), HyStartLimits::MOST);
    assert_eq!(HyStartLimits::clamped([9_000, 4_000, 8, 4, 5]).numbers()[..2], [9_000, 9_000]);
}
