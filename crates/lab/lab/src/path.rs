//! From a path's words to pipes.

use base::{Duration, Instant, Rate};
use emu::{Aqm, CoDel, DualPi2, GilbertElliott, PipeConfig, Queue, Red};

use crate::spec::{Ills, Path, SpecError, put};

/// The pipes of a path, from the senders to the receivers and back, before any host's seed. ARP and Neighbour Discovery
/// are spared the ills, and sizes are those of IP packets.
///
/// # Errors
/// The word that means nothing.
pub fn pipes(path: &Path) -> Result<[PipeConfig; 2], SpecError> {
    let way = |kbit: f64, room: &str, ills: &Ills, at: &str| {
        let wrong = |error: SpecError| SpecError(format!("{at}.{error}"));
        let pipe = PipeConfig {
            rate: rate(kbit),
            delay: millis(path.rtt_ms / 2.0),
            queue: queue(room).map_err(wrong)?,
            spares_neighbours: true,
            ip_only: true,
            ..PipeConfig::default()
        };
        afflict(pipe, ills).map_err(wrong)
    };
    path.check_bounds("path")?;
    let up_kbit = path.up_kbit.unwrap_or(path.down_kbit);
    Ok([
        way(path.down_kbit, &path.queue, &path.ills(), "path")?,
        way(up_kbit, path.up_queue.as_ref().unwrap_or(&path.queue), &path.up, "path.up")?,
    ])
}

impl Path {
    /// Reads the `[path]` table of a file (of an experiment too: other tables are left alone) and puts `words`, pairs
    /// of a key such as `up.loss` and its value, in their places. What is said nowhere: no delay, no limit, no ills.
    ///
    /// # Errors
    /// The fault of the file or a word.
    pub fn read(file: &str, words: &[(String, String)]) -> Result<Path, SpecError> {
        let wrong = |error: &dyn std::fmt::Display| SpecError(error.to_string());
        let mut file: toml::Table = file.parse().map_err(|error| wrong(&error))?;
        let mut path = file.remove("path").unwrap_or_else(|| toml::Table::new().into());
        for (key, value) in words {
            put(&mut path, key, &word(key, value))
                .ok_or_else(|| wrong(&format!("no place `{key}` in a path")))?;
        }
        let path_table = path.as_table_mut().ok_or_else(|| wrong(&"`path` is no table"))?;
        for (key, value) in [("rtt_ms", 0.into()), ("down_kbit", 0.into()), ("queue", "unlimited".into())] {
            path_table.entry(key).or_insert(value);
        }
        path.try_into().map_err(|error| wrong(&error))
    }
}

/// Keys whose value is text, also where it looks like a number.
const TEXTS: [&str; 6] = ["queue", "up_queue", "aqm", "bursts", "discard", "hold"];

/// A value as a file would have it: text with or without quotes, or a number.
fn word(key: &str, value: &str) -> toml::Value {
    let line: Result<toml::Table, _> = format!("value = {value}").parse();
    let read = line.ok().and_then(|mut line| line.remove("value"));
    let is_text = TEXTS.contains(&key.rsplit('.').next().unwrap_or(key));
    read.filter(|read| read.is_str() || !is_text).unwrap_or_else(|| value.into())
}

/// A pipe with ills.
fn afflict(pipe: PipeConfig, ills: &Ills) -> Result<PipeConfig, SpecError> {
    let named = |key: &str, text: &str| text.parse().map_err(|error| SpecError(format!("{key}: {error}")));
    // How long packets are held back says nothing where none are.
    let held = |any: bool, ms: f64| if any { millis(ms) } else { Duration::ZERO };
    Ok(PipeConfig {
        aqm: aqm(&ills.aqm)?,
        loss: chance("loss", ills.loss)?,
        every: ills.every,
        bursts: bursts(&ills.bursts)?,
        discard: named("discard", &ills.discard)?,
        hold: named("hold", &ills.hold)?,
        hold_by: held(ills.hold != "none", ills.hold_ms),
        jitter: millis(ills.jitter_ms),
        reorder: chance("reorder", ills.reorder)?,
        reorder_by: held(ills.reorder > 0.0, ills.reorder_ms),
        duplicate: chance("duplicate", ills.duplicate)?,
        corrupt: chance("corrupt", ills.corrupt)?,
        ..pipe
    })
}

fn chance(what: &str, p: f64) -> Result<f64, SpecError> {
    if (0.0..=1.0).contains(&p) {
        return Ok(p);
    }
    Err(SpecError(format!("{what}: a chance is from 0 to 1, not {p}")))
}

fn bursts(text: &str) -> Result<Option<GilbertElliott>, SpecError> {
    let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    let part = |p: &f64| (0.0..=1.0).contains(p);
    Ok(match numbers.as_deref() {
        _ if text == "none" => None,
        Ok([loss, mean]) if part(loss) && *loss < 1.0 && *mean >= 1.0 => {
            Some(GilbertElliott::bursts(*loss, *mean))
        }
        Ok([to_bad, to_good, loss_bad, loss_good]) if numbers.iter().flatten().all(part) => {
            Some(GilbertElliott {
                to_bad: *to_bad,
                to_good: *to_good,
                loss_bad: *loss_bad,
                loss_good: *loss_good,
            })
        }
        _ => {
            let wants = "`none`, `LOSS MEAN_LENGTH` or `TO_BAD TO_GOOD LOSS_BAD LOSS_GOOD`";
            return Err(SpecError(format!("bursts: want {wants}, not `{text}`")));
        }
    })
}

fn rate(kbit: f64) -> Option<Rate> {
    (kbit > 0.0).then(|| Rate::from_bits_per_sec((kbit * 1000.0) as u64))
}

/// A time in milliseconds.
pub(crate) fn millis(ms: f64) -> Duration {
    Duration::from_nanos((ms.max(0.0) * 1e6) as u64)
}

/// A date, seconds from the beginning.
pub(crate) fn seconds(s: f64) -> Instant {
    Instant::ZERO + millis(s * 1000.0)
}

fn number<T: std::str::FromStr>(what: &str, text: Option<&str>) -> Result<T, SpecError> {
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| SpecError(format!("{what}: want a number, not `{}`", text.unwrap_or(""))))
}

fn queue(text: &str) -> Result<Queue, SpecError> {
    let (kind, size) = text.split_once(' ').map_or((text, None), |(kind, size)| (kind, Some(size)));
    Ok(match kind {
        "unlimited" => Queue::Unlimited,
        "slots" => Queue::Slots(number("queue slots", size)?),
        "strict" => Queue::Strict(number("queue strict", size)?),
        "loose" => Queue::Loose(number("queue loose", size)?),
        _ => {
            let wants = "`loose BYTES`, `strict BYTES`, `slots N` or `unlimited`";
            return Err(SpecError(format!("queue: want {wants}, not `{text}`")));
        }
    })
}

fn aqm(text: &str) -> Result<Aqm, SpecError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let word = |nth: usize| words.get(nth).copied();
    Ok(match word(0).unwrap_or("") {
        "none" => Aqm::None,
        "codel" => Aqm::CoDel(CoDel::default()),
        "codel-ecn" => Aqm::CoDel(CoDel { ecn: true, ..CoDel::default() }),
        "dualpi2" => Aqm::DualPi2(DualPi2::default()),
        "step" => Aqm::Step(number("aqm step", word(1))?),
        kind @ ("red" | "red-ecn") => Aqm::Red(Red {
            min: number("aqm red min", word(1))?,
            max: number("aqm red max", word(2))?,
            most: number("aqm red p", word(3))?,
            weight: 0.002,
            gentle: true,
            ecn: kind == "red-ecn",
        }),
        _ => {
            let wants = "`none`, `codel`, `codel-ecn`, `dualpi2`, `red MIN MAX P`, `red-ecn MIN MAX P` \
                         or `step BYTES`";
            return Err(SpecError(format!("aqm: want {wants}, not `{text}`")));
        }
    })
}

#[cfg(test)]
mod tests;
