//! Goal: sentences are found where a reader finds them, and none can be forgotten.
use super::*;

const TEXT: &str = "\
1.  Terms

   The key words \"MUST\" and \"SHOULD\" are those of RFC 2119.

2. Rules . . . 9
2.1.  Sending

   A sender MUST wait.  It may also
   sleep; Then it SHOULD send.
Someone                      Standards Track                  [Page 3]
\u{c}
RFC 1234                      Waiting                     October 1999

   A MUSTARD seed is no rule.  Waiting is RECOMMENDED.
";

#[test]
fn they_are_counted_by_section() {
    let found: Vec<_> =
        sentences(TEXT).into_iter().map(|(section, text)| format!("{section} {text}")).collect();
    assert_eq!(found, ["2.1 A sender MUST wait.", "2.1 Then it SHOULD send.", "2.1 Waiting is RECOMMENDED."]);
    assert_eq!(count(TEXT), Counts::from([("2.1".to_owned(), 3)]));
}

#[test]
fn what_is_missing_and_what_does_not_exist_is_told() {
    let counts = count(TEXT);
    let (missing, unknown) = gaps(&counts, &parse("2.1#1-2 2.2#1").unwrap());
    assert_eq!(missing, Sentences::from([("2.1".to_owned(), 3)]));
    assert_eq!(unknown, Sentences::from([("2.2".to_owned(), 1)]));
    assert_eq!(gaps(&counts, &parse("2.1#3 2.1#1-2").unwrap()), Default::default());
    for wrong in ["2.1", "2.1#0", "2.1#3-2", "2.1#x"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
