//! Goal: a row explains its own keys alone.
use super::*;

#[test]
fn patterns() {
    let fits = |pattern: &str, text: &str| fits(pattern.as_bytes(), text.as_bytes());
    assert!(fits("a*c", "abbc") && fits("*", "") && fits("?b*", "ab"));
    assert!(!fits("a*c", "abb") && !fits("?b", "b") && !fits("a", "ab"));
}

#[test]
fn options_that_differ_by_the_table_are_explained() {
    assert_eq!(
        explains("setsockopt SO_DONTROUTE: 0 | -1 ENOPROTOOPT").map(|row| row.name),
        Some("SO_DONTROUTE")
    );
    assert!(explains("recv, after a child: 5 | hangs").is_none());
    assert!(explains("setsockopt SO_KEEPALIVE: 0 | -1 ENOPROTOOPT").is_none());
}
