//! One run again, with every packet on film.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

use emu::{PipeId, Sight};
use wire::pcap::LinkType;
use wire::pcap::ng::{self, Packet};

use crate::run::{Outcome, run_watched};
use crate::spec::{SpecError, Task};

/// Bytes kept of each packet: all headers there can be.
const KEPT: usize = 192;

/// A pcapng file in which each pipe of the network is an interface: packets as they come to it, those it drops with a
/// comment that says why.
pub struct Film<W> {
    into: W,
    interfaces: HashMap<PipeId, u32>,
    block: Vec<u8>,
    packets: u64,
    /// Packets that found no room.
    missed: u64,
    /// Bytes left.
    room: u64,
    error: Option<io::Error>,
}

impl<W: Write> Film<W> {
    /// A film that is written to `into`, at most about `bytes` of it.
    pub fn new(into: W, bytes: u64) -> Film<W> {
        let mut film = Film {
            into,
            interfaces: HashMap::new(),
            block: Vec::new(),
            packets: 0,
            missed: 0,
            room: bytes,
            error: None,
        };
        ng::write_section(&mut film.block, concat!("millstream ", env!("CARGO_PKG_VERSION")));
        film
    }

    fn see(&mut self, sight: &Sight<'_>) {
        if self.room == 0 || self.error.is_some() {
            self.missed += 1;
            return;
        }
        let next = self.interfaces.len() as u32;
        let interface = *self.interfaces.entry(sight.pipe).or_insert(next);
        if interface == next {
            ng::write_interface(&mut self.block, LinkType::Ethernet, &format!("pipe {}", sight.pipe.0));
        }
        let comment = sight.fate.err().map(|reason| format!("dropped: {reason:?}"));
        ng::write_packet(
            &mut self.block,
            &Packet {
                interface,
                at: sight.at,
                original_len: sight.packet.len() as u32,
                data: &sight.packet[..sight.packet.len().min(KEPT)],
                direction: None,
                comment: comment.as_deref().unwrap_or(""),
            },
        );
        self.packets += 1;
        self.flush();
    }

    fn flush(&mut self) {
        self.room = self.room.saturating_sub(self.block.len() as u64);
        if let Err(error) = self.into.write_all(&self.block) {
            self.error = Some(error);
        }
        self.block.clear();
    }
}

/// Runs `task` and films it: what it brought, packets filmed and packets that found no room. The film changes nothing
/// in the run.
///
/// # Errors
/// The task's text is wrong; the film cannot be written.
pub fn replay<W: Write + 'static>(task: &Task, film: Film<W>) -> Result<(Outcome, u64, u64), SpecError> {
    let film = Rc::new(RefCell::new(film));
    let camera = film.clone();
    let outcome = run_watched(task, move |sight| camera.borrow_mut().see(sight))?;
    let mut film = film.borrow_mut();
    film.flush();
    let ended = film.error.take().map_or_else(|| film.into.flush(), Err);
    ended.map_err(|error| SpecError(format!("the film: {error}")))?;
    Ok((outcome, film.packets, film.missed))
}
