//! Goal: the document has the table as it is. `MILLSTREAM_BLESS=1` writes it.
use super::*;

const BEGIN: &str =
    "<!-- workloads: written by `MILLSTREAM_BLESS=1 cargo test -p millstream-bench listing` -->\n";
const END: &str = "<!-- end of workloads -->";

#[test]
fn the_document_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/PERFORMANCE.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("where the table begins");
    let (table, after) = rest.split_once(END).expect("where it ends");
    if std::env::var_os("MILLSTREAM_BLESS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{}{END}{after}", listing())).unwrap();
    } else {
        assert_eq!(table, listing(), "MILLSTREAM_BLESS=1 writes it");
    }
}
