//! Other programs, run from the root of the checkout.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::test_report::TestReport;

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where builds go, as cargo sees it.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
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

/// How often in a second a program is looked at that may take too long.
const LOOKS: u64 = 10;

/// Returns the descendants of a process: their numbers and command lines.
fn descendants(of: u32) -> Vec<(u32, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let mut all = Vec::new();
    for pid in children {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        all.push((pid, line.replace('\0', " ")));
        all.extend(descendants(pid));
    }
    all
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

    /// Runs tests with their output shown, and tells which did not run and, as part of the error, which failed; after
    /// `limit`, what still runs is told and killed.
    pub(crate) fn check_tests(mut self, limit: Duration) -> Outcome {
        let mut child = self.command.stdout(Stdio::piped()).spawn().map_err(|error| self.failed(&error))?;
        let output = child.stdout.take().map(std::io::BufReader::new);
        let reader = std::thread::spawn(move || {
            output.map(|output| TestReport::default().read(output, std::io::stdout())).unwrap_or_default()
        });
        let outcome = self.wait(child, limit);
        let report = reader.join().map_err(|_| self.failed(&"its output could not be read"))?;
        print!("{}", report.left_out());
        outcome.map_err(|why| why + &report.failures())
    }

    /// Runs it with its output shown; after `limit`, what it still runs is told and killed.
    pub(crate) fn check_within(mut self, limit: Duration) -> Outcome {
        let child = self.command.spawn().map_err(|error| self.failed(&error))?;
        self.wait(child, limit)
    }

    fn wait(&self, mut child: Child, limit: Duration) -> Outcome {
        for _ in 0..limit.as_secs() * LOOKS {
            match child.try_wait().map_err(|error| self.failed(&error))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failed(&status)),
                None => std::thread::sleep(Duration::from_secs(1) / LOOKS as u32),
            }
        }
        let hung = descendants(child.id());
        let ended = child.kill().and_then(|()| child.wait());
        let told: String = hung.iter().map(|(pid, line)| format!("\n  {pid}  {line}")).collect();
        for (pid, _) in hung {
            // It may have ended by itself meanwhile.
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let why = format!("killed after {} minutes ({ended:?}); still running:{told}", limit.as_secs() / 60);
        Err(self.failed(&why))
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
#[cfg(test)]
mod tests {
    //! Goal: what hangs is ended with all that it started, and told.
    use super::*;

    #[test]
    fn what_takes_too_long_is_told_and_killed() {
        let hangs = tool("sh").args(["-c", "sleep 1000.25; true"]);
        let why = hangs.check_within(Duration::from_secs(1)).expect_err("it hangs");
        assert!(why.contains("sleep 1000.25"), "{why}");
        assert!(descendants(std::process::id()).iter().all(|(_, line)| !line.contains("1000.25")));
        assert_eq!(tool("true").check_within(Duration::from_secs(10)), Ok(()));
        tool("false").check_within(Duration::from_secs(10)).expect_err("it fails");
    }
}
