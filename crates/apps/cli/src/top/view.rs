//! View of `top` on two snapshots, and the effect of keys.

use super::screen::Key;
use super::{Flow, Look};
use crate::verdict::{self, number};
use crate::{short, show, why};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

/// A column of connections, by the key that sorts by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Rate,
    Out,
    In,
    Again,
    Why,
    Load,
    Rtt,
    Window,
    Flight,
    Peer,
}

/// Key, head, and whether the largest comes first.
const COLUMNS: [(char, Column, &str, bool); 10] = [
    ('b', Column::Rate, "bit/s", true),
    ('o', Column::Out, "out", true),
    ('n', Column::In, "in", true),
    ('r', Column::Again, "retr/s", true),
    ('w', Column::Why, "why", false),
    ('l', Column::Load, "share", true),
    ('t', Column::Rtt, "rtt ms", true),
    ('c', Column::Window, "cwnd", true),
    ('f', Column::Flight, "in flight", true),
    ('a', Column::Peer, "peer", false),
];

const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// State of the view.
pub(super) struct View {
    sort: Column,
    inverted: bool,
    first: usize,
    pub(super) paused: bool,
    help: bool,
    pub(super) delay: Duration,
    /// Connections to show at most.
    pub(super) flows: usize,
    /// Processes that have ended, and for how many pictures that is still said.
    ended: HashMap<u32, u8>,
}

/// How often it is said that a process has ended.
const REMEMBERED: u8 = 10;

impl View {
    pub(super) fn new(delay: Duration, flows: usize) -> View {
        let delay = delay.clamp(DELAYS.0, DELAYS.1);
        let ended = HashMap::new();
        View {
            sort: Column::Rate,
            inverted: false,
            first: 0,
            paused: false,
            help: false,
            delay,
            flows,
            ended,
        }
    }

    /// A key was pressed; `false` if that was the last.
    pub(super) fn on_key(&mut self, key: Key) -> bool {
        match key {
            Key::Quit | Key::Letter('q') => return false,
            Key::Up | Key::Letter('k') => self.first = self.first.saturating_sub(1),
            Key::Down | Key::Letter('j') => self.first += 1,
            Key::Letter('i') => self.inverted = !self.inverted,
            Key::Letter('p' | ' ') => self.paused = !self.paused,
            Key::Letter('?' | 'h') => self.help = !self.help,
            Key::Letter('+') => self.delay = (self.delay * 2).min(DELAYS.1),
            Key::Letter('-') => self.delay = (self.delay / 2).max(DELAYS.0),
            Key::Letter(letter) => {
                if let Some((_, column, ..)) = COLUMNS.iter().find(|(key, ..)| *key == letter) {
                    (self.sort, self.first) = (*column, 0);
                }
            }
        }
        true
    }

    /// A new look: programs that ended since the last one are remembered for a while.
    pub(super) fn on_look(&mut self, before: &Look, now: &Look) {
        self.ended.retain(|_, times| {
            *times -= 1;
            *times > 0
        });
        let lives = |pid: u32| now.cores.iter().any(|(other, _)| *other == pid);
        for (pid, _) in before.cores.iter().filter(|(pid, _)| !lives(*pid)) {
            self.ended.insert(*pid, REMEMBERED);
        }
        self.ended.retain(|pid, _| !lives(*pid));
    }

    /// Two looks as lines.
    pub(super) fn picture(&mut self, before: &Look, now: &Look) -> String {
        let mut text = cores(before, now);
        let mut ended: Vec<_> = self.ended.keys().collect();
        ended.sort();
        for pid in ended {
            text += &format!("process {pid} has ended\n");
        }
        for problem in &now.problems {
            text += &format!("{problem}\n");
        }
        if now.cores.is_empty() {
            text += "no stack runs here; waiting for one\n";
        }
        text.push('\n');
        text + &self.connections(before, now)
    }

    /// The line about keys, above the picture on a terminal.
    pub(super) fn heading(&self) -> String {
        let paused = if self.paused { ", paused" } else { "" };
        let (key, head) = COLUMNS
            .iter()
            .find(|(_, column, ..)| *column == self.sort)
            .map_or((' ', ""), |(key, _, head, _)| (*key, *head));
        let inverted = if self.inverted { " inverted" } else { "" };
        let mut text = format!(
            "millstream top, every {:.1} s{paused}; sorted by {head} ({key}){inverted}; ? keys, q quit\n",
            self.delay.as_secs_f64()
        );
        if self.help {
            let keys: Vec<_> = COLUMNS.iter().map(|(key, _, head, _)| format!("{key} {head}")).collect();
            text += &format!("sort by: {}; i inverts\n", keys.join(", "));
            text += "up, down (k, j) scroll; + slower, - faster; p pauses; q or Ctrl-C ends\n";
        }
        text
    }

    fn connections(&mut self, before: &Look, now: &Look) -> String {
        let mut rows = Flow::all(before, now);
        let descends = COLUMNS.iter().any(|(_, column, _, descends)| *column == self.sort && *descends);
        let sort = self.sort;
        rows.sort_by(|a, b| {
            let order = compare(sort, a, b);
            // Among equals the busiest comes first.
            (if descends != self.inverted { order.reverse() } else { order })
                .then(b.rate().total_cmp(&a.rate()))
        });
        let total = rows.len();
        self.first = self.first.min(total.saturating_sub(1));
        let heads =
            ["out bit/s", "in bit/s", "retr/s", "why", "share", "state", "local", "peer", "cc", "cwnd"];
        let mut table = show::Table::new(&[&heads[..], &["in flight", "rtt ms", "process"]].concat());
        for flow in rows.iter().skip(self.first).take(self.flows) {
            let text = |key: &str| flow.row[key].as_str().unwrap_or("").to_string();
            table.row(vec![
                short(flow.out),
                short(flow.into),
                short(flow.again),
                flow.verdict.word.into(),
                flow.verdict.share.map_or(String::new(), |share| format!("{:.0}%", share * 100.0)),
                text("state"),
                text("local"),
                text("remote"),
                text("cc"),
                number(flow.row, "cwnd").to_string(),
                number(flow.row, "in_flight").to_string(),
                show::millis(flow.row, "srtt_us"),
                flow.pid.to_string(),
            ]);
        }
        for (pid, short) in short::all((&before.cores, &now.cores), (&before.flows, &now.flows)) {
            let mut cells = vec![String::new(); heads.len() + 2];
            (cells[0], cells[1]) = (self::short(short.sent), self::short(short.received));
            (cells[3], cells[6]) = ("short".into(), format!("({} opened or closed)", short.count));
            cells.push(pid.to_string());
            table.row(cells);
        }
        let (from, to) = (self.first, (self.first + self.flows).min(total));
        let shown = if from == 0 { to.to_string() } else { format!("{} to {to}", from + 1) };
        format!("{}{shown} of {total} connections\n", table.show())
    }
}

fn compare(column: Column, a: &Flow<'_>, b: &Flow<'_>) -> Ordering {
    let of = |key: &str| number(a.row, key).cmp(&number(b.row, key));
    match column {
        Column::Rate => a.rate().total_cmp(&b.rate()),
        Column::Out => a.out.total_cmp(&b.out),
        Column::In => a.into.total_cmp(&b.into),
        Column::Again => a.again.total_cmp(&b.again),
        Column::Why => a.verdict.word.cmp(b.verdict.word),
        Column::Load => a.verdict.share.unwrap_or(0.0).total_cmp(&b.verdict.share.unwrap_or(0.0)),
        Column::Rtt => of("srtt_us"),
        Column::Window => of("cwnd"),
        Column::Flight => of("in_flight"),
        Column::Peer => a.row["remote"].as_str().cmp(&b.row["remote"].as_str()),
    }
}

/// The cores, a line each.
fn cores(before: &Look, now: &Look) -> String {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let heads =
        ["process", "core", "load", "spin", "conns", "t-wait", "new/s", "in bit/s", "out bit/s", "pkt in"];
    let mut table = show::Table::new(&[&heads[..], &["pkt out", "retr/s", "ev/wake", "job/wake"]].concat());
    let loads = why::loads(&before.cores, &now.cores);
    let old: HashMap<_, _> =
        before.cores.iter().map(|(pid, row)| ((*pid, number(row, "core")), row)).collect();
    for (pid, row) in &now.cores {
        let core = (*pid, number(row, "core"));
        let Some(was) = old.get(&core) else { continue };
        let per = |section: &str, key: &str| {
            number(&row[section], key).saturating_sub(number(&was[section], key)) as f64 / seconds
        };
        // How much a wake brings: batches grow with the load.
        let a_wake = |key: &str| short(per("sock", key) / per("sock", "wakes").max(1.0 / seconds));
        table.row(vec![
            pid.to_string(),
            core.1.to_string(),
            loads.get(&core).map_or(String::new(), |load| format!("{:.0}%", load * 100.0)),
            format!("{:.0}%", per("sock", "spin_us") / 10_000.0),
            number(&row["stack"], "connections").to_string(),
            number(&row["stack"], "time_wait").to_string(),
            short(per("tcp", "established")),
            short(8.0 * per("tcp", "bytes_in")),
            short(8.0 * per("tcp", "bytes_out")),
            short(per("stack", "packets_in")),
            short(per("stack", "packets_out")),
            short(per("tcp", "retransmits")),
            a_wake("events"),
            a_wake("jobs"),
        ]);
    }
    table.show()
}

/// Four digits at most, with the letter of its magnitude.
fn short(value: f64) -> String {
    let mut value = value;
    for letter in ["", "k", "M", "G"] {
        if value < 999.5 {
            let digits = usize::from(value < 99.95 && !letter.is_empty());
            return format!("{value:.digits$}{letter}");
        }
        value /= 1_000.0;
    }
    format!("{value:.1}T")
}

impl<'a> Flow<'a> {
    /// The connections of a look that live, with what they did since the one before.
    fn all(before: &'a Look, now: &'a Look) -> Vec<Flow<'a>> {
        let loads = why::loads(&before.cores, &now.cores);
        let flow = |(pid, was, row): (u32, &'a serde_json::Value, &'a serde_json::Value)| {
            let load = loads.get(&(pid, number(row, "core"))).copied();
            let looks = verdict::Looks { before: was, now: row, load };
            let again = number(row, "retransmits").saturating_sub(number(was, "retransmits"));
            let again = again as f64 * 1e6 / looks.span().max(1) as f64;
            Flow { pid, row, out: looks.sent(), into: looks.received(), again, verdict: looks.verdict() }
        };
        short::pairs(&before.flows, &now.flows).into_iter().map(flow).collect()
    }

    fn rate(&self) -> f64 {
        self.out + self.into
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
