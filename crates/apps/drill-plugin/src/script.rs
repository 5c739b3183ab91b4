//! The option lines of the script that the tool runs, which the tool does not hand to its plug-in. The script is the
//! argument of the tool's command line that ends with `.pkt`.

use std::path::PathBuf;

/// Options of a script that concern the stack, in the notation of `--so_flags`; empty where no script can be read.
pub(crate) fn flags() -> String {
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut arguments =
        arguments.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let script = arguments.rfind(|word| !word.starts_with('-') && word.ends_with(".pkt"));
    let text = script.and_then(|script| std::fs::read_to_string(PathBuf::from(script)).ok());
    text.map(|text| of(&text)).unwrap_or_default()
}

/// Options stand on lines of their own before the first event.
fn of(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("--"));
    let flags = lines.flat_map(str::split_whitespace).filter_map(|option| {
        let (name, value) = option.trim_start_matches('-').split_once('=').unwrap_or((option, ""));
        match name {
            "local_ip" | "remote_ip" | "mtu" | "mss" => Some(format!("{name}={value}")),
            "gateway_ip" => Some(format!("gateway={value}")),
            "--strict_segments" => Some("segments=whole".into()),
            _ => None,
        }
    });
    flags.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
