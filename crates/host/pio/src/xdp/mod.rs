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
mod config;
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

pub use config::{XdpConfig, XdpMode};
pub use port::XdpPort;

use crate::netlink::{Monitor, Scope};
use crate::open_error::OpenError;
use crate::port::{BATCH_MAX, Caps, Medium};
use bpf::sys::Hook;
use config::{
    GENERIC_FIRST, NATIVE_FIRST, holds_whole, hooks, may_lend, not_for_bonds, refused, slot_size,
    too_few_queues,
};
use device::Device;
use lane::{Grant, LaneConfig};
use ring::FramePool;
use std::sync::Arc;
use steering::Steering;
use supers::Supers;

/// Smallest receive ring of a queue, when a port serves many.
const RX_RING_MIN: u32 = 256;

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
    let lanes = steering.open_lanes(device, &queues, lane, &pool)?;
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

/// Shall super-segments leave through a packet socket?
fn has_supers(device: &Device, config: &XdpConfig, grant: Grant) -> bool {
    // Where the driver uses our frames, a packet socket would copy what the driver does not.
    let kernel_cuts = grant.tx_metadata && !grant.zero_copy;
    // The kernel chooses the queue by which a packet socket sends. Cards and hypervisors that steer a flow to the queue
    // that it last was sent by (tun, Flow Director) would move the flow to another core. veth does not.
    kernel_cuts && (config.ports == 1 || device.has_local_peer())
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
