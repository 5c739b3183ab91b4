//! Other programs, run from the root of the checkout.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::watch::Watched;
use crate::{Outcome, left_out, watch};

/// Returns the path of this program. Tests of the workspace build it again, and then the kernel calls the running one
/// deleted.
///
/// # Errors
/// The kernel does not tell.
pub(crate) fn own_path() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    Ok(path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from).unwrap_or(path))
}

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where builds go, as cargo sees it.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Now, for a person who waits.
#[allow(clippy::disallowed_methods, reason = "a tool that waits for other programs")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn is_root() -> Result<bool, String> {
    Ok(tool("id").args(["-u"]).output()?.trim() == "0")
}

/// Builds the command, and the library that `millstream run` has programs load.
pub(crate) fn build_launcher(profile: &str) -> Outcome {
    let build = ["build", "--quiet", "--locked", "--profile", profile];
    cargo(&build).args(["--package", "millstream", "--package", "millstream-preload"]).check()
}

/// A command about to run.
pub(crate) struct Run {
    command: Command,
    shown: OsString,
}

/// The cargo that runs this, with `arguments`.
pub(crate) fn cargo(arguments: &[&str]) -> Run {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    program(cargo, "cargo").args(arguments)
}

/// `name`, found on the path.
pub(crate) fn tool(name: &str) -> Run {
    program(name, name)
}

fn program(path: impl AsRef<OsStr>, shown: &str) -> Run {
    let mut command = Command::new(path);
    command.current_dir(root()).stdin(Stdio::null());
    Run { command, shown: shown.into() }
}

impl Run {
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        for argument in arguments {
            self.command.arg(&argument);
            self.shown.push(" ");
            self.shown.push(argument);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it with its output shown.
    pub(crate) fn check(mut self) -> Outcome {
        let status = self.command.status().map_err(|error| self.failed(&error))?;
        if status.success() { Ok(()) } else { Err(self.failed(&status)) }
    }

    /// Runs tests with their output shown, and tells which did not run and, as part of the error, which failed or hung:
    /// after `silence` in which no test ended, everything is ended.
    pub(crate) fn check_tests(self, silence: Duration) -> Outcome {
        self.check_within(silence, Duration::MAX).map(|_| ())
    }

    /// As [`Run::check_tests`], and everything is ended after `limit`. Returns false if that was so and no test had
    /// failed.
    pub(crate) fn check_within(self, silence: Duration, limit: Duration) -> Result<bool, String> {
        let Run { command, shown } = self;
        let failed = |why: &dyn std::fmt::Display| format!("`{}`: {why}", shown.display());
        let Watched { report, status, is_late, left } =
            watch::watch(command, silence, limit, std::io::stdout()).map_err(|why| failed(&why))?;
        if let Some(what) = report.left_out() {
            left_out::tell(&what);
        }
        if is_late {
            let failures = report.failures();
            return if failures.is_empty() { Ok(false) } else { Err(failed(&"tests failed") + &failures) };
        }
        let Some(status) = status else {
            let seconds = silence.as_secs();
            let why = format!("no test ended for {seconds} s, so that all were killed{}", report.unended());
            return Err(failed(&why) + "\nstill running were:" + &watch::told(&left) + &report.failures());
        };
        if !left.is_empty() {
            println!("ENDED: tests left these programs behind:{}", watch::told(&left));
        }
        if status.success() { Ok(true) } else { Err(failed(&status) + &report.failures()) }
    }

    /// Returns the command as a person would type it.
    pub(crate) fn shown(&self) -> String {
        self.shown.display().to_string()
    }

    /// Runs it and returns what it wrote; its complaints are part of the error.
    pub(crate) fn output(mut self) -> Result<String, String> {
        let output = self.command.output().map_err(|error| self.failed(&error))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}\n{}", self.failed(&output.status), complaint.trim_end()));
        }
        String::from_utf8(output.stdout).map_err(|error| self.failed(&error))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> String {
        format!("`{}`: {why}", self.shown.display())
    }
}
