//! Goal: slips of the fingers find what was meant.
use super::*;

#[test]
fn slips_find_what_was_meant() {
    let names = ["address", "cores", "mode", "rcvbuf", "spin_us", "offload", "offload_workers"];
    let of = |word| nearest(word, names.into_iter());
    assert_eq!(of("adress")[0], "address");
    assert_eq!(of("core")[0], "cores");
    assert_eq!(of("spin-us")[0], "spin_us");
    assert_eq!(of("workers")[0], "offload_workers");
    assert!(of("colour").len() <= OFFERED);
    assert_eq!(distance("kitten", "sitting"), 3);
}
