//! What is counted, and what the owner and observers see.

pub(crate) mod account;
pub(crate) mod counters;
mod getters;
pub(crate) mod incident;
pub(crate) mod info;
pub(crate) mod limit;
pub(crate) mod probe;
pub(crate) mod vitals;
