//! Goal: a difference is found wherever it is, and so is one that is no more.
use super::*;

const KERNEL: &str = "# a\nread = 1\nwrite = 2\n# b\nsend = 3\n";

#[test]
fn the_same_is_the_same() {
    assert_eq!(compare(KERNEL, KERNEL, 3, &[]), Ok(()));
    assert!(compare(KERNEL, KERNEL, 4, &[]).unwrap_err().contains("3 checks"));
}

#[test]
fn differences_are_known_or_told() {
    let ours = KERNEL.replace("write = 2", "write = -1 EIO");
    let said = compare(KERNEL, &ours, 3, &[]).unwrap_err();
    assert!(said.contains("# a: kernel: write = 2; ours: write = -1 EIO"), "{said}");
    assert_eq!(compare(KERNEL, &ours, 3, &[("write", "it must fail")]), Ok(()));
    let said = compare(KERNEL, KERNEL, 3, &[("write", "it must fail")]).unwrap_err();
    assert!(said.contains("no difference any more: write"), "{said}");
}

#[test]
fn what_ended_early_is_told() {
    let said = compare(KERNEL, "# a\nread = 1\n", 3, &[]).unwrap_err();
    assert!(said.contains("# a: 2 lines of the kernel's, 1 of ours"), "{said}");
    assert!(said.contains("# b: 1 lines of the kernel's, 0 of ours"), "{said}");
}
