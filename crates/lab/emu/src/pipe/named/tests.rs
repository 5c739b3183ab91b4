//! Goal: the words name what they say, and are printed as they are read.
use super::*;

#[test]
fn words_are_read_and_printed() {
    for text in ["1,5-10", "per-flow 2", "data 7", "per-flow data 1-3", "per-flow sack 1", "none"] {
        assert_eq!(text.parse::<Named>().map(|named| named.to_string()).as_deref(), Ok(text));
    }
    for text in ["5-", "data", "per-flow", "sack data 1", "data per-flow 1"] {
        assert_eq!(text.parse::<Named>(), Err(PositionsError::Malformed), "{text}");
    }
}
