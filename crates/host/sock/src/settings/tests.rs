//! Goal: every row's shown default parses back, and bad input says what would be right.
use super::*;

#[test]
fn defaults_round_trip() {
    let defaults = Settings::default();
    let mut copy = Settings::default();
    for (key, value) in defaults.values() {
        copy.set(key, &value).unwrap();
    }
    assert_eq!(copy, defaults);
    assert_eq!(keys().count(), defaults.values().len());
}

#[test]
fn bad_input_says_what_to_do() {
    let mut s = Settings::default();
    assert!(s.set("colour", "red").unwrap_err().0.contains("`millstream settings`"));
    assert!(s.set("adress", "10.0.0.1/8").unwrap_err().0.contains("near it are address"));
    for (key, bad) in [
        ("cores", "two"),
        ("mode", "fast"),
        ("address", "10.0.0.1"),
        ("address", "10.0.0.1/33"),
        ("ephemeral", "9-3"),
        ("buffers", "12Q"),
        ("rto_min", "fast"),
        ("time_wait", "900s"),
        ("offload", "always"),
        ("loopback", "lo"),
        ("offload_budget", "1001"),
        ("offload_workers", "14"),
        ("offload_workers", "all"),
        ("workers", "17"),
    ] {
        let error = s.set(key, bad).unwrap_err().0;
        assert!(error.contains(key) && error.contains(bad), "{error}");
    }
    assert_eq!(s, Settings::default(), "nothing half set");
}

#[test]
fn switches_are_said_in_several_ways() {
    let mut s = Settings::default();
    for (said, is) in [("yes", true), ("no", false), ("on", true), ("0", false), (" true ", true)] {
        s.set("cc_allow_unfair", said).unwrap();
        assert_eq!(s.cc_allow_unfair, is, "{said}");
    }
    assert!(s.set("cc_allow_unfair", "maybe").unwrap_err().0.contains("true or false"));
}

#[test]
fn names_of_the_tree_are_kept_in_order() {
    let mut s = Settings::default();
    s.set("sysctl", "net.inet.tcp.rcvbuf=4096,8192, net.inet.tcp.sack = off").unwrap();
    s.set("net.inet.tcp.cc.algorithm", " htcp ").unwrap();
    let shown = "net.inet.tcp.rcvbuf=4096,8192,net.inet.tcp.sack=off,net.inet.tcp.cc.algorithm=htcp";
    assert_eq!(s.sysctl.show(), shown);
    assert_eq!(Assignments::parse(shown), Some(s.sysctl.clone()));
    assert!(s.set("sysctl", "net.inet.tcp.sack").is_err());
}

#[test]
fn environment() {
    let mut s = Settings::default();
    let vars = [("MILLSTREAM_CORES", "3"), ("MILLSTREAM_SEED", "9"), ("HOME", "/"), ("MILLSTREAM_X", "1")];
    s.from_env(vars.iter().map(|(k, v)| (k.to_string(), v.to_string()))).unwrap();
    assert_eq!((s.cores, s.seed), (3, 9));
    let bad = [("MILLSTREAM_CORES".to_string(), "x".to_string())];
    assert!(s.from_env(bad.into_iter()).unwrap_err().0.contains("MILLSTREAM_CORES"));
}

#[test]
fn names_of_the_version_before_are_taken() {
    let mut s = Settings::default();
    s.set("archive", "false").unwrap();
    s.from_env([("MILLSTREAM_ARCHIVE_KINDS".to_owned(), "7".to_owned())].into_iter()).unwrap();
    assert_eq!((s.tcp.handshake_cache, s.tcp.handshake_cache_entries), (false, 7));
    assert!(
        OLD_NAMES.iter().all(|(old, new)| !keys().any(|key| key == *old) && keys().any(|key| key == *new))
    );
}
