//! Goal: every row's default lies within its bounds and survives being shown and set.
use super::*;

/// RFC 5961, 7-2.
#[test]
fn rows_agree_with_themselves() {
    let mut config = Config::default();
    for row in Config::ROWS {
        let default = (row.default)();
        assert_eq!(config.show(row.name), Some(default.clone()));
        assert_eq!(config.set(row.name, &default), Ok(()), "{}", row.name);
        let (min, max) = (row.bounds)();
        let mut other = config.clone();
        assert_eq!(other.set(row.name, &min), Ok(()), "{}", row.name);
        assert_eq!(other.set(row.name, &max), Ok(()), "{}", row.name);
    }
    assert_eq!(config, Config::default());
}

#[test]
fn a_socket_begins_with_the_defaults_of_both_tables() {
    let config = Config::default();
    assert_eq!(config.socket_options(), SocketOptions::default());
    let (keep_idle, keep_interval) = (Duration::from_secs(60), Duration::from_secs(5));
    let config = Config { keep_idle, keep_interval, keep_count: 3, ..config };
    let options = config.socket_options();
    assert_eq!((options.keep_idle, options.keep_interval, options.keep_count), (keep_idle, keep_interval, 3));
}

#[test]
fn bad_values_are_refused() {
    let mut config = Config::default();
    assert_eq!(config.set("no_such", "1"), Err(SettingError::Unknown));
    assert_eq!(config.set("rto_min", "200"), Err(SettingError::Malformed));
    assert_eq!(config.set("rto_min", "200h"), Err(SettingError::Malformed));
    assert_eq!(config.set("rto_min", "2hours"), Err(SettingError::Malformed));
    assert_eq!(config.set("rto_min", "0ms"), Err(SettingError::OutOfRange));
    assert_eq!(config.set("rcvbuf", "65536,4096"), Err(SettingError::OutOfRange));
    assert_eq!(config.set("sack", "maybe"), Err(SettingError::Malformed));
    assert_eq!(config, Config::default());
    assert_eq!(config.set("delayed_ack", "1500us"), Ok(()));
    assert_eq!(config.show("delayed_ack").as_deref(), Some("1500us"));
}
