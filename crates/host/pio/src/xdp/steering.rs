//! The XDP program on its interface, with everything it reads.

use super::bpf::LocalKey;
use super::bpf::program::{self, Maps};
use super::bpf::sys::{self as bpf, Hook, LoadError, MapKind};
use super::claims::{Claims, Marks, PORTS};
use super::device::{Device, Ethtool};
use super::holder;
use super::refused;
use crate::ledger::Ledger;
use crate::open::OpenError;
use crate::shared;
use crate::sys;
use base::Addr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Most addresses of an interface and exact claims together.
const LOCAL_MAX: u32 = 1 << 14;

/// The program in the kernel, on no interface yet, and its maps.
pub(super) struct Loaded {
    pub(super) claims: Claims,
    pub(super) socks: OwnedFd,
    pub(super) program: OwnedFd,
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
        let (program, frags) = bpf::load_xdp("ms_steering", &program).map_err(not_loaded)?;
        let marks = Marks::map(&ports).map_err(|e| refused("map a BPF map", e))?;
        Ok(Loaded { claims: Claims::new(device.index, marks, local), socks, program, frags })
    }

    /// Gives a queue's packets to a socket.
    pub(super) fn serve(&self, queue: u16, socket: RawFd) -> io::Result<()> {
        bpf::set_socket(&self.socks, u32::from(queue), socket)
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

/// The program at work. When the last port drops it, or the process dies, the kernel has everything back.
pub(super) struct Steering {
    loaded: Loaded,
    hook: Hook,
    /// Why the place where the program was to be first refused it, if it did.
    refusal: Option<String>,
    /// Socket that keeps the interface in promiscuous mode, where it is an end of a wire.
    all_ears: Option<OwnedFd>,
    /// Last: the program stays while anything else does.
    _link: OwnedFd,
}

impl Steering {
    /// Loads the program and puts it on the interface, at the first of the hooks that takes it.
    pub(super) fn attach(device: &Device, hooks: &[Hook], whole: bool) -> Result<Steering, OpenError> {
        let loaded = Loaded::new(device, whole)?;
        let all_ears = whole.then(|| all_ears(device.index)).transpose();
        let all_ears = all_ears.map_err(|e| refused("hear frames for others", e))?;
        let mut last = None;
        for &hook in hooks {
            match bpf::attach_xdp(&loaded.program, device.index, hook) {
                Ok(link) => {
                    let ledger = shared::sweep(true).and_then(|()| Ledger::new(device.index));
                    loaded
                        .claims
                        .keep(ledger.map_err(|e| refused("note the ports that connections leave from", e))?);
                    let refusal = last.as_ref().map(|error| refusal(device, error));
                    return Ok(Steering { loaded, hook, refusal, all_ears, _link: link });
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

    /// Gives a queue's packets to a socket.
    pub(super) fn serve(&self, queue: u16, socket: RawFd) -> io::Result<()> {
        self.loaded.serve(queue, socket)
    }

    pub(super) fn claims(&self) -> &Claims {
        &self.loaded.claims
    }

    /// Everything that arrives is ours.
    pub(super) fn is_whole(&self) -> bool {
        self.all_ears.is_some()
    }

    pub(super) fn has_frags(&self) -> bool {
        self.loaded.frags
    }

    pub(super) fn is_native(&self) -> bool {
        self.hook == Hook::Native
    }

    /// Why the program is not where it was to be first.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// The interface gained or lost an address.
    pub(super) fn address(&self, addr: Addr, present: bool) -> io::Result<()> {
        if present { self.claims().add_address(addr) } else { self.claims().remove_address(addr) }
    }
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
    let holders: Vec<_> = holder::holders(device.index).iter().map(ToString::to_string).collect();
    let help = if holders.is_empty() {
        format!(
            "another XDP program is there, and no process that we can see holds it; \
             `ip link set dev {name} xdp off` (or `xdpgeneric off`) removes it"
        )
    } else {
        format!(
            "its XDP program belongs to {}; stop that first, or use nic:{name}, which shares the interface",
            holders.join(", ")
        )
    };
    OpenError::Busy { what: format!("interface '{name}'"), help }
}
