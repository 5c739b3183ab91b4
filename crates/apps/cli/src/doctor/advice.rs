//! Advice that makes the link work, or work faster, with the command to type.

use super::report::Report;
use pio::{Inspection, missing_capabilities};

/// A sentence, and the command that follows it up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Advice {
    pub(super) why: String,
    /// `None` where no command does it.
    pub(super) command: Option<String>,
}

fn advise(why: String, command: impl Into<Option<String>>) -> Advice {
    Advice { why, command: command.into() }
}

/// Says what would help, what is most needed first.
pub(super) fn advice(seen: &Inspection, report: &Report, cores: u16) -> Vec<Advice> {
    let mut all = Vec::new();
    needed(seen, report, &mut all);
    faster(seen, report, cores, &mut all);
    all
}

/// Returns the path of the program that runs: the shell may find another one, or none, by its name.
fn this_program() -> String {
    std::env::current_exe().map_or_else(|_| "millstream".into(), |path| path.display().to_string())
}

/// Without these it does not work, or not by XDP.
fn needed(seen: &Inspection, report: &Report, all: &mut Vec<Advice>) {
    let name = &seen.name;
    // A link of a known kind.
    let lacking = missing_capabilities(&report.link).unwrap_or_default();
    if !lacking.is_empty() {
        let lower: Vec<_> = lacking.iter().map(|right| right.to_lowercase()).collect();
        all.push(advise(
            format!(
                "this process lacks {}; run with sudo, or give the program these rights",
                lacking.join(", ")
            ),
            format!("sudo setcap {}+ep \"{}\"", lower.join(","), this_program()),
        ));
    }
    if !seen.up {
        all.push(advise("the interface is switched off".into(), format!("sudo ip link set {name} up")));
    }
    if seen.addresses.is_empty() {
        all.push(advise(
            "the interface has no address; give it one of its network, such as".into(),
            format!("sudo ip addr add 192.0.2.10/24 dev {name}"),
        ));
    }
    let held =
        report.choice.as_ref().is_some_and(|choice| choice.native.is_none()) && !seen.xdp_holders.is_empty();
    if held {
        all.push(advise(
            format!("{} has the interface's XDP program; stop it to go by XDP", seen.xdp_holders.join(", ")),
            None,
        ));
    }
}

/// With these it is faster.
fn faster(seen: &Inspection, report: &Report, cores: u16, all: &mut Vec<Advice>) {
    let (name, machine) = (&seen.name, &report.machine);
    let on = |wanted: &str| seen.offloads.iter().any(|&(offload, on)| offload == wanted && on == Some(true));
    let off =
        |wanted: &str| seen.offloads.iter().any(|&(offload, on)| offload == wanted && on == Some(false));
    let local = seen.driver == "veth";
    let choice = report.choice.as_ref();
    let native = seen.features.is_some_and(|says| says.native());
    if native && !local && choice.is_some_and(|choice| choice.native != Some(true)) {
        let before = all.len();
        if on("large-receive-offload") {
            all.push(advise(
                "the driver has XDP, but not beside large receive offload".into(),
                format!("sudo ethtool -K {name} lro off"),
            ));
        }
        if seen.mtu > 1500 {
            all.push(advise(
                format!("the driver has XDP, but perhaps not with an MTU of {}", seen.mtu),
                format!("sudo ip link set {name} mtu 1500"),
            ));
        }
        if seen.queues > 1 {
            all.push(advise(
                "the driver has XDP, but some take it with half of their queues only".into(),
                format!("sudo ethtool -L {name} combined {}", seen.queues / 2),
            ));
        }
        if all.len() == before && seen.xdp_holders.is_empty() {
            all.push(advise(
                "the driver has XDP and took no program; this names its reason".into(),
                format!("sudo \"{}\" serve --link xdp:{name},mode=native", this_program()),
            ));
        }
    }
    if seen.queues_max.is_some_and(|most| most > seen.queues) && usize::from(seen.queues) < machine.processors
    {
        let (now, most) = (seen.queues, usize::from(seen.queues_max.unwrap_or(1)).min(machine.processors));
        let kind = if local { format!("rx {most} tx {most}") } else { format!("combined {most}") };
        all.push(advise(
            format!(
                "the interface has {now} receive queue(s), of {} that the driver offers: --cores {now} at most; more \
                 queues serve more cores",
                seen.queues_max.unwrap_or(now)
            ),
            format!("sudo ethtool -L {name} {kind}"),
        ));
    } else if seen.queues > cores && report.verdict.as_ref().is_some_and(super::Verdict::answered) {
        all.push(advise(
            format!("the interface has {} receive queues, and --cores {cores} was tried", seen.queues),
            format!("millstream doctor {name} --cores {}", usize::from(seen.queues).min(machine.processors)),
        ));
    }
    let packet = choice.is_some_and(|choice| choice.native.is_none());
    for offload in ["generic-receive-offload", "tcp-segmentation-offload"] {
        if packet && off(offload) {
            all.push(advise(
                format!("packet sockets move super-segments where {offload} is on"),
                format!("sudo ethtool -K {name} {offload} on"),
            ));
        }
    }
    if off("rx-checksumming") {
        all.push(advise(
            "the card could verify checksums of what it receives".into(),
            format!("sudo ethtool -K {name} rx on"),
        ));
    }
    if let Some(most) = machine.lockable.filter(|most| *most < LOCKED) {
        all.push(advise(
            format!(
                "{} KiB of memory may be locked; AF_XDP takes up to {} KiB a queue",
                most / 1024,
                LOCKED / 1024
            ),
            // `ulimit -l` cannot go above the hard limit without root.
            "sudo prlimit --pid $$ --memlock=unlimited".to_string(),
        ));
    }
    if machine.merges == "never" && machine.huge_pages.0 == 0 {
        all.push(advise(
            "no huge pages: tables and packets lie in small pages".into(),
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled".to_string(),
        ));
    }
    if !packet && machine.version() < (6, 8) && !report.machine.kernel.is_empty() {
        all.push(advise(
            format!(
                "Linux {} takes no checksum requests over AF_XDP; Linux 6.8 and later do, so large writes cost less",
                machine.kernel
            ),
            None,
        ));
    }
}

/// Bytes that the frames of one queue take at most.
const LOCKED: u64 = 16 << 20;

#[cfg(test)]
mod tests;
