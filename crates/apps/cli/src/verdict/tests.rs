//! Goal: the verdict is what took most of the interval, idle time included, and its sentence has no figure of an
//! instant that the interval contradicts.

mod situations;

use super::*;
use serde_json::json;

/// A row of a connection that always had something to send, 8 Mbit/s.
fn row(now_us: u64, more: &Value) -> Value {
    let mut row = json!({
        "now_us": now_us, "limit": "application", "receive_limit": "peer", "cc": "cubic", "cwnd": 1 << 20,
        "srtt_us": 80_000, "snd_wnd": 128 << 10, "sndbuf": 1 << 20, "rcvbuf": 1 << 17, "busy_us": now_us,
        "mss": 1_448, "limited_us": {},
        "bytes_acked": now_us, "bytes_received": 0, "unsent": 1 << 20, "bytes_sent": 2_000, "reader_us": 0,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        row[key] = value.clone();
    }
    row
}

/// The verdict of a second in which the figures became these.
fn second(more: Value, load: Option<f64>) -> Verdict {
    between(&Value::Null, &more, load)
}

fn between(was: &Value, is: &Value, load: Option<f64>) -> Verdict {
    Looks { before: &row(1_000_000, was), now: &row(2_000_000, is), load }.verdict()
}

/// A share of `None` is one that is not counted.
#[track_caller]
fn says(verdict: &Verdict, word: &str, share: impl Into<Option<f64>>, parts: &[&str]) {
    let (said, wanted) = (verdict.share.map(|share| (share * 100.0).round()), share.into());
    assert_eq!((verdict.word, said), (word, wanted.map(|share: f64| share * 100.0)), "{verdict:?}");
    for part in parts {
        assert!(verdict.text.contains(part), "{part:?} is not in {verdict:?}");
    }
}

fn held(name: &str) -> Value {
    json!({"limited_us": {name: 900_000}})
}

#[test]
fn idle_time_wins_over_a_limit_that_hardly_held() {
    for name in HELD {
        let mostly_idle = json!({"limited_us": {name: 10_000}, "busy_us": 1_010_000, "limit": name});
        says(&second(mostly_idle, None), "idle", 0.99, &["gave 8.0 Mbit/s"]);
        let held = json!({"limited_us": {name: 510_000}, "busy_us": 1_510_000, "limit": "idle"});
        assert_eq!(second(held, None).word, name);
    }
    let still = json!({"bytes_acked": 1_000_000, "busy_us": 1_000_000, "limit": "idle"});
    says(&second(still, None), "idle", 1.0, &["Nothing to send"]);
}

#[test]
fn a_slow_reader() {
    let (quiet, all) = (json!({"bytes_acked": 0}), |more: Value| {
        let mut all = json!({"bytes_acked": 0, "busy_us": 1_000_000, "bytes_received": 9_000_000});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    });
    let slow = all(json!({"reader_us": 700_000}));
    says(&between(&quiet, &slow, None), "reader", 0.7, &["shut for 70 % of the time"]);
    let stopped = all(json!({"reader_us": 1_000_000, "bytes_received": 0}));
    says(&between(&quiet, &stopped, None), "reader", 1.0, &["reads slowly"]);
    // One look that finds unread data says nothing about the second before.
    let once = all(json!({"receive_limit": "reader", "reader_us": 20_000}));
    says(&between(&quiet, &once, None), "peer", None, &["Nothing at this end"]);
    let before = json!({"bytes_acked": 0, "receive_limit": "reader"});
    says(&between(&before, &once, None), "reader", None, &[]);
}

#[test]
fn a_small_send_buffer() {
    says(&second(held("send-buffer"), None), "send-buffer", 0.9, &["1.0 MiB", "105 Mbit/s", "SO_SNDBUF"]);
    let scarce = json!({"limited_us": {"send-buffer": 900_000}, "memory_scarce": true, "sndbuf": 4_096});
    says(&second(scarce, None), "send-buffer", 0.9, &["4 KiB", "memory", "`buffers`"]);
}

#[test]
fn a_small_receive_buffer() {
    let small = json!({"receive_limit": "receive-buffer", "rcv_rtt_us": 100_000});
    let mut filled = small.clone();
    filled["bytes_received"] = 1_300_000.into();
    says(&between(&small, &filled, None), "receive-buffer", None, &["128 KiB over 100 ms", "10.5 Mbit/s"]);
}

#[test]
fn the_rate_of_the_path() {
    let verdict = second(held("congestion-window"), None);
    says(&verdict, "congestion-window", 0.9, &["1.0 MiB over 80 ms", "what the path carries", "0.0 % sent"]);
}

#[test]
fn losses() {
    let lossy = json!({"limited_us": {"loss-recovery": 600_000, "congestion-window": 300_000}, "bytes_sent": 9_000,
                       "bytes_retransmitted": 1_000, "timeouts": 7});
    let verdict = between(&json!({"timeouts": 4}), &lossy, None);
    says(&verdict, "loss-recovery", 0.6, &["12.5 % of what was sent", "with 3 timeouts"]);
}

#[test]
fn the_peers_window() {
    let verdict = second(held("peer-window"), None);
    says(&verdict, "peer-window", 0.9, &["128 KiB over 80 ms allow 13.1 Mbit/s", "receive buffer"]);
}

/// The figures of an instant are left out where the two looks differ, or where more went than they allow.
#[test]
fn no_window_of_an_instant() {
    for (was, is) in [
        (json!({"snd_wnd": 1 << 20}), json!({"snd_wnd": 128 << 10})),
        (json!({"srtt_us": 1_000}), json!({"srtt_us": 80_000})),
        (json!({"snd_wnd": 4_030}), json!({"snd_wnd": 4_030})),
        (json!({"snd_wnd": 0}), json!({"snd_wnd": 0})),
    ] {
        for name in ["peer-window", "application"] {
            let mut is = is.clone();
            is["limited_us"] = json!({name: 900_000});
            let verdict = between(&was, &is, None);
            assert_eq!(verdict.word, name);
            assert!(!verdict.text.contains("allow"), "{verdict:?}");
        }
    }
}

#[test]
fn pacing() {
    let capped = json!({"limited_us": {"pacing": 990_000}, "pacing": 1_000_000, "max_pacing": 1_000_000});
    let parts = ["SO_MAX_PACING_RATE to 8.0 Mbit/s", "8.0 Mbit/s left"];
    says(&second(capped, None), "pacing", 0.99, &parts);
    let own = json!({"limited_us": {"pacing": 990_000}, "pacing": 250_000, "cc": "bbr"});
    says(&second(own, None), "pacing", 0.99, &["8.0 Mbit/s left at the pace of bbr"]);
}

#[test]
fn a_link_that_takes_no_more() {
    says(&second(held("stack"), None), "stack", 0.9, &["its port took no more"]);
}

#[test]
fn a_busy_application() {
    let computes = json!({"busy_us": 1_100_000});
    says(&second(computes.clone(), Some(0.99)), "cpu", 0.99, &["99 % busy"]);
    says(&second(computes, Some(0.94)), "idle", 0.9, &[]);
    says(&second(Value::Null, Some(0.99)), "cpu", 0.99, &[]);
    says(&second(Value::Null, Some(0.94)), "application", 1.0, &["gave 8.0 Mbit/s"]);
    says(&second(held("peer-window"), Some(0.99)), "peer-window", 0.9, &[]);
    let still = json!({"bytes_acked": 1_000_000, "busy_us": 1_000_000});
    says(&second(still, Some(0.99)), "idle", 1.0, &["Nothing to send"]);
    let receives = json!({"bytes_received": 9_000_000});
    says(&second(receives, Some(1.0)), "cpu", 1.0, &["100 % busy"]);
    let nagle = json!({"unsent": 100});
    says(&second(nagle, None), "application", 1.0, &["100 bytes wait", "TCP_NODELAY"]);
}

#[test]
fn a_stalled_peer() {
    let shut = json!({"limited_us": {"peer-window": 1_000_000}, "snd_wnd": 0, "bytes_acked": 1_000_000});
    says(&second(shut, None), "peer-window", 1.0, &["shut", "does not read"]);
    let silent = json!({"limited_us": {"loss-recovery": 1_000_000}, "timeouts": 2, "bytes_acked": 1_000_000});
    says(&second(silent, None), "loss-recovery", 1.0, &["acknowledged nothing, and 2 timeouts", "silent"]);
}

#[test]
fn one_look_says_what_holds_now() {
    assert_eq!(word(&row(5, &json!({"limit": "peer-window"}))), "peer-window");
    assert_eq!(word(&json!({"limit": "application", "receive_limit": "reader"})), "reader");
    assert_eq!(word(&json!({"limit": "pacing", "receive_limit": "reader"})), "pacing");
    assert_eq!((word(&json!({"limit": "idle", "receive_limit": "peer"})), word(&json!({}))), ("idle", ""));
}
