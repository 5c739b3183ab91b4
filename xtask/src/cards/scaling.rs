//! `cargo xtask cards --scaling`: what a request costs on 1 to 8 processors of a guest, and what the processors share.
//!
//! A plugin of QEMU (counts.c) counts executed instructions of the server, of the guest's kernel and of other programs,
//! the server's atomic instructions and system calls, and the cache lines of the server's memory that move between
//! processors. Nothing is timed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Options;
use super::guest::{GUEST4, Guest};
use super::hardware::{CARDS, Card};
use super::http::{self, Client};
use super::kernels::{self, Kernel};
use super::roles::{COMMAND, START, address, way};
use crate::{Outcome, run};

/// Processors of the guests.
const PROCESSORS: [u32; 4] = [1, 2, 4, 8];
/// Cards with so many queues. The emulated vmxnet3 receives on the first one alone.
const SPREAD: [&str; 2] = ["virtio", "vmxnet3"];
/// Connections for each processor. The card spreads them.
const CONNECTIONS: u32 = 8;
/// Requests on each connection before anything is counted, and where all ask at a time.
const WARM_UP: u32 = 30;
const REQUESTS: u32 = 150;
/// Requests on the one connection of each core that asks alone there.
const ALONE: u32 = 600;
/// Bytes of an answer.
const ANSWER: usize = 1_000;
/// Share by which instructions a request may differ from those on one core, where all connections ask. Where one asks
/// alone, they follow the number of times that the core's thread sleeps, and that follows the emulation's pace.
const TOLERANCE: f64 = 0.05;
/// Lines and atomic instructions that are named.
const SHOWN: usize = 12;
/// Addresses of a program and of its libraries that are not randomized.
const RANGES: [(u64, u64); 2] = [(0x5555_5555_4000, 0x5556_0000_0000), (0x7fff_f700_0000, 0x8000_0000_0000)];
fn plugin() -> PathBuf {
    run::target_dir().join("cards/counts.so")
}

/// Builds the optimized server and the plugin.
pub(super) fn build() -> Outcome {
    run::cargo(&["build", "--quiet", "--locked", "--profile", "dist", "--package", "millstream"]).check()?;
    let source = run::root().join("xtask/src/cards/counts.c");
    let flags = ["-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o"];
    run::tool("cc").args(flags).args([plugin(), source]).check()
}

/// Counters of one processor, as the plugin tells them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    program: u64,
    kernel: u64,
    others: u64,
    atomic: u64,
    calls: u64,
    followed: u64,
    moved: u64,
}

impl Counts {
    fn read(line: &str) -> Result<Counts, String> {
        let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[program, kernel, others, atomic, calls, followed, moved]) => {
                Ok(Counts { program, kernel, others, atomic, calls, followed, moved })
            }
            _ => Err(format!("the plugin said {line:?}")),
        }
    }

    fn with(self, other: Counts, each: impl Fn(u64, u64) -> u64) -> Counts {
        Counts {
            program: each(self.program, other.program),
            kernel: each(self.kernel, other.kernel),
            others: each(self.others, other.others),
            atomic: each(self.atomic, other.atomic),
            calls: each(self.calls, other.calls),
            followed: each(self.followed, other.followed),
            moved: each(self.moved, other.moved),
        }
    }
}

/// The way to the plugin of a guest.
struct Plugin {
    socket: PathBuf,
}

impl Plugin {
    fn arguments(&self) -> Vec<String> {
        let ranges = RANGES.map(|(first, last)| format!(",first={first:#x},last={last:#x}")).concat();
        let (file, socket) = (plugin(), self.socket.display());
        vec!["-plugin".into(), format!("{},socket={socket}{ranges}", file.display())]
    }

    fn ask(&self, question: &str) -> Result<String, String> {
        let told = |error: std::io::Error| format!("the plugin's {}: {error}", self.socket.display());
        let mut stream = UnixStream::connect(&self.socket).map_err(told)?;
        stream.set_read_timeout(Some(COMMAND)).map_err(told)?;
        stream.write_all(question.as_bytes()).map_err(told)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(told)?;
        Ok(text)
    }

    /// Counters of each processor.
    fn counts(&self) -> Result<Vec<Counts>, String> {
        self.ask("r")?.lines().map(Counts::read).collect()
    }
}

/// A row of the table, of one guest.
struct Row {
    card: &'static str,
    kernel: String,
    way: String,
    cores: u32,
    /// Connections of each core.
    spread: Vec<usize>,
    /// One connection of each core that has any asks: a packet, a turn and an answer at a time.
    alone: Share,
    /// All connections ask at once, and memory is followed.
    together: Share,
    /// Connections that were another core's at the end than at the beginning.
    strayed: usize,
    /// Packets that reached a core that did not have their connection, and RSTs.
    lost: u64,
    /// The lines that several cores used and one of them wrote.
    lines: Vec<Line>,
    /// How often each atomic instruction was executed, and its address.
    atomics: Vec<(u64, u64)>,
}

/// Sums of counters over the processors, and the requests that were answered meanwhile.
#[derive(Clone, Copy, Default, Debug)]
struct Share {
    sums: Counts,
    requests: u64,
}

impl Share {
    fn each(&self, count: u64) -> f64 {
        count as f64 / self.requests.max(1) as f64
    }
}

/// A line of memory that several cores used and one of them wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    /// How often it moved.
    moved: u64,
    /// How often it can have moved at most with the same accesses in any order.
    most: u64,
    address: u64,
    /// The last accesses by two cores.
    counters: [u64; 2],
}

impl Line {
    fn read(line: &str) -> Result<Line, String> {
        let told = || format!("the plugin said {line:?}");
        let parts: Vec<_> = line.split_whitespace().collect();
        let [moved, most, address, one, other] = parts[..] else { return Err(told()) };
        let hex = |text: &str| u64::from_str_radix(text, 16).map_err(|_| told());
        let count = |text: &str| text.parse().map_err(|_| told());
        Ok(Line {
            moved: count(moved)?,
            most: count(most)?,
            address: hex(address)?,
            counters: [hex(one)?, hex(other)?],
        })
    }
}

impl Row {
    /// Moves of all lines a request: as it was, and at most.
    fn moves(&self) -> [f64; 2] {
        let sum = |of: fn(&Line) -> u64| self.together.each(self.lines.iter().map(of).sum());
        [sum(|line| line.moved), sum(|line| line.most)]
    }

    fn json(&self) -> Value {
        let share = |share: &Share| {
            let sums = share.sums;
            json!({
                "requests": share.requests, "program": share.each(sums.program),
                "guest_kernel": share.each(sums.kernel), "others": share.each(sums.others),
                "atomic": share.each(sums.atomic), "calls": share.each(sums.calls),
                "followed": share.each(sums.followed),
            })
        };
        let [moved, most] = self.moves();
        json!({
            "card": self.card, "kernel": self.kernel, "way": self.way, "cores": self.cores, "spread": self.spread,
            "alone": share(&self.alone), "together": share(&self.together), "lines": self.lines.len(), "moved": moved,
            "moved_at_most": most, "strayed": self.strayed, "lost": self.lost,
        })
    }

    /// A row of the table; `one` is the row of the fewest cores.
    fn text(&self, one: &Share) -> String {
        let spread = self.spread.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        let (alone, together, [moved, most]) = (&self.alone, &self.together, self.moves());
        format!(
            "| {} | {} | {spread} | {:.0} | {:+.1} % | {:.0} | {:.2} | {:.2} | {moved:.3} | {most:.3} | {} | {:.0} | \
             {:.2} |",
            self.card,
            self.cores,
            together.each(together.sums.program),
            (together.each(together.sums.program) / one.each(one.sums.program) - 1.0) * 100.0,
            together.each(together.sums.kernel),
            together.each(together.sums.calls),
            together.each(together.sums.atomic),
            self.strayed,
            alone.each(alone.sums.program),
            alone.each(alone.sums.calls)
        )
    }

    /// The lines that can move most often, and the atomic instructions that are executed most often.
    fn details(&self, millstream: &str) -> String {
        let mut text = String::new();
        for line in self.lines.iter().take(SHOWN) {
            let [one, other] = line.counters.map(|counter| place(counter, millstream));
            text += &format!(
                "    line at {:#x} moved {:.3} times a request, {:.3} at most: {one} | {other}\n",
                line.address,
                self.together.each(line.moved),
                self.together.each(line.most)
            );
        }
        for (times, counter) in self.atomics.iter().take(SHOWN) {
            let (times, place) = (self.together.each(*times), place(*counter, millstream));
            text += &format!("    {times:.3} atomic instructions a request in {place}\n");
        }
        text
    }
}

const HEADS: &str = "\
| Card | Cores | Connections of each core | Instructions | to one core | of the kernel | system calls | \
    atomic instructions | lines moved | at most | changed cores | alone: instructions | system calls |
|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

/// Boots the guests in turn, and prints and keeps the table.
pub(super) fn run(options: &Options, folder: &Path, files: &Path) -> Outcome {
    let kernels = kernels::all();
    let mut count = 0;
    let mut wrong = Vec::new();
    println!("{HEADS}");
    for card in CARDS.iter().filter(|card| SPREAD.contains(&card.name)) {
        let mut one = None;
        for cores in PROCESSORS {
            let wanted = |kernel: &&Kernel| {
                options.wants(&[card.name, &kernel.short(), &kernel.version, &cores.to_string(), "nic"])
            };
            let Some(kernel) = kernels.iter().rev().find(wanted) else { continue };
            let row = measure(card, kernel, cores, folder, files)
                .map_err(|why| format!("{} on {cores} cores: {why}", card.name))?;
            let one = *one.get_or_insert(row.together);
            println!("{}", row.text(&one));
            println!("    packets come by {}; {} lines were shared", row.way, row.lines.len());
            print!("{}", row.details(&millstream()));
            let name = format!("{} on {cores} cores", card.name);
            let [program, fewest] = [&row.together, &one].map(|share| share.each(share.sums.program));
            if (program / fewest - 1.0).abs() > TOLERANCE {
                wrong.push(format!(
                    "{name}: {program:.0} instructions a request, {fewest:.0} on the fewest cores"
                ));
            }
            if row.strayed + usize::try_from(row.lost).unwrap_or(usize::MAX) > 0 {
                wrong.push(format!(
                    "{name}: {} connections changed cores, {} packets or RSTs at a wrong core",
                    row.strayed, row.lost
                ));
            }
            keep(&[row])?;
            count += 1;
        }
    }
    if count == 0 {
        return Err("no row has these words; those of --scaling are CARD/KERNEL/CORES/nic".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Keeps rows, instead of older ones of the same card and number of cores.
fn keep(rows: &[Row]) -> Outcome {
    let path = run::target_dir().join("cards/scaling.json");
    let kept = match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => json!({"rows": []}),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let key = |row: &Value| (row["card"].to_string(), row["cores"].as_u64());
    let old = kept["rows"].as_array().cloned().unwrap_or_default();
    let mut all: BTreeMap<_, _> = old.into_iter().map(|row| (key(&row), row)).collect();
    all.extend(rows.iter().map(Row::json).map(|row| (key(&row), row)));
    let text = format!("{:#}\n", json!({"rows": all.into_values().collect::<Vec<_>>()}));
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The server under test: optimized as it is shipped.
fn millstream() -> String {
    run::target_dir().join("dist/millstream").display().to_string()
}

fn measure(
    card: &'static Card,
    kernel: &Kernel,
    cores: u32,
    folder: &Path,
    files: &Path,
) -> Result<Row, String> {
    let plugin = Plugin { socket: folder.join("counts.sock") };
    let mut guest = Guest::boot(kernel, card, cores, false, folder, &plugin.arguments())?;
    let millstream = millstream();
    let start = format!(
        "setarch -R {millstream} serve --link nic:card0 --cores {cores} --set spin_us=0 --listen 0.0.0.0:80 --dir {} \
         >/run/log 2>&1 & \
         pid=$!; echo $pid >/run/pid; s=1; for i in $(seq 300); do grep -q ^serving /run/log && {{ s=0; break; }}; \
         kill -0 $pid 2>/dev/null || break; sleep 0.2; done; cat /run/log; (exit $s)",
        files.display()
    );
    let started = guest.run(&start, START)?;
    if started.status != 0 {
        return Err(started.text);
    }
    let way = way(&mut guest)?;
    settle(&mut guest)?;
    let to = SocketAddr::new(address(GUEST4)?, 80);
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS * cores {
        clients.push(Client::connect(to)?);
    }
    ask(&mut clients, WARM_UP)?;
    let homes = homes_of(&mut guest, &millstream)?;
    let lost = lost_of(&mut guest, &millstream)?;
    let mut spread = vec![0; cores as usize];
    let mut firsts = Vec::new();
    let mut rest = Vec::new();
    for client in clients {
        let end = client.local()?.to_string();
        let core =
            *homes.get(&end).ok_or(format!("the server does not know of the connection from {end}"))?;
        let home = spread.get_mut(core as usize).ok_or(format!("there is no core {core}"))?;
        *home += 1;
        if *home == 1 { &mut firsts } else { &mut rest }.push(client);
    }
    ask(&mut firsts, WARM_UP)?;
    let alone = counted(&plugin, &mut firsts, ALONE)?;
    let mut clients: Vec<_> = firsts.into_iter().chain(rest).collect();
    ask(&mut clients, WARM_UP)?;
    let before = sites(&plugin)?;
    plugin.ask("l")?;
    let together = counted(&plugin, &mut clients, REQUESTS)?;
    plugin.ask("s")?;
    let atomics = grown(&before, &sites(&plugin)?);
    let mut lines = plugin.ask("t")?.lines().map(Line::read).collect::<Result<Vec<_>, _>>()?;
    lines.sort_unstable_by_key(|line| std::cmp::Reverse(line.most));
    let (after, lost_after) = (homes_of(&mut guest, &millstream)?, lost_of(&mut guest, &millstream)?);
    Ok(Row {
        card: card.name,
        kernel: kernel.version.clone(),
        way,
        cores,
        spread,
        alone,
        together,
        strayed: homes.iter().filter(|(end, core)| after.get(*end) != Some(core)).count(),
        lost: lost_after - lost,
        lines,
        atomics,
    })
}

/// Puts the watchdog's thread of each core on the core's processor. The kernel would run it anywhere, and it reads the
/// core's memory there.
fn settle(guest: &mut Guest) -> Outcome {
    let script = "cpu=0; for t in $(ls /proc/$(cat /run/pid)/task | sort -n); do \
                  [ \"$(cat /proc/$(cat /run/pid)/task/$t/comm)\" = millstream-back ] || continue; \
                  taskset -pc $cpu $t || exit; cpu=$((cpu + 1)); done; [ $cpu = $(nproc) ]";
    let answer = guest.run(&format!("({script})"), COMMAND)?;
    if answer.status == 0 { Ok(()) } else { Err(format!("the watchdogs are not pinned: {}", answer.text)) }
}

/// Counts while each of the clients asks `requests` times.
fn counted(plugin: &Plugin, clients: &mut [Client], requests: u32) -> Result<Share, String> {
    let before = plugin.counts()?;
    ask(clients, requests)?;
    let after = plugin.counts()?;
    let grown = after.iter().zip(&before).map(|(now, was)| now.with(*was, u64::wrapping_sub));
    let sums = grown.fold(Counts::default(), |sum, one| sum.with(one, u64::wrapping_add));
    Ok(Share { sums, requests: u64::from(requests) * clients.len() as u64 })
}

/// Asks on all connections at once, one request after the other on each, and compares every byte.
fn ask(clients: &mut [Client], requests: u32) -> Result<(), String> {
    let (path, expected) = (format!("/{ANSWER}"), http::pattern(ANSWER));
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| scope.spawn(|| (0..requests).try_for_each(|_| client.get(&path, &expected))))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a client panicked".to_string())?)
    })
}

fn rows_of(guest: &mut Guest, millstream: &str, question: &str) -> Result<Vec<Value>, String> {
    let answer = guest.run(&format!("{millstream} {question} --json --pid $(cat /run/pid)"), COMMAND)?;
    let rows = answer.text.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str);
    rows.collect::<Result<_, _>>().map_err(|why| format!("`{question}` said {}: {why}", answer.text))
}

/// Core of each connection, by the client's end.
fn homes_of(guest: &mut Guest, millstream: &str) -> Result<BTreeMap<String, u64>, String> {
    let rows = rows_of(guest, millstream, "ss")?;
    let of = |row: &Value| Some((row["remote"].as_str()?.to_string(), row["core"].as_u64()?));
    Ok(rows.iter().filter(|row| row["state"] == "ESTABLISHED").filter_map(of).collect())
}

/// Packets that came to a core without their connection, and RSTs that were sent, of all cores.
fn lost_of(guest: &mut Guest, millstream: &str) -> Result<u64, String> {
    let rows = rows_of(guest, millstream, "stat")?;
    if rows.is_empty() {
        return Err("the server has no counters".into());
    }
    let count = |row: &Value, name: &str| row["stack"][name].as_u64().unwrap_or(0);
    let names = ["drop_no_flow", "drop_anothers_flow", "resets_out"];
    Ok(rows.iter().flat_map(|row| names.map(|name| count(row, name))).sum())
}

/// Executions of each atomic instruction by its address.
fn sites(plugin: &Plugin) -> Result<BTreeMap<u64, u64>, String> {
    let text = plugin.ask("a")?;
    let site = |line: &str| {
        let (times, counter) = line.split_once(' ')?;
        Some((u64::from_str_radix(counter, 16).ok()?, times.parse().ok()?))
    };
    text.lines().map(|line| site(line).ok_or(format!("the plugin said {line:?}"))).collect()
}

/// The atomic instructions that were executed between two looks, those executed most first.
fn grown(before: &BTreeMap<u64, u64>, now: &BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let grown = now.iter().map(|(at, times)| (times - before.get(at).unwrap_or(&0), *at));
    let mut most: Vec<_> = grown.filter(|(times, _)| *times > 0).collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    most
}

/// Names the function at an address of the server, with those that are inlined there.
fn place(counter: u64, millstream: &str) -> String {
    let Some(offset) = counter.checked_sub(RANGES[0].0).filter(|_| counter < RANGES[0].1) else {
        return format!("a library at {counter:#x}");
    };
    let arguments = ["-Cfpie", millstream, &format!("{offset:#x}")].map(str::to_string);
    match run::tool("addr2line").args(arguments).output() {
        Ok(text) => {
            let names = text.lines().map(|line| line.trim_start_matches(" (inlined by) "));
            let short = names.map(|line| {
                let (name, at) = line.split_once(" at ").unwrap_or((line, ""));
                format!("{name} ({})", at.rsplit('/').next().unwrap_or_default())
            });
            short.take(4).collect::<Vec<_>>().join(" < ")
        }
        Err(why) => format!("{offset:#x} ({why})"),
    }
}

#[cfg(test)]
mod tests;
