//! From what a user writes, `tap:demo,queues=2`, to ports.

#[cfg(feature = "dpdk")]
mod dpdk;
pub(crate) mod kind;
mod nic;
mod spec;
#[cfg(test)]
mod tests;

use crate::open_error::OpenError;
use crate::packet::{PacketConfig, open_packet};
use crate::pcap::{PcapConfig, open_pcap};
use crate::port::PacketIo;
use crate::shm::{ShmConfig, open_shm};
use crate::tap::{TapConfig, open_tap};
use crate::xdp::{XdpConfig, XdpMode, open_xdp_with};
use kind::{ADMIN, Kind, NO_RIGHTS, RAW, Rights, STEER, boxed, rule_of, steered};
use spec::Spec;

/// Every kind of port, one row each: parser and errors come from here.
const KINDS: &[Kind] = &[
    Kind {
        name: "xdp",
        what: "IFACE",
        options: &["queues", "mode", "zerocopy", "checksum", "rx_ring", "tx_ring", "whole"],
        passes_on: false,
        rights: STEER,
        as_wire: "whole=on",
        open: |spec, queues| {
            let plain = XdpConfig::default();
            let modes = [("native", XdpMode::Native), ("generic", XdpMode::Generic)];
            let sums = [("link", true), ("stack", false)];
            let config = XdpConfig {
                ports: queues,
                mode: spec.choice("mode", &modes)?.unwrap_or(plain.mode),
                zero_copy: spec.switch("zerocopy")?.unwrap_or(plain.zero_copy),
                tx_checksum: spec.choice("checksum", &sums)?.unwrap_or(plain.tx_checksum),
                rx_ring: spec.number("rx_ring")?.unwrap_or(plain.rx_ring),
                tx_ring: spec.number("tx_ring")?.unwrap_or(plain.tx_ring),
                whole: spec.switch("whole")?.unwrap_or(plain.whole),
            };
            let ports = open_xdp_with(spec.what, &config).map_err(|error| match error {
                OpenError::Busy { what, help } => {
                    let help = format!("{help}, or use nic:{}, which shares the interface", spec.what);
                    OpenError::Busy { what, help }
                }
                other => other,
            })?;
            if config.whole { Ok(boxed(ports)) } else { steered(ports, |_| rule_of(spec.what)) }
        },
    },
    Kind {
        name: "packet",
        what: "IFACE",
        options: &["queues", "offload", "whole", "share"],
        passes_on: false,
        rights: RAW,
        as_wire: "whole=on",
        open: |spec, queues| {
            let plain = PacketConfig::new(spec.what);
            let config = PacketConfig {
                queues,
                offload: spec.switch("offload")?.unwrap_or(plain.offload),
                whole: spec.switch("whole")?.unwrap_or(plain.whole),
                share: spec.number("share")?.unwrap_or(plain.share),
                ..plain
            };
            Ok(boxed(open_packet(&config)?))
        },
    },
    Kind {
        name: "nic",
        what: "IFACE",
        options: &["queues", "whole", "share"],
        passes_on: false,
        rights: STEER,
        as_wire: "whole=on",
        open: |spec, queues| {
            let whole = spec.switch("whole")?.unwrap_or(false);
            nic::open(spec.what, queues, whole, spec.number("share")?.unwrap_or(0))
        },
    },
    Kind {
        name: "tap",
        what: "NAME",
        options: &["queues", "offload", "mtu", "mac", "host"],
        passes_on: false,
        rights: ADMIN,
        // The kernel cuts and sums before it hands frames over.
        as_wire: "offload=off",
        open: |spec, queues| {
            let plain = TapConfig::new(spec.what);
            let config = TapConfig {
                queues,
                offload: spec.switch("offload")?.unwrap_or(plain.offload),
                mtu: spec.number("mtu")?,
                mac: spec.mac("mac")?,
                host: spec.addresses("host")?,
                ..plain
            };
            Ok(boxed(open_tap(&config)?))
        },
    },
    Kind {
        name: "shm",
        what: "PATH",
        options: &["queues", "mtu", "mac"],
        passes_on: false,
        rights: NO_RIGHTS,
        as_wire: "",
        open: |spec, queues| {
            let plain = ShmConfig::new(spec.what);
            let config = ShmConfig {
                queues,
                mtu: spec.number("mtu")?.unwrap_or(plain.mtu),
                mac: spec.mac("mac")?,
                ..plain
            };
            Ok(boxed(open_shm(&config)?))
        },
    },
    Kind {
        name: "pcap",
        what: "FILE",
        options: &["speed", "record", "trust", "mtu", "mac"],
        passes_on: false,
        rights: NO_RIGHTS,
        as_wire: "",
        open: |spec, queues| {
            if queues != 1 {
                return Err(spec.wrong("a capture has one queue; use one core".into()));
            }
            let plain = PcapConfig::new(spec.what);
            let speed = spec.number("speed")?.unwrap_or(plain.speed);
            if !(0.0..=1e9).contains(&speed) {
                return Err(spec.wrong("speed is from 0 to 1000000000".into()));
            }
            let config = PcapConfig {
                speed,
                record: spec.text("record").map(Into::into),
                trust: spec.switch("trust")?.unwrap_or(plain.trust),
                mtu: spec.number("mtu")?.unwrap_or(plain.mtu),
                mac: spec.mac("mac")?.unwrap_or(plain.mac),
                ..plain
            };
            Ok(boxed(vec![open_pcap(&config)?]))
        },
    },
    #[cfg(feature = "dpdk")]
    dpdk::KIND,
];

/// Most queues a port may have.
const QUEUES_MAX: u16 = 256;

/// Opens the port a user wrote, `KIND:WHAT[,option=value]...`, with `queues` queues, one per core; `queues=N`
/// in what was written wins.
///
/// # Errors
/// Each says what to do.
pub fn open(spec: &str, queues: u16) -> Result<Vec<Box<dyn PacketIo>>, OpenError> {
    let spec = Spec::parse(spec)?;
    let kind = kind_of(&spec)?;
    for name in spec.names() {
        if !kind.passes_on && !kind.options.contains(&name) {
            let why = format!("{} has no option '{name}'; it has {}", kind.name, kind.options.join(", "));
            return Err(spec.wrong(why));
        }
    }
    let queues = spec.number("queues")?.unwrap_or(queues);
    if !(1..=QUEUES_MAX).contains(&queues) {
        return Err(spec.wrong(format!("queues are from 1 to {QUEUES_MAX}")));
    }
    (kind.open)(&spec, queues)
}

fn kind_of(spec: &Spec<'_>) -> Result<&'static Kind, OpenError> {
    KINDS.iter().find(|kind| kind.name == spec.kind).ok_or_else(|| {
        if spec.kind == "dpdk" {
            return OpenError::Missing {
                what: "DPDK".into(),
                help: "this program is built without it; build with `--features dpdk` where libdpdk-dev is installed"
                    .into(),
            };
        }
        let known: Vec<_> = KINDS.iter().map(|kind| format!("{}:{}", kind.name, kind.what)).collect();
        spec.wrong(format!("'{}' is no kind of link; there are {}", spec.kind, known.join(", ")))
    })
}

/// Returns the privileges needed to open a link.
pub(crate) fn rights(spec: &str) -> Result<Rights, OpenError> {
    Ok(kind_of(&Spec::parse(spec)?)?.rights)
}

/// Opens the link a user wrote as an end of a wire between two networks: one queue, every frame that arrives a program
/// that it is for, and a link-layer address that does not matter.
///
/// # Errors
/// As for [`open`].
pub fn open_wire(spec: &str) -> Result<Box<dyn PacketIo>, OpenError> {
    let parsed = Spec::parse(spec)?;
    let kind = KINDS.iter().find(|kind| kind.name == parsed.kind);
    let more = kind.map_or("", |kind| kind.as_wire);
    let said = more.split_once('=').is_some_and(|(name, _)| parsed.text(name).is_some());
    let ports = if more.is_empty() || said { open(spec, 1)? } else { open(&format!("{spec},{more}"), 1)? };
    <[_; 1]>::try_from(ports)
        .map(|[port]| port)
        .map_err(|_| parsed.wrong("an end of a wire has one queue".into()))
}

/// Any text as a link: taken apart and looked at, not opened. Nothing may panic.
pub(crate) fn fuzz(text: &str) {
    if let Ok(spec) = Spec::parse(text) {
        for name in spec.names().collect::<Vec<_>>() {
            let found = (spec.number::<u16>(name), spec.switch(name), spec.mac(name), spec.addresses(name));
            if let (_, _, Ok(Some(mac)), _) = &found {
                assert!(mac[0] & 1 == 0);
            }
        }
    }
}
