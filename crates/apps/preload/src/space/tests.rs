//! Goal: no limit is set above the kernel's own, and none that the kernel refuses is made one that it takes.
use super::*;

#[test]
fn a_limit_is_raised_as_far_as_the_kernels_allows() {
    let limit = |rlim_cur, rlim_max| rlimit { rlim_cur, rlim_max };
    let of = |asked: rlimit, now| raised(asked, now).map(|limit| (limit.rlim_cur, limit.rlim_max));
    let none = limit(RLIM_INFINITY, RLIM_INFINITY);
    assert_eq!(of(limit(5, 9), none), Some((5 + RESERVE, 9 + RESERVE)));
    assert_eq!(of(limit(5, RLIM_INFINITY), none), Some((5 + RESERVE, RLIM_INFINITY)));
    assert_eq!(of(none, none), Some((RLIM_INFINITY, RLIM_INFINITY)));
    assert_eq!(of(limit(5, 9), limit(9, 9)), Some((9, 9)));
    for refused in [limit(9, 5), limit(5, 10)] {
        assert_eq!(of(refused, limit(9, 9)), None);
    }
}
