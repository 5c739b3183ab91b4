//! Addresses: Python's tuples of host and port.

use base::{Addr, Endpoint};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sock::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The family's number.
pub(crate) fn number(family: Family) -> i32 {
    match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    }
}

/// Resolves `(host, port)`, or `(host, port, flowinfo, scope_id)` for IPv6. A host that is no address is looked up,
/// with the errors that Python's sockets have for one that is not found.
pub(crate) fn endpoint(py: Python<'_>, family: Family, address: &Bound<'_, PyAny>) -> PyResult<Endpoint> {
    let tuple = address.cast::<PyTuple>().ok();
    let tuple =
        tuple.filter(|tuple| tuple.len() == 2 || family == Family::V6 && (2..=4).contains(&tuple.len()));
    let Some(tuple) = tuple else {
        return Err(PyTypeError::new_err("an address is a tuple (host, port)"));
    };
    let host: String = tuple.get_item(0)?.extract()?;
    let port: i64 = tuple.get_item(1)?.extract()?;
    let port = u16::try_from(port).map_err(|_| PyOverflowError::new_err("port must be 0-65535."))?;
    Ok(Endpoint::new(addr(py, family, &host)?, port))
}

fn addr(py: Python<'_>, family: Family, host: &str) -> PyResult<Addr> {
    let literal = match (family, host) {
        (Family::V4, "") => Some(IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        (Family::V6, "") => Some(IpAddr::from(Ipv6Addr::UNSPECIFIED)),
        (Family::V4, host) => host.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        (Family::V6, host) => host.parse::<Ipv6Addr>().ok().map(IpAddr::from),
    };
    match literal {
        Some(literal) => Ok(literal.into()),
        None => looked_up(py, family, host).map(Addr::from),
    }
}

fn looked_up(py: Python<'_>, family: Family, host: &str) -> PyResult<IpAddr> {
    let wanted = (host, py.None(), number(family), libc::SOCK_STREAM);
    let found = py.import("socket")?.call_method1("getaddrinfo", wanted)?;
    let name: String = found.get_item(0)?.get_item(4)?.get_item(0)?.extract()?;
    let plain = name.split('%').next().unwrap_or(&name);
    plain
        .parse()
        .map_err(|_| PyTypeError::new_err(format!("{host} is found at {name}, which is no IP address")))
}

/// The tuple: two parts for an IPv4 socket, four for an IPv6 one.
pub(crate) fn tuple<'py>(
    py: Python<'py>,
    family: Family,
    endpoint: Endpoint,
) -> PyResult<Bound<'py, PyTuple>> {
    match (family, endpoint.addr.v4_bytes()) {
        (Family::V4, Some(bytes)) => (Ipv4Addr::from(bytes).to_string(), endpoint.port).into_pyobject(py),
        // IPv4 in its mapped form.
        _ => (Ipv6Addr::from(endpoint.addr.bytes()).to_string(), endpoint.port, 0, 0).into_pyobject(py),
    }
}
