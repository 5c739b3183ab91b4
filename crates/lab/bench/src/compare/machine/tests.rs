//! Goal: files of the kernel are read right.
use super::*;

#[test]
fn keys_are_found() {
    let text = "processor\t: 0\nmodel name\t: A B  C\nMemTotal:       16 kB\n";
    assert_eq!(after(text, "model name"), Some("A B  C"));
    assert_eq!(after(text, "MemTotal"), Some("16 kB"));
    assert_eq!(after(text, "nothing"), None);
    let cpu = "cpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n";
    assert_eq!(processor(cpu), "AMD EPYC, family 25, model 1");
}
