//! Results of the rows: kept in a file beside the page, so that runs of single rows on several machines add up, and
//! shown as the table of docs/CARDS.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::hardware::CORES;
use super::roles::{Outcome, Role};
use crate::run;

const PAGE: &str = "docs/CARDS.md";
const RESULTS: &str = "docs/figures/cards.tsv";
const BEGIN: &str = "<!-- cargo xtask cards: begin -->";
const END: &str = "<!-- cargo xtask cards: end -->";

/// One role of a row.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) card: String,
    pub(super) kernel: String,
    pub(super) cores: u32,
    pub(super) link: String,
    pub(super) role: String,
    pub(super) outcome: Outcome,
    /// The day on which it was tried.
    pub(super) day: String,
}

type Key = (String, String, u32, String, String);

fn results() -> PathBuf {
    run::root().join(RESULTS)
}

impl Entry {
    fn key(&self) -> Key {
        let Entry { card, kernel, cores, link, role, .. } = self.clone();
        (card, kernel, cores, link, role)
    }

    fn line(&self) -> String {
        let (word, text) = match &self.outcome {
            Outcome::Works(text) => ("works", text),
            Outcome::Refused(text) => ("refused", text),
            Outcome::Dead(text) => ("dead", text),
        };
        let text = text.replace(['\t', '\n', '\r'], " ");
        let Entry { card, kernel, cores, link, role, day, .. } = self;
        format!("{card}\t{kernel}\t{cores}\t{link}\t{role}\t{word}\t{text}\t{day}")
    }

    fn read(line: &str) -> Option<Entry> {
        let parts: Vec<_> = line.split('\t').collect();
        let [card, kernel, cores, link, role, word, text, day] = parts[..] else { return None };
        let outcome = match word {
            "works" => Outcome::Works(text.into()),
            "refused" => Outcome::Refused(text.into()),
            "dead" => Outcome::Dead(text.into()),
            _ => return None,
        };
        Some(Entry {
            card: card.into(),
            kernel: kernel.into(),
            cores: cores.parse().ok()?,
            link: link.into(),
            role: role.into(),
            outcome,
            day: day.into(),
        })
    }
}

fn kept() -> Result<BTreeMap<Key, Entry>, String> {
    let text = fs::read_to_string(results()).map_err(|error| format!("{RESULTS}: {error}"))?;
    let entry = |line: &str| {
        Entry::read(line).map(|entry| (entry.key(), entry)).ok_or(format!("{RESULTS}: not a row: {line}"))
    };
    text.lines().map(entry).collect()
}

/// Keeps an entry, instead of an older one of the same row.
pub(super) fn keep(entry: Entry) -> Result<(), String> {
    let mut all = kept()?;
    all.insert(entry.key(), entry);
    let text: String = all.values().map(|entry| entry.line() + "\n").collect();
    fs::write(results(), text).map_err(|error| format!("{RESULTS}: {error}"))
}

/// Writes the table of all rows that were kept into the page.
pub(super) fn write(qemu: &str) -> Result<(), String> {
    let path = run::root().join(PAGE);
    let told = |error: std::io::Error| format!("{PAGE}: {error}");
    let page = fs::read_to_string(&path).map_err(told)?;
    let (before, rest) = page.split_once(BEGIN).ok_or(format!("{PAGE} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).ok_or(format!("{PAGE} has no line {END}"))?;
    let table = table(&kept()?.into_values().collect::<Vec<_>>(), qemu);
    fs::write(&path, format!("{before}{BEGIN}\n{table}{END}{after}")).map_err(told)
}

fn table(entries: &[Entry], qemu: &str) -> String {
    type Row = (String, String, String);
    let mut rows: BTreeMap<Row, BTreeMap<(u32, String), &Entry>> = BTreeMap::new();
    for entry in entries {
        let row = (entry.card.clone(), entry.kernel.clone(), entry.link.clone());
        rows.entry(row).or_default().insert((entry.cores, entry.role.clone()), entry);
    }
    let mut reasons: Vec<String> = Vec::new();
    let mut text = format!("{qemu}, without KVM.\n\n");
    let roles = Role::ALL.map(Role::name);
    let columns = CORES
        .iter()
        .map(|cores| format!("{cores} core{}: ", if *cores > 1 { "s" } else { "" }) + &roles.join(" | "));
    let heads = columns.collect::<Vec<_>>().join(" | ");
    text += &format!("| Card | Kernel | Link | {heads} | Tried on |\n");
    text += &format!("|---|---|---|{}---|\n", "---|".repeat(CORES.len() * roles.len()));
    for ((card, kernel, link), cells) in &rows {
        text += &format!("| {card} | {kernel} | `{link}` |");
        for &cores in CORES {
            for role in roles {
                let cell = match cells.get(&(cores, role.to_string())) {
                    Some(entry) => cell(&entry.outcome, &mut reasons),
                    None => "-".into(),
                };
                text += &format!(" {cell} |");
            }
        }
        let day = cells.values().map(|entry| entry.day.as_str()).max().unwrap_or_default();
        text += &format!(" {day} |\n");
    }
    if !reasons.is_empty() {
        text += "\n";
    }
    for (number, reason) in (1..).zip(&reasons) {
        text += &format!("{number}. {reason}\n");
    }
    text
}

/// Reasons are told once, below the table.
fn cell(outcome: &Outcome, reasons: &mut Vec<String>) -> String {
    let (word, reason) = match outcome {
        Outcome::Works(way) => {
            // Behind the way stands what else was seen.
            return match way.split(';').next().unwrap_or_default() {
                "XDP in the driver" => "works, driver".into(),
                "generic XDP" => "works, generic".into(),
                super::roles::DPDK => "works, DPDK".into(),
                _ => "works, packet".into(),
            };
        }
        Outcome::Refused(why) => ("refused", why),
        Outcome::Dead(why) => ("**dead**", why),
    };
    let reason = reason.replace('|', "\\|");
    let known = reasons.iter().position(|known| *known == reason);
    let number = known.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    format!("{word} ({})", number + 1)
}

#[cfg(test)]
mod tests;
