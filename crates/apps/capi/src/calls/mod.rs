//! The functions of `millstream.h`, in its order.

#[macro_use]
mod api;
pub mod about;
pub mod data;
pub mod descriptors;
pub mod messages;
pub mod open;
pub mod options;
pub mod policies;
pub mod polling;
pub mod sockets;
pub mod zero_copy;
