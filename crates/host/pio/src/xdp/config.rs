//! How an interface is opened: what was asked for, what its driver can, and why it cannot be.

use super::bpf::sys::Hook;
use super::device::Device;
use super::lane;
use crate::open_error::OpenError;
use std::io;

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

/// Room before a received packet that the kernel insists on.
const RX_HEADROOM: usize = 256;
/// Largest super-segment, as long as its length has 16 bits (the kernel's limit unless a user raised it).
const SUPER_MAX: usize = 1 << 16;
/// Link-layer bytes beyond the MTU: Ethernet header and one VLAN tag.
const LINK_MAX: usize = 18;

const GENERIC_ONLY: &[Hook] = &[Hook::Generic];
pub(super) const NATIVE_FIRST: &[Hook] = &[Hook::Native, Hook::Generic];
pub(super) const GENERIC_FIRST: &[Hook] = &[Hook::Generic, Hook::Native];

/// Where the program may run, the best place first.
pub(super) fn hooks(config: &XdpConfig, device: &Device) -> &'static [Hook] {
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

/// Says why the program is not in the drivers of a bond's cards.
pub(super) fn not_for_bonds(device: &Device, config: &XdpConfig) -> Option<String> {
    (device.is_bond() && config.mode == XdpMode::Auto).then(|| {
        "AF_XDP gets nothing of a bond from the drivers of its cards; the network stack runs the XDP program".into()
    })
}

/// Small slots keep the caches free, but a super-segment should not be cut into forty, and a driver in zero-copy mode
/// must find room for a whole packet.
pub(super) fn slot_size(device: &Device, native: bool, zero_copy: bool) -> usize {
    let super_segments = device.has_local_peer() && !native;
    let small = device.mtu + LINK_MAX + RX_HEADROOM <= 2048 && !super_segments;
    if small && (!zero_copy || card_room(2048) >= device.mtu + LINK_MAX) { 2048 } else { 4096 }
}

/// Returns the bytes of a slot that every card fills in zero-copy mode. igb, igc and ixgbe (82599) tell their cards the
/// size of a buffer in whole KiB, rounded down (`SRRCTL.BSIZEPKT`): of a slot of 2048 bytes the card used 1024 and
/// spread a packet of 1500 bytes over two slots, which igb in zero-copy mode does not put together.
pub(super) fn card_room(slot_size: usize) -> usize {
    (slot_size - RX_HEADROOM) & !1023
}

/// Returns whether the driver may have a zero-copy mode: it has, or the kernel does not tell (before Linux 6.3).
pub(super) fn may_lend(device: &Device) -> bool {
    device.features.is_none_or(|features| features.zero_copy())
}

/// Returns whether no packet of the interface is spread over slots that the driver cannot put together.
pub(super) fn holds_whole(device: &Device, slot_size: usize) -> bool {
    let several = device.features.is_some_and(|features| features.zero_copy_segments > 1);
    several || card_room(slot_size) >= device.mtu + LINK_MAX
}

pub(super) fn too_few_queues(device: &Device, wanted: u16) -> OpenError {
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
pub(super) fn refused(doing: &str, error: io::Error) -> OpenError {
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
