//! Properties of an interface, read before a port opens on it.

use crate::Rss;
use crate::interfaces::stands_alone;
use crate::netlink::{self, XdpFeatures};
use crate::open_error::OpenError;
use crate::sys::{check, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// An interface that can carry an XDP port.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mtu: usize,
    /// Bytes of the largest super-segment that is sent on it.
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
    /// Looks the interface up in the caller's network namespace; `whole` if its frames are wanted, for any destination
    /// for.
    pub(super) fn find(name: &str, whole: bool) -> Result<Device, OpenError> {
        // An interface may vanish between two questions.
        let os = |error: io::Error| match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => OpenError::no_interface(name),
            _ => OpenError::os("ask for the interfaces", error),
        };
        let found = netlink::interface(name).map_err(os)?.ok_or_else(|| OpenError::no_interface(name))?;
        if !whole {
            stands_alone(&found)?;
        }
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

    /// Does the driver run its XDP program no more once it has made its receive rings anew, as for another MTU? The
    /// kernel shows it as attached even so (`vmxnet3_rq_cleanup_all`, drivers/net/vmxnet3/vmxnet3_drv.c, from Linux 6.6
    /// on).
    pub(super) fn forgets_program(&self) -> bool {
        self.driver == VMXNET3
    }
}

/// Name of the driver of VMware's cards.
const VMXNET3: &str = "vmxnet3";

/// Name of the driver of bonds.
const BONDING: &str = "bonding";

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_GRSSH: u32 = 0x46;
/// Toeplitz in `ethtool_rxfh.hfunc`.
const HASH_TOEPLITZ: u8 = 1;
/// Flow types of TCP, and the fields source, destination and both ports (`RXH_IP_SRC` to `RXH_L4_B_2_3`).
const TCP_V4_FLOW: u32 = 1;
const TCP_V6_FLOW: u32 = 5;
const HASH_FOUR_TUPLE: u64 = 0xf0;
/// The key that drivers have from the kernel if none is set (`netdev_rss_key_fill`).
const KERNEL_RSS_KEY: &str = "/proc/sys/net/core/netdev_rss_key";

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

/// Most entries of an indirection table, and words of a hash's key, that are read.
const TABLE_MAX: usize = 4096;
const KEY_WORDS: usize = 64;

/// The head of `struct ethtool_rxfh`, and behind it the table and the key.
#[repr(C)]
struct RxHash {
    command: u32,
    context: u32,
    table_len: u32,
    key_len: u32,
    /// Function, transformation of the input, three reserved bytes.
    function: u8,
    transformation: u8,
    reserved: [u8; 2],
    reserved32: u32,
    config: [u32; TABLE_MAX + KEY_WORDS],
}

const _: () = assert!(std::mem::offset_of!(RxHash, config) == 24);

/// The part of `struct ethtool_rxnfc` that `ETHTOOL_GRXFH` reads and writes.
#[repr(C)]
struct HashFields {
    command: u32,
    flow_type: u32,
    fields: u64,
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

    /// The rule by which the card chooses receive queues, as far as the driver tells it; `None` if it does not, or if
    /// it is not Toeplitz's hash of addresses and ports. For a driver that tells the table and no key it is a guess:
    /// the key that the kernel gives to drivers.
    pub(crate) fn rss(&self) -> Option<Rss> {
        let sizes = self.rx_hash(0, 0)?;
        let (table_len, key_len) = (sizes.table_len as usize, sizes.key_len as usize);
        if !(1..=TABLE_MAX).contains(&table_len) || key_len > KEY_WORDS * 4 {
            return None;
        }
        let told = self.rx_hash(table_len, key_len)?;
        let plain = told.function == HASH_TOEPLITZ && told.transformation == 0;
        let (table, rest) = told.config.split_at(table_len);
        let table = table.iter().map(|&queue| u16::try_from(queue)).collect::<Result<_, _>>().ok()?;
        let mut key: Vec<u8> = rest.iter().flat_map(|word| word.to_ne_bytes()).take(key_len).collect();
        if key.is_empty() {
            key = kernel_rss_key()?;
        }
        let (v4, v6) = (self.hashes_ports(TCP_V4_FLOW), self.hashes_ports(TCP_V6_FLOW));
        plain.then_some(Rss { key, table, v4, v6 })
    }

    fn rx_hash(&self, table_len: usize, key_len: usize) -> Option<Box<RxHash>> {
        let mut hash = Box::new(RxHash {
            command: ETHTOOL_GRSSH,
            context: 0,
            table_len: table_len as u32,
            key_len: key_len as u32,
            function: 0,
            transformation: 0,
            reserved: [0; 2],
            reserved32: 0,
            config: [0; TABLE_MAX + KEY_WORDS],
        });
        // The kernel writes as much behind the head as the two lengths say, and refuses others than the card's.
        self.ask(&mut *hash).is_ok().then_some(hash)
    }

    /// Is TCP of a family spread by addresses and ports? A driver that does not tell is believed until a packet shows
    /// otherwise.
    fn hashes_ports(&self, flow_type: u32) -> bool {
        let mut fields = HashFields { command: ETHTOOL_GRXFH, flow_type, fields: 0 };
        self.ask(&mut fields).is_err() || fields.fields == HASH_FOUR_TUPLE
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

/// The key of the kernel's, in hexadecimal with colons; all zero until a driver asked for it.
fn kernel_rss_key() -> Option<Vec<u8>> {
    let text = std::fs::read_to_string(KERNEL_RSS_KEY).ok()?;
    let key = parse_key(text.trim())?;
    key.iter().any(|&byte| byte != 0).then_some(key)
}

fn parse_key(text: &str) -> Option<Vec<u8>> {
    text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

#[cfg(test)]
mod tests;
