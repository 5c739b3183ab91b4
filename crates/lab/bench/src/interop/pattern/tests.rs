//! Goal: a stream is the same however it is cut, and one wrong byte is found where it is.
use super::*;

#[test]
fn pieces_make_the_stream_and_one_wrong_byte_is_named() {
    let pattern = Pattern::new(7);
    let mut whole = vec![0; 1_000];
    pattern.fill(3, &mut whole);
    for cut in [1, 5, 8, 13, 500] {
        let mut second = vec![0; 1_000 - cut];
        pattern.fill(3 + cut as u64, &mut second);
        assert_eq!(second, whole[cut..], "cut at {cut}");
    }
    assert_eq!(pattern.check(3, &whole), Ok(()));
    for place in [0, 4, 5, 6, 999] {
        let mut bad = whole.clone();
        bad[place] ^= 1;
        assert_eq!(pattern.check(3, &bad), Err(format!("byte {} is not what was sent", place + 3)));
    }
    assert_ne!(Pattern::new(8).word(0), pattern.word(0));
    // SplitMix64 with the seed 0 begins so, in every language.
    assert_eq!(u64::from_le_bytes(Pattern::new(0).word(0)), 0xe220_a839_7b1d_cdaf);
}
