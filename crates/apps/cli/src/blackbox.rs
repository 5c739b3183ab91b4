//! `millstream blackbox`: the last moments of connections.

use crate::command::CliResult;
use crate::{show, stacks};
use clap::Args as ClapArgs;
use std::io::Write;

/// Flags of `blackbox`.
#[derive(ClapArgs)]
pub(crate) struct BlackboxArgs {
    #[command(flatten)]
    show: show::Args,
    /// Show only this connection: LOCAL-REMOTE, each like 192.0.2.1:80, with an IPv6 address in brackets.
    flow: Option<String>,
    /// Start recording, with this many events kept for each connection.
    #[arg(long, value_name = "RECORDS", conflicts_with_all = ["flow", "off"])]
    on: Option<u32>,
    /// Stop recording and delete the recorded events.
    #[arg(long, conflicts_with = "flow")]
    off: bool,
}

/// `millstream blackbox`.
pub(crate) fn run(args: &BlackboxArgs) -> CliResult {
    let flow = match args.flow.as_deref().map(|flow| flow.split_once('-')) {
        None => String::new(),
        Some(Some((local, remote))) => format!(" {local} {remote}"),
        Some(None) => return Err("write the connection as LOCAL-REMOTE".into()),
    };
    let question = match (args.on, args.off, args.show.json) {
        (Some(records), ..) => format!("blackbox on {records}"),
        (None, true, _) => "blackbox off".into(),
        (None, false, true) => format!("blackbox records{flow}"),
        (None, false, false) => format!("blackbox lines{flow}"),
    };
    let mut out = std::io::stdout().lock();
    for (pid, row) in stacks::answers(args.show.pid, &question)? {
        match row["text"].as_str() {
            Some(text) => writeln!(out, "process {pid}, core {}: {text}", row["core"])?,
            None => writeln!(out, "{row}")?,
        }
    }
    Ok(())
}
