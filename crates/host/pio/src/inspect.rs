//! The state of an interface, and the rights of this process, as the kernel tells them before any port opens: for
//! people who ask what a link will do.

use crate::netlink::{self, Monitor, Scope, XdpFeatures};
use crate::open_error::OpenError;
use crate::port::{NetEvent, Route};
use crate::processes;
use crate::userns::{CAP_BPF, CAP_IPC_LOCK, CAP_NET_ADMIN, CAP_NET_RAW, has_capability};
use crate::xdp::device::Ethtool;
use base::Addr;
use std::io;

/// Capabilities that some kind of link takes (capabilities(7)).
const CAPABILITIES: &[(&str, u32)] = &[
    ("CAP_NET_ADMIN", CAP_NET_ADMIN),
    ("CAP_NET_RAW", CAP_NET_RAW),
    ("CAP_IPC_LOCK", CAP_IPC_LOCK),
    ("CAP_BPF", CAP_BPF),
];

/// The state of an interface of the caller's network namespace.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// The driver's name; empty if it has none.
    pub driver: String,
    /// The link-layer address.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: usize,
    /// It carries Ethernet frames.
    pub ethernet: bool,
    /// It is the loopback interface.
    pub loopback: bool,
    /// It was switched on.
    pub up: bool,
    /// Packets can travel: it is on, and there is a carrier.
    pub running: bool,
    /// Receive queues in use.
    pub queues: u16,
    /// The most receive queues that the driver can have, if it says.
    pub queues_max: Option<u16>,
    /// XDP abilities of the driver as the kernel tells them (Linux 6.3).
    pub features: Option<XdpFeatures>,
    /// Offloads by their names in ethtool(8), and whether they are on; `None` if the driver does not say.
    pub offloads: Vec<(&'static str, Option<bool>)>,
    /// Processes that have an XDP program on the interface, as far as the caller may look into them.
    pub xdp_holders: Vec<String>,
    /// Addresses and prefix lengths.
    pub addresses: Vec<(Addr, u8)>,
    /// Routes out of the interface.
    pub routes: Vec<Route>,
    /// Neighbours whose link-layer address is known.
    pub neighbours: Vec<(Addr, [u8; 6])>,
}

/// Looks at an interface of the caller's network namespace; changes and opens nothing. It takes no privilege.
///
/// # Errors
/// There is none of this name, or the kernel does not tell.
pub fn inspect(name: &str) -> Result<Inspection, OpenError> {
    // An interface may vanish between two questions.
    let failed = |error: io::Error| match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => OpenError::no_interface(name),
        _ => OpenError::os(&format!("ask for interface '{name}'"), error),
    };
    let found = netlink::interface(name).map_err(failed)?.ok_or_else(|| OpenError::no_interface(name))?;
    let ethtool = Ethtool::new(name).map_err(failed)?;
    let mut news = Vec::new();
    Monitor::open(found.index, Scope::All).map_err(failed)?.poll(&mut news);
    let mut inspection = Inspection {
        name: found.name,
        index: found.index,
        driver: ethtool.driver(),
        mac: found.mac,
        mtu: found.mtu,
        ethernet: ethtool.is_ethernet().map_err(failed)?,
        loopback: found.loopback,
        up: ethtool.is_up().map_err(failed)?,
        running: found.up,
        queues: ethtool.queues(),
        queues_max: ethtool.queues_max(),
        // Before Linux 6.3 it is unknown.
        features: netlink::xdp_features(found.index).unwrap_or_default(),
        offloads: ethtool.offloads(),
        xdp_holders: processes::holders(found.index).iter().map(ToString::to_string).collect(),
        addresses: Vec::new(),
        routes: Vec::new(),
        neighbours: Vec::new(),
    };
    for event in news {
        match event {
            NetEvent::AddrAdded { addr, prefix } => inspection.addresses.push((addr, prefix)),
            NetEvent::RouteAdded(route) => inspection.routes.push(route),
            NetEvent::Neighbour { addr, mac } => inspection.neighbours.push((addr, mac)),
            _ => {}
        }
    }
    Ok(inspection)
}

/// Returns the capabilities that links take, and whether this process has each.
#[must_use]
pub fn capabilities() -> Vec<(&'static str, bool)> {
    CAPABILITIES.iter().map(|&(name, number)| (name, has_capability(number))).collect()
}

/// Returns the names of the capabilities that opening `link` takes and this process lacks.
///
/// # Errors
/// `link` is of no known kind.
pub fn missing_capabilities(link: &str) -> Result<Vec<&'static str>, OpenError> {
    let rights = crate::open::rights(link)?;
    let lacks = |&&(_, number): &&(&str, u32)| rights >> number & 1 == 1 && !has_capability(number);
    Ok(CAPABILITIES.iter().filter(lacks).map(|&(name, _)| name).collect())
}

/// Returns the most bytes of memory that this process may lock, or `None` for no limit. A process that may raise the
/// limit has no limit: links raise it.
#[must_use]
pub fn lockable_memory() -> Option<u64> {
    const CAP_SYS_RESOURCE: u32 = 24;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills in `limit`.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    let free = limit.rlim_max == libc::RLIM_INFINITY
        || has_capability(CAP_SYS_RESOURCE)
        || has_capability(CAP_IPC_LOCK);
    (known && !free).then_some(limit.rlim_max)
}

#[cfg(test)]
mod tests;
