//! Shell lines: writes of sysctls are understood, in a line or in a script beside the one that runs; some commands mean
//! nothing here; the rest cannot be run.

use crate::code;
use std::collections::HashMap;
use std::path::Path;

/// Request of a shell line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Grant {
    /// A sysctl, its name with points, and its value.
    Sysctl(String, String),
    /// A setting of [`tcp::Config`], its name and its value: what a route says of the connections that take it.
    Route(&'static str, String),
    /// The largest packet that the route takes.
    Mtu(u32),
    /// The interface cuts super-segments, or the stack has to.
    Offload(bool),
    /// Forget what was learned of destinations.
    Forget,
    /// The queue at the interface paces, or does not.
    Pacing(bool),
    /// A socket in this state of Linux's, on this local port, must be in /proc/net/tcp.
    Listed(u8, u16),
    /// Something that a stack in virtual time cannot do.
    Unsupported(String),
}

/// Commands that mean nothing to a stack that begins anew with every script.
const IDLE: &[&str] =
    &["true", ":", "nstat", "sleep", "echo", "modprobe", "set", "cat", "sockstat", "grep", "rm", "dd"];

/// Reads the commands of a line. Files are looked for in `folder`.
pub(super) fn read(text: &str, folder: &Path) -> Vec<Grant> {
    read_within(text, folder, 0)
}

fn read_within(text: &str, folder: &Path, depth: u32) -> Vec<Grant> {
    let joined = text.replace("\\\n", " ");
    let mut grants = Vec::new();
    let commands =
        joined.lines().flat_map(|line| without_comment(line).split(';')).flat_map(|c| c.split("&&"));
    for line in commands {
        let words: Vec<String> = split(line);
        if let Some((command, arguments)) = words.split_first() {
            command_grants(command, arguments, folder, depth, &mut grants);
        }
    }
    grants
}

fn command_grants(command: &str, arguments: &[String], folder: &Path, depth: u32, grants: &mut Vec<Grant>) {
    let name = command.rsplit('/').next().unwrap_or(command);
    match name {
        "sudo" | "exec" => {
            if let Some((command, arguments)) = arguments.split_first() {
                command_grants(command, arguments, folder, depth, grants);
            }
        }
        // How many cookies are kept, where kernels have it: scripts set it to none to forget them.
        "sysctl" if arguments.iter().any(|word| word == "net.ipv4.tcp_fastopen_cookies=0") => {
            grants.push(Grant::Forget);
        }
        "sysctl" => grants.extend(arguments.iter().filter_map(|argument| assignment(argument))),
        "set_sysctls.py" => grants.extend(arguments.iter().filter_map(|argument| assignment(argument))),
        "ip" if arguments.iter().any(|word| word == "tcp_metrics") => grants.push(Grant::Forget),
        "ip" if arguments.iter().any(|word| word == "route") => grants.extend(route(arguments)),
        "ethtool" => grants.extend(offload(arguments)),
        "tc" => grants.extend(root_queue(arguments)),
        "grep" => grants.push(match listed(arguments) {
            Some((state, port)) => Grant::Listed(state, port),
            None => Grant::Unsupported("the command grep".into()),
        }),
        _ if IDLE.contains(&name) || name.starts_with("sysctl_restore") => {}
        _ if name.ends_with(".sh") && depth < 4 => match std::fs::read_to_string(folder.join(command)) {
            Ok(text) => grants.extend(read_within(&text, folder, depth + 1)),
            Err(_) => grants.push(Grant::Unsupported(format!("the script {name}, which cannot be read"))),
        },
        _ => grants.push(Grant::Unsupported(format!("the command {name}"))),
    }
}

/// `ip route change ... rto_min 40ms initcwnd 20`: settings. Where the route leads does not matter to a stack with one
/// link.
fn route(arguments: &[String]) -> Vec<Grant> {
    let words = arguments.iter().skip_while(|word| *word != "route").skip(1);
    let mut words = words.map(String::as_str).filter(|word| *word != "lock");
    if !words.next().is_some_and(|verb| ["change", "replace", "add", "append"].contains(&verb)) {
        return Vec::new();
    }
    // The destination.
    let _ = words.next();
    let mut grants = Vec::new();
    let (mut mtu, mut advmss) = (None, None);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or("");
        grants.push(match word {
            "via" | "dev" | "src" | "proto" | "scope" | "metric" | "table" | "onlink" | "pref" => continue,
            "initcwnd" => Grant::Route("initial_window", value.into()),
            "mtu" if mtu.is_none() && value.parse::<u16>().is_ok() => {
                mtu = value.parse().ok();
                continue;
            }
            "advmss" if advmss.is_none() && value.parse::<u16>().is_ok() => {
                advmss = value.parse().ok();
                continue;
            }
            "rto_min" => Grant::Route("rto_min", with_unit(value)),
            // Without end, as far as a script is concerned.
            "quickack" => Grant::Route("quick_acks", if value == "1" { "255" } else { "0" }.into()),
            "features" if value == "tcp_usec_ts" => Grant::Route("usec_timestamps", "on".into()),
            "congctl" => Grant::Sysctl("net.ipv4.tcp_congestion_control".into(), value.into()),
            _ => Grant::Unsupported(format!("the route's {word}")),
        });
    }
    grants.extend(mtu.map(Grant::Mtu));
    // The MSS that this stack announces is what the MTU has room for.
    let fits = |mss: u32| [40, 60].iter().any(|headers| mtu == Some(mss + headers));
    grants.extend(advmss.filter(|&mss| !fits(mss)).map(|_| Grant::Unsupported("the route's advmss".into())));
    grants
}

/// `ethtool -K tun0 gso off tso off`: without both, segments reach the interface cut.
fn offload(words: &[String]) -> Option<Grant> {
    let ["-K" | "--offload" | "--features", _, features @ ..] =
        &words.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let names = ["tso", "gso", "tcp-segmentation-offload", "generic-segmentation-offload"];
    let mut states = features.chunks(2).filter(|pair| names.contains(&pair[0])).peekable();
    states.peek()?;
    Some(Grant::Offload(states.all(|pair| pair.get(1) == Some(&"on"))))
}

/// A time without a unit counts milliseconds here.
fn with_unit(time: &str) -> String {
    if time.ends_with('s') { time.into() } else { format!("{time}ms") }
}

/// `grep " 0A " /proc/net/tcp /proc/net/tcp6 | grep ":1F90"`: a state and a port, as the kernel lists them.
fn listed(arguments: &[String]) -> Option<(u8, u16)> {
    let [state, files @ .., pipe, grep, port] = arguments else { return None };
    let lists = !files.is_empty() && files.iter().all(|file| file.starts_with("/proc/net/tcp"));
    let state = u8::from_str_radix(state.trim(), 16).ok()?;
    let port = u16::from_str_radix(port.strip_prefix(':')?, 16).ok()?;
    (lists && pipe == "|" && grep == "grep").then_some((state, port))
}

fn without_comment(line: &str) -> &str {
    match line.split_once('#') {
        Some((before, _)) if before.is_empty() || before.ends_with(char::is_whitespace) => before,
        _ => line,
    }
}

/// `tc qdisc replace dev tun0 root fq`: what paces on Linux is the queue.
fn root_queue(words: &[String]) -> Option<Grant> {
    let root = words.iter().position(|word| word == "root")?;
    let added = words.iter().any(|word| ["add", "change", "replace"].contains(&word.as_str()));
    let kind = words.get(root + 1).filter(|_| added)?;
    Some(Grant::Pacing(kind == "fq"))
}

/// `net.ipv4.tcp_sack=1` or `/proc/sys/net/ipv4/tcp_sack=1`.
fn assignment(word: &str) -> Option<Grant> {
    let (name, value) = word.split_once('=')?;
    let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
    if name.ends_with("hostcache.purgenow") {
        return Some(Grant::Forget);
    }
    Some(Grant::Sysctl(name, value.trim().to_string()))
}

/// Words as a shell splits them: quotes hold together, `$((...))` is computed, a redirection ends the command.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if let Some((value, len)) = arithmetic(rest) {
            word.get_or_insert_default().push_str(&value);
            rest = &rest[len..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            // Only what is looked for in a list goes through a pipe.
            ('|', None) if words.first().is_some_and(|word| word == "grep") => {
                words.extend(word.take());
                words.push("|".into());
            }
            ('>' | '<' | '|', None) => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// `$((15*1024))` at the front of `text`: its value and its length.
fn arithmetic(text: &str) -> Option<(String, usize)> {
    let inside = text.strip_prefix("$((")?;
    let len = inside.find("))")?;
    let statements = code::parse(&format!("value = {}", &inside[..len])).ok()?;
    let mut own = HashMap::new();
    let mut names = code::Names { own: &mut own, lookup: &|_| None };
    code::run(&statements, &mut names, &mut Vec::new()).ok()?;
    Some((own.get("value")?.to_string(), len + 5))
}

#[cfg(test)]
mod tests;
