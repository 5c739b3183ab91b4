//! The control socket: a UNIX socket per process, for people who look at a running stack and tune it. `ss`, `stat`,
//! `hosts`, `blackbox lines`, `sysctl PREFIX` and `sysctl NAME=VALUE` are answered with lines of JSON, `capture SECONDS
//! [state]` with a pcapng file, `metrics` with OpenMetrics.
//!
//! The socket belongs to the process's user. Only that user and root may connect (mode 0600), and only they are
//! answered (SO_PEERCRED). The setting `control` says how far an answer may go: questions that load code or write files
//! are refused unless it is `full`.
//!
//! `millstream ss`, `stat`, `top`, `blackbox`, `sysctl` and `capture` find the sockets in [`Places`] and ask.

mod blackbox;
mod capture;
mod connections;
mod places;

pub use places::Places;

use crate::Engine;
use crate::clients::{Answer, desk, in_thread};
use crate::metrics;
use crate::net::Stack;
use crate::open::{Opened, Tap};
use crate::settings::ControlLevel;
use crate::sockets::Sockets;
use crate::tree::{Access, Node, Tree, TreeError};
use base::Duration;
use pio::{apart, unix_socket};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

/// Clients that are answered at once; others are told to ask again.
const CLIENTS_MAX: usize = 16;
/// Bytes of a question.
const QUESTION_MAX: usize = 64 << 10;
/// The longest silence of a client before its question has ended.
const SILENCE: Duration = Duration::from_secs(5);
/// The longest wait for a client that does not read its answer.
const STALL: Duration = Duration::from_secs(30);
/// The pause after an accept that failed, such as for too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The control socket of a process; removed when dropped.
pub struct Control {
    /// `None` where there is no socket (`control = off`).
    path: Option<PathBuf>,
    stop: Arc<AtomicBool>,
}

impl Drop for Control {
    fn drop(&mut self) {
        let Some(path) = &self.path else { return };
        self.stop.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = UnixStream::connect(path);
        // Another process may have tidied up before us.
        let _ = std::fs::remove_file(path);
    }
}

/// The stacks and the settings that all threads of a control socket share.
struct Shared {
    // Stacks and tree end with the program that opened them: links are closed, a log that is being written gets its
    // last line.
    stacks: Vec<Weak<dyn Sockets>>,
    tree: Weak<Tree>,
    taps: Vec<Tap>,
    level: ControlLevel,
}

/// A client's question.
struct Question {
    user: u32,
    line: String,
    answer: Answer,
}

/// State of the threads that have the clients.
struct Clients {
    tree: Weak<Tree>,
    count: AtomicUsize,
    desk: Sender<Question>,
}

/// Answers questions about what was opened on this process's control socket, from threads of their own.
///
/// # Errors
/// The directory cannot be made or is not safe, or the socket cannot be made.
pub fn serve(opened: &Opened) -> std::io::Result<Control> {
    serve_in(opened, &Places::from_environment())
}

/// As `serve`, with an environment read earlier.
///
/// # Errors
/// As [`serve`].
pub fn serve_in(opened: &Opened, places: &Places) -> std::io::Result<Control> {
    let stop = Arc::new(AtomicBool::new(false));
    if opened.control == ControlLevel::Off {
        return Ok(Control { path: None, stop });
    }
    let dir = places.prepare()?;
    places::sweep(&dir);
    let path = dir.join(format!("{}.sock", std::process::id()));
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(std::io::Error::new(e.kind(), format!("{}: {e}", path.display())));
        }
        // A socket of this number is left over from a process that has long gone.
        _ => {}
    }
    let shared = Arc::new(Shared {
        stacks: opened.stacks.iter().map(Arc::downgrade).collect(),
        tree: Arc::downgrade(&opened.tree),
        taps: opened.taps.clone(),
        level: opened.control,
    });
    let desk = desk("millstream-asked", move |question| {
        let shared = shared.clone();
        // A client that leaves before its answer loses the answer and nothing else.
        in_thread("millstream-asked", question, move |question| drop(shared.serve(question)));
    })?;
    let clients = Arc::new(Clients { tree: Arc::downgrade(&opened.tree), count: AtomicUsize::new(0), desk });
    let listener = unix_socket::listen_privately(&path)
        .map_err(|e| std::io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    let ended = stop.clone();
    let run = move |listener: UnixListener| accept(&listener, &clients, &ended);
    apart::spawn_with("millstream-control", listener, run)?;
    Ok(Control { path: Some(path), stop })
}

/// Accepts clients until the stacks are gone.
fn accept(listener: &UnixListener, clients: &Arc<Clients>, stop: &AtomicBool) {
    loop {
        let client = listener.accept();
        if stop.load(Ordering::Acquire) || clients.tree.strong_count() == 0 {
            return;
        }
        match client {
            Ok((client, _)) => admit(clients, client),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Gives a client a thread, unless too many have one.
fn admit(clients: &Arc<Clients>, client: UnixStream) {
    if clients.count.fetch_add(1, Ordering::AcqRel) >= CLIENTS_MAX {
        clients.count.fetch_sub(1, Ordering::AcqRel);
        busy(client);
        return;
    }
    let clients = clients.clone();
    in_thread("millstream-control", client, move |client| {
        // A client that leaves before its answer loses the answer and nothing else.
        let _ = clients.serve(client);
        clients.count.fetch_sub(1, Ordering::AcqRel);
    });
}

/// Tells a client that there are too many, if it takes that at once.
fn busy(mut client: UnixStream) {
    // A client that does not take it sees the connection end.
    let _ = client.set_nonblocking(true);
    let _ = refuse(&mut client, "as many questions as may be are being answered; ask again");
}

impl Clients {
    fn serve(&self, mut client: UnixStream) -> std::io::Result<()> {
        client.set_read_timeout(Some(SILENCE))?;
        client.set_write_timeout(Some(STALL))?;
        let user = unix_socket::peer_user(&client)?;
        let line = match question(&mut client) {
            Ok(line) => line,
            Err(why) => return refuse(&mut client, &why),
        };
        let (answer, pieces) = Answer::new();
        let asked = self.desk.send(Question { user, line, answer });
        // The desk is there as long as something can ask it.
        debug_assert!(asked.is_ok(), "the desk has ended");
        pieces.iter().try_for_each(|piece| client.write_all(&piece))
    }
}

impl Shared {
    fn serve(&self, Question { user, line, mut answer }: Question) -> std::io::Result<()> {
        let own = unix_socket::own_user();
        if ![0, own].contains(&user) {
            let (own, other) = (unix_socket::user_name(own), unix_socket::user_name(user));
            return refuse(
                &mut answer,
                &format!(
                    "this stack is {own}'s and does not answer {other} (number {user}): ask as {own}, or with sudo"
                ),
            );
        }
        // Not before there is a question: a client that is silent keeps no stack alive.
        let stacks: Option<Vec<Stack>> = self.stacks.iter().map(Weak::upgrade).collect();
        let (Some(stacks), Some(tree)) = (stacks, self.tree.upgrade()) else { return Ok(()) };
        reply(&stacks, &self.taps, &tree, self.level, &line, answer)
    }
}

/// Returns a client's line, or the reason why there is none.
fn question(client: &mut UnixStream) -> Result<String, String> {
    let (mut line, mut some) = (Vec::new(), [0; 1_024]);
    while !line.contains(&b'\n') {
        match client.read(&mut some) {
            Ok(0) => break,
            Ok(_) if line.len() >= QUESTION_MAX => {
                return Err(format!("a question has at most {QUESTION_MAX} bytes"));
            }
            Ok(len) => line.extend_from_slice(&some[..len]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(format!("no question came within {} s", SILENCE.as_secs())),
        }
    }
    String::from_utf8(line).map_err(|_| "a question is text in UTF-8".into())
}

/// Refuses what the setting `control` does not allow.
fn needs(client: &mut Answer, level: ControlLevel, wanted: ControlLevel) -> std::io::Result<bool> {
    if level >= wanted {
        return Ok(true);
    }
    let (what, name) = match wanted {
        ControlLevel::Full => ("loading code and writing files through the control socket", "full"),
        _ => ("changing anything through the control socket", "tune"),
    };
    refuse(
        client,
        &format!(
            "{what} is switched off: start the program with the setting control = \"{name}\" to allow it"
        ),
    )?;
    Ok(false)
}

fn reply(
    stacks: &[Stack],
    taps: &[Tap],
    tree: &Tree,
    level: ControlLevel,
    line: &str,
    mut client: Answer,
) -> std::io::Result<()> {
    if let Some(rest) = line.trim().strip_prefix("sysctl") {
        return sysctl(tree, level, rest.trim(), &mut client);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let look: fn(&mut Engine) -> Vec<Value> = match words[..] {
        ["ss"] => rows,
        ["hosts"] => hosts,
        ["metrics"] => return client.write_all(metrics::text(stacks).as_bytes()),
        ["stat"] => |engine| vec![stats(engine)],
        ["capture", seconds] => return capture::answer(stacks, taps, &mut client, seconds, false),
        ["capture", seconds, "state"] => return capture::answer(stacks, taps, &mut client, seconds, true),
        ["blackbox", "on" | "off", ..] if !needs(&mut client, level, ControlLevel::Tune)? => return Ok(()),
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
fn sysctl(tree: &Tree, level: ControlLevel, line: &str, client: &mut Answer) -> std::io::Result<()> {
    let outcome = match line.split_once('=') {
        Some((name, value)) => {
            let (name, value) = (name.trim(), value.trim());
            let wanted = if tree.reaches_out(name, value) { ControlLevel::Full } else { ControlLevel::Tune };
            if !needs(client, level, wanted)? {
                return Ok(());
            }
            assign(tree, name, value).map(|line| vec![line])
        }
        None => values(tree, line),
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

fn refuse(client: &mut impl Write, why: &str) -> std::io::Result<()> {
    client.write_all(format!("{}\n", json!({ "error": why })).as_bytes())
}

/// Every listener, connection and TIME-WAIT entry of an engine.
pub fn rows(engine: &mut Engine) -> Vec<Value> {
    let now = engine.time();
    connections::rows(engine.core(), now)
}

/// Returns an engine's memory of peers.
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
    let (wakes, events, jobs) = (engine.load.wakes(), engine.load.events, engine.load.jobs);
    let core = engine.core();
    metrics::settle_limits(core, now);
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
    let caps = core.io().caps();
    let port = json!({
        "name": caps.name, "fallback": caps.fallback, "tx_checksum": caps.tx_checksum, "tso_max": caps.tso_max,
    });
    let tcp = core.tcp_counters();
    let names = tcp::Counters::ROWS.iter().map(|row| row.0);
    json!({
        "port": port,
        "tcp": pairs(names.zip(tcp.values()).collect()),
        "stack": pairs(core.stats()),
        "link": pairs(core.io().stats()),
        "offload": pairs(core.offload_figures().iter().map(|figure| (figure.name, figure.value)).collect()),
        "sock": {
            "descriptors": descriptors, "watches": watches, "footprint": footprint, "spin_us": spun.as_micros() as u64,
            "sleep_us": slept.as_micros() as u64, "wakes": wakes, "events": events, "jobs": jobs,
        },
        "blackbox": blackbox,
        "now_us": now.as_micros(),
    })
}
