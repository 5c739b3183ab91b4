//! Socket addresses as C lays them out.

use crate::Errno;
use base::Endpoint;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of `struct sockaddr_in` and `struct sockaddr_in6`.
const LEN_V4: usize = 16;
const LEN_V6: usize = 28;

/// Address that a socket address names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// An address and a port.
    At(Endpoint),
    /// AF_UNSPEC.
    Nobody,
}

/// Reads a `struct sockaddr`.
///
/// # Errors
/// EINVAL if it is too short, EAFNOSUPPORT for another family.
pub fn read(bytes: &[u8]) -> Result<Named, Errno> {
    let family = bytes.first_chunk().map(|family| u16::from_ne_bytes(*family)).ok_or(Errno::EINVAL)?;
    let port = || bytes.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
    match i32::from(family) {
        libc::AF_UNSPEC => Ok(Named::Nobody),
        libc::AF_INET if bytes.len() < LEN_V4 => Err(Errno::EINVAL),
        libc::AF_INET => {
            let addr: [u8; 4] = bytes[4..8].try_into().map_err(|_| Errno::EINVAL)?;
            Ok(Named::At(Endpoint::new(Ipv4Addr::from(addr).into(), port())))
        }
        libc::AF_INET6 if bytes.len() < LEN_V6 => Err(Errno::EINVAL),
        libc::AF_INET6 => {
            let addr: [u8; 16] = bytes[8..24].try_into().map_err(|_| Errno::EINVAL)?;
            Ok(Named::At(Endpoint::new(Ipv6Addr::from(addr).into(), port())))
        }
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Writes one: `struct sockaddr_in6` if `v6`, an IPv4 address mapped into it.
pub fn write(endpoint: Endpoint, v6: bool) -> Vec<u8> {
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u16;
    let mut bytes = Vec::with_capacity(LEN_V6);
    bytes.extend(family.to_ne_bytes());
    bytes.extend(endpoint.port.to_be_bytes());
    if v6 {
        bytes.extend([0; 4]);
        // IPv4 in its mapped form.
        bytes.extend(endpoint.addr.bytes());
        bytes.extend([0; 4]);
    } else {
        bytes.extend(endpoint.addr.v4_bytes().unwrap_or_default());
        bytes.extend([0; 8]);
    }
    bytes
}

#[cfg(test)]
mod tests;
