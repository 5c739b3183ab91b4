//! Goal: files and names that do not exist are told, and those that do are not.
use super::*;

#[test]
fn what_the_page_names_exists() {
    let paths = ["crates/host/stack/src/rx.rs", "crates/host/stack/src/tx/mod.rs", "xtask/src/main.rs"];
    let read = |path: &str| match path {
        "xtask/src/main.rs" => "pub(crate) fn main() {}\nstruct Command;\nmacro_rules! rows {}".to_owned(),
        _ => String::new(),
    };
    let rows = |files: &str, names: &str| {
        let page =
            format!("stack/rx.rs\n{QUESTIONS}\n| Question | Answer | File | Names |\n|---|---|---|---|\n");
        wrong(&format!("{page}| Where? | here | {files} | {names} |\n\n## Next\n| `a` | b |\n"), &paths, read)
    };
    let main = "`xtask/src/main.rs`";
    assert!(rows(main, "`main`, `Command`, `rows`").is_empty());
    assert!(rows("`xtask/src/main.rs`, `crates/host/stack/src/rx.rs`", "`main`").is_empty());
    assert_eq!(
        rows(main, "`mai`, `Comman`"),
        [format!("{PAGE}: no `mai` in {main}"), format!("{PAGE}: no `Comman` in {main}"),]
    );
    assert_eq!(rows("`stack/mod.rs`", "`x`")[0], format!("{PAGE}:6: there is no `stack/mod.rs`"));
    assert_eq!(rows(main, "`main` | more").len(), 1);
}
