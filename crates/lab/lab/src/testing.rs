//! What tests of this crate share: a small experiment, and folders that go when a test ends.

use crate::Experiment;
use std::path::{Path, PathBuf};

/// Six short runs: two combinations with three seeds each.
pub(crate) const SMALL: &str = r#"
    title = "Small"
    seconds = 1
    seeds = 3
    [path]
    rtt_ms = 10
    down_kbit = 1000
    queue = "slots 10"
    [[flow]]
    cc = "newreno"
    [vary]
    "path.rtt_ms" = [10, 20]
"#;

/// The experiment of [`SMALL`], or of another text.
pub(crate) fn small(text: &str) -> Experiment {
    Experiment::parse("small", text).unwrap()
}

/// A folder of one test, removed with all that is in it. It is made by who puts something there.
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
