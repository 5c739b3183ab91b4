//! Goal: connections are found by either end, a core's load is what it neither spun nor slept, and a text says both
//! directions that move.
use super::*;

#[test]
fn ends_are_named_in_any_way() {
    for which in ["10.0.0.1:80", "10.0.0.1", "80", ":80"] {
        assert!(meets("10.0.0.1:80", which), "{which}");
    }
    for which in ["[fd00::2]:443", "fd00::2", "[fd00::2]", "443"] {
        assert!(meets("[fd00::2]:443", which), "{which}");
    }
    for which in ["10.0.0.1:8", "10.0.0.2", "8", "0"] {
        assert!(!meets("10.0.0.1:80", which), "{which}");
    }
}

#[test]
fn load_is_the_rest() {
    let look = |core: u64, now: u64, spin: u64, sleep: u64| {
        (7, json!({"core": core, "now_us": now, "sock": {"spin_us": spin, "sleep_us": sleep}}))
    };
    let before = [look(0, 1_000, 100, 100), look(1, 1_000, 0, 0)];
    let now = [look(0, 2_000, 200, 400), look(1, 2_000, 0, 0), look(2, 2_000, 0, 0)];
    let loads = loads(&before, &now);
    assert_eq!(loads.get(&(7, 0)), Some(&0.6));
    assert_eq!((loads.get(&(7, 1)), loads.get(&(7, 2))), (Some(&1.0), None));
}

#[test]
fn who_is_idle_between_answers_says_so() {
    let row = |now: u64, moved: u64| {
        json!({"limit": "idle", "receive_limit": "peer", "now_us": now, "bytes_acked": moved * 500,
               "bytes_received": moved, "busy_us": now / 10})
    };
    let (before, now) = (row(1_000_000, 0), row(2_000_000, 80));
    let text = as_text(&Looks { before: &before, now: &now, load: None });
    assert!(text.contains("\n  sending: idle (90 %). The application had nothing to send"), "{text}");
    assert!(text.contains("\n  receiving: peer. "), "{text}");
}

#[test]
fn both_directions_and_a_whole_life() {
    let row = |now: u64, moved: u64| {
        json!({"local": "a:1", "remote": "b:2", "state": "ESTABLISHED", "limit": "peer-window",
               "receive_limit": "peer", "now_us": now, "busy_us": now, "snd_wnd": 65_536, "srtt_us": 80_000,
               "bytes_acked": moved, "bytes_received": moved, "limited_us": {"peer-window": now, "stack": 0},
               "reader_us": 500_000, "snd_lim": {"trans_rwin": 3, "trans_cwin": 1, "trans_snd": 2}})
    };
    let (before, now) = (row(1_000_000, 0), row(2_000_000, 800_000));
    let text = as_text(&Looks { before: &before, now: &now, load: Some(0.5) });
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "a:1 -> b:2  ESTABLISHED  sent 6.4 Mbit/s, received 6.4 Mbit/s over 1.0 s");
    assert!(
        lines[1].starts_with("  sending: peer-window (100 %). The peer's window was full. 64 KiB over 80 ms"),
        "{text}"
    );
    assert!(lines[2].starts_with("  receiving: peer. Nothing at this end"), "{text}");
    let life =
        "  since it began: peer-window 2.0 s, reader 0.5 s of 2.0 s busy; SndLimTrans Rwin 3 Cwin 1 Snd 2";
    assert_eq!(lines[3], life);
    assert_eq!(as_json(&Looks { before: &before, now: &now, load: None })["verdict"], "peer-window");
}
