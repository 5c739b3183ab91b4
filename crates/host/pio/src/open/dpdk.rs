//! `dpdk:DEVICE`: a device of DPDK, with what is said to it.

use super::kind::{Kind, MTU, OFFLOAD, Ports, QUEUES, RAW, Setting, WHOLE, boxed, setting, steered};
use super::spec::Spec;
use crate::dpdk::{Dpdk, DpdkConfig, open_dpdk};
use crate::open_error::OpenError;

const OWN: &[Setting] = &[
    QUEUES,
    OFFLOAD,
    MTU,
    WHOLE,
    setting("rx_ring", "N", "packets waiting to be received (1024)"),
    setting("tx_ring", "N", "packets waiting to be sent (1024)"),
    setting(
        "eal",
        "ARGUMENTS",
        "of DPDK's environment, by spaces; said with the first such link of a process",
    ),
];

/// The row of the table.
pub(super) const KIND: Kind = Kind {
    name: "dpdk",
    what: "DEVICE",
    about: "a card (0000:03:00.0) or software device (net_tap0) through DPDK; other options are the device's",
    options: OWN,
    passes_on: true,
    rights: RAW,
    as_wire: "whole=on",
    open,
};

fn open(spec: &Spec<'_>, queues: u16) -> Result<Ports, OpenError> {
    let plain = DpdkConfig::new(spec.what);
    let config = DpdkConfig {
        arguments: spec.others(|name| OWN.iter().any(|setting| setting.name == name)),
        eal: spec.all("eal").flat_map(str::split_whitespace).map(Into::into).collect(),
        queues,
        offload: spec.switch("offload")?.unwrap_or(plain.offload),
        mtu: spec.number("mtu")?,
        whole: spec.switch("whole")?.unwrap_or(plain.whole),
        rx_ring: spec.number("rx_ring")?.unwrap_or(plain.rx_ring),
        tx_ring: spec.number("tx_ring")?.unwrap_or(plain.tx_ring),
        ..plain
    };
    let ports = open_dpdk(&config)?;
    if config.whole { Ok(boxed(ports)) } else { steered(ports, Dpdk::rss) }
}
