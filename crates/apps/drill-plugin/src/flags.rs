//! Values of `--so_flags`: `name=value`, separated by commas.

use base::Addr;
use drill::run::Profile;
use stack::OwnAddr;
use std::net::IpAddr;
use std::path::PathBuf;

/// Addresses of the tool's documentation for both families, used where the flags name none.
const USUAL: [(&str, u8, &str); 2] =
    [("192.168.0.1", 16, "192.168.0.254"), ("fd3d:a0b:17d6::1", 48, "fd3d:a0b:17d6:8888::1")];

/// Everything that can be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Flags {
    pub(crate) profile: Profile,
    /// Ours, one of each family at most.
    pub(crate) addresses: Vec<OwnAddr>,
    /// Families that a flag names the stack's address of: IPv6, IPv4.
    named: [bool; 2],
    pub(crate) gateways: Vec<Addr>,
    pub(crate) mtu: usize,
    /// Super-segments leave the port uncut (for scripts that say --strict_segments).
    pub(crate) whole_segments: bool,
    /// Payload of the segments that a longer one from the peer stands for (for scripts that say --mss).
    pub(crate) mss: Option<u16>,
    pub(crate) sysctl_file: Option<PathBuf>,
}

fn address(text: &str) -> Option<Addr> {
    text.split('/').next()?.parse::<IpAddr>().ok().map(Addr::from)
}

fn same_family(a: Addr, b: Addr) -> bool {
    a.is_v4() == b.is_v4()
}

impl Flags {
    /// Reads the flags, of which later ones win; with a sentence on each that could not be read.
    pub(crate) fn read(text: &str) -> (Flags, Vec<String>) {
        let mut flags = Flags {
            profile: Profile::default(),
            addresses: Vec::new(),
            named: [false; 2],
            gateways: Vec::new(),
            mtu: 1_500,
            whole_segments: false,
            mss: None,
            sysctl_file: None,
        };
        let (mut complaints, mut prefix, mut remote) = (Vec::new(), None, None);
        for flag in text.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            let understood = match name {
                "local_ip" => address(value).map(|addr| {
                    flags.addresses.retain(|own| !same_family(own.addr, addr));
                    flags.addresses.push(OwnAddr { addr, prefix: 0 });
                }),
                "remote_ip" => address(value).map(|addr| remote = Some(addr)),
                "gateway" => address(value).map(|addr| {
                    flags.gateways.retain(|known| !same_family(*known, addr));
                    flags.gateways.push(addr);
                }),
                "prefix" => value.parse::<u8>().ok().filter(|len| *len <= 128).map(|len| prefix = Some(len)),
                "mtu" => number(value, 68..=65_535).map(|mtu| flags.mtu = mtu),
                "mss" => value.parse::<u16>().ok().filter(|mss| *mss > 0).map(|mss| flags.mss = Some(mss)),
                "profile" => Profile::named(value).map(|profile| flags.profile = profile),
                "segments" => ["cut", "whole"]
                    .iter()
                    .position(|known| *known == value)
                    .map(|at| flags.whole_segments = at == 1),
                "sysctl_file" => (!value.is_empty()).then(|| flags.sysctl_file = Some(value.into())),
                _ => None,
            };
            if understood.is_none() {
                complaints.push(format!("so_flags: `{flag}` is not understood"));
            }
        }
        if let Some(remote) = remote
            && !flags.addresses.is_empty()
            && !flags.addresses.iter().any(|own| same_family(own.addr, remote))
        {
            complaints.push(format!("so_flags: remote_ip={remote} is of another family than local_ip"));
        }
        flags.complete(prefix);
        (flags, complaints)
    }

    /// Fills in defaults for flags that were not given; a family without an address gets the usual one.
    fn complete(&mut self, prefix: Option<u8>) {
        self.addresses.iter().for_each(|own| self.named[usize::from(own.addr.is_v4())] = true);
        for (usual, len, gateway) in USUAL {
            let (Some(usual), Some(gateway)) = (address(usual), address(gateway)) else { continue };
            let named = self.addresses.iter_mut().find(|own| same_family(own.addr, usual));
            let bits = if usual.is_v4() { 32 } else { 128 };
            match named {
                Some(own) => own.prefix = prefix.unwrap_or(len).min(bits),
                None => self.addresses.push(OwnAddr { addr: usual, prefix: len }),
            }
            if !self.gateways.iter().any(|known| same_family(*known, usual)) {
                self.gateways.push(gateway);
            }
        }
    }

    /// Returns true if a flag names the stack's address of this one's family.
    pub(crate) fn names_family(&self, addr: Addr) -> bool {
        self.named[usize::from(addr.is_v4())]
    }

    /// Returns true if this is one of the stack's addresses.
    pub(crate) fn has(&self, addr: Addr) -> bool {
        self.addresses.iter().any(|own| own.addr == addr)
    }

    /// An address that only bind has named.
    pub(crate) fn own(&self, addr: Addr) -> OwnAddr {
        let known = self.addresses.iter().find(|own| same_family(own.addr, addr));
        OwnAddr { addr, prefix: known.map_or(32, |own| own.prefix) }
    }
}

fn number(text: &str, bounds: std::ops::RangeInclusive<usize>) -> Option<usize> {
    text.parse().ok().filter(|number| bounds.contains(number))
}

#[cfg(test)]
mod tests;
