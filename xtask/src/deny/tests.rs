//! Goal: OR needs one side, AND needs both, and what cannot be read is not allowed.
use super::is_allowed;

#[test]
fn expressions() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(String::from);
    for yes in [
        "MIT",
        "MIT OR GPL-3.0",
        "GPL-3.0 or MIT",
        "MIT/Apache-2.0",
        "(MIT OR GPL-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        "((MIT))",
    ] {
        assert!(is_allowed(yes, &allowed), "{yes}");
    }
    for no in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "MIT OR",
        "(MIT",
        "MIT)",
        "MIT Apache-2.0",
        "GPL-2.0 OR MIT AND LGPL-2.1",
        "Unicode-3.0 WITH LLVM-exception",
    ] {
        assert!(!is_allowed(no, &allowed), "{no}");
    }
}
