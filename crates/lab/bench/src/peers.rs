//! Programs of `peers/`, built where they are needed and gone with their folder.

use crate::bed::{of_file, sh};
use crate::compare::contender::{GOPATH, go};
use std::path::{Path, PathBuf};

/// A folder of this run's own.
pub(crate) struct Dir(PathBuf);

impl Dir {
    /// A folder whose name begins so.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new(name: &str) -> Result<Dir, String> {
        let dir = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(of_file(&dir))?;
        Ok(Dir(dir))
    }

    fn program(&self, name: &str) -> PathBuf {
        self.0.join(name.replace('/', "-"))
    }

    /// Builds `peers/NAME.c` with these flags.
    ///
    /// # Errors
    /// The compiler's message.
    pub(crate) fn c(&self, name: &str, flags: &[&str]) -> Result<PathBuf, String> {
        let (out, source) = (self.program(name), peers().join(format!("{name}.c")));
        sh("cc", &[&["-O2", "-o", &out.to_string_lossy(), &source.to_string_lossy()], flags].concat())?;
        Ok(out)
    }

    /// Builds `peers/NAME/main.go` with gVisor's sources.
    ///
    /// # Errors
    /// There is no Go for it, or what the compiler says.
    pub(crate) fn gvisor(&self, name: &str) -> Result<PathBuf, String> {
        let go = go().ok_or("no Go 1.19: apt-get install golang-1.19-go")?;
        let (out, path) = (self.program(name), format!("GOPATH={GOPATH}"));
        // Beside our own builds, so that the next run need not build it again.
        let cache = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("go-cache");
        let cache = format!("GOCACHE={}", cache.display());
        let (out_text, source) = (out.to_string_lossy().into_owned(), peers().join(name).join("main.go"));
        let build = ["GO111MODULE=off", &path, &cache, "GOFLAGS=", go, "build", "-o", &out_text];
        sh("env", &[&build[..], &[&*source.to_string_lossy()]].concat())?;
        Ok(out)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.0) {
            eprintln!("millstream-bench: {e}");
        }
    }
}

/// Where the sources are.
fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}
