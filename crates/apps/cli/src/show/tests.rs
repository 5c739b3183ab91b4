//! Goal: columns line up whatever stands in them, and details leave out what says nothing.
use super::*;
use serde_json::json;

#[test]
fn columns_line_up() {
    let mut table = Table::new(&["State", "cwnd", "Local", "rtt ms"]);
    table.row(["LISTEN", "", "0.0.0.0:80", ""].map(String::from).to_vec());
    table.row(["ESTABLISHED", "14480", "[2001:db8::1234]:40000", "1.500"].map(String::from).to_vec());
    assert_eq!(
        table.lines(),
        [
            "State         cwnd  Local                   rtt ms",
            "LISTEN              0.0.0.0:80",
            "ESTABLISHED  14480  [2001:db8::1234]:40000   1.500",
        ]
    );
}

#[test]
fn details_say_what_there_is() {
    let row = json!({"snd_wnd": 65535, "mss": 1448, "ssthresh": null, "unsent": 0, "reassembly": 2,
                     "reassembly_bytes": 2896, "sack": true, "recovery": false,
                     "limited_us": {"pacing": 0, "peer-window": 7}, "snd_lim": {"trans_rwin": 0}});
    assert_eq!(
        details(&row),
        [
            "    window: snd_wnd 65535, mss 1448",
            "    limited: peer-window 7",
            "    reassembly: reassembly 2, reassembly_bytes 2896",
            "    options: sack",
        ]
    );
    assert!(details(&Value::Null).is_empty());
    assert_eq!(
        (millis(&json!({"a": 1234567}), "a"), millis(&Value::Null, "a")),
        ("1234.567".into(), String::new())
    );
}
