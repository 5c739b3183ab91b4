//! The XDP program on its interface, with everything it reads.

use super::bpf::LocalKey;
use super::bpf::program::{self, Maps};
use super::bpf::sys::{self as bpf, Hook, LoadError, MapKind};
use super::claims::{PORTS, PortBitmap, SteeredPorts};
use super::config::{XdpConfig, refused};
use super::device::{Device, Ethtool};
use super::lane::{Lane, LaneConfig};
use super::proof::Requests;
use crate::open_error::OpenError;
use crate::ports::outgoing::OutgoingPorts;
use crate::processes;
use crate::reattach::Refusal;
use crate::shared_dir;
use crate::sys;
use base::Addr;
use ring::FramePool;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most addresses of an interface and exact claims together.
const LOCAL_MAX: u32 = 1 << 14;

/// The program in the kernel, on no interface yet, and its maps.
pub(super) struct Loaded {
    pub(super) claims: SteeredPorts,
    pub(super) socks: OwnedFd,
    pub(super) program: OwnedFd,
    /// Copy of the program for a driver that forgets it: a link gives a driver only what it has not got.
    twin: Option<OwnedFd>,
    /// The program copes with packets in several buffers.
    pub(super) frags: bool,
}

impl Loaded {
    /// Makes the maps and loads the program.
    pub(super) fn new(device: &Device, whole: bool) -> Result<Loaded, OpenError> {
        let map = |kind, name, key, value, entries, flags| {
            bpf::create_map(kind, name, key, value, entries, flags).map_err(|e| refused("make a BPF map", e))
        };
        let ports = map(MapKind::Array, "ms_ports", 4, 8, PORTS as u32, bpf::F_MMAPABLE)?;
        let local = map(MapKind::Hash, "ms_local", size_of::<LocalKey>(), 4, LOCAL_MAX, bpf::F_NO_PREALLOC)?;
        let socks = map(MapKind::Sockets, "ms_socks", 4, 4, u32::from(queues_max(device)), 0)?;
        let fds = Maps { ports: ports.as_raw_fd(), local: local.as_raw_fd(), socks: socks.as_raw_fd() };
        let program = if whole { program::everything } else { program::steering }(fds, device.queues);
        let load = || bpf::load_xdp("ms_steering", &program).map_err(not_loaded);
        let twin = device.forgets_program().then(load).transpose()?.map(|(twin, _)| twin);
        let (program, frags) = load()?;
        let marks = PortBitmap::map(&ports).map_err(|e| refused("map a BPF map", e))?;
        Ok(Loaded { claims: SteeredPorts::new(device.index, marks, local), socks, program, twin, frags })
    }

    /// Gives a queue's packets to a socket.
    pub(super) fn serve(&self, queue: u16, socket: RawFd) -> io::Result<()> {
        bpf::update(&self.socks, &u32::from(queue), &(socket as u32))
    }
}

/// The most receive queues that the interface can get while the program is there.
fn queues_max(device: &Device) -> u16 {
    let most = Ethtool::new(&device.name).ok().and_then(|ethtool| ethtool.queues_max());
    most.map_or(device.queues, |most| most.max(device.queues))
}

fn not_loaded(failure: LoadError) -> OpenError {
    if failure.log.is_empty() {
        return refused("load the XDP program", failure.error);
    }
    OpenError::Unusable {
        what: "the XDP program".into(),
        help: format!("the kernel refused it ({}); its verifier says:\n{}", failure.error, failure.log),
    }
}

/// A program on an interface.
struct Attached {
    hook: Hook,
    /// Why the place where the program was to be first refused it, if it did.
    refusal: Option<String>,
    /// Socket that keeps the interface in promiscuous mode, where it is an end of a wire.
    _all_ears: Option<OwnedFd>,
    link: OwnedFd,
}

/// The program on the interface as it is now.
struct Placed {
    ifindex: u32,
    /// Counts the interfaces of the name, and the end of the link.
    epoch: u64,
    loaded: Loaded,
    /// None while the interface is gone, and once the link has ended. After `loaded`: the program stays while anything
    /// else does.
    attached: Option<Attached>,
    requests: Requests,
    /// Why the link has ended.
    ended: Option<String>,
}

/// The program at work, for all ports of an interface. When the last port drops it, or the process dies, the kernel has
/// everything back.
pub(super) struct Steering {
    placed: Mutex<Placed>,
    /// That of `placed`, read without its lock.
    epoch: AtomicU64,
    whole: bool,
    /// The network namespace of the interface.
    network: u64,
}

impl Steering {
    /// Loads the program and puts it on the interface, at the first of the hooks that takes it.
    pub(super) fn attach(device: &Device, hooks: &[Hook], config: &XdpConfig) -> Result<Steering, OpenError> {
        let (loaded, attached) = attach(device, hooks, config.whole)?;
        let requests = if config.tx_checksum { Requests::find(device) } else { Requests::default() };
        let attached = Some(attached);
        let placed = Placed { ifindex: device.index, epoch: 0, loaded, attached, requests, ended: None };
        let network = sys::network().map_err(|e| OpenError::os("ask for the network namespace", e))?;
        Ok(Steering { placed: Mutex::new(placed), epoch: AtomicU64::new(0), whole: config.whole, network })
    }

    fn lock(&self) -> MutexGuard<'_, Placed> {
        // A panic elsewhere leaves whole programs behind.
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number that changes with each interface that the program is put on.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Gives a driver its program again that forgets it when it makes its rings anew.
    ///
    /// # Errors
    /// The driver takes it no more, and the network stack has every packet.
    pub(super) fn renew(&self) -> io::Result<()> {
        let mut placed = self.lock();
        let Placed { loaded, attached, .. } = &mut *placed;
        let attached = attached.as_ref().filter(|attached| attached.hook == Hook::Native);
        if let (Some(attached), Some(twin)) = (attached, &mut loaded.twin) {
            bpf::update_link(&attached.link, twin)?;
            std::mem::swap(&mut loaded.program, twin);
        }
        Ok(())
    }

    /// Notes the loss of the interface of `epoch`. If it was only moved elsewhere, the program leaves it.
    pub(super) fn lose(&self, epoch: u64) {
        let mut placed = self.lock();
        if placed.epoch == epoch {
            placed.attached = None;
            placed.loaded.claims.forget_outgoing();
        }
    }

    /// Puts a program with the claims so far on the interface that came for that of `epoch`, unless another port has;
    /// returns its epoch.
    pub(super) fn go_on(
        &self,
        device: &Device,
        hooks: &[Hook],
        config: &XdpConfig,
        epoch: u64,
    ) -> Result<u64, Refusal> {
        let mut placed = self.lock();
        if let Some(why) = &placed.ended {
            return Err(Refusal::Final(why.clone()));
        }
        if placed.epoch != epoch && placed.ifindex == device.index && placed.attached.is_some() {
            return Ok(placed.epoch);
        }
        sys::is_in_network(self.network).map_err(Refusal::Final)?;
        placed.attached = None;
        placed.loaded.claims.forget_outgoing();
        let refused = |error| Refusal::of(&error, device);
        let (loaded, attached) = attach(device, hooks, self.whole).map_err(refused)?;
        let inherited = loaded.claims.inherit(&placed.loaded.claims);
        inherited.map_err(|why| Refusal::unless_gone(why, device))?;
        // Frames have room for requests only if they had from the beginning.
        let asks = config.tx_checksum && placed.requests != Requests::default();
        placed.requests = if asks { Requests::find(device) } else { Requests::default() };
        placed.ifindex = device.index;
        placed.loaded = loaded;
        placed.attached = Some(attached);
        Ok(self.next(&mut placed))
    }

    /// Ends the link for all its ports: the kernel has everything back.
    pub(super) fn end(&self, why: &str) {
        let mut placed = self.lock();
        if placed.ended.is_none() {
            placed.ended = Some(why.into());
            placed.attached = None;
            placed.loaded.claims.give_up();
            self.next(&mut placed);
        }
    }

    fn next(&self, placed: &mut Placed) -> u64 {
        placed.epoch += 1;
        self.epoch.store(placed.epoch, Ordering::Relaxed);
        placed.epoch
    }

    /// Opens a socket for each queue, and gives it the queue's packets.
    pub(super) fn open_lanes(
        &self,
        device: &Device,
        queues: &[u16],
        config: LaneConfig,
        pool: &FramePool,
    ) -> Result<Vec<Lane>, OpenError> {
        let mut lanes: Vec<Lane> = Vec::with_capacity(queues.len());
        for &queue in queues {
            let lane_config = LaneConfig { queue, ..config };
            let lane = match lanes.first() {
                None => Lane::open(&lane_config, pool),
                Some(first) => Lane::share(&lane_config, first),
            };
            lanes.push(lane.map_err(|error| no_socket(device, queue, pool, error))?);
        }
        for lane in &lanes {
            let served = self.serve(lane.queue, lane.fd());
            served.map_err(|e| refused("give a queue to an AF_XDP socket", e))?;
        }
        Ok(lanes)
    }

    /// Gives a queue's packets to a socket.
    pub(super) fn serve(&self, queue: u16, socket: RawFd) -> io::Result<()> {
        self.lock().loaded.serve(queue, socket)
    }

    /// Returns what `call` gives with the claims on the interface as it is now.
    pub(super) fn with_claims<R>(&self, call: impl FnOnce(&SteeredPorts) -> R) -> R {
        call(&self.lock().loaded.claims)
    }

    /// Everything that arrives is ours.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    pub(super) fn has_frags(&self) -> bool {
        self.lock().loaded.frags
    }

    pub(super) fn is_native(&self) -> bool {
        self.lock().attached.as_ref().is_some_and(|attached| attached.hook == Hook::Native)
    }

    /// Returns where checksum requests are obeyed.
    pub(super) fn requests(&self) -> Requests {
        self.lock().requests
    }

    /// Why the program is not where it was to be first.
    pub(super) fn refusal(&self) -> Option<String> {
        self.lock().attached.as_ref().and_then(|attached| attached.refusal.clone())
    }

    /// Interface `ifindex` gained or lost an address. It may be gone, and another in its place.
    pub(super) fn address(&self, ifindex: u32, addr: Addr, present: bool) -> io::Result<()> {
        let placed = self.lock();
        let claims = &placed.loaded.claims;
        match (placed.ifindex == ifindex, present) {
            (false, _) => Ok(()),
            (true, true) => claims.add_address(addr),
            (true, false) => claims.remove_address(addr),
        }
    }
}

fn no_socket(device: &Device, queue: u16, pool: &FramePool, error: io::Error) -> OpenError {
    match error.raw_os_error() {
        Some(libc::EBUSY) => OpenError::Busy {
            what: format!("queue {queue} of interface '{}'", device.name),
            help: "another program has an AF_XDP socket on it; stop that first".into(),
        },
        Some(libc::ENOBUFS) => OpenError::Privilege {
            what: format!("{} KiB of locked memory", pool.mapping().1 / 1024),
            help: "raise the limit with `ulimit -l unlimited`, or run with sudo".into(),
        },
        _ => refused(&format!("open an AF_XDP socket on interface '{}'", device.name), error),
    }
}

/// Loads the program and puts it on the interface, at the first of the hooks that takes it.
fn attach(device: &Device, hooks: &[Hook], whole: bool) -> Result<(Loaded, Attached), OpenError> {
    let loaded = Loaded::new(device, whole)?;
    let all_ears = whole.then(|| all_ears(device.index)).transpose();
    let all_ears = all_ears.map_err(|e| refused("hear frames for others", e))?;
    let mut last = None;
    for &hook in hooks {
        match bpf::attach_xdp(&loaded.program, device.index, hook) {
            Ok(link) => {
                let outgoing = shared_dir::sweep(true).and_then(|()| OutgoingPorts::new(device.index));
                loaded
                    .claims
                    .keep(outgoing.map_err(|e| refused("note the ports that connections leave from", e))?);
                let refusal = last.as_ref().map(|error| refusal(device, error));
                let attached = Attached { hook, refusal, _all_ears: all_ears, link };
                return Ok((loaded, attached));
            }
            Err(error) if is_held(&error) => return Err(held(device)),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::Unsupported.into());
    if hooks == [Hook::Native] {
        return Err(not_native(device, &error));
    }
    Err(refused(&format!("put an XDP program on interface '{}'", device.name), error))
}

/// Says why the program is not in the driver; the network stack runs it.
fn refusal(device: &Device, error: &io::Error) -> String {
    format!(
        "the driver ({}) does not run the XDP program: {}; the network stack runs it",
        device.driver,
        why_not_native(device, error)
    )
}

/// Returns the error for a program that was to run in the driver and nowhere else.
fn not_native(device: &Device, error: &io::Error) -> OpenError {
    if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
        return refused("put an XDP program on an interface", io::Error::from_raw_os_error(libc::EPERM));
    }
    let (name, driver) = (&device.name, &device.driver);
    OpenError::Unusable {
        what: format!("XDP in the driver ({driver}) of interface '{name}'"),
        help: format!("{}; leave mode=native away, or use nic:{name}", why_not_native(device, error)),
    }
}

fn why_not_native(device: &Device, error: &io::Error) -> String {
    let Device { name, mtu, queues, .. } = device;
    match (error.raw_os_error(), device.features.map(|features| features.native())) {
        (Some(libc::ENOSPC), _) if device.has_local_peer() => format!(
            "its peer sends on more queues than the {queues} that it receives on; `ethtool -L {name} rx N` gives it \
             more"
        ),
        (Some(libc::EOPNOTSUPP), None | Some(false)) => "it has no XDP of its own".into(),
        _ => format!("{error}; MTU {mtu}, {queues} receive queue(s)"),
    }
}

/// A packet socket that receives nothing itself.
fn all_ears(ifindex: u32) -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    sys::hear_everybody(socket.as_raw_fd(), ifindex)?;
    Ok(socket)
}

/// Does the error say that another program is there? EEXIST is for one at the other hook.
fn is_held(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn held(device: &Device) -> OpenError {
    let name = &device.name;
    let holders: Vec<_> = processes::holders(device.index).iter().map(ToString::to_string).collect();
    let help = if holders.is_empty() {
        format!(
            "another XDP program is there, and no process that we can see holds it; \
             `ip link set dev {name} xdp off` (or `xdpgeneric off`) removes it"
        )
    } else {
        format!("its XDP program belongs to {}; stop that first", holders.join(", "))
    };
    OpenError::Busy { what: format!("interface '{name}'"), help }
}
