//! Common parts of this crate's tests: a small experiment, and folders that go when a test ends.

mod folder;

use crate::Experiment;
pub(crate) use folder::Folder;

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
