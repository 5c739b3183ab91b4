//! Goal: the environment says what differs from what is anyway, and a profile yields to what is said; a link that
//! is none is an error whatever is to happen without one.
use super::*;

#[test]
fn what_is_wrong_with_a_link() {
    assert_eq!(complaint("").unwrap().as_deref(), Some("no link is named (--link)"));
    let why = complaint("packet:nowhere0").unwrap().expect("there is no such interface");
    assert!(why.contains("nowhere0") || why.contains("CAP_NET_RAW"), "{why}");
    assert!(matches!(complaint("pigeon:1"), Err(OpenError::Spec { .. })));
    assert!(matches!(complaint("packet:lo,colour=red"), Err(OpenError::Spec { .. })));
}

#[test]
fn what_the_library_is_told() {
    let mut settings = Settings::default();
    settings.set("link", "xdp:eth0").unwrap();
    let told = environment(&settings, Some(Profile::Latency));
    let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
    assert_eq!(told, [pair("MILLSTREAM_LINK", "xdp:eth0"), pair("MILLSTREAM_SPIN_US", "200")]);
    settings.set("spin_us", "5").unwrap();
    let told = environment(&settings, Some(Profile::Throughput));
    assert_eq!(told, [pair("MILLSTREAM_LINK", "xdp:eth0"), pair("MILLSTREAM_SPIN_US", "5")]);
    // The library understands it.
    let mut again = Settings::default();
    again.from_env(told.into_iter()).unwrap();
    assert_eq!(again.values(), settings.values());
}
