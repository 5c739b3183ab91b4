//! Findings about checksums, for `why`: a wrong guess of where they are computed or checked looks like a silent peer.

use crate::verdict::number;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Retransmissions after which a connection counts as one that was never acknowledged. Those of SYNs count.
const UNHEARD: u64 = 2;

/// One finding about a process's stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) pid: u32,
    /// Its name.
    pub(crate) word: &'static str,
    /// Packets or connections since the stack began.
    count: u64,
    /// Of those, the number between the two looks; `None` where only the present is known.
    recent: Option<u64>,
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn as_json(&self) -> Value {
        let Finding { pid, word, count, recent, text } = self;
        json!({"pid": pid, "finding": word, "count": count, "recent": recent, "text": text})
    }

    pub(crate) fn as_text(&self) -> String {
        format!("process {}: {}. {}\n", self.pid, self.word, self.text)
    }
}

/// Figures of one process, summed over its cores.
#[derive(Default)]
struct Sums {
    /// Microseconds since the stack began, of the oldest core.
    age: u64,
    /// Microseconds between the looks.
    span: u64,
    bad: (u64, u64),
    open: (u64, u64),
    /// Names of the ports that leave checksums to the card.
    card: Option<String>,
    /// Connections of which the peer acknowledged something.
    heard: u64,
    /// Connections that retransmitted and were never acknowledged.
    unheard: u64,
}

/// Returns the findings of all processes: `before` and `now` are two answers to `stat`, and `rows` is one to `ss`.
pub(crate) fn findings(before: &[(u32, Value)], now: &[(u32, Value)], rows: &[(u32, Value)]) -> Vec<Finding> {
    let mut all: BTreeMap<u32, Sums> = BTreeMap::new();
    for (pid, core) in now {
        let was = before.iter().find(|(of, was)| of == pid && was["core"] == core["core"]);
        let was = was.map_or(&Value::Null, |(_, was)| was);
        let grew = |key: &str| {
            let count = number(&core["stack"], key);
            // A core that was not there before began meanwhile.
            (count, count.saturating_sub(number(&was["stack"], key)))
        };
        let sums = all.entry(*pid).or_default();
        let add = |to: &mut (u64, u64), (count, recent): (u64, u64)| *to = (to.0 + count, to.1 + recent);
        add(&mut sums.bad, grew("drop_checksum"));
        add(&mut sums.open, grew("partial_checksums"));
        sums.age = sums.age.max(number(core, "now_us"));
        sums.span = sums.span.max(number(core, "now_us").saturating_sub(number(was, "now_us")));
        if core["port"]["tx_checksum"] == true {
            sums.card = core["port"]["name"].as_str().map(String::from).or(sums.card.take());
        }
    }
    for (pid, row) in rows.iter().filter(|(_, row)| row["delivered"].is_u64()) {
        let Some(sums) = all.get_mut(pid) else { continue };
        if number(row, "delivered") > 0 {
            sums.heard += 1;
        } else if number(row, "retransmits") >= UNHEARD {
            sums.unheard += 1;
        }
    }
    all.iter().flat_map(|(&pid, sums)| sums.findings(pid)).collect()
}

impl Sums {
    fn findings(&self, pid: u32) -> Vec<Finding> {
        let mut found = Vec::new();
        let seconds = |micros: u64| format!("{:.1} s", micros as f64 / 1e6);
        let since = |(count, recent): (u64, u64)| {
            format!(
                "{count} packets since the stack began {} ago, {recent} of them in the last {}",
                seconds(self.age),
                seconds(self.span)
            )
        };
        if self.bad.0 > 0 {
            found.push(Finding {
                pid,
                word: "bad-checksum",
                count: self.bad.0,
                recent: Some(self.bad.1),
                text: format!(
                    "{} were dropped because TCP's checksum in them is wrong. The path damages them, or the sender \
                     leaves checksums to a card that does not fill them in: there, `ethtool -K IFACE tx off` makes its \
                     kernel compute them.",
                    since(self.bad)
                ),
            });
        }
        if self.open.0 > 0 {
            found.push(Finding {
                pid,
                word: "open-checksum",
                count: self.open.0,
                recent: Some(self.open.1),
                text: format!(
                    "{} were accepted with a checksum that the sender left open. Peers on this machine (veth, virtio, \
                     containers) send such; of a peer on another machine it says that its card does not fill in \
                     checksums.",
                    since(self.open)
                ),
            });
        }
        if let (Some(port), 0, 1..) = (&self.card, self.heard, self.unheard) {
            found.push(Finding {
                pid,
                word: "unacknowledged",
                count: self.unheard,
                recent: None,
                text: format!(
                    "No peer ever acknowledged a segment on any connection, and {} retransmitted {UNHEARD} times or \
                     more, while {port} leaves all checksums to the card. If peers are reachable otherwise (ping), \
                     have the stack compute them: {}.",
                    self.unheard,
                    remedy(port)
                ),
            });
        }
        found
    }
}

/// Returns the setting that has the stack compute checksums, for a port of this name.
fn remedy(port: &str) -> String {
    match port.split(':').next() {
        Some("packet" | "tap") => format!("`--link {port},offload=off`"),
        Some("xdp") => format!("`--link {port},checksum=stack`"),
        _ => "docs/LINKS.md has the settings of the link".into(),
    }
}

#[cfg(test)]
mod tests;
