//! Goal: every fault can be planted in this tree, and a run's first difference is read.
use super::*;

#[test]
fn every_fault_can_be_planted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for fault in FAULTS {
        let text = std::fs::read_to_string(root.join(fault.file)).expect(fault.file);
        assert_ne!(fault.planted(&text).map_err(|why| format!("{}: {why}", fault.name)), Ok(text));
        assert_eq!(FAULTS.iter().filter(|other| other.name == fault.name).count(), 1, "{}", fault.name);
    }
}

#[test]
fn the_seed_of_the_first_difference_is_read() {
    let text = format!("send: 5 | 6\n{}17\n2 programs\n", crate::options::FIRST);
    assert_eq!(seed_of(&text), Some(17));
    assert_eq!(seed_of("2 programs\n"), None);
}
