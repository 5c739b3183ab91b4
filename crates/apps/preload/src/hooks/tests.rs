//! Goal: the page for people has the table's rows, and every row a function.
use super::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/LAUNCHER.md");
const MARKS: [&str; 2] = ["<!-- calls -->\n", "<!-- end of calls -->"];

#[test]
fn the_page_has_the_table() {
    let row = |row: Row| format!("| `{}` | {} |\n", row.name, row.text);
    let table: String = rows().into_iter().map(row).collect();
    let table = format!("| Call | On descriptors of ours |\n|---|---|\n{table}");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let begin = page.find(MARKS[0]).unwrap() + MARKS[0].len();
    let end = page.find(MARKS[1]).unwrap();
    if std::env::var_os("MILLSTREAM_BLESS").is_some() {
        std::fs::write(PAGE, [&page[..begin], &table, &page[end..]].concat()).unwrap();
    } else {
        assert!(
            page[begin..end] == table,
            "docs/LAUNCHER.md: MILLSTREAM_BLESS=1 cargo test writes the table"
        );
    }
}

#[test]
fn the_c_library_has_every_call() {
    for row in rows() {
        let name = std::ffi::CString::new(row.name).unwrap();
        // SAFETY: a string that ends in NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        assert!(!found.is_null(), "{}", row.name);
    }
}
