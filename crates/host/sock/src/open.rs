//! From settings to running stacks: one per core, each on its own queue of the link.

use crate::Errno;
use crate::card::{self, card};
use crate::clock::{Clock, SystemClock};
use crate::cpu::pin_to;
use crate::engine::{Engine, Limits};
use crate::metrics::{self, Serving};
use crate::net::Stack;
use crate::paired::{Paired, PairedConfig, StackThread};
use crate::runner::{Park, Runner, Threads};
use crate::settings::{ControlLevel, Mode, Settings, Workers};
use crate::tree::Tree;
use base::Duration;
use pio::{Fit, Lanes, PacketIo};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::Read;
use std::sync::Arc;
use trace::blackbox::{BlackBox, Files, Size};

/// A stack could not be opened; the text says what to do.
#[derive(Debug)]
pub struct OpenError(pub String, Errno);

impl OpenError {
    /// The link, or something beside it, is not what it has to be (ENODEV).
    pub fn because(why: String) -> OpenError {
        OpenError(why, Errno::ENODEV)
    }

    /// Returns what errno is to say: EPERM or EACCES where a privilege is missing, else ENODEV.
    pub fn errno(&self) -> Errno {
        self.1
    }
}

impl From<pio::OpenError> for OpenError {
    fn from(error: pio::OpenError) -> OpenError {
        let errno = match &error {
            pio::OpenError::Privilege { .. } => Errno::EPERM,
            pio::OpenError::Os { error, .. } if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Errno::EACCES
            }
            _ => Errno::ENODEV,
        };
        OpenError(error.to_string(), errno)
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

/// Running stacks, one per core, and where their packets can be watched.
pub struct Opened {
    /// One per core; give each to its own thread.
    pub stacks: Vec<Stack>,
    /// The taps on their ports, in the same order.
    pub taps: Vec<Tap>,
    /// Run-time values of the stacks.
    pub tree: Arc<Tree>,
    /// Metrics server, if there is one; ends when this is dropped.
    pub metrics: Option<Serving>,
    /// Requests that a control socket allows.
    pub control: ControlLevel,
}

/// Where the packets of one core can be watched.
#[derive(Clone)]
pub struct Tap {
    /// Turns the watching on and off.
    pub switch: trace::Switch,
    /// The port.
    pub name: String,
    /// Link layer of its frames.
    pub medium: pio::Medium,
}

/// Opens `settings.cores` stacks on the link. Give each to its own thread; [`pin_to`] puts that thread on its CPU.
pub fn open(settings: &Settings) -> Result<Opened, OpenError> {
    open_over(settings, Ok)
}

/// As [`open`], with a layer between the link and each core, such as an emulated path: `layer` gets the port of
/// each core and returns the port for the stack. Taps are above it.
pub fn open_over(
    settings: &Settings,
    layer: impl FnMut(Box<dyn PacketIo>) -> Result<Box<dyn PacketIo>, OpenError>,
) -> Result<Opened, OpenError> {
    open_with(settings, layer, |settings, index, core| start(settings, index, core, Box::new(Threads)))
}

/// As [`open`], for a program whose signals end calls: `park` tells how the threads of each core sleep.
pub fn open_interruptible(
    settings: &Settings,
    mut park: impl FnMut() -> Box<dyn Park>,
) -> Result<Opened, OpenError> {
    open_with(settings, Ok, |settings, index, core| start(settings, index, core, park()))
}

/// Opens a stack of one core for a program that has descriptors of the kernel's beside ours; `park` says how its
/// threads sleep. `cores` does not matter, nor does `mode`: see [`Runner::start_stack_thread`].
pub fn open_beside(settings: &Settings, park: Box<dyn Park>) -> Result<(Opened, Arc<Runner>), OpenError> {
    let (mut park, mut runner) = (Some(park), None);
    let settings = Settings { cores: 1, ..settings.clone() };
    let opened = open_with(&settings, Ok, |settings, _, core| {
        let park = park.take().ok_or_else(|| OpenError::because("a program has one stack".into()))?;
        let started = start_direct(settings, core, park)?;
        runner = Some(started.clone());
        Ok(started)
    })?;
    let runner = runner.ok_or_else(|| OpenError::because("the link has no queue".into()))?;
    Ok((opened, runner))
}

fn open_with(
    settings: &Settings,
    mut layer: impl FnMut(Box<dyn PacketIo>) -> Result<Box<dyn PacketIo>, OpenError>,
    mut start: impl FnMut(&Settings, usize, Core) -> Result<Stack, OpenError>,
) -> Result<Opened, OpenError> {
    if settings.cores == 0 {
        return Err(OpenError::because("cores = 0: a stack needs at least one core".into()));
    }
    card::engine(settings)?;
    let registry = registry(settings)?;
    let link = match settings.share {
        0 => settings.link.clone(),
        number => format!("{},share={number}", settings.link),
    };
    let ports = pio::open(&link, settings.cores)?;
    reachable(settings, &ports)?;
    let (seed, secret) = seed_and_secret(settings.seed)?;
    let config = CoreConfig { secret, ..core_config(settings, seed) };
    let (mut stacks, mut taps) = (Vec::new(), Vec::new());
    let files = blackbox_files(settings)?;
    for (core, port) in ports.into_iter().enumerate() {
        let (name, medium) = (port.caps().name.clone(), port.caps().medium);
        // What every packet passes is called directly.
        let (port, switch) = match lanes(settings, core, card(settings, core, seed, layer(port)?)?)? {
            Fit::Cuts(lanes) => trace::tapped(lanes),
            Fit::Passes(port) => trace::tapped(port),
        };
        taps.push(Tap { switch, name, medium });
        let config = CoreConfig { core: (core as u16, settings.cores), ..config.clone() };
        let mut stack = Core::new(config, port);
        *stack.controls() = registry.for_another_core();
        if settings.blackbox > 0 {
            stack.attach(Box::new(black_box(settings, files.clone())));
        }
        stacks.push(start(settings, core, stack)?);
    }
    let tree = Arc::new(Tree::new(&stacks));
    for (name, value) in &settings.sysctl.0 {
        tree.set(name, value).map_err(|e| OpenError::because(format!("sysctl {name} = {value}: {e}")))?;
    }
    let metrics = match settings.metrics.as_str() {
        "" => None,
        address => Some(metrics::serve(address, &stacks).map_err(|e| {
            OpenError::because(format!(
                "metrics = \"{address}\": {e}; want a free address like 127.0.0.1:9187"
            ))
        })?),
    };
    Ok(Opened { stacks, taps, tree, metrics, control: settings.control })
}

/// A link that has nothing of the kernel's needs an address, or nothing ever reaches what listens there.
fn reachable(settings: &Settings, ports: &[Box<dyn PacketIo>]) -> Result<(), OpenError> {
    let alone = ports.iter().any(|port| !port.caps().shares_kernel_addresses);
    if alone && settings.address.is_empty() {
        return Err(OpenError::because(format!(
            "{}: this link has no address of the kernel's; give it one, such as address = \"10.0.0.1/24\" (--address)",
            settings.link
        )));
    }
    let named = settings.link.split_once(':').map_or("", |(_, rest)| rest);
    let interface = named.split(',').next().unwrap_or(named);
    if alone || settings.address.is_empty() || !pio::has_interface(interface) {
        return Ok(());
    }
    // The kernel answers for the addresses of such an interface, and for no others.
    let own = pio::addresses_of(interface);
    match settings.address.iter().find(|(addr, _)| !own.contains(addr)) {
        Some((addr, prefix)) => Err(OpenError::because(format!(
            "{}: {addr} is not an address of {interface}, whose addresses this link shares with the kernel; \
             leave --address out, or say: ip address add {addr}/{prefix} dev {interface}",
            settings.link
        ))),
        None => Ok(()),
    }
}

/// The port of a core with as many lanes as there are workers, if there are any.
fn lanes(settings: &Settings, core: usize, port: Box<dyn PacketIo>) -> Result<Fit, OpenError> {
    let Workers(workers @ 1..) = settings.workers else { return Ok(Fit::Passes(port)) };
    // Helpers have the CPUs behind those of the cores' own threads.
    let first = usize::from(settings.cores) + core * usize::from(workers - 1);
    let pinned = settings.pin;
    let begin = move |number| {
        if pinned {
            // Without its own CPU it runs where the kernel puts it.
            pin_to(first + number);
        }
    };
    let clock = SystemClock::new();
    Lanes::fit(port, workers, &format!("millstream-lane-{core}"), move || clock.now(), begin)
        .map_err(|e| OpenError::because(format!("workers = {workers}: {e}")))
}

/// Where connections that die by an error leave what is known of them, if anywhere.
fn blackbox_files(settings: &Settings) -> Result<Option<Files>, OpenError> {
    let directory = &settings.blackbox_on_error;
    if directory.is_empty() {
        return Ok(None);
    }
    if settings.blackbox == 0 {
        return Err(OpenError::because(
            "blackbox_on_error needs blackbox, a number of records per connection".into(),
        ));
    }
    let refuse = |e| OpenError::because(format!("blackbox_on_error = \"{directory}\": {e}"));
    Files::in_directory(directory.as_ref()).map(Some).map_err(refuse)
}

fn black_box(settings: &Settings, files: Option<Files>) -> BlackBox {
    let box_ = BlackBox::new(Size { records: settings.blackbox, connections: settings.blackbox_connections });
    match files {
        Some(files) => box_.on_error(files),
        None => box_,
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits { spin: Duration::from_micros(settings.spin_us), ..Limits::default() }
}

fn start_direct(settings: &Settings, core: Core, park: Box<dyn Park>) -> Result<Arc<Runner>, OpenError> {
    let engine = Engine::new(core, Box::new(SystemClock::new()), limits(settings));
    Runner::start_with(engine, park).map_err(|e| OpenError::because(format!("the watchdog thread: {e}")))
}

fn start(settings: &Settings, index: usize, core: Core, park: Box<dyn Park>) -> Result<Stack, OpenError> {
    if settings.mode == Mode::Direct {
        return Ok(start_direct(settings, core, park)?);
    }
    let limits = limits(settings);
    let engine = Engine::new(core, Box::new(SystemClock::new()), limits);
    let config = PairedConfig {
        cpu: settings.pin.then_some(index),
        spin: limits.spin,
        connections: settings.max_connections,
        ..PairedConfig::default()
    };
    let thread = StackThread::start(engine, config).map(Arc::new);
    let paired = thread.and_then(|thread| Paired::over_with(&[thread], limits, park));
    Ok(Arc::new(paired.map_err(|e| OpenError::because(format!("the stack thread: {e}")))?))
}

fn core_config(settings: &Settings, seed: u64) -> CoreConfig {
    let cap = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    CoreConfig {
        tcp: settings.tcp.clone(),
        max_connections: settings.max_connections,
        max_time_wait: settings.max_time_wait,
        max_chunks: cap(settings.buffers.0 / 2_048),
        seed,
        ephemeral: settings.ephemeral,
        core: (0, settings.cores),
        addresses: settings.address.iter().map(|&(a, prefix)| OwnAddr { addr: a.into(), prefix }).collect(),
        gateways: settings.gateway.iter().map(|&a| a.into()).collect(),
        loopback: settings.loopback.to_stack(),
        offload: settings.offload.to_stack(settings.offload_budget, settings.offload_workers),
        ..CoreConfig::default()
    }
}

/// The policies of every core: ours, those of libraries, and which is the default.
fn registry(settings: &Settings) -> Result<cc::Registry, OpenError> {
    let mut registry = cc::Registry::new();
    let allowed = registry.allow_unfair(settings.cc_allow_unfair);
    allowed.map_err(|e| OpenError::because(format!("cc_allow_unfair: {e:?}")))?;
    for path in &settings.cc_load {
        let loaded = policy::Library::open(path).and_then(|library| library.register(&mut registry));
        loaded.map_err(|e| OpenError::because(format!("cc_load: {e}")))?;
    }
    let name = &settings.cc;
    registry.set_default(name).map_err(|why| {
        let offered = registry.available().filter(|listed| listed.offered);
        let names: Vec<_> = offered.map(|listed| listed.name).collect();
        OpenError::because(format!("cc = \"{name}\" {why}; there are {}", names.join(", ")))
    })?;
    Ok(registry)
}

/// Where the kernel gives out what its generator makes of its entropy (random(4); RFC 4086, section 7.1.2).
const KERNEL_ENTROPY: &str = "/dev/urandom";

/// Returns the seed of what is random in a stack, and its secret: the kernel's entropy, unless a seed other than 0 was
/// set. What a set seed makes can be repeated, and is no secret.
/// RFC 6528, 4-1.
fn seed_and_secret(seed: u64) -> Result<(u64, Option<[u64; 2]>), OpenError> {
    if seed != 0 {
        return Ok((seed, None));
    }
    let [seed, high, low] = entropy(KERNEL_ENTROPY)?;
    Ok((seed, Some([high, low])))
}

/// Returns words of a file of entropy.
fn entropy<const N: usize>(path: &str) -> Result<[u64; N], OpenError> {
    let refused =
        |e| OpenError::because(format!("no secrets to be had from {path}: {e}; give a seed instead"));
    let mut file = std::fs::File::open(path).map_err(refused)?;
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes).map_err(refused)?;
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}

#[cfg(test)]
mod tests;
