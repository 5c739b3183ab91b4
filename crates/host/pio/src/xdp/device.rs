//! Properties of an interface, read before a port opens on it.

use crate::netlink::{self, XdpFeatures};
use crate::open::OpenError;
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
    /// Looks the interface up in the caller's network namespace.
    pub(super) fn find(name: &str) -> Result<Device, OpenError> {
        let os = |error| OpenError::os("ask for the interfaces", error);
        let found = netlink::interface(name).map_err(os)?.ok_or_else(|| OpenError::no_interface(name))?;
        let ethtool = Ethtool::new(name).map_err(os)?;
        if !ethtool.is_ethernet().map_err(os)? {
            return Err(OpenError::Unusable {
                what: format!("interface '{name}'"),
                help: format!("XDP ports need Ethernet frames, which it does not carry; try packet:{name}"),
            });
        }
        Ok(Device {
            name: name.into(),
            index: found.index,
            mtu: found.mtu,
            super_max: found.super_max,
            mac: found.mac,
            queues: ethtool.queues(),
            driver: ethtool.driver(),
            // Without an answer nothing is left to the driver.
            features: netlink::xdp_features(found.index).unwrap_or_default(),
        })
    }

    /// Is the device one end of a pair, whose other end is on this machine and adapts to ours?
    pub(super) fn has_local_peer(&self) -> bool {
        self.driver == "veth"
    }
}

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

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

/// Questions to a driver.
struct Ethtool {
    socket: OwnedFd,
    request: libc::ifreq,
}

impl Ethtool {
    fn new(name: &str) -> io::Result<Ethtool> {
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

    fn is_ethernet(&self) -> io::Result<bool> {
        let mut request = self.request;
        // SAFETY: the kernel reads the name and writes the address, both inside the ifreq.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) })?;
        // SAFETY: this command fills in the address.
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family } == libc::ARPHRD_ETHER)
    }

    fn ask<T>(&self, answer: &mut T) -> io::Result<()> {
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        let mut request = self.request;
        request.ifr_ifru.ifru_data = std::ptr::from_mut(answer).cast();
        // SAFETY: the structure at `ifru_data` starts with its command, whose answer has exactly this size.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) }).map(drop)
    }

    fn driver(&self) -> String {
        let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        match self.ask(&mut info) {
            Ok(()) => {
                String::from_utf8_lossy(info.driver.split(|&b| b == 0).next().unwrap_or(&[])).into_owned()
            }
            Err(_) => String::new(),
        }
    }

    /// One if the driver does not say.
    fn queues(&self) -> u16 {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        match self.ask(&mut channels) {
            Ok(()) => (channels.rx + channels.combined).clamp(1, u32::from(u16::MAX)) as u16,
            Err(_) => 1,
        }
    }
}
