//! Goal: words are as a shell reads them.
use super::*;

#[test]
fn words_are_quoted_where_they_must_be() {
    assert_eq!(quoted("path.rtt_ms=10,20"), "path.rtt_ms=10,20");
    assert_eq!(quoted("path.queue=strict 10"), "'path.queue=strict 10'");
    assert_eq!((quoted(""), quoted("it's")), ("''".into(), "'it'\\''s'".into()));
}
