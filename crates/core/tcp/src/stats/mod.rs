//! Counters, and the views of a connection that the owner and observers get.

pub(crate) mod account;
pub(crate) mod counters;
mod getters;
pub(crate) mod incident;
pub(crate) mod info;
pub(crate) mod limit;
pub(crate) mod probe;
pub(crate) mod vitals;
