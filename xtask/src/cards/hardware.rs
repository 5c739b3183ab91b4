//! The cards that QEMU has and Linux has drivers for, and what is tried with each.

/// DPDK's drivers, as rows name that link.
pub(super) const DPDK: &str = "dpdk";

/// A card as QEMU emulates it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Card {
    /// As rows name it.
    pub(super) name: &'static str,
    /// QEMU's device and its settings.
    device: &'static str,
    pub(super) module: &'static str,
    /// The tap device has as many queues as the card.
    pub(super) multi_queue: bool,
    pub(super) about: &'static str,
}

const fn card(name: &'static str, device: &'static str, module: &'static str, about: &'static str) -> Card {
    Card { name, device, module, multi_queue: false, about }
}

/// Every card of the laboratory.
pub(super) const CARDS: &[Card] = &[
    Card {
        multi_queue: true,
        ..card("virtio", "virtio-net-pci", "virtio_net", "virtio-net, a queue for each processor")
    },
    card("virtio-1q", "virtio-net-pci", "virtio_net", "virtio-net with one queue"),
    Card {
        multi_queue: true,
        ..card(
            "virtio-plain",
            "virtio-net-pci,csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,\
             host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off",
            "virtio_net",
            "virtio-net without any offload",
        )
    },
    Card {
        multi_queue: true,
        ..card("virtio-packed", "virtio-net-pci,packed=on", "virtio_net", "virtio-net with packed rings")
    },
    card("igb", "igb", "igb", "Intel 82576"),
    card("e1000e", "e1000e", "e1000e", "Intel 82574L"),
    card("vmxnet3", "vmxnet3", "vmxnet3", "VMware"),
    card("e1000", "e1000", "e1000", "Intel 82540EM, one queue"),
];

/// Links that are tried on each card.
pub(super) const LINKS: &[(&str, &str)] = &[
    ("nic", "nic:card0"),
    ("native", "xdp:card0,mode=native"),
    ("generic", "xdp:card0,mode=generic"),
    ("packet", "packet:card0"),
    // The place is known once the guest runs.
    (DPDK, "dpdk:"),
];

/// Cores of a guest and of the stack in it.
pub(super) const CORES: &[u32] = &[1, 4];

impl Card {
    /// Returns QEMU's argument for the device, which is behind an IOMMU or not.
    pub(super) fn device(&self, queues: u32, iommu: bool) -> String {
        // Of QEMU's devices this one alone has to be told that its addresses are not the guest's own. DPDK asks it to
        // spread by a hash, which the kernel's driver does not need.
        let virtual_card = iommu && self.module == "virtio_net";
        let virtual_card = if virtual_card { ",iommu_platform=on,disable-legacy=on,rss=on" } else { "" };
        if queues > 1 {
            // A vector for each queue and direction, one for the configuration and one for control.
            format!("{}{virtual_card},mq=on,vectors={}", self.device, 2 * queues + 2)
        } else {
            format!("{}{virtual_card}", self.device)
        }
    }
}
