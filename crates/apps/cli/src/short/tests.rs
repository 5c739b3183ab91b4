//! Goal: what no pair of looks shows of the traffic is in the row of short connections, and in no other.
use super::*;

fn core(seconds: u64, opens: u64, out: u64) -> (u32, Value) {
    let tcp = json!({"passive_opens": opens, "bytes_out": out, "bytes_in": out / 100});
    (7, json!({"core": 0, "now_us": seconds * 1_000_000, "tcp": tcp}))
}

fn flow(port: u32, seconds: u64, bytes: u64) -> (u32, Value) {
    let (local, remote) = ("10.0.0.1:80", format!("10.0.0.2:{port}"));
    (
        7,
        json!({"core": 0, "local": local, "remote": remote, "limit": "idle", "now_us": seconds * 1_000_000,
               "bytes_acked": bytes, "bytes_sent": bytes, "bytes_received": 0, "busy_us": bytes}),
    )
}

#[test]
fn many_short_ones() {
    let cores = ([core(1, 5, 1_000_000)], [core(2, 905, 19_500_000)]);
    // 4000 lives on, 4001 has closed, the ends of 4002 are another connection's, 4003 is new.
    let before = [flow(4000, 1, 0), flow(4001, 1, 70), flow(4002, 1, 90)];
    let now = [flow(4000, 2, 1_000_000), flow(4002, 2, 10), flow(4003, 2, 20)];
    let all = all((&cores.0, &cores.1), (&before, &now));
    let short = Short { count: 902, sent: 140e6, received: 1.48e6, span: 1_000_000 };
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [(7, short)]);
    let kept: Vec<_> = pairs(&before, &now).iter().map(|(.., row)| row["remote"].clone()).collect();
    assert_eq!(kept, ["10.0.0.2:4000"]);
    let text = short.as_text(7);
    let says =
        "process 7: 902 connections opened or closed within 1.0 s: sent 140 Mbit/s, received 1.5 Mbit/s";
    assert!(text.starts_with(says), "{text}");
    assert_eq!(short.as_json(7)["short_connections"], 902);
}

#[test]
fn none() {
    let cores = ([core(1, 5, 1_000)], [core(2, 5, 9_000)]);
    let (before, now) = ([flow(4000, 1, 0)], [flow(4000, 2, 8_000)]);
    assert!(all((&cores.0, &cores.1), (&before, &now)).is_empty());
}
