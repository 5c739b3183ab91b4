//! Machine and tools of a run.

use crate::bed::sh;
use std::collections::BTreeMap;

/// Lines of `text` that begin with `key` and a colon: what follows.
fn after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':')).map(str::trim)
}

/// The first line that a program says.
fn first(program: &str, args: &[&str]) -> String {
    let said = sh(program, args).unwrap_or_else(|_| "unknown".into());
    said.lines().next().unwrap_or_default().into()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().into())
}

/// The machine, its settings, and what built the contenders.
pub(super) fn describe() -> BTreeMap<String, String> {
    let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let commit = first("git", &["-C", root, "rev-parse", "--short", "HEAD"]);
    let sysctl = |name: &str| format!("{name} = {}", read(&format!("/proc/sys/{}", name.replace('.', "/"))));
    let rows = [
        ("processor", format!("{}, {cores} cores", processor(&cpu))),
        ("memory", after(&memory, "MemTotal").unwrap_or("unknown").to_string()),
        ("kernel", first("uname", &["-sr"])),
        ("transparent huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled")),
        (
            "sysctls",
            [
                "net.ipv4.tcp_syncookies",
                "net.ipv4.tcp_timestamps",
                "net.ipv4.tcp_sack",
                "net.ipv4.tcp_rmem",
                "net.ipv4.tcp_wmem",
                "net.ipv4.tcp_tw_reuse",
            ]
            .map(sysctl)
            .join("; "),
        ),
        (
            "in both namespaces",
            "ip_local_port_range = 1024 65000, somaxconn = tcp_max_syn_backlog = 65535, route with congctl cubic; 16 \
             client addresses"
                .into(),
        ),
        ("Rust", format!("{}, {}", first("rustc", &["--version"]), profile())),
        ("C", format!("{}, -O2", first("cc", &["--version"]))),
        ("commit", commit),
    ];
    rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Its name, and the numbers that tell apart what virtual machines call alike.
fn processor(cpu: &str) -> String {
    let [name, family, model] =
        ["model name", "cpu family", "model"].map(|key| after(cpu, key).unwrap_or("unknown"));
    format!("{name}, family {family}, model {model}")
}

fn profile() -> &'static str {
    if cfg!(debug_assertions) {
        "not optimised: these figures say nothing"
    } else {
        "optimised; `cargo xtask bench` takes the profile dist (fat LTO, one codegen unit)"
    }
}

/// When it is, UTC, to the minute.
pub(super) fn today() -> String {
    first("date", &["-u", "+%F %H:%M"])
}

#[cfg(test)]
mod tests;
