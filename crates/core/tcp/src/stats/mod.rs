//! Counters, and the views of a connection that the owner and observers get.

mod account;
pub(crate) mod counters;
pub(crate) mod counts;
mod getters;
pub(crate) mod incident;
pub(crate) mod info;
mod limit;
pub(crate) mod limited;
pub(crate) mod probe;
pub(crate) mod vitals;

crate::bits::writer!(WINDOW_STARVED, BUFFER_STARVED, SHUT);
