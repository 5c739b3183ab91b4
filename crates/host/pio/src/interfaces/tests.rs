//! Goal: the loopback is known, and what is not there is not.
use super::*;

#[test]
fn the_loopback_is_there_and_others_are_not() {
    assert!(has_interface("lo") && !has_interface("nowhere0") && !has_interface("a\0b"));
    assert!(addresses_of("nowhere0").is_empty());
    assert!(addresses_of("lo").iter().all(IpAddr::is_loopback));
}
