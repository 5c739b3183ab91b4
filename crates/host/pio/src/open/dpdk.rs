//! `dpdk:DEVICE`: a device of DPDK, with what is said to it.

use super::kind::{Kind, Ports, RAW, boxed, steered};
use super::spec::Spec;
use crate::dpdk::{Dpdk, DpdkConfig, open_dpdk};
use crate::open_error::OpenError;

const OWN: &[&str] = &["queues", "offload", "mtu", "whole", "rx_ring", "tx_ring", "eal"];

/// The row of the table.
pub(super) const KIND: Kind = Kind {
    name: "dpdk",
    what: "DEVICE",
    options: OWN,
    passes_on: true,
    rights: RAW,
    as_wire: "whole=on",
    open,
};

fn open(spec: &Spec<'_>, queues: u16) -> Result<Ports, OpenError> {
    let plain = DpdkConfig::new(spec.what);
    let config = DpdkConfig {
        arguments: spec.others(|name| OWN.contains(&name)),
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
