//! Goal: what was told of a flow last is what is read of it, and of no other.
use super::*;

#[test]
fn the_last_word_counts_and_is_nobody_elses() {
    let (known, hash) = (RoundTrips::new(), 7 << MICROS | 5);
    let micros = Duration::from_micros;
    assert_eq!((known.of(hash), known.of(0)), (None, None), "nothing told");
    known.tell(hash, micros(90));
    known.tell(hash, micros(80));
    assert_eq!(known.of(hash), Some(micros(80)));
    assert_eq!(known.of(8 << MICROS | 5), None, "another flow with that place");
    assert_eq!(known.of(7 << MICROS | 6), None, "another place");
    known.tell(8 << MICROS | 5, micros(9));
    assert_eq!((known.of(hash), known.of(8 << MICROS | 5)), (None, Some(micros(9))));
    known.tell(hash, Duration::ZERO);
    assert_eq!(known.of(hash), Some(micros(1)), "shorter than can be told");
    known.tell(hash, Duration::from_secs(1 << 20));
    assert_eq!(known.of(hash), Some(micros(u32::MAX.into())), "longer than can be told");
}
