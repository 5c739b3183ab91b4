//! Folders that go when a test ends; tests beside the crate include this file, too.

use std::path::{Path, PathBuf};

/// A folder of one test, removed with all that is in it. The test that puts something there makes it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// `name` is that of the test.
    pub(crate) fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("millstream-lab-{name}-{}", std::process::id())))
    }
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}
