//! Totals of the pipes, as text and as JSON.

use base::{Duration, Instant};
use emu::{Bridge, BridgeCounters, PipeConfig, PipeCounters, Queue};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The names of both ends.
pub(super) struct Ends([String; 2]);

impl Ends {
    pub(super) fn new(names: [&str; 2]) -> Ends {
        Ends(names.map(Into::into))
    }

    fn way(&self, end: usize) -> (&str, &str) {
        (&self.0[end], &self.0[1 - end])
    }

    /// The listing: a paragraph for each pipe.
    pub(super) fn text(&self, bridge: &Bridge) -> String {
        let mut all = String::new();
        for end in 0..2 {
            // Writing to a string never fails.
            let _ = self.paragraph(&mut all, bridge, end);
        }
        all
    }

    fn paragraph(&self, all: &mut String, bridge: &Bridge, end: usize) -> std::fmt::Result {
        let (pipe, ours, late) = (bridge.pipe(end), bridge.counters(end), bridge.lateness(end));
        let c = pipe.counters();
        let (from, to) = self.way(end);
        writeln!(all, "pipe {end}, {from} to {to}: {}", describe(pipe.config()))?;
        writeln!(
            all,
            "  total {} packets, {} bytes; delivered {}, {} bytes; inside {}",
            c.arrived,
            c.arrived_bytes,
            c.delivered,
            c.delivered_bytes,
            pipe.under_way()
        )?;
        let dropped = drops(c);
        let reasons: Vec<_> = dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let total: u64 = dropped.iter().map(|(_, count)| count).sum();
        writeln!(all, "  dropped {total}: {}", reasons.join(", "))?;
        let marked = [
            ("marked", c.marked),
            ("duplicated", c.duplicated),
            ("corrupted", c.corrupted),
            ("reordered", c.reordered),
            ("super-segments cut", ours.cut),
            ("checksums completed", ours.completed),
            ("too big for the link", ours.oversize),
            ("undelivered", ours.undelivered),
        ];
        let seen: Vec<_> = marked.iter().filter(|(_, count)| *count > 0).collect();
        if !seen.is_empty() {
            let words: Vec<_> = seen.iter().map(|(name, count)| format!("{name} {count}")).collect();
            writeln!(all, "  {}", words.join(", "))?;
        }
        let us = |q| late.value_at_quantile(q);
        writeln!(all, "  late by us: p50 {}, p99 {}, most {}", us(0.5), us(0.99), late.max())
    }

    /// Returns the totals as one JSON object.
    pub(super) fn json(&self, bridge: &Bridge) -> Value {
        let pipes: Vec<Value> = (0..2).map(|end| self.pipe_json(bridge, end)).collect();
        json!({ "pipes": pipes })
    }

    fn pipe_json(&self, bridge: &Bridge, end: usize) -> Value {
        let (pipe, late) = (bridge.pipe(end), bridge.lateness(end));
        let (from, to) = self.way(end);
        let named = |rows: &[(&str, &str)], values: &[u64]| -> Value {
            let row = |((name, _), value): (&(&str, &str), &u64)| (name.to_string(), (*value).into());
            rows.iter().zip(values).map(row).collect::<Map<_, _>>().into()
        };
        let link: Map<_, _> = bridge
            .port(end)
            .stats()
            .into_iter()
            .map(|(name, value)| (name.to_string(), value.into()))
            .collect();
        let us = |q| late.value_at_quantile(q);
        json!({
            "from": from,
            "to": to,
            "seed": pipe.seed(),
            "pipe": named(PipeCounters::ROWS, &pipe.counters().values()),
            "bridge": named(BridgeCounters::ROWS, &bridge.counters(end).values()),
            "link": link,
            "inside": pipe.under_way(),
            "late_us": { "p50": us(0.5), "p99": us(0.99), "p999": us(0.999), "most": late.max() },
        })
    }
}

fn drops(c: &PipeCounters) -> [(&'static str, u64); 5] {
    [("pls", c.listed), ("plr", c.lost), ("aqm", c.managed), ("full", c.full), ("down", c.down)]
}

fn describe(config: &PipeConfig) -> String {
    let rate = match config.rate {
        Some(rate) => format!("{} kbit/s", rate.bits_per_sec() / 1000),
        None => "no limit".into(),
    };
    let queue = match config.queue {
        Queue::Unlimited => "unlimited".into(),
        Queue::Slots(slots) => format!("slots {slots}"),
        Queue::Strict(bytes) => format!("strict {bytes}"),
        Queue::Loose(bytes) => format!("loose {bytes}"),
    };
    let mut text = format!("{rate}, {} ms, queue {queue}", config.delay.as_secs_f64() * 1e3);
    if !config.discard.positions.is_empty() {
        // As above.
        let _ = write!(text, ", pls {}", config.discard);
    }
    text
}

/// Says every so often what goes through.
pub(super) struct Meter {
    every: Duration,
    next: Option<Instant>,
    last: Instant,
    before: [(u64, u64); 2],
}

impl Meter {
    /// Every `every`; never if that is zero.
    pub(super) fn new(every: Duration, now: Instant) -> Meter {
        let next = (every > Duration::ZERO).then(|| now + every);
        Meter { every, next, last: now, before: [(0, 0); 2] }
    }

    /// When it speaks next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// A line, if it is time.
    pub(super) fn line(
        &mut self,
        bridge: &mut Bridge,
        ends: &Ends,
        now: Instant,
        json: bool,
    ) -> Option<String> {
        self.next.filter(|next| *next <= now)?;
        let time = now.since(self.last).as_secs_f64();
        (self.next, self.last) = (Some(now + self.every), now);
        let mut parts = Vec::new();
        for end in 0..2 {
            let (packets, bytes) = bridge.pipe_mut(end).queue(now);
            let pipe = bridge.pipe(end);
            let c = pipe.counters();
            let (was, was_bytes) = std::mem::replace(&mut self.before[end], (c.delivered, c.delivered_bytes));
            let per_second = (c.delivered - was) as f64 / time;
            let mbit = (c.delivered_bytes - was_bytes) as f64 * 8e-6 / time;
            let dropped: Vec<_> = drops(c).into_iter().filter(|(_, count)| *count > 0).collect();
            let drops: Vec<_> = dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            let drops = if drops.is_empty() { "no drops".into() } else { drops.join(" ") };
            let arrow = if end == 0 { "->" } else { "<-" };
            parts.push(format!(
                "{arrow} {per_second:.0}/s {mbit:.2} Mbit/s queue {packets} ({bytes} B) inside {} {drops}",
                pipe.under_way()
            ));
        }
        Some(if json { ends.json(bridge).to_string() } else { parts.join("  ") })
    }
}
