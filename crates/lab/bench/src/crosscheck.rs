//! Ours, the Linux kernel's and virtual time's CUBIC over the same path.
//!
//! The path is `millstream pipe` between two kernels, or the same words as an experiment. Three senders take turns:
//! the kernel, our stack in the kernel's place, and our stack in virtual time; the receiver is the kernel, or in
//! virtual time our stack.

use crate::Plan;
use crate::bed::{our_command, sh};
use crate::wire::{LEFT, Wire};
use base::Rng;
use lab::stats;
use serde_json::{Value, json};
use std::path::Path;

/// Seconds at the beginning that are left out: slow start.
const DISCARD: u32 = 1;

/// A path to compare on.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name in the table.
    pub name: &'static str,
    /// Words of the path.
    pub words: &'static [(&'static str, &'static str)],
}

/// 20 Mbit/s, 40 ms and a bandwidth-delay product of room, without losses of its own, with each 1000th packet named for
/// loss, and with as many named by chance: the same positions for all three senders, other ones in each round.
pub const CASES: &[Case] = &[
    Case { name: "plain", words: PATH },
    Case { name: "each 1000th lost", words: &[PATH[0], PATH[1], PATH[2], ("discard", "THOUSANDS")] },
    Case { name: "one in 1000 by chance", words: &[PATH[0], PATH[1], PATH[2], ("discard", "CHANCES")] },
];

const PATH: &[(&str, &str)] = &[("rtt_ms", "40"), ("down_kbit", "20000"), ("queue", "strict 100000")];

/// Goodputs on one path, Mbit/s.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The kernel's.
    pub kernel: f64,
    /// Our stack's, on the same link.
    pub ours: f64,
    /// Our stack's, in virtual time.
    pub virtually: f64,
}

impl Figures {
    /// The greatest of the three over the least.
    pub fn spread(&self) -> f64 {
        let all = [self.kernel, self.ours, self.virtually];
        all.iter().copied().fold(f64::MIN, f64::max) / all.iter().copied().fold(f64::MAX, f64::min)
    }
}

/// The words with their values; positions are spelled out for as many packets as `seconds` can bring.
fn words(case: &Case, seconds: u32, seed: u64) -> Vec<(&'static str, String)> {
    let packets = u64::from(seconds) * 20_000_000 / 8 / 1500;
    let list = |positions: Vec<u64>| {
        let positions: Vec<_> = positions.iter().map(u64::to_string).collect();
        positions.join(",")
    };
    let mut rng = Rng::new(seed);
    let mut spell = |value: &str| match value {
        "THOUSANDS" => list((1000..=packets).step_by(1000).collect()),
        "CHANCES" => list((1..=packets).filter(|_| rng.chance(0.001)).collect()),
        plain => plain.to_string(),
    };
    case.words.iter().map(|(key, value)| (*key, spell(value))).collect()
}

/// Runs all three senders over a path, `seconds` each; positions of chance follow from `seed`.
///
/// # Errors
/// The missing requirement.
pub fn compare(ours: &Path, case: &Case, seconds: u32, seed: u64) -> Result<Figures, String> {
    let seconds = seconds + DISCARD;
    let words = words(case, seconds, seed);
    Ok(Figures {
        kernel: really(ours, &words, seed, seconds, false)?,
        ours: really(ours, &words, seed, seconds, true)?,
        virtually: virtually(&words, seconds)?,
    })
}

/// Goodput from left to right, whatever sends there; what the path loses by chance follows from `seed`.
pub(crate) fn really(
    ours: &Path,
    words: &[(&str, String)],
    seed: u64,
    seconds: u32,
    our_sender: bool,
) -> Result<f64, String> {
    let wire = Wire::new()?;
    let sets: Vec<String> = words.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let seed = seed.to_string();
    let mut args = vec!["--seed", &seed];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let _pipe = wire.pipe(ours, "packet", &args)?;
    let (time, omit) = ((seconds - DISCARD).to_string(), DISCARD.to_string());
    let client = ["-c", LEFT, "-R", "-t", &time, "-O", &omit];
    // The kernel's server on the left sends as ours does: both are asked for the reverse direction.
    let _server = if our_sender {
        let args = ["iperf", "--link", "packet:a0", "--cc", "cubic"];
        wire.start(&wire.left, ours, &args)?
    } else {
        wire.spawn(&wire.left, "iperf3", &["-s", "-1"])?.on_port(5201)?
    };
    let said = wire.iperf3(&wire.right, &client)?;
    let rate = said["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.map(|rate| rate / 1e6).ok_or_else(|| format!("iperf3 said no rate: {said}"))
}

/// Runs the path as an experiment.
fn virtually(words: &[(&str, String)], seconds: u32) -> Result<f64, String> {
    let text = |key: &str, value: &String| match key {
        "queue" | "discard" => format!("{value:?}"),
        _ => value.clone(),
    };
    let rows: String = words.iter().map(|(key, value)| format!("{key} = {}\n", text(key, value))).collect();
    let file = format!(
        "title = \"Crosscheck\"\nseconds = {seconds}\ndiscard = {DISCARD}\nseeds = 1\n\
         [path]\n{rows}[[flow]]\ncc = \"cubic\"\n"
    );
    let experiment = lab::Experiment::parse("crosscheck", &file).map_err(|e| e.to_string())?;
    let tasks = experiment.tasks(None).map_err(|e| e.to_string())?;
    let [task] = &tasks[..] else { return Err(format!("{} runs instead of one", tasks.len())) };
    let outcome = lab::run(task).map_err(|e| e.to_string())?;
    outcome.measures.get("goodput_mbit").copied().ok_or_else(|| "no goodput".into())
}

/// The `crosscheck` benchmark: the table of docs/EXPERIMENTS.md.
///
/// # Errors
/// Those of [`compare`].
pub fn run(plan: &Plan) -> Result<Value, String> {
    let ours = our_command()?;
    sh("iperf3", &["--version"])?;
    let seconds = plan.seconds.ceil().max(5.0) as u32;
    let mut rows = Vec::new();
    for case in CASES {
        let mut all = Vec::new();
        for round in 0..plan.rounds {
            all.push(compare(&ours, case, seconds, u64::from(round) + 1)?);
        }
        let median = |of: fn(&Figures) -> f64| stats::median(&all.iter().map(of).collect::<Vec<_>>());
        let figures = Figures {
            kernel: median(|f| f.kernel),
            ours: median(|f| f.ours),
            virtually: median(|f| f.virtually),
        };
        let Figures { kernel, ours, virtually } = figures;
        eprintln!(
            "{:<24} kernel {kernel:>6.2}  ours {ours:>6.2}  virtual {virtually:>6.2} Mbit/s  spread {:.3}",
            case.name,
            figures.spread()
        );
        rows.push(json!({
            "path": case.name, "kernel_mbit": kernel, "ours_mbit": ours, "virtual_mbit": virtually,
            "spread": figures.spread(),
        }));
    }
    Ok(json!({"bench": "crosscheck", "rounds": plan.rounds, "seconds": seconds, "rows": rows}))
}
