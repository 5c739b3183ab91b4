//! `millstream drill`: scripts of the packetdrill language against this stack, in virtual time.

use crate::{CliResult, at_once};
use ::drill::run::{Config, IpVersion, Outcome, Profile, Report};
use ::drill::suite::{leave_out, run_all, scripts, summary};
use std::path::PathBuf;

/// Arguments of the command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose choices the stack makes where the RFCs leave them open: linux, freebsd, rfc, or default (what ships).
    #[arg(long, default_value = "linux", value_parser = profile)]
    profile: Profile,
    /// Address family of scripts that name none: ipv4, ipv6 or ipv4-mapped-ipv6.
    #[arg(long, default_value = "ipv4", value_parser = version)]
    ip_version: IpVersion,
    /// Scripts that run at the same time; 0 means one for each processor.
    #[arg(short, long, default_value_t = 0)]
    jobs: usize,
    /// A name and what stands for it, as NAME=VALUE; may be given several times.
    #[arg(short = 'D', long = "define", value_parser = define)]
    defines: Vec<(String, String)>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Print the time line of scripts that passed, too.
    #[arg(short, long)]
    verbose: bool,
    /// Scripts, and folders of scripts.
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
    let config = Config { profile: args.profile, version: args.ip_version, defines: args.defines.clone() };
    let reports = run_all(&paths, &config, at_once(args.jobs));
    let summary = summary(&reports);
    if args.json {
        println!("{}", json(&reports, left_out));
    } else {
        reports.iter().for_each(|report| print(report, args.verbose));
        let unsupported: usize = summary.unsupported.values().sum();
        println!("{} passed, {} failed, {unsupported} unsupported", summary.passed, summary.failed);
        if left_out > 0 {
            println!(
                "{left_out:7} left out: their `// profiles:` names others; a script that is named itself is run"
            );
        }
        for (what, count) in &summary.unsupported {
            println!("  {count:5} unsupported: {what}");
        }
    }
    match summary.failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} scripts failed", reports.len()).into()),
    }
}

fn print(report: &Report, verbose: bool) {
    let path = report.path.display();
    let shown = match &report.outcome {
        Outcome::Passed => {
            println!("passed {path}");
            verbose
        }
        Outcome::Unsupported(what) => {
            println!("unsupported {path}: {what}");
            verbose
        }
        Outcome::Failed { line, why } => {
            println!("FAILED {path}:{line}: {why}");
            true
        }
    };
    if shown {
        report.timeline.iter().for_each(|line| println!("  {line}"));
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
