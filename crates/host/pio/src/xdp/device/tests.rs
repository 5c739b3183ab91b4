//! Goal: the kernel's key is read, and an interface without a table has no rule.
use super::*;

#[test]
fn keys_are_hexadecimal() {
    assert_eq!(parse_key("6d:5a:00:ff"), Some(vec![0x6d, 0x5a, 0, 0xff]));
    assert_eq!(parse_key("6d:5x"), None);
    assert_eq!(parse_key(""), None);
}

#[test]
fn the_loopback_interface_has_no_rule() {
    assert!(Ethtool::new("lo").expect("a socket").rss().is_none());
}
