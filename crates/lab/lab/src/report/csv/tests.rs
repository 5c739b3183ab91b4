//! Goal: nothing in a name breaks the table.
use super::*;

#[test]
fn fields_are_quoted_where_they_must_be() {
    assert_eq!((field("a"), field("a,\"b\"")), ("a".into(), "\"a,\"\"b\"\"\"".into()));
}
