//! Goal: each flow counts for itself, a bounded number of them, and what is no flow counts together.
use super::*;

fn udp(from: u32) -> Vec<u8> {
    let mut frame = vec![0; 42];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..18].copy_from_slice(&[0x45, 0, 0, 28]);
    frame[23] = 17;
    frame[26..30].copy_from_slice(&from.to_be_bytes());
    let sum = wire::checksum::Sum::of(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn flows_count_for_themselves_until_there_are_too_many() {
    let mut flows = Flows::default();
    let mut count = |from| flows.position(&udp(from));
    assert_eq!([count(1), count(2), count(1), count(1), count(2)], [1, 1, 2, 3, 2]);
    for from in 3..=FLOWS_MAX as u32 {
        assert_eq!(count(from), 1);
    }
    assert_eq!([count(1 << 24), count((1 << 24) + 1), count(1)], [1, 2, 4], "too many");
    assert_eq!([flows.position(&[0; 60]), flows.position(&[])], [3, 4], "no flows");
}
