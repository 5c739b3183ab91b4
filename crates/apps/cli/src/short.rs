//! Connections that opened or closed between two looks, counted together: what each alone did then is not known.

use crate::verdict::{self, Looks, number};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Answers of stacks with their process numbers.
type Rows = [(u32, Value)];

/// Traffic of the short connections of one process, all together.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Short {
    /// Connections that opened in the interval, and those of before that closed in it.
    pub(crate) count: u64,
    /// Bits a second sent, retransmissions included, and received.
    pub(crate) sent: f64,
    pub(crate) received: f64,
    /// Longest interval of a core, microseconds.
    span: u64,
}

/// Returns the identity of a connection.
fn name(pid: u32, row: &Value) -> String {
    format!("{pid} {} {} {}", row["core"], row["local"], row["remote"])
}

fn is_connection(row: &Value) -> bool {
    row["limit"].is_string()
}

/// Returns the connections of both looks, and those that only one of them has: a number that fell is of another
/// connection with the same ends.
pub(crate) fn pairs<'a>(before: &'a Rows, now: &'a Rows) -> Vec<(u32, &'a Value, &'a Value)> {
    let old: HashMap<_, _> = before.iter().map(|(pid, row)| (name(*pid, row), row)).collect();
    let kept = |was: &Value, is: &Value| {
        ["bytes_acked", "bytes_received", "busy_us"].iter().all(|key| number(was, key) <= number(is, key))
    };
    let pair = |(pid, row): &'a (u32, Value)| {
        let was = old.get(&name(*pid, row)).copied()?;
        (is_connection(was) && is_connection(row) && kept(was, row)).then_some((*pid, was, row))
    };
    now.iter().filter_map(pair).collect()
}

/// Returns the short connections of each process that had some: the growth of its cores' counters (answers to `stat`),
/// less what the connections of both looks did.
pub(crate) fn all(cores: (&Rows, &Rows), flows: (&Rows, &Rows)) -> BTreeMap<u32, Short> {
    let mut all: BTreeMap<u32, Short> = BTreeMap::new();
    let cores_before: HashMap<_, _> =
        cores.0.iter().map(|(pid, row)| ((*pid, number(row, "core")), row)).collect();
    for (pid, row) in cores.1 {
        let Some(was) = cores_before.get(&(*pid, number(row, "core"))) else { continue };
        let grew = |key: &str| number(&row["tcp"], key).saturating_sub(number(&was["tcp"], key));
        let span = number(row, "now_us").saturating_sub(number(was, "now_us"));
        let rate = |key: &str| grew(key) as f64 * 8e6 / span.max(1) as f64;
        let short = all.entry(*pid).or_default();
        short.count += grew("active_opens") + grew("passive_opens");
        short.sent += rate("bytes_out");
        short.received += rate("bytes_in");
        short.span = short.span.max(span);
    }
    let both = pairs(flows.0, flows.1);
    for (pid, before, now) in &both {
        let looks = Looks { before, now, load: None };
        if let Some(short) = all.get_mut(pid) {
            short.sent -= looks.left();
            short.received -= looks.received();
        }
    }
    for (&pid, short) in &mut all {
        let of = |flows: &Rows| flows.iter().filter(|(of, row)| *of == pid && is_connection(row)).count();
        let kept = both.iter().filter(|(of, ..)| *of == pid).count();
        let (closed, opened) = (of(flows.0) - kept, of(flows.1) - kept);
        // Those that the second answer has may have opened after the counters were read.
        short.count = short.count.max(opened as u64) + closed as u64;
        // The two answers of a look are not of the same instant.
        (short.sent, short.received) = (short.sent.max(0.0), short.received.max(0.0));
    }
    all.retain(|_, short| short.count > 0);
    all
}

impl Short {
    pub(crate) fn as_text(&self, pid: u32) -> String {
        let (count, which) = (self.count, if self.count == 1 { "connection" } else { "connections" });
        format!(
            "process {pid}: {count} {which} opened or closed within {:.1} s: sent {}, received {} together. None was \
             there at both ends of the interval, so what limits them is not known: a shorter --seconds explains those \
             that live longer than it.\n",
            self.span as f64 / 1e6,
            verdict::rate(self.sent),
            verdict::rate(self.received)
        )
    }

    pub(crate) fn as_json(&self, pid: u32) -> Value {
        json!({"pid": pid, "short_connections": self.count, "seconds": self.span as f64 / 1e6,
               "sent_bits_per_s": self.sent, "received_bits_per_s": self.received, "verdict": null})
    }
}

#[cfg(test)]
mod tests;
