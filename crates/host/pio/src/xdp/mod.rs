//! `xdp:IFACE`: a network interface shared with the kernel, packets to our ports by AF_XDP.
//!
//! ```text
//!            device ---> XDP program ---> kernel: ssh, ARP, ICMP, other ports
//!                             |
//!              claimed port?  +---> socket of the queue ---> rx ring ---> port of the core
//! ```
//! An XDP program (`bpf`, put there by `steering`) takes the TCP ports that were claimed (`claims`) out of
//! the kernel's path; a socket per queue (`lane`) brings them through shared rings (`rings`, `desc`) to one
//! [`XdpPort`] per core. No library and no compiler is needed: the program is assembled here and checked by
//! the kernel.
//!
//! Linux 5.9 or newer, CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (or root). Where the driver has no XDP of its
//! own the network stack runs the program; where it cannot use our buffers the kernel copies.
//!
//! **Checksums.** A sender on this machine leaves them partial, on any driver ([`Caps::local_peer`](crate::Caps)):
//! veth, but also a guest's card that is bridged to another guest. AF_XDP does not say which packets, so a field that
//! holds exactly the pseudo-header's sum is taken for one. A request on transmit is made where it is proven that
//! a program obeys it (`proof`).
//!
//! **Super-segments of a veth peer.** They come in generic mode only: with a program in the driver the kernel
//! switches segmentation offload off at the peer, which then cuts in software, and every segment is a buffer, a copy
//! into a page of the driver's and a copy into a frame of ours, all on the sender's core. A super-segment comes in
//! several frames ([`RxMeta::more`](crate::RxMeta)). So there the network stack runs the program ([`XdpMode::Auto`]).
//!
//! **Super-segments** leave through a packet socket where the kernel copies anyway (`supers`).
//!
//! **As an end of a wire** ([`XdpConfig::whole`]) another program takes every frame, for any destination.
//!
//! **An interface that is deleted and made again** is served again (`returns`).
//!
//! **Queues.** Every receive queue of the device must be served, or the kernel would answer what arrives
//! there with resets; if there are fewer ports than queues, a port serves several. Which queue a flow's
//! packets arrive at is the device's decision.

mod bpf;
mod claims;
mod desc;
pub(crate) mod device;
pub mod fuzz;
mod lane;
mod port;
mod proof;
mod queues;
mod reattach;
mod rings;
mod steering;
mod supers;
#[cfg(test)]
mod tests;

pub use port::XdpPort;

use crate::netlink::{Monitor, Scope};
use crate::open_error::OpenError;
use crate::port::{BATCH_MAX, Caps, Medium};
use bpf::sys::Hook;
use device::Device;
use lane::{Grant, Lane, LaneConfig};
use ring::FramePool;
use std::io;
use std::sync::Arc;
use steering::Steering;
use supers::Supers;

/// Where the XDP program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum XdpMode {
    /// In the driver if it can, else in the network stack. The other way round for a single port on veth, where a
    /// program in the driver would have the peer cut all that it sends, unless the port is an end of a wire
    /// ([`XdpConfig::whole`]).
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the network stack, on any interface.
    Generic,
}

/// How to open an interface.
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// Ports to make, one per core.
    pub ports: u16,
    /// Where the program runs.
    pub mode: XdpMode,
    /// Let the device use our frames where its driver can; else the kernel copies.
    pub zero_copy: bool,
    /// Leave checksums of what is sent to kernel and device where those are proven to fill them in.
    pub tx_checksum: bool,
    /// Packets that a port can have received and not looked at, a power of two.
    pub rx_ring: u32,
    /// Packets that a port can have under way to the device, a power of two.
    pub tx_ring: u32,
    /// Every frame that arrives, not only segments to ports of ours: the kernel gets none.
    pub whole: bool,
}

impl Default for XdpConfig {
    fn default() -> Self {
        XdpConfig {
            ports: 1,
            mode: XdpMode::Auto,
            zero_copy: true,
            tx_checksum: true,
            rx_ring: 2048,
            tx_ring: 1024,
            whole: false,
        }
    }
}

/// Smallest receive ring of a queue, when a port serves many.
const RX_RING_MIN: u32 = 256;
/// Room before a received packet that the kernel insists on.
const RX_HEADROOM: usize = 256;
/// Largest super-segment, as long as its length has 16 bits (the kernel's limit unless a user raised it).
const SUPER_MAX: usize = 1 << 16;
/// Link-layer bytes beyond the MTU: Ethernet header and one VLAN tag.
const LINK_MAX: usize = 18;

const _: () = assert!(BATCH_MAX as u32 <= RX_RING_MIN / 2);

/// Opens ports on an interface of the caller's network namespace, one per core.
pub fn open_xdp_with(iface: &str, config: &XdpConfig) -> Result<Vec<XdpPort>, OpenError> {
    let bad_ring = |size: u32| !size.is_power_of_two() || !(RX_RING_MIN..=1 << 16).contains(&size);
    if config.ports == 0 || bad_ring(config.rx_ring) || bad_ring(config.tx_ring) {
        return Err(OpenError::Spec {
            spec: format!("xdp:{iface}"),
            why: "needs at least one queue, and rings of a power of two from 256 to 65536".into(),
        });
    }
    let device = Device::find(iface, config.whole)?;
    if device.queues < config.ports {
        return Err(too_few_queues(&device, config.ports));
    }
    if device.is_bond() && config.mode == XdpMode::Native {
        return Err(OpenError::Unusable {
            what: format!("XDP in the drivers of bond '{iface}'"),
            help: "what they bring would not reach its sockets; leave mode=native away, and the network stack runs the \
                   program"
                .into(),
        });
    }
    raise_memory_limit();
    let hooks = hooks(config, &device);
    match open_ports(&device, config, hooks) {
        // Frames for super-segments are twice as large: a user who may not lock so much memory may have the others.
        Err(OpenError::Privilege { .. }) if hooks == GENERIC_FIRST => {
            open_ports(&device, config, NATIVE_FIRST)
        }
        opened => opened,
    }
}

fn open_ports(device: &Device, config: &XdpConfig, hooks: &[Hook]) -> Result<Vec<XdpPort>, OpenError> {
    let open = || -> Result<Vec<XdpPort>, OpenError> {
        let steering = Arc::new(Steering::attach(device, hooks, config)?);
        (0..config.ports).map(|number| open_port(device, config, number, &steering)).collect()
    };
    open().map_err(|error| if device.is_gone() { OpenError::no_interface(&device.name) } else { error })
}

const GENERIC_ONLY: &[Hook] = &[Hook::Generic];
const NATIVE_FIRST: &[Hook] = &[Hook::Native, Hook::Generic];
const GENERIC_FIRST: &[Hook] = &[Hook::Generic, Hook::Native];

/// Where the program may run, the best place first.
fn hooks(config: &XdpConfig, device: &Device) -> &'static [Hook] {
    match config.mode {
        XdpMode::Auto if device.is_bond() => GENERIC_ONLY,
        XdpMode::Auto if brings_supers(config, device) => GENERIC_FIRST,
        XdpMode::Auto => NATIVE_FIRST,
        XdpMode::Native => &[Hook::Native],
        XdpMode::Generic => GENERIC_ONLY,
    }
}

/// Would the network stack bring a peer's super-segments, to a port that they are good for?
fn brings_supers(config: &XdpConfig, device: &Device) -> bool {
    device.has_local_peer()
        // An end of a wire hands packets on to somewhere else, so they shall be what a wire would carry.
        && !config.whole
        // Outside the driver every packet of a veth seems to come from its first queue.
        && config.ports == 1
        // Who lets larger ones leave than a length in IPv4's header can say lets them arrive as well, and those no
        // port of ours understands.
        && device.super_max <= SUPER_MAX
        && lane::brings_long()
}

fn open_port(
    device: &Device,
    config: &XdpConfig,
    number: u16,
    steering: &Arc<Steering>,
) -> Result<XdpPort, OpenError> {
    let queues: Vec<u16> = (number..device.queues).step_by(config.ports.into()).collect();
    let share = config.rx_ring / (queues.len() as u32).next_power_of_two();
    let rx = share.max(RX_RING_MIN);
    // A driver that does not run the program does not fill our buffers either.
    let zero_copy = config.zero_copy && steering.is_native() && may_lend(device);
    let slot_size = slot_size(device, steering.is_native(), zero_copy);
    // All that can be lent, and as much again as can be sent for what the stack holds.
    let slots = rx * queues.len() as u32 + 2 * config.tx_ring;
    let pool = FramePool::new(slots, slot_size).map_err(|e| {
        OpenError::os(&format!("get {} KiB for packets", slots as usize * slot_size / 1024), e)
    })?;
    let lane = LaneConfig {
        ifindex: device.index,
        queue: number,
        rx,
        tx: config.tx_ring,
        frags: steering.has_frags(),
        zero_copy: zero_copy && holds_whole(device, slot_size),
        requests: steering.requests(),
    };
    let lanes = open_lanes(device, &queues, lane, steering, &pool)?;
    let scope = if config.whole { Scope::Link } else { Scope::All };
    let monitor =
        Monitor::open(device.index, scope).map_err(|e| OpenError::os("follow the kernel's network", e))?;
    let tx_checksum = lanes[0].grant.tx_metadata;
    let supers = has_supers(device, config, lanes[0].grant).then(|| Supers::open(device.index)).transpose();
    let supers = supers.map_err(|e| refused("open a packet socket for super-segments", e))?;
    let caps = Caps {
        ifindex: Some(device.index),
        shares_kernel_addresses: !steering.is_whole(),
        queues: config.ports,
        queue: number,
        tx_checksum,
        tso_max: if supers.is_some() { supers::LARGEST } else { 0 },
        headroom: lanes[0].grant.headroom,
        local_peer: true,
        fallback: steering.refusal().or_else(|| not_for_bonds(device, config)),
        ..Caps::plain(
            &format!("xdp:{}", device.name),
            device.mtu.min(port::largest(slot_size)),
            Medium::Ethernet,
            device.mac,
        )
    };
    Ok(XdpPort::new(port::Parts {
        caps,
        lane,
        queues: device.queues,
        lanes,
        pool,
        supers,
        keep: config.tx_ring,
        config: config.clone(),
        steering: steering.clone(),
        monitor,
        mtu: device.mtu,
    }))
}

/// Says why the program is not in the drivers of a bond's cards.
fn not_for_bonds(device: &Device, config: &XdpConfig) -> Option<String> {
    (device.is_bond() && config.mode == XdpMode::Auto).then(|| {
        "AF_XDP gets nothing of a bond from the drivers of its cards; the network stack runs the XDP program".into()
    })
}

/// Shall super-segments leave through a packet socket?
fn has_supers(device: &Device, config: &XdpConfig, grant: Grant) -> bool {
    // Where the driver uses our frames, a packet socket would copy what the driver does not.
    let kernel_cuts = grant.tx_metadata && !grant.zero_copy;
    // The kernel chooses the queue by which a packet socket sends. Cards and hypervisors that steer a flow to the queue
    // that it last was sent by (tun, Flow Director) would move the flow to another core. veth does not.
    kernel_cuts && (config.ports == 1 || device.has_local_peer())
}

/// Small slots keep the caches free, but a super-segment should not be cut into forty, and a driver in zero-copy mode
/// must find room for a whole packet.
fn slot_size(device: &Device, native: bool, zero_copy: bool) -> usize {
    let super_segments = device.has_local_peer() && !native;
    let small = device.mtu + LINK_MAX + RX_HEADROOM <= 2048 && !super_segments;
    if small && (!zero_copy || card_room(2048) >= device.mtu + LINK_MAX) { 2048 } else { 4096 }
}

/// Returns the bytes of a slot that every card fills in zero-copy mode. igb, igc and ixgbe (82599) tell their cards the
/// size of a buffer in whole KiB, rounded down (`SRRCTL.BSIZEPKT`): of a slot of 2048 bytes the card used 1024 and
/// spread a packet of 1500 bytes over two slots, which igb in zero-copy mode does not put together.
fn card_room(slot_size: usize) -> usize {
    (slot_size - RX_HEADROOM) & !1023
}

/// Returns whether the driver may have a zero-copy mode: it has, or the kernel does not tell (before Linux 6.3).
fn may_lend(device: &Device) -> bool {
    device.features.is_none_or(|features| features.zero_copy())
}

/// Returns whether no packet of the interface is spread over slots that the driver cannot put together.
fn holds_whole(device: &Device, slot_size: usize) -> bool {
    let several = device.features.is_some_and(|features| features.zero_copy_segments > 1);
    several || card_room(slot_size) >= device.mtu + LINK_MAX
}

fn open_lanes(
    device: &Device,
    queues: &[u16],
    config: LaneConfig,
    steering: &Steering,
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
        let served = steering.serve(lane.queue, lane.fd());
        served.map_err(|e| refused("give a queue to an AF_XDP socket", e))?;
    }
    Ok(lanes)
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

fn too_few_queues(device: &Device, wanted: u16) -> OpenError {
    let (name, has) = (&device.name, device.queues);
    let how = if device.has_local_peer() {
        format!("ethtool -L {name} rx {wanted} tx {wanted}")
    } else {
        format!("ethtool -L {name} combined {wanted}")
    };
    OpenError::Unusable {
        what: format!("interface '{name}' for {wanted} cores"),
        help: format!("it has {has} receive queue(s); use that many cores, or give it more with `{how}`"),
    }
}

/// Returns the error for a refusal by the kernel.
fn refused(doing: &str, error: io::Error) -> OpenError {
    /// A number of the kernel's own that some drivers let out.
    const ENOTSUPP: i32 = 524;
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::Privilege {
            what: format!("what xdp: ports do ({doing})"),
            help:
                "run with sudo (CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF), or use tap:NAME, which does without"
                    .into(),
        },
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::ENOSYS | ENOTSUPP) => OpenError::Missing {
            what: format!("something of the kernel's to {doing}"),
            help: format!(
                "{error}; it takes Linux 5.9 with CONFIG_XDP_SOCKETS; packet:IFACE and tap:NAME do without"
            ),
        },
        _ => OpenError::os(doing, error),
    }
}

/// Packet buffers, and on older kernels BPF maps, count as locked memory. Raises the limit for the
/// process as far as it is permitted; if that is too little, opening the port says so.
pub(crate) fn raise_memory_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills in `limit`.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } != 0 {
        return;
    }
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both only read a limit.
    unsafe {
        if libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited) != 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit);
        }
    }
}
