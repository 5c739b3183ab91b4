//! `millstream drill`: scripts of the packetdrill language against this stack, in virtual time.

use crate::command::{CliResult, at_once};
use ::drill::original::Original;
use ::drill::run::{Config, IpVersion, Outcome, Profile, Report};
use ::drill::suite::{leave_out, run_all, scripts, summary};
use std::path::{Path, PathBuf};

/// Arguments of the command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stack behaviour where the RFCs leave a choice: linux, freebsd, rfc, or default (the shipped settings).
    #[arg(long, default_value = "linux", value_parser = profile)]
    profile: Profile,
    /// Address family of scripts that do not set one: ipv4, ipv6 or ipv4-mapped-ipv6.
    #[arg(long, default_value = "ipv4", value_parser = version)]
    ip_version: IpVersion,
    /// Number of scripts that run at the same time; 0 is one per processor.
    #[arg(short, long, default_value_t = 0)]
    jobs: usize,
    /// Symbol and its replacement, NAME=VALUE. Can be repeated.
    #[arg(short = 'D', long = "define", value_parser = define)]
    defines: Vec<(String, String)>,
    /// Run the scripts with the original packetdrill program. The library beside this command, or `--library`, drives
    /// this stack; the machine's settings stay as they are.
    #[arg(long, value_name = "PACKETDRILL")]
    tool: Option<PathBuf>,
    /// Path of libmillstream_drill.so, for `--tool`.
    #[arg(long, value_name = "FILE", requires = "tool")]
    library: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Print the time line of passed scripts, too.
    #[arg(short, long)]
    verbose: bool,
    /// Scripts, or folders of scripts.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::named(name).ok_or_else(|| known(Profile::ALL.iter().map(|row| row.0)))
}

fn version(name: &str) -> Result<IpVersion, String> {
    IpVersion::named(name).ok_or_else(|| known(IpVersion::ALL.iter().map(|row| row.0)))
}

fn known<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("there are {}", names.collect::<Vec<_>>().join(", "))
}

fn define(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a define is NAME=VALUE")?;
    Ok((name.into(), value.into()))
}

/// Runs the scripts; an error if any failed.
pub(crate) fn run(args: &Args) -> CliResult {
    let mut paths = scripts(&args.paths)?;
    let left_out = leave_out(&mut paths, &args.paths, args.profile)?;
    let config = Config {
        profile: args.profile,
        version: args.ip_version,
        defines: args.defines.clone(),
        original: original(args)?,
    };
    let reports = run_all(&paths, &config, at_once(args.jobs));
    let summary = summary(&reports);
    if args.json {
        outln!("{}", json(&reports, left_out));
    } else {
        reports.iter().for_each(|report| print(report, args.verbose));
        let unsupported: usize = summary.unsupported.values().sum();
        outln!("{} passed, {} failed, {unsupported} unsupported", summary.passed, summary.failed);
        if left_out > 0 {
            outln!(
                "{left_out:7} left out: their `// profiles:` names others; a script that is named itself is run"
            );
        }
        for (what, count) in &summary.unsupported {
            outln!("  {count:5} unsupported: {what}");
        }
    }
    match summary.failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} scripts failed", reports.len()).into()),
    }
}

/// The original tool and the library for it, if the tool is to run the scripts.
///
/// # Errors
/// One of them is not there, with what to do.
fn original(args: &Args) -> Result<Option<Original>, String> {
    const LIBRARY: &str = "libmillstream_drill.so";
    let Some(tool) = &args.tool else { return Ok(None) };
    let there = |path: &Path| path.canonicalize().map_err(|e| format!("{}: {e}", path.display()));
    let tool = there(tool)?;
    let library = match &args.library {
        Some(library) => there(library)?,
        None => {
            let own = std::env::current_exe().map_err(|e| format!("where this command lies: {e}"))?;
            let beside = own.with_file_name(LIBRARY);
            let build =
                "`cargo build --release -p millstream-drill-plugin` makes it, --library=FILE names another";
            beside.canonicalize().map_err(|e| format!("{}: {e}; {build}", beside.display()))?
        }
    };
    Ok(Some(Original { tool, library }))
}

fn print(report: &Report, verbose: bool) {
    let path = report.path.display();
    let shown = match &report.outcome {
        Outcome::Passed => {
            outln!("passed {path}");
            verbose
        }
        Outcome::Unsupported(what) => {
            outln!("unsupported {path}: {what}");
            verbose
        }
        Outcome::Failed { line, why } => {
            outln!("FAILED {path}:{line}: {why}");
            true
        }
    };
    if shown {
        report.timeline.iter().for_each(|line| outln!("  {line}"));
    }
}

fn json(reports: &[Report], left_out: usize) -> serde_json::Value {
    let summary = summary(reports);
    let scripts: Vec<_> = reports
        .iter()
        .map(|report| {
            let path = report.path.display().to_string();
            match &report.outcome {
                Outcome::Passed => serde_json::json!({"path": path, "outcome": "passed"}),
                Outcome::Failed { line, why } => {
                    serde_json::json!({"path": path, "outcome": "failed", "line": line, "why": why})
                }
                Outcome::Unsupported(what) => {
                    serde_json::json!({"path": path, "outcome": "unsupported", "why": what})
                }
            }
        })
        .collect();
    serde_json::json!({
        "passed": summary.passed,
        "failed": summary.failed,
        "unsupported": summary.unsupported,
        "left_out": left_out,
        "scripts": scripts,
    })
}
