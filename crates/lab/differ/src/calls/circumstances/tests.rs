//! Goal: a circumstance holds for the connection that it is about, at both of its ends, and for no other.
use super::*;

fn steps(all: &[(&'static str, &[i64])]) -> Vec<Step> {
    all.iter().map(|(name, args)| Step { name, args: args.to_vec() }).collect()
}

/// Two connections to a listener of the peer: slots 0 and 1, the peer's 1 and 2.
const BEGIN: [(&str, &[i64]); 7] = [
    ("plisten", &[0, 1, 8, 0]),
    ("socket", &[0, 2, 1, 0]),
    ("connect", &[0, 0, 1, -1]),
    ("socket", &[1, 2, 1, 0]),
    ("connect", &[1, 0, 1, -1]),
    ("paccept", &[0, 1]),
    ("paccept", &[0, 2]),
];

#[test]
fn a_childs_connection_is_known_at_both_ends_and_the_other_is_not() {
    let rest: [(&str, &[i64]); 6] = [
        ("child", &[0, 1]),
        ("recv", &[0, 50, 64, 0, 0]),
        ("dup", &[0, 3, 0]),
        ("psend", &[1, 5, 0]),
        ("psend", &[2, 5, 0]),
        ("recv", &[3, 5, 0, 0, 0]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |at: usize| circumstance(&steps, at, &[format!("{}: 0", steps.len() - 1)], false);
    assert_eq!([8, 9, 10, 12].map(of), [", after a child"; 4]);
    assert_eq!(of(11), "");
}

#[test]
fn a_close_under_a_sleeper_is_not_that_of_another_connection() {
    let rest: [(&str, &[i64]); 5] = [
        ("recv", &[0, 50, 0, 0, 0]),
        ("close", &[1]),
        ("psend", &[2, 5, 0]),
        ("close", &[0]),
        ("psend", &[1, 5, 0]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let lines = ["7: asleep".to_owned(), "11: 5".to_owned()];
    assert_eq!(circumstance(&steps, 9, &lines, false), "");
    assert_eq!(circumstance(&steps, 11, &lines, false), ", closed while a call slept");
    let woken = ["7: asleep".to_owned(), "8: 0".to_owned(), "7 woke: 5".to_owned(), "11: 5".to_owned()];
    assert_eq!(circumstance(&steps, 11, &woken, false), "");
}
