//! Goal: files that name each other are a circle, by whatever path. Names in tests make none. A re-export leads on
//! to where a thing is.
use super::*;

/// Circles of a crate of these files, by names of files, and what is against the order of its folders.
fn read(name: &str, files: &[(&str, &str)], order: &str) -> (Vec<Vec<String>>, Vec<String>) {
    let folder = std::env::temp_dir().join(format!("ms-circles-{}-{name}", std::process::id()));
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        fs::write(path, text).expect("file");
    }
    let tree = tree_of(&folder.join("lib.rs"));
    fs::remove_dir_all(&folder).expect("removed");
    let tree = tree.expect("a crate");
    let short = |file: &Path| file.strip_prefix(&folder).expect("inside").display().to_string();
    let short = |circle: Vec<&Path>| circle.into_iter().map(short).collect();
    let imports = tree.imports();
    (circles(&imports).into_iter().map(short).collect(), against(order, &folder, &imports))
}

fn circles_of(name: &str, files: &[(&str, &str)]) -> Vec<Vec<String>> {
    read(name, files, "").0
}

#[test]
fn folders_import_in_one_direction() {
    let files = [
        ("lib.rs", "mod low; mod high; mod top;"),
        ("low/mod.rs", "pub mod table; use crate::top::T;"),
        ("low/table.rs", "pub struct Table;"),
        ("high/mod.rs", "use crate::low::table::Table;"),
        ("top.rs", "pub struct T; use crate::high;"),
    ];
    assert!(read("order", &files, "low < high").1.is_empty(), "a file beside the root stands apart");
    assert_eq!(read("against", &files, "high < low").1, ["high/mod.rs imports low/table.rs"]);
}

#[test]
fn three_files_that_lead_to_each_other_are_told() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "pub struct B; fn f() { crate::c::made(); }"),
        ("c/mod.rs", "mod inner; pub fn made() {} use super::d;"),
        ("c/inner.rs", "fn g(_: super::super::a::A) {}"),
        ("d.rs", "pub struct D;"),
    ];
    assert!(circles_of("none", &files).is_empty(), "c does not lead to its child");
    let mut with = files;
    with[3].1 = "mod inner; pub fn made() { inner::g() }";
    assert_eq!(circles_of("four", &with), [["a.rs", "b.rs", "c/inner.rs", "c/mod.rs"]]);
}

#[test]
fn a_re_export_leads_to_where_a_thing_is() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::{B as Other}; pub use c::*;"),
        ("a.rs", "use crate::Other; pub struct A(Other);"),
        ("b.rs", "use std::fmt; pub struct B; fn f(_: fmt::Error) { crate::A; }"),
        ("c.rs", "use crate::{A, Other};"),
    ];
    assert!(circles_of("two", &files).is_empty(), "two files are no circle, and the root imports nothing");
}

#[test]
fn what_only_tests_name_is_none() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "use crate::c::C; pub struct B(C);"),
        ("c.rs", "pub struct C; #[cfg(test)] mod tests { use crate::a::A; }"),
    ];
    assert!(circles_of("tests", &files).is_empty());
}

#[test]
fn a_visibility_names_nothing() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod inner; use crate::b::B;"),
        ("a/inner.rs", "pub(in crate::a) struct Inner;"),
        ("b.rs", "pub struct B; fn f(_: crate::a::inner::Inner) {}"),
    ];
    assert!(circles_of("visibility", &files).is_empty());
}

#[test]
fn the_table_names_crates_once_and_no_small_circle() {
    for (nth, (name, files)) in LARGEST.iter().enumerate() {
        assert!(*files > SMALL && LARGEST[..nth].iter().all(|(other, _)| other != name), "{name}");
    }
}
