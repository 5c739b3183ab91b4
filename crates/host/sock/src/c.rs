//! Names of options from libc, and those of Linux's headers that it lacks.

pub(crate) use libc::*;
pub(crate) const IPV6_RECVORIGDSTADDR: i32 = 74;
pub(crate) const TCP_AO_ADD_KEY: i32 = 38;
pub(crate) const TCP_AO_DEL_KEY: i32 = 39;
pub(crate) const TCP_AO_INFO: i32 = 40;
pub(crate) const TCP_AO_GET_KEYS: i32 = 41;
pub(crate) const TCP_RTO_MIN_US: i32 = 45;
pub(crate) const TCP_DELACK_MAX_US: i32 = 46;
/// FreeBSD's; Linux has nothing of that number.
pub(crate) const TCP_CCALGOOPT: i32 = 65;
