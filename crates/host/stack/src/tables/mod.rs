//! The tables of a core: connections, flows, ports, hosts and timers. None of them sends anything.

pub(crate) mod conns;
pub(crate) mod flow_cache;
pub(crate) mod flows;
pub(crate) mod handshake_cache;
pub(crate) mod host_cache;
pub(crate) mod listeners;
pub(crate) mod ports;
pub(crate) mod rate_limit;
pub(crate) mod time_waits;
pub(crate) mod timer_wheel;
