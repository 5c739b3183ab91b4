//! Goal: addresses as people write them.
use super::*;

#[test]
fn urls() {
    let at = |text: &str| parse_url(text).map(|u| (u.addr.to_string(), u.path));
    assert_eq!(at("http://10.0.0.1/64"), Ok(("10.0.0.1:80".into(), "/64".into())));
    assert_eq!(at("http://10.0.0.1:8080"), Ok(("10.0.0.1:8080".into(), "/".into())));
    assert_eq!(at("http://[fd00::1]:81/a/b"), Ok(("[fd00::1]:81".into(), "/a/b".into())));
    assert_eq!(at("http://[fd00::1]/"), Ok(("[fd00::1]:80".into(), "/".into())));
    assert!(at("10.0.0.1").unwrap_err().contains("http://"));
}
