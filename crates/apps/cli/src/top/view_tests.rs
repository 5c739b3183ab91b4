//! Goal: rates are differences over time, keys sort, scroll and pause, who ends is told of, and those that opened
//! or closed meanwhile share a row.
use super::*;
use serde_json::{Value, json};
use std::time::Instant;

fn core(pid: u32, n: u64) -> (u32, Value) {
    let tcp = json!({"bytes_in": n, "retransmits": n});
    let sock = json!({"spin_us": 100 * n, "sleep_us": 200 * n, "wakes": n, "events": 3 * n, "jobs": 2 * n});
    (pid, json!({"core": 0, "tcp": tcp, "stack": {"connections": 2}, "sock": sock, "now_us": 1_000 * n}))
}

fn flow(local: &str, seconds: u64, bytes: u64, rtt: u64) -> (u32, Value) {
    let row = json!({"core": 0, "local": local, "remote": "b:1", "state": "ESTABLISHED", "cc": "cubic", "cwnd": 14480,
                     "srtt_us": rtt, "bytes_acked": bytes, "bytes_received": 0, "retransmits": bytes / 1000,
                     "now_us": 1_000_000 * seconds, "limit": "peer-window", "receive_limit": "peer",
                     "busy_us": 1_000_000 * seconds, "limited_us": {"peer-window": 900_000 * seconds}});
    (9, row)
}

#[allow(clippy::disallowed_methods, reason = "a moment to count from")]
fn looks() -> (Look, Look) {
    let at = Instant::now();
    let listener = (9, json!({"core": 0, "state": "LISTEN", "local": "a:1"}));
    let before = vec![flow("slow:1", 1, 5_000, 9_000), flow("fast:1", 1, 0, 1_500), flow("gone:1", 1, 0, 1)];
    let now = vec![
        flow("slow:1", 3, 6_000, 9_000),
        listener,
        flow("fast:1", 3, 50_000, 1_500),
        flow("new:1", 3, 9, 1),
    ];
    let before = Look { at, cores: vec![core(9, 1_000)], flows: before, problems: Vec::new() };
    let at = at + Duration::from_secs(2);
    (before, Look { at, cores: vec![core(9, 3_000)], flows: now, problems: Vec::new() })
}

fn view() -> View {
    View::new(Duration::from_secs(1), 20)
}

fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// The local ends, in the order of the picture.
fn order(view: &mut View) -> Vec<String> {
    let (before, now) = looks();
    let text = view.picture(&before, &now);
    let ends =
        |line: Vec<&str>| line.iter().find(|word| word.ends_with(":1")).map(|word| word[..4].to_string());
    words(&text).into_iter().filter_map(ends).collect()
}

#[test]
fn rates_loads_and_verdicts() {
    let (before, now) = looks();
    let text = view().picture(&before, &now);
    let lines = words(&text);
    assert_eq!(
        lines[1],
        ["9", "0", "70%", "10%", "2", "0", "0", "8.0k", "0", "0", "0", "1.0k", "3", "2"],
        "{text}"
    );
    let end = ["ESTABLISHED", "fast:1", "b:1", "cubic", "14480", "0", "1.500", "9"];
    assert_eq!(lines[4], [&["200k", "0", "25", "peer-window", "90%"][..], &end].concat(), "{text}");
    assert_eq!(lines[5][..3], ["4.0k", "0", "0"], "{text}");
    // Of 2000 bytes in a second that the core received, no connection of both looks had any.
    assert_eq!(lines[6], ["0", "8.0k", "short", "(2", "opened", "or", "closed)", "9"], "{text}");
    assert_eq!(lines[7].join(" "), "2 of 2 connections");
}

#[test]
fn keys_sort_and_scroll() {
    let mut view = view();
    assert_eq!(order(&mut view), ["fast", "slow"]);
    for (key, first) in [('t', "slow"), ('i', "fast"), ('b', "slow"), ('i', "fast"), ('r', "fast")] {
        assert!(view.on_key(Key::Letter(key)));
        assert_eq!(order(&mut view)[0], first, "after {key}");
    }
    assert!(view.on_key(Key::Letter('b')) && view.on_key(Key::Down));
    assert_eq!(order(&mut view), ["slow"]);
    for _ in 0..9 {
        view.on_key(Key::Down);
    }
    assert_eq!(order(&mut view), ["slow"], "it does not scroll past the last");
    view.on_key(Key::Letter('k'));
    assert_eq!(order(&mut view).len(), 2);
    view.on_key(Key::Letter('j'));
    view.flows = 1;
    let (before, now) = looks();
    assert!(view.picture(&before, &now).ends_with("2 to 2 of 2 connections\n"));
}

#[test]
fn keys_change_the_pace() {
    let mut view = view();
    view.on_key(Key::Letter('-'));
    view.on_key(Key::Letter('p'));
    view.on_key(Key::Letter('c'));
    let heading = view.heading();
    assert_eq!(heading, "millstream top, every 0.5 s, paused; sorted by cwnd (c); ? keys, q quit\n");
    view.on_key(Key::Letter('?'));
    assert_eq!(view.heading().lines().count(), 3);
    for _ in 0..20 {
        view.on_key(Key::Letter('+'));
    }
    assert_eq!(view.delay, DELAYS.1);
    assert!(view.on_key(Key::Letter('%')), "what means nothing does nothing");
    assert!(!view.on_key(Key::Letter('q')) && !view.on_key(Key::Quit));
}

#[test]
fn who_ends_is_told_of_for_a_while() {
    let (before, now) = looks();
    let none = || Look {
        at: now.at,
        cores: Vec::new(),
        flows: Vec::new(),
        problems: vec!["process 9: cut off".into()],
    };
    let mut view = view();
    view.on_look(&before, &none());
    let text = view.picture(&before, &none());
    assert!(text.contains("process 9 has ended\nprocess 9: cut off\nno stack runs here"), "{text}");
    for _ in 0..REMEMBERED {
        view.on_look(&none(), &none());
    }
    assert!(!view.picture(&none(), &none()).contains("ended"));
    view.on_look(&before, &none());
    view.on_look(&none(), &now);
    assert!(!view.picture(&none(), &now).contains("ended"), "it runs again");
}

#[test]
fn short_numbers() {
    let all = [0.0, 7.4, 999.0, 999.6, 12_345.0, 123_456.0, 1e6, 2.5e9, 3e12].map(short);
    assert_eq!(all, ["0", "7", "999", "1.0k", "12.3k", "123k", "1.0M", "2.5G", "3.0T"]);
}
