//! The original packetdrill runs a script against this stack, through the plug-in `libmillstream_drill.so`.
//!
//! The plug-in stands in LD_PRELOAD, too: a script's shell lines (`sysctl`, `ip route`, `tc`) and questions for
//! TCP_INFO then reach the stack under test instead of the machine. A command that the plug-in does not know still runs
//! on the machine, and the plug-in says so.

use crate::run::{Config, IpVersion, Outcome, Report};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tool and the plug-in.
#[derive(Clone, Debug)]
pub struct Original {
    /// The program `packetdrill`.
    pub tool: PathBuf,
    /// The library `libmillstream_drill.so`.
    pub library: PathBuf,
}

impl Original {
    /// Runs the script at `path`. Its own option lines win over the usual addresses and defines.
    pub fn run(&self, path: &Path, source: &str, config: &Config) -> Report {
        let (outcome, said) = match self.command(path, source, config).output() {
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                let said = verdict_first(&String::from_utf8_lossy(&said));
                let failed =
                    || Outcome::Failed { line: line_of(path, &said), why: said.trim_end().to_owned() };
                (if output.status.success() { Outcome::Passed } else { failed() }, said)
            }
            Err(e) => {
                let why = format!("{}: {e}", self.tool.display());
                (Outcome::Failed { line: 0, why }, String::new())
            }
        };
        let shown = if outcome == Outcome::Passed { said } else { String::new() };
        Report { path: path.into(), outcome, timeline: shown.lines().map(str::to_owned).collect() }
    }

    fn command(&self, path: &Path, source: &str, config: &Config) -> Command {
        let own_version = IpVersion::of_script(path, source, config.version);
        let version = own_version.unwrap_or(config.version);
        let named =
            |option: &str| source.lines().any(|line| line.trim().starts_with(&format!("--{option}=")));
        let mut command = Command::new(&self.tool);
        command.arg(format!("--so_filename={}", self.library.display()));
        let mut flags = format!("profile={}", config.profile.name());
        let (local, remote) = version.usual_addresses();
        for (option, address) in [("local_ip", local), ("remote_ip", remote)] {
            // The tool lets its arguments win over the script's lines.
            if !named(option) {
                command.arg(format!("--{option}={address}"));
                flags.push_str(&format!(",{option}={address}"));
            }
        }
        if config.version == IpVersion::V6 && own_version.is_none() && !named("mtu") {
            // As google's runner does: the header has 20 bytes more, and scripts of both families name one MSS.
            command.arg("--mtu=1520");
            flags.push_str(",mtu=1520");
        }
        command.arg(format!("--so_flags={flags}"));
        if !named("ip_version") {
            command.arg(format!("--ip_version={}", version.name()));
        }
        for (name, value) in config.defines.iter().chain(&crate::run::usual_defines(version)) {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        command.arg(path.file_name().unwrap_or_default()).current_dir(folder.unwrap_or(Path::new(".")));
        command.env("LD_PRELOAD", &self.library).stdin(std::process::Stdio::null());
        command
    }
}

/// The tool's own lines before the plug-in's complaints.
fn verdict_first(said: &str) -> String {
    let (complaints, own): (Vec<_>, Vec<_>) =
        said.lines().partition(|line| line.starts_with("millstream_drill: "));
    [own, complaints].concat().iter().map(|line| format!("{line}\n")).collect()
}

/// The line that the tool complains of (`NAME.pkt:LINE: ...`), or 0.
fn line_of(path: &Path, said: &str) -> usize {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let after = said.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    let digits = after.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
