//! Goal: what lies in the folder is shipped, and can be read.
use super::*;

#[test]
fn the_folder_is_shipped_and_reads() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<String> =
        entries.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    files.sort();
    let names: Vec<String> = shipped().unwrap().into_iter().map(|experiment| experiment.name).collect();
    assert_eq!(names, files);
}
