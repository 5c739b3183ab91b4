//! Goal: what is written is read again, and what is too short is refused.
use super::*;

#[test]
fn a_state_survives_the_way() {
    let local = Endpoint::new(Addr::v4([10, 0, 0, 1]), 80);
    let key = FlowKey::new(local, Endpoint::new(Addr::v6([0xfd; 16]), 40_000));
    let whole = Handover {
        isn: Seq::new(1),
        ts_value: 2,
        peer_isn: Seq::new(u32::MAX),
        peer_mss: 1_460,
        scales: Some((7, 9)),
        sack: true,
        ts_recent: Some(0),
        ecn: false,
        window: Some(502),
        peer_closed: true,
    };
    let half = Handover { scales: None, ts_recent: None, window: None, ecn: true, sack: false, ..whole };
    for state in [whole, half] {
        let mut bytes = write(&key, &state);
        assert_eq!(bytes.len(), HEAD);
        bytes.extend(b"data");
        assert_eq!(read(&bytes), Some((key, state, &b"data"[..])));
        assert_eq!(read(&bytes[..HEAD - 1]), None);
    }
}
