//! The door for those who look and tune: a UNIX socket per process. `ss`, `stat`, `hosts`, `blackbox lines`,
//! `sysctl PREFIX` and `sysctl NAME=VALUE` are answered with lines of JSON, `capture SECONDS [state]` with a pcapng
//! file, `metrics` with OpenMetrics.
//!
//! `millstream ss`, `stat`, `top`, `blackbox`, `sysctl` and `capture` find the sockets in [`directory`] and ask.

mod blackbox;
mod capture;
pub(crate) mod connections;

pub(crate) use capture::wall_clock;

use crate::Engine;
use crate::metrics;
use crate::net::Stack;
use crate::open::{Opened, Tap};
use crate::tree::{Access, Node, Tree, TreeError};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Where control sockets live: `MILLSTREAM_RUN`, else `XDG_RUNTIME_DIR/millstream`, else `/run/millstream` or, where
/// that cannot be written, `/tmp/millstream`.
pub fn directory() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    from("MILLSTREAM_RUN")
        .or_else(|| from("XDG_RUNTIME_DIR").map(|dir| dir.join("millstream")))
        .unwrap_or_else(|| {
            let system = PathBuf::from("/run/millstream");
            if std::fs::create_dir_all(&system).is_ok() { system } else { PathBuf::from("/tmp/millstream") }
        })
}

/// The control socket of a process; removed when dropped.
pub struct Control {
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        // Wakes the thread that answers, which ends if what it looked at is gone.
        let _ = UnixStream::connect(&self.path);
        // Somebody may have tidied up before us.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Answers questions about what was opened on this process's control socket, from a thread of its own.
pub fn serve(opened: &Opened) -> std::io::Result<Control> {
    serve_in(opened, &directory())
}

/// The same, in a directory that was [`directory`] at an earlier time.
pub fn serve_in(opened: &Opened, dir: &Path) -> std::io::Result<Control> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(format!("{}.sock", std::process::id()));
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        // A socket of this number is left over from a process that has long gone.
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    let taps = opened.taps.clone();
    // Stacks and tree end with the program that opened them: links are closed, a log that is being written gets its
    // last line.
    let (stacks, tree) =
        (opened.stacks.iter().map(Arc::downgrade).collect::<Vec<_>>(), Arc::downgrade(&opened.tree));
    std::thread::Builder::new().name("millstream-control".into()).spawn(move || {
        for client in listener.incoming().flatten() {
            let stacks: Option<Vec<Stack>> = stacks.iter().map(Weak::upgrade).collect();
            let (Some(stacks), Some(tree)) = (stacks, tree.upgrade()) else { return };
            // Somebody who asks and leaves before the answer hurts nobody.
            let _ = answer(&stacks, &taps, &tree, client);
        }
    })?;
    Ok(Control { path })
}

fn answer(stacks: &[Stack], taps: &[Tap], tree: &Tree, mut client: UnixStream) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(client.try_clone()?).read_line(&mut line)?;
    if let Some(wish) = line.trim().strip_prefix("sysctl") {
        return sysctl(tree, wish.trim(), &mut client);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let look: fn(&mut Engine) -> Vec<Value> = match words[..] {
        ["ss"] => rows,
        ["hosts"] => hosts,
        ["metrics"] => return client.write_all(metrics::text(stacks).as_bytes()),
        ["stat"] => |engine| vec![stats(engine)],
        ["capture", seconds] => return capture::answer(stacks, taps, &mut client, seconds, false),
        ["capture", seconds, "state"] => return capture::answer(stacks, taps, &mut client, seconds, true),
        ["blackbox", ref words @ ..] => return blackbox::answer(stacks, &mut client, words),
        _ => return refuse(&mut client, "ask ss, stat, hosts, blackbox, sysctl or capture SECONDS [state]"),
    };
    for (core, stack) in stacks.iter().enumerate() {
        let mut found = Vec::new();
        stack.inspect(Box::new(|engine| found = look(engine)));
        for mut value in found {
            value["core"] = core.into();
            writeln!(client, "{value}")?;
        }
    }
    Ok(())
}

/// `NAME=VALUE` sets and tells what was before and what is now; a name or prefix lists what is there, and nothing at
/// all lists everything.
fn sysctl(tree: &Tree, wish: &str, client: &mut UnixStream) -> std::io::Result<()> {
    let outcome = match wish.split_once('=') {
        Some((name, value)) => assign(tree, name.trim(), value.trim()).map(|line| vec![line]),
        None => values(tree, wish),
    };
    match outcome {
        Ok(lines) => lines.iter().try_for_each(|line| writeln!(client, "{line}")),
        Err(e) => refuse(client, &e.to_string()),
    }
}

fn assign(tree: &Tree, name: &str, value: &str) -> Result<Value, TreeError> {
    // What can only be written has nothing before and nothing after.
    let read = || match tree.get(name) {
        Err(TreeError::Access(_)) => Ok(None),
        value => value.map(Some),
    };
    let old = read()?;
    tree.set(name, value)?;
    Ok(json!({ "name": name, "old": old, "value": read()? }))
}

fn values(tree: &Tree, prefix: &str) -> Result<Vec<Value>, TreeError> {
    let line = |node: Node| {
        let value = match node.access {
            Access::Write => None,
            Access::Read | Access::ReadWrite => Some(tree.get(&node.name)?),
        };
        let writable = node.access != Access::Read;
        Ok(json!({
            "name": node.name, "value": value, "writable": writable, "form": node.form, "help": node.help,
        }))
    };
    tree.list(prefix)?.into_iter().map(line).collect()
}

fn refuse(client: &mut UnixStream, why: &str) -> std::io::Result<()> {
    writeln!(client, "{}", json!({ "error": why }))
}

/// Every listener, connection and TIME-WAIT entry of an engine.
pub fn rows(engine: &mut Engine) -> Vec<Value> {
    let now = engine.time();
    connections::rows(engine.core(), now)
}

/// What an engine remembers of peers.
pub fn hosts(engine: &mut Engine) -> Vec<Value> {
    let now = engine.now();
    let row = |row: stack::HostRow| {
        let lesson = row.memory.lesson;
        json!({
            "remote": row.remote.to_string(),
            "srtt_us": lesson.srtt_us,
            "rttvar_us": lesson.rttvar_us,
            "ssthresh": (lesson.ssthresh > 0).then_some(lesson.ssthresh),
            "cwnd": lesson.cwnd,
            "rto_us": row.hint.rto_us,
            "connections": row.memory.connections,
            "age_s": row.age,
        })
    };
    engine.core().hosts(now).map(row).collect()
}

/// Counters, table sizes and memory of an engine.
pub fn stats(engine: &mut Engine) -> Value {
    let (descriptors, watches) = engine.open();
    let (footprint, now) = (engine.footprint(), engine.time());
    let (spun, slept) = (engine.load.spun(), engine.load.slept(now));
    let core = engine.core();
    connections::settle_limits(core, now);
    let blackbox = core.probe::<trace::blackbox::BlackBox>().map(|(_, box_)| {
        let (written, lost) = box_.files().map_or((0, 0), trace::blackbox::Files::counts);
        json!({
            "connections": box_.rings(None).count(), "untracked": box_.untracked(), "footprint": box_.footprint(),
            "dumps_written": written, "dumps_lost": lost,
        })
    });
    let pairs = |list: Vec<(&'static str, u64)>| -> Value {
        list.into_iter().map(|(name, value)| (name.to_string(), Value::from(value))).collect()
    };
    let tcp = core.tcp_counters();
    let names = tcp::Counters::ROWS.iter().map(|row| row.0);
    json!({
        "tcp": pairs(names.zip(tcp.values()).collect()),
        "stack": pairs(core.stats()),
        "link": pairs(core.io().stats()),
        "offload": pairs(core.offload_figures().iter().map(|figure| (figure.name, figure.value)).collect()),
        "sock": {
            "descriptors": descriptors, "watches": watches, "footprint": footprint, "spin_us": spun.as_micros() as u64,
            "sleep_us": slept.as_micros() as u64,
        },
        "blackbox": blackbox,
        "now_us": now.as_micros(),
    })
}
