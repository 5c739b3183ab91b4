//! A connection against hand-made segments and against another one over a bad link, all in virtual time. Each
//! file opens with its goal; failures of seeded runs name their seed.

mod accecn;
mod account;
mod app;
mod charge;
mod closing;
mod data;
mod delivery;
mod downloads;
mod ecn;
mod fast_open;
mod frto;
mod handshake;
mod host;
mod icmp;
mod marks;
mod memory;
mod mtu_search;
mod net;
mod pacing;
mod police;
mod rack;
mod reassembly;
mod recovery;
mod rfc5961;
mod rig;
mod timers;
mod transfer;
mod windows;
