//! The way of a segment through the built program: which functions of which files run for it.
//!
//! Callgrind counts instructions by line, inlined ones among them, over a short and a long run of the same traffic;
//! what runs for each segment is what the long run does more of. The enclosing function of a line is read from its
//! file.

use crate::bed::{of_file, sh};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

/// Segments in the short run, and in the long one.
const SEGMENTS: [u64; 2] = [10_000, 30_000];
/// A function that runs once in so many segments is not on the way of each.
const ONCE_IN: f64 = 4.0;

/// Ways, the traffic of each, and the functions between which it lies.
const WAYS: [(&str, &str, &str); 2] =
    [("in", "bulk", "*flow*sink_turn*"), ("out", "bulk", "*flow*source_turn*")];

/// A function on the way.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Step {
    file: String,
    function: String,
}

/// Returns the way `name`, `in` or `out`: a table of functions with their instructions for a segment.
///
/// # Errors
/// There is no such way, or valgrind is missing.
pub fn walk(name: &str) -> Result<String, String> {
    let Some((_, load, part)) = WAYS.iter().find(|way| way.0 == name) else {
        return Err(format!("no way {name:?}: there are in and out"));
    };
    let [few, many] = [lines(load, part, SEGMENTS[0])?, lines(load, part, SEGMENTS[1])?];
    let segments = (SEGMENTS[1] - SEGMENTS[0]) as f64;
    let mut sources = HashMap::new();
    let mut steps: BTreeMap<Step, f64> = BTreeMap::new();
    for ((file, line), count) in many {
        let more = count.saturating_sub(few.get(&(file.clone(), line)).copied().unwrap_or(0));
        // Line 0 is the compiler's, and the standard library has a folder of that name.
        let ours = file.rsplit_once("/crates/").filter(|_| line > 0 && !file.starts_with("/rustc/"));
        let Some((_, short)) = ours.filter(|_| more as f64 >= segments / ONCE_IN) else { continue };
        let source = sources.entry(file.clone()).or_insert_with(|| std::fs::read_to_string(&file));
        let source = source.as_ref().map_err(|e| format!("{file}: {e}"))?;
        let function = enclosing(source, line).unwrap_or("?").to_owned();
        *steps.entry(Step { file: short.to_owned(), function }).or_default() += more as f64 / segments;
    }
    Ok(table(&steps))
}

fn table(steps: &BTreeMap<Step, f64>) -> String {
    let mut text = String::new();
    let mut file = "";
    for (step, instructions) in steps {
        if step.file != file {
            file = &step.file;
            let _written = writeln!(text, "{file}");
        }
        let _written = writeln!(text, "    {:<40} {instructions:>8.1}", step.function);
    }
    let mut files: Vec<&str> = steps.keys().map(|step| &*step.file).collect();
    files.dedup();
    let mut crates: Vec<&str> = files.iter().filter_map(|file| file.split("/src/").next()).collect();
    crates.dedup();
    let (functions, files, crates) = (steps.len(), files.len(), crates.len());
    let _written = writeln!(text, "{functions} functions in {files} files of {crates} crates");
    text
}

/// Returns the instructions of each line that runs within `part`, by file and line.
fn lines(load: &str, part: &str, segments: u64) -> Result<HashMap<(String, u32), u64>, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let out = std::env::temp_dir().join(format!("ms-walk-{}", std::process::id()));
    let (me, segments) = (me.to_string_lossy(), segments.to_string());
    let (file, only) =
        (format!("--callgrind-out-file={}", out.display()), format!("--toggle-collect={part}"));
    let plain = ["--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--dump-line=yes"];
    let mut args = plain.to_vec();
    args.extend([&*file, &*only, &*me, "exactly", load, "0", &*segments]);
    sh("valgrind", &args).map_err(|e| format!("{e}; install valgrind"))?;
    let text = std::fs::read_to_string(&out).map_err(of_file(Path::new(&out)))?;
    std::fs::remove_file(&out).map_err(of_file(&out))?;
    Ok(parse(&text))
}

/// Reads callgrind's own costs: the line after `calls=` has those of the function called.
fn parse(text: &str) -> HashMap<(String, u32), u64> {
    let (mut file, mut called, mut costs) = (String::new(), false, HashMap::new());
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            match key {
                "fl" | "fi" | "fe" => value.clone_into(&mut file),
                "calls" => called = true,
                _ => {}
            }
            continue;
        }
        let mut numbers = line.split(' ').map(str::parse::<u64>);
        let (Some(Ok(at)), Some(Ok(cost))) = (numbers.next(), numbers.next()) else { continue };
        if !std::mem::take(&mut called) {
            *costs.entry((file.clone(), at as u32)).or_default() += cost;
        }
    }
    costs
}

/// Returns the name of the function that a line of a source lies in.
fn enclosing(source: &str, line: u32) -> Option<&str> {
    let before: Vec<&str> = source.lines().take(line as usize).collect();
    before.iter().rev().find_map(|line| {
        let words = line.trim_start().split_once("fn ").filter(|(head, _)| {
            head.split(' ').all(|word| {
                matches!(word, "" | "const" | "unsafe" | "extern" | "async" | "\"C\"")
                    || word.starts_with("pub")
            })
        })?;
        words.1.split(['(', '<']).next()
    })
}

#[cfg(test)]
mod tests;
