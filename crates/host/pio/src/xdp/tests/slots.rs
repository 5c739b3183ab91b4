//! Goal: in zero-copy mode a packet of the interface's MTU lies in one slot, on cards that count in whole KiB, too.
use super::super::config::{card_room, holds_whole, may_lend, slot_size};
use super::super::device::Device;
use crate::netlink::XdpFeatures;

/// An interface whose driver says these masks of the kernel's family `netdev`.
fn device(mtu: usize, driver: &str, features: Option<XdpFeatures>) -> Device {
    let (name, driver) = ("card0".into(), driver.into());
    Device { name, index: 7, mtu, super_max: 0, mac: [2; 6], queues: 1, driver, features }
}

fn zero_copy() -> Option<XdpFeatures> {
    Some(XdpFeatures { xdp: 0x0b, zero_copy_segments: 1, ..XdpFeatures::default() })
}

/// igb on Linux 7.3 got no segment of more than 1,024 bytes.
#[test]
fn a_packet_is_not_spread_over_slots() {
    let igb = device(1500, "igb", zero_copy());
    assert!(may_lend(&igb));
    let size = slot_size(&igb, true, true);
    assert!(card_room(size) >= 1518 && holds_whole(&igb, size), "{size}");
    assert!(!holds_whole(&igb, 2048), "the card fills 1,024 bytes of it");
    // Where the kernel copies, it fills all of a slot.
    assert_eq!(slot_size(&igb, true, false), 2048);
    assert_eq!(slot_size(&igb, false, false), 2048);
    // Beyond what a slot holds only a driver that puts slots together may have them.
    let jumbo = device(3500, "igb", zero_copy());
    assert!(!holds_whole(&jumbo, slot_size(&jumbo, true, true)));
    let several = zero_copy().map(|features| XdpFeatures { zero_copy_segments: 8, ..features });
    let ice = device(3500, "ice", several);
    assert!(holds_whole(&ice, slot_size(&ice, true, true)));
}

#[test]
fn a_driver_without_zero_copy_keeps_small_slots() {
    let virtio = device(1500, "virtio_net", Some(XdpFeatures { xdp: 3, ..XdpFeatures::default() }));
    assert!(!may_lend(&virtio));
    assert!(may_lend(&device(1500, "igc", None)), "a kernel that does not tell may have it");
}
