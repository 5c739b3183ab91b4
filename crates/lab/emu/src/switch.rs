//! A switch: forwards by learned addresses, floods what it does not know.

use crate::network::PipeId;
use std::collections::HashMap;
use wire::ethernet::{self, Mac, is_group};

/// Most addresses a switch learns; beyond, it floods.
const ADDRESSES_MAX: usize = 65_536;

#[derive(Default)]
pub(crate) struct Switch {
    /// The pipe out of each of its ports.
    out: Vec<PipeId>,
    learned: HashMap<Mac, usize>,
}

impl Switch {
    /// A new port with the pipe that leads out of it; its number.
    pub(crate) fn add(&mut self, out: PipeId) -> usize {
        self.out.push(out);
        self.out.len() - 1
    }

    /// How many ports it has.
    pub(crate) fn ports(&self) -> usize {
        self.out.len()
    }

    /// Where a frame from port `from` goes: appended to `to`.
    pub(crate) fn forward(&mut self, from: usize, frame: &[u8], to: &mut Vec<PipeId>) {
        let Ok((link, _)) = ethernet::parse(frame) else { return };
        if !is_group(&link.src)
            && (self.learned.len() < ADDRESSES_MAX || self.learned.contains_key(&link.src))
        {
            self.learned.insert(link.src, from);
        }
        match self.learned.get(&link.dst) {
            Some(port) if *port == from => {}
            Some(port) => to.push(self.out[*port]),
            None => {
                to.extend(self.out.iter().enumerate().filter(|(port, _)| *port != from).map(|(_, out)| *out))
            }
        }
    }
}
