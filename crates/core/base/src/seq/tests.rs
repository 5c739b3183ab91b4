//! Goal: the circle's edges, where plain integers go wrong.
extern crate std;

use super::Seq;

#[test]
fn comparisons_hold_across_the_wrap() {
    let last = Seq::new(u32::MAX);
    let first = last + 1;
    assert_eq!(first.raw(), 0);
    assert!(last.before(first) && first.after(last));
    assert!(last.at_or_before(last) && last.at_or_after(last));
    assert_eq!(first.distance_from(last), 1);
    assert_eq!(last.distance_from(first), -1);
    assert_eq!(last.later(first), first);
    assert_eq!(last.earlier(first), last);
}

#[test]
fn a_window_is_half_open_and_may_wrap() {
    let start = Seq::new(u32::MAX - 1);
    assert!(start.in_window(start, 4));
    assert!((start + 3).in_window(start, 4));
    assert!(!(start + 4).in_window(start, 4));
    assert!(!(start - 1).in_window(start, 4));
    assert!(!start.in_window(start, 0));
}

/// Checks each question in integers that do not wrap: `d` is how far `a` lies from `b`, from -2^31 on.
fn agrees(b: u32, difference: u32) {
    let (b, a) = (Seq::new(b), Seq::new(b) + difference);
    let d = if difference < 1 << 31 { i64::from(difference) } else { i64::from(difference) - (1 << 32) };
    assert_eq!(i64::from(a.distance_from(b)), d);
    assert_eq!(a.offset_from(b), difference);
    assert_eq!((a.before(b), a.at_or_before(b)), (d < 0, d <= 0));
    assert_eq!((a.after(b), a.at_or_after(b)), (d > 0, d >= 0));
    assert_eq!((a - difference, b + difference), (b, a));
    if difference != 1 << 31 {
        let (low, high) = if d < 0 { (a, b) } else { (b, a) };
        assert_eq!((a.earlier(b), b.earlier(a)), (low, low));
        assert_eq!((a.later(b), b.later(a)), (high, high));
    }
    for len in
        [0, 1, difference.saturating_sub(1), difference, difference.saturating_add(1), 1 << 30, u32::MAX]
    {
        assert_eq!(a.in_window(b, len), u64::from(difference) < u64::from(len));
    }
}

/// Every question is answered from the wrapped difference alone, so that all differences from one origin are all
/// there is; other origins stand here to show it. `MILLSTREAM_SCOPE=large` walks all 2^32 of them.
#[test]
fn every_difference() {
    let (edges, origins) = ([0_u32, 1 << 30, 1 << 31, 3 << 30], [0, 1, 1 << 31, u32::MAX, 0x9e37_79b9]);
    for origin in origins {
        for edge in edges {
            (0..1_u32 << 16).for_each(|near| agrees(origin, near.wrapping_add(edge).wrapping_sub(1 << 15)));
        }
        (0..=u32::MAX).step_by(65_519).for_each(|difference| agrees(origin, difference));
    }
    if std::env::var_os("MILLSTREAM_SCOPE").is_some_and(|scope| scope == "large") {
        (0..=u32::MAX).for_each(|difference| agrees(0xffff_fff0, difference));
        std::eprintln!("sequence numbers: all 2^32 differences");
    }
}
