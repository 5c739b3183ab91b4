//! Goal: costs of called functions are not counted twice, and a line is its function's.
use super::*;

#[test]
fn costs_are_read() {
    let [one, two] = ["/a/crates/x/src/one.rs", "/a/crates/x/src/two.rs"];
    let own = format!("events: Ir\nfl={one}\nfn=one\n10 5\nfi={two}\n3 2\nfe={one}\n11 1\n");
    let text = own + "cfn=two\ncalls=4 3\n11 900\n12 7\n";
    let costs = parse(&text);
    let cost = |line| costs.get(&(one.to_owned(), line)).copied();
    assert_eq!([cost(10), cost(11), cost(12)], [Some(5), Some(1), Some(7)]);
    assert_eq!(costs.values().sum::<u64>(), 15);
}

#[test]
fn a_line_is_its_functions() {
    let source = "impl A {\n pub(crate) fn one(&self) {\n let fn_of = 1;\n    }\n\n    const fn two<T>() {\n";
    assert_eq!(
        [enclosing(source, 3), enclosing(source, 6), enclosing("x", 1)],
        [Some("one"), Some("two"), None]
    );
}
