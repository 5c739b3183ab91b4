//! Tests with a kernel: a veth pair between two namespaces, our port on one end, an ordinary host on the
//! other. Skipped, and saying so, where the machine does not permit it.

mod host;
mod life;
mod mtu;
mod program;
mod queues;
mod reattach;
mod sharing;
mod slots;
mod supers;
mod traffic;
