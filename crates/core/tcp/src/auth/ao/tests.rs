//! Goal: the extension of a number is that of a 64-bit counter, forwards and backwards over every wrap.
use super::*;
use base::Rng;

/// RFC 5925, 6.2-1.
#[test]
fn extension_follows_a_wide_counter() {
    let mut rng = Rng::new(9);
    let isn = rng.next_u32();
    let mut wide = u64::from(isn);
    let mut extended = Extended::new(Seq::new(isn));
    for _ in 0..20_000 {
        let back = u64::from(rng.next_u32() >> 2).min(wide);
        let ahead = u64::from(rng.next_u32() >> 2);
        for seen in [wide - back, wide, wide + ahead] {
            assert_eq!(extended.of(Seq::new(seen as u32)), (seen >> 32) as u32);
        }
        wide += ahead;
        extended.advance(Seq::new(wide as u32));
        extended.advance(Seq::new((wide - back) as u32));
    }
    assert!(wide >> 32 > 1_000);
}
