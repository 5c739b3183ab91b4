//! Settings: one row per setting gives the field, its default, the parser, the environment
//! variable, the TOML key and the help.

use std::net::IpAddr;
use std::path::PathBuf;

/// A setting was refused; says which and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError(pub String);

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingError {}

/// A value that a setting's text turns into.
trait Value: Sized {
    fn parse(text: &str) -> Option<Self>;
    fn show(&self) -> String;
}

macro_rules! plain {
    ($($ty:ty),+) => {$(
        impl Value for $ty {
            fn parse(text: &str) -> Option<Self> {
                text.trim().parse().ok()
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

plain!(String, u16, u32, u64);

impl Value for bool {
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Bytes, written plainly or with K, M or G.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl Value for Bytes {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (digits, shift) = match text.char_indices().last()? {
            (at, 'k' | 'K') => (&text[..at], 10),
            (at, 'm' | 'M') => (&text[..at], 20),
            (at, 'g' | 'G') => (&text[..at], 30),
            _ => (text, 0),
        };
        digits.parse::<u64>().ok()?.checked_mul(1 << shift).map(Bytes)
    }

    fn show(&self) -> String {
        match self.0 {
            n if n != 0 && n % (1 << 30) == 0 => format!("{}G", n >> 30),
            n if n != 0 && n % (1 << 20) == 0 => format!("{}M", n >> 20),
            n if n != 0 && n % (1 << 10) == 0 => format!("{}K", n >> 10),
            n => n.to_string(),
        }
    }
}

/// How application and stack share a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The application's threads turn the core from inside their calls.
    Direct,
    /// A stack thread per core, met through queues (the mTCP design).
    Paired,
}

impl Value for Mode {
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "direct" => Some(Mode::Direct),
            "paired" => Some(Mode::Paired),
            _ => None,
        }
    }

    fn show(&self) -> String {
        if *self == Mode::Direct { "direct" } else { "paired" }.into()
    }
}

/// The questions that the control socket answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ControlLevel {
    /// There is no control socket.
    Off,
    /// Questions that change nothing.
    Look,
    /// Values of the run-time tree and the black box can be changed, too.
    Tune,
    /// Code can be loaded and files can be written, too.
    Full,
}

impl Value for ControlLevel {
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "off" => Some(ControlLevel::Off),
            "look" => Some(ControlLevel::Look),
            "tune" => Some(ControlLevel::Tune),
            "full" => Some(ControlLevel::Full),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            ControlLevel::Off => "off",
            ControlLevel::Look => "look",
            ControlLevel::Tune => "tune",
            ControlLevel::Full => "full",
        }
        .into()
    }
}

/// Where segments of a flow that arrive together become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Nowhere, but for what the link itself merges.
    Off,
    /// In the core's own receive loop.
    Inline,
    /// There too, and data waits within the budget for more of its flow.
    Hold,
    /// There too, and segments that came too early wait within the budget for those before them.
    Reorder,
}

impl Offload {
    /// As a core wants to be told.
    pub(crate) fn to_stack(self, Budget(micros): Budget, Receivers(workers): Receivers) -> stack::Offload {
        let budget = base::Duration::from_micros(micros);
        match self {
            Offload::Off => stack::Offload::Off,
            // What is held is held before the stack.
            _ if workers > 0 => stack::Offload::Inline,
            Offload::Inline => stack::Offload::Inline,
            Offload::Hold => stack::Offload::Hold(budget),
            Offload::Reorder => stack::Offload::Reorder(budget),
        }
    }
}

/// Which connections stay inside the stack because both of their ends are here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loopback {
    /// None.
    Off,
    /// Those between the link's own addresses.
    Link,
    /// Those, and those of 127.0.0.0/8 and ::1.
    All,
}

impl Loopback {
    /// As a core wants to be told.
    pub(crate) fn to_stack(self) -> stack::Loopback {
        match self {
            Loopback::Off => stack::Loopback::Off,
            Loopback::Link => stack::Loopback::Link,
            Loopback::All => stack::Loopback::All,
        }
    }
}

impl Value for Loopback {
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "off" => Some(Loopback::Off),
            "link" => Some(Loopback::Link),
            "all" => Some(Loopback::All),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            Loopback::Off => "off",
            Loopback::Link => "link",
            Loopback::All => "all",
        }
        .into()
    }
}

/// How long receive offload may hold anything, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget(pub u64);

impl Value for Budget {
    fn parse(text: &str) -> Option<Self> {
        let most = stack::Offload::BUDGET_MAX.as_micros() as u64;
        u64::parse(text).filter(|micros| (1..=most).contains(micros)).map(Budget)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// How many cores share what a core sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workers(pub u16);

impl Value for Workers {
    fn parse(text: &str) -> Option<Self> {
        u16::parse(text).filter(|workers| *workers <= pio::LANES_MAX).map(Workers)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// How many workers receive for a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receivers(pub u16);

impl Value for Receivers {
    fn parse(text: &str) -> Option<Self> {
        u16::parse(text).filter(|workers| usize::from(*workers) <= pio::RECEIVERS_MAX).map(Receivers)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for Offload {
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "off" => Some(Offload::Off),
            "inline" => Some(Offload::Inline),
            "hold" => Some(Offload::Hold),
            "reorder" => Some(Offload::Reorder),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            Offload::Off => "off",
            Offload::Inline => "inline",
            Offload::Hold => "hold",
            Offload::Reorder => "reorder",
        }
        .into()
    }
}

/// Addresses with their prefix lengths, separated by commas.
impl Value for Vec<(IpAddr, u8)> {
    fn parse(text: &str) -> Option<Self> {
        let one = |item: &str| {
            let (addr, prefix) = item.trim().split_once('/')?;
            let (addr, prefix): (IpAddr, u8) = (addr.parse().ok()?, prefix.parse().ok()?);
            (prefix <= if addr.is_ipv4() { 32 } else { 128 }).then_some((addr, prefix))
        };
        text.split(',').filter(|item| !item.trim().is_empty()).map(one).collect()
    }

    fn show(&self) -> String {
        self.iter().map(|(addr, prefix)| format!("{addr}/{prefix}")).collect::<Vec<_>>().join(",")
    }
}

/// Addresses, separated by commas.
impl Value for Vec<IpAddr> {
    fn parse(text: &str) -> Option<Self> {
        text.split(',').filter(|item| !item.trim().is_empty()).map(|item| item.trim().parse().ok()).collect()
    }

    fn show(&self) -> String {
        self.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
    }
}

/// Paths, separated by commas.
impl Value for Vec<PathBuf> {
    fn parse(text: &str) -> Option<Self> {
        Some(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(PathBuf::from).collect())
    }

    fn show(&self) -> String {
        self.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",")
    }
}

/// First and last of a range of ports.
impl Value for (u16, u16) {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let range: (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (range.0 != 0 && range.0 <= range.1).then_some(range)
    }

    fn show(&self) -> String {
        format!("{}-{}", self.0, self.1)
    }
}

/// Names of the [tree](crate::tree) and what they are set to once the stacks run, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignments(pub Vec<(String, String)>);

/// Separated by commas; what lacks a `=` belongs to the value before.
impl Value for Assignments {
    fn parse(text: &str) -> Option<Self> {
        let mut all: Vec<(String, String)> = Vec::new();
        for item in text.split(',').filter(|item| !item.trim().is_empty()) {
            match item.split_once('=') {
                Some((name, value)) => all.push((name.trim().into(), value.trim().into())),
                None => {
                    let (_, value) = all.last_mut()?;
                    *value = format!("{value},{}", item.trim());
                }
            }
        }
        Some(Assignments(all))
    }

    fn show(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
    }
}

/// A row of [`Settings::ROWS`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The key, in TOML and on command lines; its environment variable is `MILLSTREAM_` and the key in capitals.
    pub key: &'static str,
    /// Form of a value.
    pub form: &'static str,
    /// Effect.
    pub help: &'static str,
}

macro_rules! settings {
    ($($key:ident: $ty:ty = $default:expr, $form:literal, $help:literal;)+) => {
        /// How to open a stack.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $(#[doc = $help] pub $key: $ty,)+
            /// TCP's own settings; they have a table of their own, [`tcp::Config::ROWS`], and keys beside these.
            pub tcp: tcp::Config,
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $($key: $default,)+ tcp: tcp::Config::default() }
            }
        }

        impl Settings {
            /// Every setting there is.
            pub const ROWS: &'static [Row] =
                &[$(Row { key: stringify!($key), form: $form, help: $help }),+];

            /// Sets `key` from text; an unknown key or a bad value says what would be right.
            pub fn set(&mut self, key: &str, text: &str) -> Result<(), SettingError> {
                match key {
                    $(stringify!($key) => {
                        self.$key = <$ty as Value>::parse(text).ok_or_else(|| SettingError(format!(
                            "{key} = \"{text}\" is not {}", $form
                        )))?;
                    })+
                    _ => return self.set_tcp(key, text),
                }
                Ok(())
            }

            fn own_values(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($key), Value::show(&self.$key))),+]
            }
        }
    };
}

settings! {
    link: String = "tap:millstream0".into(), "a port such as xdp:eth0, tap:NAME, packet:eth0, shm:PATH",
        "The packet port of the stack, given as KIND:NAME. `nic:eth0` takes the fastest kind that the interface \
         allows; `millstream doctor` shows which.";
    cores: u16 = 1, "a number of cores",
        "Number of stack cores, each with its own receive queue of the link. Raise it where one core is at 100 % CPU.";
    mode: Mode = Mode::Direct, "direct or paired",
        "Threads that run the stack: `direct` is the application's own threads inside their calls, `paired` is one \
         stack thread per core. A program under `millstream run` gets one stack thread, and its calls use the core \
         directly.";
    offload: Offload = Offload::Inline, "inline, hold, reorder or off",
        "Generic receive offload: `inline` merges segments that arrive together; `hold` also waits up to \
         `offload_budget` for more; `reorder` also waits for missing segments.";
    offload_budget: Budget = Budget(50), "microseconds, 1 to 1000",
        "Longest time in microseconds that `offload` = `hold` or `reorder` delays a segment.";
    offload_workers: Receivers = Receivers(0), "a number of receive workers, 0 to 13",
        "Number of receive threads per core that check and merge segments before the stack; two more threads serve the \
         link and the queue to the stack. 0 merges in the stack's own thread.";
    workers: Workers = Workers(0), "a number of cores, 0 to 16",
        "Number of threads, the core's own included, that segment, copy and checksum super-segments in software, for \
         links without segmentation offload. 0 has the stack build each segment.";
    cc: String = "cubic".into(), "a registered congestion control",
        "Default congestion control of new connections; TCP_CONGESTION overrides it for one socket.";
    cc_load: Vec<PathBuf> = Vec::new(), "paths, separated by commas",
        "Shared libraries with your own congestion control (millstream_cc.h) to load at start. `cc` and TCP_CONGESTION \
         can then name it.";
    cc_allow_unfair: bool = false, "true or false",
        "Makes the policies mulwin and multcp available, which take the bandwidth share of several flows \
         (docs/POLICIES.md).";
    address: Vec<(IpAddr, u8)> = Vec::new(), "addresses like 10.0.0.2/24, separated by commas",
        "Addresses of the stack, with prefix lengths. Set it for links that do not share the kernel's addresses (tap, \
         shm).";
    gateway: Vec<IpAddr> = Vec::new(), "addresses, separated by commas",
        "Default gateways. Set it for links that do not share the kernel's addresses (tap, shm).";
    loopback: Loopback = Loopback::Link, "off, link or all",
        "Connections that stay inside the stack because both ends are in it: `link` is those to the link's own \
         addresses, `all` adds 127.0.0.0/8 and ::1.";
    share: u64 = 0, "a number, 0 for none",
        "Group number: SO_REUSEPORT listeners of all processes with the same number share their ports (packet: and \
         nic: links). 0 shares with no other process.";
    max_connections: u32 = 1_048_576, "a number",
        "Largest number of connections per core. Memory is allocated as connections open.";
    max_time_wait: u32 = 262_144, "a number",
        "Largest number of TIME-WAIT entries per core. When it is reached, a new entry evicts the oldest.";
    buffers: Bytes = Bytes(1 << 30), "bytes such as 512M",
        "Largest amount of memory in bytes, per core, for data in send and receive buffers.";
    ephemeral: (u16, u16) = (32_768, 60_999), "a range such as 32768-60999",
        "Range of local ports for connections that do not bind one, as on Linux (ip_local_port_range).";
    spin_us: u64 = 40, "microseconds",
        "Busy-polling time in microseconds before an idle core sleeps, while polling finds packets. 0 sleeps at once \
         and saves CPU time; larger values lower latency.";
    pin: bool = true, "true or false",
        "Pins the thread of core N to CPU N. Turn it off where the CPUs are shared with other programs.";
    sysctl: Assignments = Assignments::default(), "NAME=VALUE, separated by commas",
        "Values of the run-time tree to set when the stack has started; `millstream sysctl -a` lists the names.";
    blackbox: u32 = 0, "a number of records, 0 for none",
        "Number of events kept for each connection, which `millstream blackbox` shows. 0 turns the recorder off.";
    blackbox_connections: u32 = 4_096, "a number",
        "Number of connections per core whose events are kept, recently ended ones included.";
    blackbox_on_error: String = String::new(), "a directory, or nothing",
        "Directory to which the events of a connection are written when it ends with an error. The newest 256 files \
         are kept.";
    metrics: String = String::new(), "an address like 127.0.0.1:9187, or nothing",
        "Address and port on which the process serves OpenMetrics over HTTP, through a kernel socket.";
    control: ControlLevel = ControlLevel::Tune, "off, look, tune or full",
        "Rights of the stack's own user and root on the control socket: `look` reads, `tune` also sets values, `full` \
         also loads policies and writes logs. `off` opens no socket.";
    seed: u64 = 0, "a number",
        "Seed of all random numbers and secrets. Set it to repeat a run; 0 takes random numbers from the kernel.";
}

/// TCP's rows of the settings.
pub fn tcp_settings() -> &'static [tcp::Setting] {
    tcp::Config::ROWS
}

/// Keys that begin so are names of the run-time tree; whether they exist is known when the stack runs.
const TREE: &str = "net.";

/// Every key there is, TCP's included.
fn keys() -> impl Iterator<Item = &'static str> {
    Settings::ROWS.iter().map(|row| row.key).chain(tcp::Config::ROWS.iter().map(|row| row.name))
}

/// Names of the version before, each with today's.
const OLD_NAMES: [(&str, &str); 3] = [
    ("archive", "handshake_cache"),
    ("archive_kinds", "handshake_cache_entries"),
    ("archive_age", "handshake_cache_age"),
];

/// Returns today's name of a setting, and says so if `key` is an old one.
fn new_name(key: &str) -> &str {
    let Some((old, new)) = OLD_NAMES.iter().find(|(old, _)| *old == key) else { return key };
    eprintln!(
        "millstream: the setting `{old}` is called `{new}` now; the old name is taken until the next version"
    );
    new
}

impl Settings {
    fn set_tcp(&mut self, key: &str, text: &str) -> Result<(), SettingError> {
        let key = new_name(key);
        if key.starts_with(TREE) {
            self.sysctl.0.push((key.into(), text.trim().into()));
            return Ok(());
        }
        let refused = |why: String| Err(SettingError(why));
        match self.tcp.set(key, text.trim()) {
            Ok(()) => Ok(()),
            Err(tcp::SettingError::Unknown) => {
                let near = base::nearest(key, keys()).join(", ");
                refused(format!(
                    "there is no setting \"{key}\"; near it are {near}, and `millstream settings` lists all"
                ))
            }
            Err(e) => {
                let row = tcp::Config::ROWS.iter().find(|row| row.name == key);
                let (min, max) = row.map(|row| (row.bounds)()).unwrap_or_default();
                let what =
                    if e == tcp::SettingError::Malformed { "cannot be read" } else { "is out of bounds" };
                refused(format!("{key} = \"{text}\" {what}; it goes from {min} to {max}"))
            }
        }
    }

    /// The value of every setting as text: [`Self::ROWS`], then [`tcp::Config::ROWS`].
    pub fn values(&self) -> Vec<(&'static str, String)> {
        let tcp = tcp::Config::ROWS.iter().map(|row| (row.name, self.tcp.show(row.name).unwrap_or_default()));
        self.own_values().into_iter().chain(tcp).collect()
    }

    /// Takes every `MILLSTREAM_...` variable of this process that names a setting. None is taken where the process has
    /// rights that its caller lacks ([`elevated`](crate::elevated)): a line on the standard error stream names those.
    ///
    /// # Errors
    /// A value is not one of its setting.
    pub fn from_environment(&mut self) -> Result<(), SettingError> {
        // A variable that is not text names no setting.
        let vars = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        if !crate::elevated() {
            return self.from_env(vars);
        }
        let named: Vec<_> =
            vars.map(|(name, _)| name).filter(|name| name.starts_with("MILLSTREAM_")).collect();
        if !named.is_empty() {
            eprintln!(
                "millstream: {} not read: this program has rights that its caller lacks (file capabilities or \
                 set-user-ID); use a file or flags",
                named.join(", ")
            );
        }
        Ok(())
    }

    /// Takes every `MILLSTREAM_...` variable of `vars` that names a setting.
    pub fn from_env(&mut self, vars: impl Iterator<Item = (String, String)>) -> Result<(), SettingError> {
        for (name, value) in vars {
            let Some(key) = name.strip_prefix("MILLSTREAM_") else { continue };
            let key = key.to_lowercase();
            if keys().chain(OLD_NAMES.map(|(old, _)| old)).any(|known| known == key) {
                self.set(&key, &value).map_err(|e| SettingError(format!("environment {name}: {e}")))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
