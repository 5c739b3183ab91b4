//! Goal: the layout is Linux's, message by message, and what does not fit is left out whole.
use super::*;
use crate::Errno;

#[test]
fn layout() {
    let at = Instant::from_nanos(1_002_000_003_004);
    let seen = Received { len: 1, left: Some(7), arrived: Some(at) };
    let control = Control::of_data(&seen, Stamp::Micros);
    let (all, whole) = control.fit(usize::MAX);
    assert!(whole);
    assert_eq!(all.len(), 32 + 24);
    assert_eq!(all[..8], 32_u64.to_ne_bytes());
    assert_eq!(all[16..32], [1_002_i64.to_ne_bytes(), 3_i64.to_ne_bytes()].concat());
    assert_eq!(all[32..40], 20_u64.to_ne_bytes(), "the padding is not counted");
    assert_eq!(all[48..52], 7_u32.to_ne_bytes());
    assert_eq!(control.fit(55).0.len(), 32);
    assert_eq!(control.fit(31), (&[][..], false));
    assert_eq!(Control::default().fit(0), (&[][..], true));
    let nanos = Control::of_data(&Received { left: None, ..seen }, Stamp::Nanos);
    assert_eq!(nanos.fit(99).0[24..32], 3_004_i64.to_ne_bytes());
}

#[test]
fn reports() {
    let report = ErrorReport {
        errno: Some(Errno::ENOMSG),
        origin: 4,
        code: 1,
        info: 2,
        data: 99,
        at: Some(Instant::from_secs(5)),
        truncated: false,
    };
    let control = Control::of_report(&report, false);
    let (all, _) = control.fit(usize::MAX);
    assert_eq!(all.len(), (16 + 48) + (16 + 32));
    assert_eq!(all[64 + 16..64 + 32], [42, 0, 0, 0, 4, 0, 1, 0, 2, 0, 0, 0, 99, 0, 0, 0]);
    assert_eq!(Control::of_report(&report, true).fit(usize::MAX).0.len(), 64 + (16 + 44 + 4));
}
