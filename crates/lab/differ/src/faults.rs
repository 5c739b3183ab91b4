//! Planted faults: do the generated inputs find a fault that is there? `differ faults` plants each of [`FAULTS`] in a
//! copy of the tree, one at a time, builds the copy and runs its inputs until the first difference without a reason.
//! A copy without a fault must show no difference for the same seeds, so that it is the planted fault that was found.

mod list;

pub use list::{FAULTS, Fault};

use crate::reasons::Kind;
use base::Duration;
use bench::bed::sh;
use sock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Help text.
pub const HELP: &str = "\
differ faults [--minutes M] [WORDS...]
  plants the faults whose names contain one of WORDS (all, without), and runs inputs for at most M minutes each (10)";

/// Minutes for one fault.
const MINUTES: u64 = 10;
const PACKAGES: [&str; 3] = ["millstream", "millstream-preload", "millstream-differ"];
/// Files that a run needs of those that were built.
const BUILT: [&str; 3] = ["millstream", "libmillstream_preload.so", "millstream-differ"];

/// A copy of the tree, with what was built from it before a fault was planted.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
    sound: PathBuf,
    /// A file with the path of the file that has a fault, or had the last one.
    planted: PathBuf,
    /// The first seed that has not run on the copy without a fault, by the name of the kind.
    clean: BTreeMap<&'static str, u64>,
}

/// Name of the kind as an argument.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Calls { .. } => "calls",
        Kind::Packets => "packets",
    }
}

/// Returns the seed of the first difference that a run tells with `--first`.
fn seed_of(output: &str) -> Option<u64> {
    output.lines().rev().find_map(|line| line.strip_prefix(crate::options::FIRST)?.trim().parse().ok())
}

impl Copy {
    /// Copies what git knows, and files that it does not ignore, and builds it. What is unchanged since the last time
    /// is not built again.
    fn new(root: &Path, dir: &Path) -> Result<Copy, String> {
        let [tree, target, sound] = ["tree", "target", "sound"].map(|name| dir.join(name));
        for dir in [&tree, &sound] {
            std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        let [from, to] = [root, &tree].map(|path| path.to_string_lossy().into_owned());
        let copy = "cd \"$1\" && git ls-files -z -c -o --exclude-standard | tar --null --ignore-failed-read -T - -c \
                    | tar -x -C \"$2\"";
        sh("sh", &["-c", copy, "sh", &from, &to])?;
        let copy = Copy { tree, target, sound, planted: dir.join("planted"), clean: BTreeMap::new() };
        // A run that was interrupted has built a fault: the file is newer now than what was built from it.
        if let Ok(file) = std::fs::read_to_string(&copy.planted) {
            sh("touch", &[&copy.tree.join(file).to_string_lossy()])?;
        }
        copy.build()?;
        for name in BUILT {
            let [from, to] = [copy.target.join("debug"), copy.sound.clone()].map(|dir| dir.join(name));
            std::fs::copy(&from, &to).map_err(|e| format!("{}: {e}", from.display()))?;
        }
        Ok(copy)
    }

    fn build(&self) -> Result<(), String> {
        let mut cargo = Command::new("cargo");
        cargo
            .args(["build", "--quiet", "--locked"])
            .args(PACKAGES.iter().flat_map(|name| ["--package", name]));
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        let output = cargo.output().map_err(|e| format!("cargo: {e}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("the copy does not build: {said}")) }
    }

    /// Runs inputs, of what lies in `dir`, until the first difference, and returns its seed.
    fn run(&self, dir: &Path, kind: Kind, arguments: &[String]) -> Result<Option<u64>, String> {
        let output = Command::new(dir.join("millstream-differ"))
            .args([word(kind), "--first"])
            .args(arguments)
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("MILLSTREAM_BIN", dir.join("millstream"))
            .output()
            .map_err(|e| format!("{}: {e}", dir.display()))?;
        let [out, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        match (seed_of(&out), output.status.success()) {
            (None, false) => Err(format!("{} failed: {said}", word(kind))),
            (seed, _) => Ok(seed),
        }
    }

    /// Do the seeds up to `seed` show nothing without a fault?
    fn is_clean(&mut self, kind: Kind, seed: u64) -> Result<bool, String> {
        let from = self.clean.get(word(kind)).copied().unwrap_or(0);
        if seed >= from {
            // Packets vary what earlier seeds reached, so these run as well.
            let begin = if kind == Kind::Packets { 0 } else { from };
            let range = ["--seed".into(), begin.to_string(), "--runs".into(), (seed + 1 - begin).to_string()];
            if self.run(&self.sound, kind, &range)?.is_some() {
                return Ok(false);
            }
            self.clean.insert(word(kind), seed + 1);
        }
        Ok(true)
    }

    /// Plants a fault, builds, runs, and takes the fault out again. Returns the seed that found it.
    fn try_fault(&self, fault: &Fault, minutes: u64) -> Result<Option<u64>, String> {
        let path = self.tree.join(fault.file);
        let of_file = |e: std::io::Error| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(&path).map_err(of_file)?;
        std::fs::write(&self.planted, fault.file).map_err(of_file)?;
        std::fs::write(&path, fault.planted(&text)?).map_err(of_file)?;
        let run = || {
            self.build()?;
            self.run(&self.target.join("debug"), fault.kind, &["--minutes".into(), minutes.to_string()])
        };
        let found = run();
        std::fs::write(&path, text).map_err(of_file)?;
        found
    }
}

/// Plants faults one after the other and prints which are found, by which seed, after how long.
///
/// # Errors
/// A fault was not found, the copy cannot be built, or inputs cannot be run here.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (mut minutes, mut words) = (MINUTES, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--minutes" => {
                let value = rest.next().and_then(|value| value.parse().ok());
                minutes = value.ok_or("--minutes takes a number")?;
            }
            option if option.starts_with('-') => return Err(format!("no option `{option}`\n{HELP}")),
            word => words.push(word),
        }
    }
    let wanted = |fault: &&Fault| words.is_empty() || words.iter().any(|word| fault.name.contains(word));
    let faults: Vec<&Fault> = FAULTS.iter().filter(wanted).collect();
    if faults.is_empty() {
        let names: Vec<_> = FAULTS.iter().map(|fault| fault.name).collect();
        return Err(format!("no fault has these words in its name; there are\n  {}", names.join("\n  ")));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = std::path::absolute(target).map_err(|e| format!("target: {e}"))?;
    let mut copy = Copy::new(&root, &target.join("differ/faults"))?;
    let clock = SystemClock::new();
    println!("| Fault | Found by | Seed | Seconds, with the build |\n|---|---|---:|---:|");
    let mut missed = 0;
    for fault in &faults {
        let begin = clock.now();
        let found = copy.try_fault(fault, minutes)?;
        let took: Duration = clock.now().since(begin);
        let result = match found {
            Some(seed) if copy.is_clean(fault.kind, seed)? => seed.to_string(),
            Some(seed) => format!("{seed} differs without the fault, too"),
            None => "not found".into(),
        };
        missed += usize::from(result.parse::<u64>().is_err());
        println!("| {} | {} | {result} | {} |", fault.name, word(fault.kind), took.as_secs());
    }
    println!("{} of {} found", faults.len() - missed, faults.len());
    if missed == 0 { Ok(()) } else { Err(format!("{missed} planted faults were not found")) }
}

#[cfg(test)]
mod tests;
