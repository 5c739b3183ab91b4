//! Goal: a refusal is one only if it says why.
use super::*;

#[test]
fn silence_and_panics_are_no_refusals() {
    let of = |text: &str| refusal(&Answer { status: 1, text: text.into() });
    assert!(matches!(of("error: interface 'card0' for 4 cores: it has 1"), Outcome::Refused(_)));
    assert!(matches!(of(""), Outcome::Dead(_)));
    assert!(matches!(of("millstream: no request was answered by 10.0.0.1:80"), Outcome::Dead(_)));
    assert!(matches!(of("thread 'main' panicked at error"), Outcome::Dead(_)));
    assert!(matches!(
        of("[ALERT] a word of haproxy's\nmillstream: nothing was on the stack"),
        Outcome::Dead(_)
    ));
    assert!(matches!(of("sh: 7: /tmp/millstream: not found"), Outcome::Dead(_)));
}

#[test]
fn the_object_among_the_lines() {
    let said =
        object("a word\n{\"requests\": 40,\"core_requests\":[40, 3],\"errors\":3}\r\nmillstream: {}\n");
    assert_eq!((said["requests"].as_u64(), said["core_requests"][1].as_u64()), (Some(40), Some(3)));
    assert!(object("{ not this").is_null());
}
