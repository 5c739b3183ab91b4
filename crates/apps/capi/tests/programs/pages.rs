//! Goal: a user who installs the library finds a manual page under the name of each of its functions.

use crate::installed::{prefix, root};

#[test]
fn every_function_has_a_page() {
    let map =
        std::fs::read_to_string(root().join("crates/apps/capi/libmillstream.map")).expect("the versions");
    let functions: Vec<&str> = map
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("ms_") && !name.contains('*'))
        .collect();
    assert!(functions.len() > 40, "{functions:?}");
    for name in functions {
        let page = prefix().join(format!("share/man/man3/{name}.3"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(text.starts_with(".so man3/ms_") || text.contains(".Sh SYNOPSIS"), "{name}: {text}");
    }
}
