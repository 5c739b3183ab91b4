//! Where settings come from: defaults, then a TOML file, then the environment, then flags; and stacks opened with them.

use crate::command::CliResult;
use clap::Args;
use emu::{PipeConfig, Piped};
use pio::PacketIo;
use sock::{Clock, OpenError, Opened, SettingError, Settings, SystemClock};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

/// Most packets on their way on an emulated path, each way.
const HOLDS: u32 = 65_536;

/// Flags every command that opens a stack takes.
#[derive(Args, Clone)]
pub(crate) struct StackArgs {
    /// Read settings from this TOML file first; default: the file that MILLSTREAM_CONFIG names.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Packet port of the stack: nic:IFACE, xdp:IFACE, packet:IFACE, tap:NAME, shm:PATH or pcap:FILE.
    #[arg(long)]
    link: Option<String>,
    /// Number of stack cores, each with its own receive queue of the link.
    #[arg(long)]
    cores: Option<u16>,
    /// Default congestion control of new connections.
    #[arg(long)]
    cc: Option<String>,
    /// Threads that run the stack: the application's own (direct), or one per core (paired).
    #[arg(long)]
    mode: Option<String>,
    /// Generic receive offload: inline, hold, reorder or off; workers=N merges segments in N threads before the
    /// stack.
    #[arg(long, value_name = "WAY,...")]
    offload: Option<String>,
    /// Addresses of the stack with prefix lengths, separated by commas, for links with their own addresses (tap, shm).
    #[arg(long)]
    address: Option<String>,
    /// Default gateways, separated by commas, for links with their own addresses (tap, shm).
    #[arg(long)]
    gateway: Option<String>,
    /// Run the stack over an emulated path, KEY=VALUE,... with the keys of an experiment's `path`: rtt_ms=40,
    /// down_kbit=20000, queue=strict 100000, up.loss=0.01. `down` is the direction to the stack. One core only.
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = lab::point)]
    path: Option<BTreeMap<String, String>>,
    /// Any other setting, KEY=VALUE; `millstream settings` lists them. Can be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print results as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl StackArgs {
    /// The settings all sources together give.
    pub(crate) fn settings(&self) -> Result<Settings, SettingError> {
        let mut settings = Settings::default();
        let named = || std::env::var_os("MILLSTREAM_CONFIG").filter(|_| !sock::elevated()).map(PathBuf::from);
        if let Some(path) = self.config.clone().or_else(named) {
            settings.from_file(&path)?;
        }
        settings.from_environment()?;
        let cores = self.cores.map(|n| n.to_string());
        let flags = [
            ("link", &self.link),
            ("cores", &cores),
            ("cc", &self.cc),
            ("mode", &self.mode),
            ("address", &self.address),
            ("gateway", &self.gateway),
        ];
        for (key, value) in flags {
            if let Some(value) = value {
                settings.set(key, value)?;
            }
        }
        for way in self.offload.iter().flat_map(|ways| ways.split(',')) {
            match way.trim().strip_prefix("workers=") {
                Some(workers) => settings.set("offload_workers", workers)?,
                None => settings.set("offload", way)?,
            }
        }
        for pair in &self.set {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| SettingError(format!("--set {pair}: write it as KEY=VALUE")))?;
            settings.set(key.trim(), value)?;
        }
        Ok(settings)
    }

    /// Returns true if a flag names the link.
    pub(crate) fn names_link(&self) -> bool {
        self.link.is_some()
    }

    /// Refuses an emulated path, for a command that does not open the stack itself.
    pub(crate) fn refuse_path(&self) -> Result<(), String> {
        match self.path {
            Some(_) => {
                Err("--path is for serve, load and iperf; `millstream pipe` joins two links by a path".into())
            }
            None => Ok(()),
        }
    }

    /// Opens the stacks, over the path that was requested.
    pub(crate) fn open(&self, settings: &Settings) -> Result<Opened, Box<dyn Error>> {
        let Some(words) = &self.path else { return Ok(sock::open(settings)?) };
        if settings.cores > 1 {
            let cores = settings.cores;
            return Err(
                format!("--path with cores = {cores}: each would have a path of its own; use one").into()
            );
        }
        let words: Vec<_> = words.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let pipes = lab::pipes(&lab::Path::read("", &words)?)?;
        let pipes = pipes.map(|pipe| PipeConfig { holds: Some(HOLDS), ..pipe });
        let seed = settings.seed.max(1);
        let layer = |port: Box<dyn PacketIo>| -> Result<Box<dyn PacketIo>, OpenError> {
            let clock = SystemClock::new();
            let piped = Piped::new(port, pipes.clone(), seed, move || clock.now());
            Ok(Box::new(
                piped.map_err(|e| OpenError::because(format!("--path over {}: {e}", settings.link)))?,
            ))
        };
        Ok(sock::open_over(settings, layer)?)
    }
}

/// `millstream settings`.
pub(crate) fn print(args: &StackArgs) -> CliResult {
    let settings = args.settings()?;
    if args.json {
        let map: serde_json::Map<_, _> =
            settings.values().into_iter().map(|(key, value)| (key.to_string(), value.into())).collect();
        outln!("{}", serde_json::Value::Object(map));
        return Ok(());
    }
    let own = Settings::ROWS.iter().map(|row| (row.help, row.form.to_string()));
    let tcp = sock::tcp_settings().iter().map(|row| {
        let (min, max) = (row.bounds)();
        (row.help, format!("{min} to {max}"))
    });
    for ((help, form), (key, value)) in own.chain(tcp).zip(settings.values()) {
        outln!("{key} = \"{value}\"\n    {help}\n    {form}; environment MILLSTREAM_{}", key.to_uppercase());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
