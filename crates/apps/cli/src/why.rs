//! `millstream why`: what limits a connection, in a sentence or two with numbers, and what would help.

use crate::command::CliResult;
use crate::verdict::{self, Looks};
use crate::{checksums, short, show, stacks};
use clap::Args as ClapArgs;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

/// Flags of `why`.
#[derive(ClapArgs)]
pub(crate) struct WhyArgs {
    /// Connections to explain, by address, port or both (10.0.0.2:40000) of either end; default: those with the most
    /// traffic.
    #[arg(value_name = "ADDR")]
    which: Option<String>,
    #[command(flatten)]
    show: show::Args,
    /// Seconds to watch.
    #[arg(short, long, default_value_t = 1.0)]
    seconds: f64,
    /// Largest number of connections to explain.
    #[arg(short = 'n', long, default_value_t = 10)]
    flows: usize,
}

/// Does an end, as rows have it, meet what was asked for?
fn meets(end: &str, which: &str) -> bool {
    let (host, port) = end.rsplit_once(':').unwrap_or((end, ""));
    let bare = |text: &str| text.trim_start_matches('[').trim_end_matches(']').to_string();
    end == which || bare(host) == bare(which) || port == which.trim_start_matches(':')
}

/// How busy each core was between two looks: the share of the time in which it neither slept nor spun.
pub(crate) fn loads(before: &[(u32, Value)], now: &[(u32, Value)]) -> HashMap<(u32, u64), f64> {
    let core = |pid: &u32, row: &Value| (*pid, verdict::number(row, "core"));
    let old: HashMap<_, _> = before.iter().map(|(pid, row)| (core(pid, row), row)).collect();
    let load = |(pid, row): &(u32, Value)| {
        let was = old.get(&core(pid, row))?;
        let grew = |key: &str| {
            verdict::number(&row["sock"], key).saturating_sub(verdict::number(&was["sock"], key)) as f64
        };
        let span = verdict::number(row, "now_us").saturating_sub(verdict::number(was, "now_us"));
        let free = (grew("spin_us") + grew("sleep_us")) / span.max(1) as f64;
        (span > 0).then_some((core(pid, row), (1.0 - free).clamp(0.0, 1.0)))
    };
    now.iter().filter_map(load).collect()
}

/// `millstream why`.
pub(crate) fn run(args: &WhyArgs) -> CliResult {
    let span = Duration::try_from_secs_f64(args.seconds).map_err(|_| "--seconds takes seconds")?;
    let ask = |question| stacks::answers(args.show.pid, question);
    let (cores, before) = (ask("stat")?, ask("ss")?);
    std::thread::sleep(span.max(Duration::from_millis(50)));
    let (cores_now, now) = (ask("stat")?, ask("ss")?);
    let loads = loads(&cores, &cores_now);
    let wanted = |row: &Value| {
        let end = |key: &str| row[key].as_str().unwrap_or("").to_string();
        let chosen = |which: &String| meets(&end("local"), which) || meets(&end("remote"), which);
        args.which.as_ref().is_none_or(chosen)
    };
    let mut found: Vec<Looks<'_>> = short::pairs(&before, &now)
        .into_iter()
        .filter(|(.., row)| wanted(row))
        .map(|(pid, before, now)| {
            let load = loads.get(&(pid, verdict::number(now, "core"))).copied();
            Looks { before, now, load }
        })
        .collect();
    // A listener or an entry in TIME-WAIT tells of connections that no look has.
    let has = |pid: u32| before.iter().chain(&now).any(|(of, row)| *of == pid && wanted(row));
    let mut short = short::all((&cores, &cores_now), (&before, &now));
    short.retain(|&pid, _| has(pid) || args.which.is_none());
    let mut out = std::io::stdout().lock();
    let findings = checksums::findings(&cores, &cores_now, &now);
    for finding in &findings {
        match args.show.json {
            true => writeln!(out, "{}", finding.as_json())?,
            false => write!(out, "{}", finding.as_text())?,
        }
    }
    for (&pid, short) in &short {
        match args.show.json {
            true => writeln!(out, "{}", short.as_json(pid))?,
            false => write!(out, "{}", short.as_text(pid))?,
        }
    }
    if found.is_empty() && (!short.is_empty() || args.which.is_none() && !findings.is_empty()) {
        return Ok(());
    }
    if found.is_empty() {
        return Err(match &args.which {
            Some(which) => {
                format!("no connection of a running stack has {which} at either end; see millstream ss")
            }
            None => "the running stacks have no connections".to_string(),
        }
        .into());
    }
    found.sort_by(|a, b| (b.sent() + b.received()).total_cmp(&(a.sent() + a.received())));
    let left = found.len().saturating_sub(args.flows);
    for looks in found.iter().take(args.flows) {
        match args.show.json {
            true => writeln!(out, "{}", as_json(looks))?,
            false => write!(out, "{}", as_text(looks))?,
        }
    }
    if left > 0 && !args.show.json {
        writeln!(out, "and {left} more: name an end, or --flows")?;
    }
    Ok(())
}

fn as_json(looks: &Looks<'_>) -> Value {
    let (sender, receiver) = (looks.sender(), looks.receiver());
    let row = looks.now;
    json!({
        "pid": row["pid"], "core": row["core"], "state": row["state"], "local": row["local"], "remote": row["remote"],
        "seconds": looks.span() as f64 / 1e6,
        "sent_bits_per_s": looks.sent(), "received_bits_per_s": looks.received(), "core_load": looks.load,
        "verdict": looks.verdict().word,
        "sender": {"limit": sender.word, "share": sender.share, "why": sender.text},
        "receiver": {"limit": receiver.word, "share": receiver.share, "why": receiver.text},
        "limited_us": row["limited_us"], "reader_us": row["reader_us"], "busy_us": row["busy_us"],
        "snd_lim": row["snd_lim"],
    })
}

fn as_text(looks: &Looks<'_>) -> String {
    let row = looks.now;
    let text = |key: &str| row[key].as_str().unwrap_or("");
    let mut lines = format!(
        "{} -> {}  {}  sent {}, received {} over {:.1} s\n",
        text("local"),
        text("remote"),
        text("state"),
        verdict::rate(looks.sent()),
        verdict::rate(looks.received()),
        looks.span() as f64 / 1e6
    );
    let side = |what: &str, verdict: &verdict::Verdict| {
        let share = verdict.share.map_or(String::new(), |share| format!(" ({:.0} %)", share * 100.0));
        format!("  {what}: {}{share}. {}\n", verdict.word, verdict.text)
    };
    let (sender, receiver) = (looks.sender(), looks.receiver());
    let receives = looks.received() > 0.0 || receiver.word != "peer";
    if sender.word != "idle" || !receives || looks.sent() > looks.received() {
        lines += &side("sending", &sender);
    }
    if receives {
        lines += &side("receiving", &receiver);
    }
    lines + &since_it_began(row)
}

/// The whole life of a connection in RFC 4898's terms, if anything ever held it.
fn since_it_began(row: &Value) -> String {
    let seconds = |value: &Value| format!("{:.1} s", value.as_u64().unwrap_or(0) as f64 / 1e6);
    let held = row["limited_us"].as_object().into_iter().flatten();
    let mut parts: Vec<_> = held
        .filter(|(_, time)| time.as_u64() != Some(0))
        .map(|(name, time)| format!("{name} {}", seconds(time)))
        .collect();
    if verdict::number(row, "reader_us") > 0 {
        parts.push(format!("reader {}", seconds(&row["reader_us"])));
    }
    if parts.is_empty() {
        return String::new();
    }
    let lim = &row["snd_lim"];
    format!(
        "  since it began: {} of {} busy; SndLimTrans Rwin {} Cwin {} Snd {}\n",
        parts.join(", "),
        seconds(&row["busy_us"]),
        lim["trans_rwin"],
        lim["trans_cwin"],
        lim["trans_snd"]
    )
}

#[cfg(test)]
mod tests;
