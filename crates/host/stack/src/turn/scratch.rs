//! Buffers of a turn.

use pio::NetEvent;

use crate::rx::{Offload, Rx};

/// Buffers of a turn, kept from turn to turn to avoid allocation. On cache lines of its own, as a core.
#[repr(align(128))]
pub(crate) struct Scratch {
    pub(crate) rx: Rx,
    pub(super) due: Vec<u32>,
    pub(super) events: Vec<NetEvent>,
}

impl Scratch {
    pub(crate) fn new(offload: Offload, batches: u8) -> Box<Scratch> {
        Box::new(Scratch { rx: Rx::new(offload, batches), due: Vec::new(), events: Vec::new() })
    }
}
