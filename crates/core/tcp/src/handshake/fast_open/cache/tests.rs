//! Goal: what was learned is offered, to that pair of hosts only, and the cache neither grows nor forgets the
//! latest.
use super::*;

const US: Addr = Addr::v4([192, 0, 2, 1]);
const PAUSE: Duration = Duration::from_secs(60);

fn peer(n: u32) -> Addr {
    let [_, b, c, d] = n.to_be_bytes();
    Addr::v4([10, b, c, d])
}

fn now(secs: u64) -> Instant {
    Instant::from_secs(1_000 + secs)
}

fn got(bytes: &[u8]) -> FastOpenOutcome {
    FastOpenOutcome { mss: 1_400, cookie: FastOpen::cookie(bytes, false), lesson: Lesson::Answered }
}

#[test]
fn a_cookie_is_offered_to_its_destination() {
    let mut cache = FastOpenCache::new();
    let asks = FastOpenOffer { option: Some(FastOpen::request(false)), mss: 0 };
    assert_eq!(cache.offer(now(0), US, peer(1), false), Some(asks));
    assert_eq!(cache.footprint(), 0, "asking costs nothing");
    cache.learn(now(0), US, peer(1), &got(&[7; 8]), PAUSE);
    let knows = FastOpenOffer { option: FastOpen::cookie(&[7; 8], false), mss: 1_400 };
    assert_eq!(cache.offer(now(1), US, peer(1), false), Some(knows));
    assert_eq!(
        cache.offer(now(1), US, peer(1), true),
        Some(FastOpenOffer { option: None, mss: 1_400 }),
        "without a cookie if asked so"
    );
    for (src, dst) in [(US, peer(2)), (peer(1), US), (peer(3), peer(1))] {
        assert_eq!(cache.offer(now(1), src, dst, false), Some(asks));
    }
    cache.clear();
    assert_eq!(cache.offer(now(1), US, peer(1), false), Some(asks));
}

#[test]
fn the_experimental_option_is_tried_once() {
    let mut cache = FastOpenCache::new();
    let asked = |cache: &mut FastOpenCache| {
        let option = cache.offer(now(0), US, peer(1), false).unwrap().option.unwrap();
        assert!(option.is_request());
        let lesson = Lesson::NoCookie { experimental: option.experimental };
        cache.learn(now(0), US, peer(1), &FastOpenOutcome { mss: 0, cookie: None, lesson }, PAUSE);
        option.experimental
    };
    assert_eq!([(); 5].map(|()| asked(&mut cache)), [false, true, false, false, false]);
}

/// RFC 7413, 4.1.3.1-1 and 4.1.3.1-2.
#[test]
fn silence_pauses_and_an_answer_forgives() {
    let mut cache = FastOpenCache::new();
    cache.learn(now(0), US, peer(1), &got(&[7; 8]), PAUSE);
    let silence = FastOpenOutcome { mss: 0, cookie: None, lesson: Lesson::Silence };
    cache.learn(now(0), US, peer(1), &silence, PAUSE);
    assert_eq!(cache.offer(now(59), US, peer(1), false), None);
    assert!(cache.offer(now(60), US, peer(1), false).is_some());
    cache.learn(now(60), US, peer(1), &silence, PAUSE);
    assert_eq!(cache.offer(now(179), US, peer(1), false), None, "twice as long");
    assert!(cache.offer(now(180), US, peer(1), false).is_some());
    assert!(cache.offer(now(61), US, peer(2), false).is_some(), "another destination is not to blame");
    cache.learn(now(180), US, peer(1), &got(&[8; 8]), PAUSE);
    cache.learn(now(180), US, peer(1), &silence, PAUSE);
    assert!(cache.offer(now(240), US, peer(1), false).is_some(), "once as long again");
    for n in 0..20 {
        cache.learn(now(1_000 * n), US, peer(1), &silence, PAUSE);
    }
    assert!(cache.offer(now(19_000 + 64 * 60), US, peer(1), false).is_some(), "an hour at most");
}

/// RFC 7413, 4.1.3.1-2.
#[test]
fn milder_lessons_pause_for_less() {
    for (lesson, seconds) in [(Lesson::Refused, 1), (Lesson::Lost, 1), (Lesson::Unreachable, 60)] {
        let mut cache = FastOpenCache::new();
        let outcome = FastOpenOutcome { mss: 1_400, cookie: None, lesson };
        for (nth, factor) in [(0, 1), (1, 2)] {
            let at = 1_000 * nth;
            cache.learn(now(at), US, peer(1), &outcome, PAUSE);
            assert_eq!(cache.offer(now(at + factor * seconds - 1), US, peer(1), false), None, "{lesson:?}");
            assert!(cache.offer(now(at + factor * seconds), US, peer(1), false).is_some(), "{lesson:?}");
        }
        // Two that fail together pause no longer than one.
        let other = now(1_500);
        cache.learn(other, US, peer(2), &outcome, PAUSE);
        cache.learn(other, US, peer(2), &outcome, PAUSE);
        assert!(cache.offer(now(1_500 + seconds), US, peer(2), false).is_some(), "{lesson:?}");
        cache.learn(now(2_000), US, peer(1), &outcome, Duration::ZERO);
        assert!(cache.offer(now(2_000), US, peer(1), false).is_some(), "no pause is wanted");
    }
}

#[test]
fn it_is_bounded_and_keeps_the_latest() {
    let mut cache = FastOpenCache::new();
    for n in 0..10_000u32 {
        cache.learn(now(n.into()), US, peer(n), &got(&n.to_be_bytes()), PAUSE);
        assert_eq!(
            cache.offer(now(n.into()), US, peer(n), false).unwrap().option,
            FastOpen::cookie(&n.to_be_bytes(), false)
        );
    }
    let mut known = |n| !cache.offer(now(20_000), US, peer(n), false).unwrap().option.unwrap().is_request();
    let kept = (0..10_000).filter(|&n| known(n)).count();
    assert!((FastOpenCache::LIMIT / 2..=FastOpenCache::LIMIT).contains(&kept), "{kept}");
    assert!(known(9_999));
}
