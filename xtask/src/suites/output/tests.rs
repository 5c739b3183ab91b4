//! Goal: every result of an output is read, by the name of its test.
use super::*;

fn read(format: Format, output: &str) -> Vec<(String, Result)> {
    format.read(output).into_iter().collect()
}

fn expect(list: &[(&str, Result)]) -> Vec<(String, Result)> {
    list.iter().map(|(name, result)| (name.to_string(), *result)).collect()
}

#[test]
fn unittest_is_read() {
    let output = "\
test_a (test.test_it.One.test_a) ... ok
test_b (test.test_it.One.test_b)
A line about it. ... skipped 'no reason'
test_c (test.test_it.One.test_c) ... Warning -- a thread
ERROR
test_d (test.test_it.One.test_d) ... some noise ok
test_f (test.test_it.One.test_f) ... FAIL
test_e (test.test_it.One.test_e) ... 

======================================================================
ERROR: test_c (test.test_it.One.test_c)
----
ok
";
    let results = [
        ("test.test_it.One.test_a", Result::Passed),
        ("test.test_it.One.test_b", Result::Skipped),
        ("test.test_it.One.test_c", Result::Failed),
        ("test.test_it.One.test_d", Result::Passed),
        ("test.test_it.One.test_e", Result::Unfinished),
        ("test.test_it.One.test_f", Result::Failed),
    ];
    assert_eq!(read(Format::Unittest, output), expect(&results));
}

#[test]
fn other_formats_are_read() {
    let output = "http/base: [forking] OK\nhttp/cancel: [forking] \n  [http FAILED]\nmain/a: SKIPPED\n";
    let results =
        [("http/base", Result::Passed), ("http/cancel", Result::Failed), ("main/a", Result::Skipped)];
    assert_eq!(read(Format::Tinytest, output), expect(&results));
    let output = "1..3\nok 1 - one\nnot ok 2 - two\n# why\nok 3 - three # SKIP no reason\n";
    let results = [("one", Result::Passed), ("three", Result::Skipped), ("two", Result::Failed)];
    assert_eq!(read(Format::Tap, output), expect(&results));
    let output = "t/a.t .. \nok 1 - one\nok 2\nt/b.t .. \nnot ok 1 - one\n";
    let results =
        [("t/a.t 1 one", Result::Passed), ("t/a.t 2", Result::Passed), ("t/b.t 1 one", Result::Failed)];
    assert_eq!(read(Format::Prove, output), expect(&results));
    let output = "program tcp\ntest a::b ... ok\ntest c ... ignored\ntest d ... noise\nFAILED\ntest e - should \
                      panic ... ok\ntest result: FAILED. 1 passed\nprogram udp\ntest b ... ";
    let results = [
        ("tcp a::b", Result::Passed),
        ("tcp c", Result::Skipped),
        ("tcp d", Result::Failed),
        ("tcp e", Result::Passed),
        ("udp b", Result::Unfinished),
    ];
    assert_eq!(read(Format::Libtest, output), expect(&results));
    let output = "TEST 1/2 [x/a.phpt]\rPASS It [does] [x/a.phpt] \nSKIP B [x/b.phpt] reason: none [yet]\n\
                      FAIL C [x/c.phpt] \nFAILED TEST SUMMARY\nC [x/c.phpt]\n";
    let results = [("x/a", Result::Passed), ("x/b", Result::Skipped), ("x/c", Result::Failed)];
    assert_eq!(read(Format::Phpt, output), expect(&results));
    let output = "JUnit Jupiter :: STARTED\nJUnit Jupiter > A :: STARTED\nJUnit Jupiter > A > a(TestInfo) :: \
                      STARTED\nJUnit Jupiter > A > a(TestInfo) :: SUCCESSFUL\nJUnit Jupiter > A > b() :: STARTED\n";
    let results = [("A.a(TestInfo)", Result::Passed), ("A.b()", Result::Unfinished)];
    assert_eq!(read(Format::Testfeed, output), expect(&results));
}

#[test]
fn connections_are_counted() {
    let output = "{noise}\n{\"accepted\":187,\"bytes_in\":9,\"connected\":186,\"kernel_connections\":3}\n";
    assert_eq!(on_the_stack(output), Some(373));
    assert_eq!(on_the_stack("{\"x\":1}\n{\"accepted\"\n"), None);
}
