//! The findings, as text for people and as JSON for programs.

use super::advice::Advice;
use super::machine::Machine;
use super::selftest::{Choice, Verdict};
use pio::Inspection;
use serde_json::{Value, json};

/// The most neighbours that are listed.
const LISTED: usize = 6;

/// Everything that was found.
#[derive(Default)]
pub(super) struct Report {
    /// The link that was asked about, `nic:eth0`.
    pub(super) link: String,
    pub(super) machine: Machine,
    /// The interface, if there is one.
    pub(super) seen: Option<Inspection>,
    /// Why the link cannot be used, if it cannot.
    pub(super) refused: Option<String>,
    /// How the link opened, if it was opened.
    pub(super) choice: Option<Choice>,
    /// Result of the test, if there was one.
    pub(super) verdict: Option<Verdict>,
    pub(super) advice: Vec<Advice>,
}

impl Report {
    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, what: String| text += &format!("  {name:<11} {what}\n");
        if let Some(seen) = &self.seen {
            interface(seen, &mut line);
        }
        machine(&self.machine, &mut line);
        match (&self.refused, &self.choice) {
            (Some(why), _) => text += &format!("{} cannot be used: {why}\n", self.link),
            (None, Some(choice)) => {
                text += &format!("{} goes by {}\n", self.link, choice.text());
                if let Some(why) = &choice.fallback {
                    text += &format!("  because {why}\n");
                }
            }
            (None, None) => text += &format!("{} was not opened (--look)\n", self.link),
        }
        if let Some(verdict) = &self.verdict {
            text += &format!("test: {}\n", verdict.text());
        }
        for Advice { why, command } in &self.advice {
            text += &format!("advice: {why}\n");
            if let Some(command) = command {
                text += &format!("    {command}\n");
            }
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self, status: u8) -> Value {
        let choice = self.choice.as_ref().map(|choice| {
            json!({
                "port": choice.name, "xdp": choice.native.is_some(), "native": choice.native,
                "zero_copy": choice.zero_copy, "tx_checksum": choice.tx_checksum,
                "segmentation": choice.segmentation, "fallback": choice.fallback,
            })
        });
        let test = self.verdict.as_ref().map(|verdict| {
            json!({
                "answered": verdict.answered(), "peer": verdict.peer, "what": verdict.what,
                "us": verdict.took.map(|took| took.as_micros() as u64),
            })
        });
        let advice = |Advice { why, command }: &Advice| json!({"why": why, "command": command});
        let machine = &self.machine;
        json!({
            "link": self.link, "status": status, "refused": self.refused, "choice": choice, "test": test,
            "advice": self.advice.iter().map(advice).collect::<Vec<_>>(),
            "interface": self.seen.as_ref().map(interface_json),
            "machine": {
                "kernel": machine.kernel, "processors": machine.processors, "locked_memory_max": machine.lockable,
                "capabilities": machine.capabilities.iter().map(|&(name, has)| (name.to_string(), has.into()))
                    .collect::<serde_json::Map<_, Value>>(),
                "transparent_huge_pages": machine.merges,
                "huge_pages": {"free": machine.huge_pages.0, "all": machine.huge_pages.1},
                "busy_poll_us": machine.busy_poll,
            },
        })
    }
}

/// A link-layer address.
pub(super) fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn yes(it: bool) -> &'static str {
    if it { "yes" } else { "no" }
}

fn interface(seen: &Inspection, line: &mut impl FnMut(&str, String)) {
    let state = match (seen.up, seen.running) {
        (false, _) => "down",
        (true, false) => "up, no carrier",
        (true, true) => "up, with carrier",
    };
    let driver = if seen.driver.is_empty() { "unknown" } else { &seen.driver };
    line(
        "interface",
        format!("{}, driver {driver}, {}, MTU {}, {state}", seen.name, mac(seen.mac), seen.mtu),
    );
    let most = seen.queues_max.map_or(String::new(), |most| format!(" of {most}"));
    line("queues", format!("{}{most} for receiving", seen.queues));
    line(
        "XDP",
        match seen.features {
            None => "the kernel does not tell (it does from Linux 6.3 on)".into(),
            Some(says) => format!(
                "in the driver {}, zero-copy {}, packets in several buffers {}, checksum requests with zero-copy {}",
                yes(says.native()),
                yes(says.zero_copy()),
                yes(says.several_buffers()),
                yes(says.tx_checksum())
            ),
        },
    );
    if !seen.xdp_holders.is_empty() {
        line("XDP program", format!("of {}", seen.xdp_holders.join(", ")));
    }
    let offload = |&(name, on): &(&str, Option<bool>)| {
        let state = match on {
            None => "unknown",
            Some(true) => "on",
            Some(false) => "off",
        };
        format!("{name} {state}")
    };
    line("offloads", seen.offloads.iter().map(offload).collect::<Vec<_>>().join(", "));
    let none = |list: Vec<String>| if list.is_empty() { "none".into() } else { list.join(", ") };
    line("addresses", none(seen.addresses.iter().map(|(addr, prefix)| format!("{addr}/{prefix}")).collect()));
    let gateways = seen.routes.iter().filter_map(|route| Some((route.gateway?, route.dst, route.prefix)));
    line("gateways", none(gateways.map(|(by, dst, prefix)| format!("{by} to {dst}/{prefix}")).collect()));
    let mut near: Vec<_> =
        seen.neighbours.iter().take(LISTED).map(|(at, by)| format!("{at} at {}", mac(*by))).collect();
    if seen.neighbours.len() > LISTED {
        near.push(format!("{} more", seen.neighbours.len() - LISTED));
    }
    line("neighbours", none(near));
}

fn machine(machine: &Machine, line: &mut impl FnMut(&str, String)) {
    line("kernel", format!("{}, {} processor(s)", machine.kernel, machine.processors));
    let rights = machine.capabilities.iter().map(|(name, has)| format!("{name} {}", yes(*has)));
    line("rights", rights.collect::<Vec<_>>().join(", "));
    let locked = machine.lockable.map_or("no limit".into(), |most| format!("at most {} KiB", most / 1024));
    let merges = if machine.merges.is_empty() { "unknown" } else { &machine.merges };
    let (free, all) = machine.huge_pages;
    line(
        "memory",
        format!("locked: {locked}; huge pages: transparent {merges}, reserved {all} ({free} free)"),
    );
    let poll = machine.busy_poll.map_or("unknown".into(), |us| format!("{us} us"));
    line(
        "polling",
        format!("the kernel's net.core.busy_poll: {poll} (this stack polls by itself, setting spin_us)"),
    );
}

fn interface_json(seen: &Inspection) -> Value {
    let offloads: serde_json::Map<_, Value> =
        seen.offloads.iter().map(|&(name, on)| (name.to_string(), on.into())).collect();
    json!({
        "name": seen.name, "index": seen.index, "driver": seen.driver, "mac": mac(seen.mac), "mtu": seen.mtu,
        "ethernet": seen.ethernet, "up": seen.up, "running": seen.running,
        "queues": seen.queues, "queues_max": seen.queues_max,
        "xdp": seen.features.map(|says| json!({
            "native": says.native(), "zero_copy": says.zero_copy(), "several_buffers": says.several_buffers(),
            "tx_checksum": says.tx_checksum(), "zero_copy_segments": says.zero_copy_segments,
        })),
        "xdp_holders": seen.xdp_holders, "offloads": offloads,
        "addresses": seen.addresses.iter().map(|(addr, prefix)| format!("{addr}/{prefix}")).collect::<Vec<_>>(),
        "gateways": seen.routes.iter().filter_map(|route| route.gateway).map(|addr| addr.to_string())
            .collect::<Vec<_>>(),
        "neighbours": seen.neighbours.iter().map(|(addr, by)| json!({"address": addr.to_string(), "mac": mac(*by)}))
            .collect::<Vec<_>>(),
    })
}

impl Choice {
    fn text(&self) -> String {
        let way = match (self.native, self.zero_copy) {
            (None, _) => "packet sockets, the kernel copying".into(),
            (Some(true), true) => "XDP in the driver, without copies".to_string(),
            (Some(true), false) => "XDP in the driver, the kernel copying".into(),
            (Some(false), _) => "generic XDP (in the network stack), the kernel copying".into(),
        };
        let by = |link| if link { "left to the link" } else { "done by this stack" };
        format!(
            "{way} ({}); checksums of what is sent are {}, segmentation is {}",
            self.name,
            by(self.tx_checksum),
            by(self.segmentation)
        )
    }
}

impl Verdict {
    fn text(&self) -> String {
        match (&self.peer, self.took) {
            (Some(peer), Some(took)) => format!("{peer} {} ({} us)", self.what, took.as_micros()),
            (Some(peer), None) => format!("no peer answered: {peer}: {}", self.what),
            (None, _) => format!("no peer was asked: {}", self.what),
        }
    }
}
