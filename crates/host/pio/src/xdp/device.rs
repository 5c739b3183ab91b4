//! Properties of an interface, read before a port opens on it.

use crate::netlink::{self, XdpFeatures};
use crate::open::{OpenError, stands_alone};
use crate::sys::{check, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// An interface that can carry an XDP port.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mtu: usize,
    /// Octets of the largest super-segment that is sent on it.
    pub(super) super_max: usize,
    pub(super) mac: [u8; 6],
    /// Receive queues; packets may arrive on each of them.
    pub(super) queues: u16,
    /// The driver's name; empty if it has none.
    pub(super) driver: String,
    /// XDP capabilities of the driver, if the kernel reports them.
    pub(super) features: Option<XdpFeatures>,
}

impl Device {
    /// Looks the interface up; `whole` if its frames are wanted, whoever they are for.
    pub(super) fn find_for(name: &str, whole: bool) -> Result<Device, OpenError> {
        // An interface may vanish between two questions.
        let found = netlink::interface(name).map_err(|e| OpenError::os("ask for the interfaces", e))?;
        if let Some(found) = found.filter(|_| !whole) {
            stands_alone(&found)?;
        }
        Device::find(name)
    }

    /// Looks the interface up in the caller's network namespace.
    pub(super) fn find(name: &str) -> Result<Device, OpenError> {
        // An interface may vanish between two questions.
        let os = |error: io::Error| match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => OpenError::no_interface(name),
            _ => OpenError::os("ask for the interfaces", error),
        };
        let found = netlink::interface(name).map_err(os)?.ok_or_else(|| OpenError::no_interface(name))?;
        let ethtool = Ethtool::new(name).map_err(os)?;
        if !ethtool.is_ethernet().map_err(os)? {
            return Err(OpenError::Unusable {
                what: format!("interface '{name}'"),
                help: format!("XDP ports need Ethernet frames, which it does not carry; try packet:{name}"),
            });
        }
        let driver = ethtool.driver();
        // A bond has the queues that it was made with, and no word for them.
        let queues = if driver == BONDING { found.rx_queues.max(1) } else { ethtool.queues() };
        Ok(Device {
            name: name.into(),
            index: found.index,
            mtu: found.mtu,
            super_max: found.super_max,
            mac: found.mac,
            queues,
            driver,
            // Without an answer nothing is left to the driver.
            features: netlink::xdp_features(found.index).unwrap_or_default(),
        })
    }

    /// Did the interface vanish since it was looked up? The kernel's errors do not always say so.
    pub(super) fn is_gone(&self) -> bool {
        netlink::interfaces().is_ok_and(|all| all.iter().all(|one| one.index != self.index))
    }

    /// Is the device a bond? In a driver's mode its cards run the program. What they bring is not the bond's to AF_XDP,
    /// so its sockets get nothing (`xsk_rcv_check`, net/xdp/xsk.c, Linux 6.12).
    pub(super) fn is_bond(&self) -> bool {
        self.driver == BONDING
    }

    /// Is the device one end of a pair, whose other end is on this machine and adapts to ours?
    pub(super) fn has_local_peer(&self) -> bool {
        self.driver == "veth"
    }
}

/// Name of the driver of bonds.
const BONDING: &str = "bonding";

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GFLAGS: u32 = 0x25;

/// Offloads as ethtool(8) names them, and the commands that read them (linux/ethtool.h).
const OFFLOADS: &[(&str, u32)] = &[
    ("rx-checksumming", 0x14),
    ("tx-checksumming", 0x16),
    ("tcp-segmentation-offload", 0x1e),
    ("generic-segmentation-offload", 0x23),
    ("generic-receive-offload", 0x2b),
];
/// Large receive offload in the answer to `ETHTOOL_GFLAGS`.
const FLAG_LRO: u32 = 1 << 15;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

/// A number of queues.
fn number(queues: u32) -> u16 {
    queues.clamp(1, u32::from(u16::MAX)) as u16
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Questions to a driver.
pub(crate) struct Ethtool {
    socket: OwnedFd,
    request: libc::ifreq,
}

impl Ethtool {
    pub(crate) fn new(name: &str) -> io::Result<Ethtool> {
        // SAFETY: all zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Ethtool { socket: socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?, request })
    }

    pub(crate) fn is_ethernet(&self) -> io::Result<bool> {
        let mut request = self.request;
        // SAFETY: the kernel reads the name and writes the address, both inside the ifreq.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) })?;
        // SAFETY: this command fills in the address.
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family } == libc::ARPHRD_ETHER)
    }

    /// Was it switched on?
    pub(crate) fn is_up(&self) -> io::Result<bool> {
        let mut request = self.request;
        // SAFETY: the kernel reads the name and writes the flags, both inside the ifreq.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) })?;
        // SAFETY: this command fills in the flags.
        Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }) & libc::IFF_UP != 0)
    }

    fn ask<T>(&self, answer: &mut T) -> io::Result<()> {
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        let mut request = self.request;
        request.ifr_ifru.ifru_data = std::ptr::from_mut(answer).cast();
        // SAFETY: the structure at `ifru_data` starts with its command, whose answer has exactly this size.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) }).map(drop)
    }

    pub(crate) fn driver(&self) -> String {
        let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        match self.ask(&mut info) {
            Ok(()) => {
                String::from_utf8_lossy(info.driver.split(|&b| b == 0).next().unwrap_or(&[])).into_owned()
            }
            Err(_) => String::new(),
        }
    }

    fn channels(&self) -> Option<Channels> {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        self.ask(&mut channels).is_ok().then_some(channels)
    }

    /// One if the driver does not say.
    pub(crate) fn queues(&self) -> u16 {
        self.channels().map_or(1, |channels| number(channels.rx + channels.combined))
    }

    /// The most receive queues that the driver can have, if it says.
    pub(crate) fn queues_max(&self) -> Option<u16> {
        // Receive, transmit, other, combined.
        self.channels().map(|Channels { max: [rx, _, _, combined], .. }| number(rx.max(combined)))
    }

    /// Offloads, and whether they are on; `None` where the driver does not say.
    pub(crate) fn offloads(&self) -> Vec<(&'static str, Option<bool>)> {
        let value = |command| {
            let mut value = Value { command, data: 0 };
            self.ask(&mut value).is_ok().then_some(value.data)
        };
        let lro = value(ETHTOOL_GFLAGS).map(|flags| flags & FLAG_LRO != 0);
        let others = OFFLOADS.iter().map(|&(name, command)| (name, value(command).map(|data| data != 0)));
        others.chain([("large-receive-offload", lro)]).collect()
    }
}
