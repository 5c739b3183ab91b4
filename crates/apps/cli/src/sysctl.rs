//! `millstream sysctl`: names and values of running stacks, in sysctl(8)'s manner.

use crate::command::CliResult;
use crate::stacks;
use clap::Args as ClapArgs;
use serde_json::Value;

/// Flags of `sysctl`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Process to ask; default: every running stack.
    #[arg(long)]
    pid: Option<u32>,
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
    /// List all names.
    #[arg(short, long)]
    all: bool,
    /// Print the meaning and the range of each name, too.
    #[arg(short, long)]
    describe: bool,
    /// Name, prefix of names up to a dot, or NAME=VALUE.
    #[arg(value_name = "NAME[=VALUE]", required_unless_present = "all")]
    names: Vec<String>,
}

pub(crate) fn run(args: &Args) -> CliResult {
    let everything = [String::new()];
    let requests = if args.all { &everything } else { &args.names[..] };
    for request in requests {
        let answers = stacks::answers(args.pid, &format!("sysctl {request}"))?;
        let several = answers.iter().any(|(pid, _)| *pid != answers[0].0);
        for (pid, value) in &answers {
            match args.json {
                true => outln!("{value}"),
                false => print(args, several.then_some(*pid), value),
            }
        }
    }
    Ok(())
}

/// `name: value`, or `name: old -> new` where something was set; with the process before it where there are several.
fn print(args: &Args, pid: Option<u32>, answer: &Value) {
    let text = |key: &str| answer[key].as_str();
    let process = pid.map_or(String::new(), |pid| format!("{pid} "));
    let name = text("name").unwrap_or_default();
    match (text("old"), text("value")) {
        (Some(old), Some(new)) => outln!("{process}{name}: {old} -> {new}"),
        (None, Some(value)) => outln!("{process}{name}: {value}"),
        // It can only be written: a request was done, or the list names it.
        (_, None) if answer.get("help").is_none() => outln!("{process}{name}: done"),
        (_, None) if !args.describe => {}
        (_, None) => outln!("{process}{name}"),
    }
    if let (true, Some(help)) = (args.describe, text("help")) {
        let access = if answer["writable"] == true { "" } else { "; read-only" };
        outln!("    {help}\n    {}{access}", text("form").unwrap_or_default());
    }
}
