//! Goal: the rows that are tried are those that were asked for.
use super::*;

#[test]
fn words_choose_rows() {
    let options = Options { only: vec!["virtio/6.12".into(), "4/nic".into()], ..Options::default() };
    assert!(options.wants(&["virtio", "6.12", "1", "generic"]));
    assert!(options.wants(&["igb", "6.1", "4", "nic"]));
    assert!(!options.wants(&["igb", "6.12", "1", "nic"]));
}
