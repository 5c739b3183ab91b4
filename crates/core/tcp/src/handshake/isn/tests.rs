//! Goal: numbers grow with time, differ by flow and secret, and offsets are shared by a pair of hosts.
use super::*;
use base::{Addr, Duration};

fn flow(last: u8, port: u16) -> FlowKey {
    let end = |last, port| Endpoint::new(Addr::v4([192, 0, 2, last]), port);
    FlowKey::new(end(1, 80), end(last, port))
}

/// RFC 9293, MUST-8, MUST-9 and SHLD-1; RFC 6528, 3-1 and 3-2.
#[test]
fn a_clock_plus_a_keyed_hash() {
    let source = IsnSource::new(SipKey::new(1, 2));
    let now = Instant::from_secs(1_000_000);
    let isn = source.isn(now, &flow(2, 4000));
    assert_eq!(source.isn(now + Duration::from_micros(400), &flow(2, 4000)), isn + 100);
    assert_eq!(source.isn(now + Duration::from_secs(1), &flow(2, 4000)), isn + 250_000);
    assert_ne!(source.isn(now, &flow(2, 4001)), isn);
    assert_ne!(source.isn(now, &flow(3, 4000)), isn);
    assert_ne!(source.isn(now, &flow(2, 4000).reversed()), isn);
    assert_ne!(IsnSource::new(SipKey::new(1, 3)).isn(now, &flow(2, 4000)), isn);
}

/// RFC 7323, 7-1.
#[test]
fn hosts_share_an_offset() {
    let source = IsnSource::new(SipKey::new(1, 2));
    assert_eq!(source.ts_offset(&flow(2, 1)), source.ts_offset(&flow(2, 2)));
    assert_ne!(source.ts_offset(&flow(2, 1)), source.ts_offset(&flow(3, 1)));
}
