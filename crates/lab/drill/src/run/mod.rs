//! Runs a script against the production stack in virtual time.

mod build;
mod calls;
mod compare;
mod environment;
mod exchange;
mod flow;
mod icmp;
mod known;
mod observe;
mod options;
pub mod peer;
mod port;
mod profile;
mod runner;
mod shell;
mod show;
mod sign;
mod symbols;
#[cfg(test)]
mod tests;
mod world;

pub use calls::{Answer, FastOpen, Got, Request, numbers, perform};
pub use environment::{Environment, Refusal};
pub use options::IpVersion;
pub use profile::{Profile, set_sysctl, settings};
pub use symbols::errno_name;
pub use world::{Inside, START, World};

use crate::lang::{self, Event};
use crate::original::Original;
use calls::Stop;
use stack::CoreConfig;
use std::path::{Path, PathBuf};

/// How scripts are run.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Profile of the stack: its choices where the RFCs leave them open.
    pub profile: Profile,
    /// Family of scripts that name none.
    pub version: IpVersion,
    /// Names and what stands for them, besides those that google's runner gives.
    pub defines: Vec<(String, String)>,
    /// The original tool, where it runs the scripts instead of this crate.
    pub original: Option<Original>,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Everything was as the script says.
    Passed,
    /// Something was not: where (line and column, from 1) and what.
    Failed {
        /** Line of the event. */
        line: usize,
        /** What was not as expected, perhaps in several lines. */
        why: String,
    },
    /// The script asks for something that is not here: what.
    Unsupported(String),
}

/// A run and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Of which script.
    pub path: PathBuf,
    /// How it ended.
    pub outcome: Outcome,
    /// Everything that happened, line by line, with its time; the line of the script that failed at last.
    pub timeline: Vec<String>,
}

/// Defines of google's runner for each family.
pub(crate) fn usual_defines(version: IpVersion) -> Vec<(String, String)> {
    let (cookie, code, level, kind) = match version {
        IpVersion::V4 => ("3021b9d889017eeb", "host_unreachable", "SOL_IP", "IP_RECVERR"),
        IpVersion::Mapped => ("3021b9d889017eeb", "host_unreachable", "SOL_IPV6", "IPV6_RECVERR"),
        IpVersion::V6 => ("c1d1e9742a47a9bc", "address_unreachable", "SOL_IPV6", "IPV6_RECVERR"),
    };
    let rows = [
        ("TFO_COOKIE", cookie),
        ("TFO_COOKIE_ZERO", "b7c12350a90dc8f5"),
        ("CODE", code),
        ("CMSG_LEVEL_IP", level),
        ("CMSG_TYPE_RECVERR", kind),
        ("MSS", "1460"),
    ];
    rows.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Defines that a script's own `--define=NAME=VALUE` lines give.
fn own_defines(source: &str) -> Vec<(String, String)> {
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix("--define="));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_string(), value.trim_matches(['"', '`']).to_string()))
        .collect()
}

/// The core that scripts run against, under a profile; addresses are still to be given.
pub fn core_config(profile: Profile) -> CoreConfig {
    CoreConfig {
        tcp: settings(profile),
        max_connections: 1_024,
        max_time_wait: 1_024,
        max_chunks: 1 << 15,
        seed: 1,
        ..CoreConfig::default()
    }
}

/// Runs one script; `path` is where it came from, and where scripts that it calls are looked for.
pub fn run(path: &Path, source: &str, config: &Config) -> Report {
    if let Some(original) = &config.original {
        return original.run(path, source, config);
    }
    let named = IpVersion::of_script(path, source, config.version);
    let mut defines = config.defines.clone();
    defines.extend(own_defines(source));
    defines.extend(usual_defines(named.unwrap_or(config.version)));
    let pairs: Vec<(&str, &str)> = defines.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let report = |outcome, timeline| Report { path: path.into(), outcome, timeline };
    let script = match lang::parse(source, &pairs) {
        Ok(script) => script,
        Err(complaint) => {
            let (line, _) = complaint.at.place(source);
            let why = complaint.render(&path.to_string_lossy(), source);
            return report(Outcome::Failed { line, why }, Vec::new());
        }
    };
    let options = match options::Options::read(&script.options, named, config.version) {
        Ok(options) => options,
        Err(why) => return report(ended(Stop::from(why), None, source), Vec::new()),
    };
    let core = core_config(config.profile);
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut runner = runner::Runner::new(options, core, folder, defines);
    let outcome = match runner.run(&script) {
        Ok(()) => Outcome::Passed,
        Err((stop, event)) => ended(stop, event, source),
    };
    runner.abandon();
    report(outcome, runner.timeline)
}

fn ended(stop: Stop, event: Option<&Event>, source: &str) -> Outcome {
    match stop {
        Stop::Unsupported(what) => Outcome::Unsupported(what),
        Stop::Fail(why) => Outcome::Failed { line: event.map_or(1, |event| event.span.place(source).0), why },
    }
}
