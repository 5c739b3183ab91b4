//! Goal: the rows that are run are those that were asked for.
use super::*;

#[test]
fn words_choose_rows() {
    let only = |words: &str| Options { only: vec![words.into()], ..Options::default() };
    let count = |options: &Options| {
        let parts = SUITES.iter().flat_map(|suite| suite.parts.iter().map(move |part| (suite, part)));
        parts.filter(|(suite, part)| options.wants(suite, part)).count()
    };
    assert_eq!(count(&only("cpython/test_ssl")), 1);
    assert!(count(&only("cpython")) > 10);
    assert_eq!(count(&only("libuv/test_ssl")), 0);
    let short = count(&Options { short: true, ..Options::default() });
    assert!(short > 0 && short < count(&Options::default()));
}
