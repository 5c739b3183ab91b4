//! Records of the hosts of a run, and their place: the same words for `lab run` and `lab replay`.

use ::lab::{Folders, Task};
use std::path::{Path, PathBuf};

/// Logs and captures. Those that the experiment's file asks for go beside the results.
#[derive(clap::Args)]
pub(super) struct Keep {
    /// Write a SIFTR log of every host and run to DIR/EXPERIMENT: as the file's siftr table says, or in TEACUP's
    /// format.
    #[arg(long, value_name = "DIR")]
    siftr: Option<PathBuf>,
    /// Write a pcapng file of every host and run to DIR/EXPERIMENT, with each packet's connection state as a comment:
    /// as the file's capture table says, or all headers and up to 256 MiB.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

impl Keep {
    /// Does a run leave files for these words that it would not leave without them?
    pub(super) fn asks(&self) -> bool {
        self.siftr.is_some() || self.capture.is_some()
    }

    /// Tells `task` of the experiment `name`, whose results go to `out`.
    pub(super) fn tell(&self, task: &mut Task, name: &str, out: &Path) {
        let place = |requested: &Option<PathBuf>, kind: &str| match requested {
            Some(folder) => folder.join(name),
            None => out.join(format!("{name}.{kind}")),
        };
        if self.siftr.is_some() {
            task.spec.siftr.get_or_insert_default();
        }
        if self.capture.is_some() {
            task.spec.capture.get_or_insert_default();
        }
        task.folders = Folders {
            siftr: Some(place(&self.siftr, "siftr")),
            captures: Some(place(&self.capture, "capture")),
        };
    }
}
