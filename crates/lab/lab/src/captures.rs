//! Captures of an experiment's hosts, one pcapng file a host and run: each packet as it passed the host's port, with
//! what its connection thought as a comment, dated in virtual time.

use base::{Duration, Instant};
use emu::HostId;
use stack::ProbeId;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use trace::Switch;
use wire::pcap::{LinkType, SNAPLEN, ng};

use crate::spec::{Capture, SpecError, Task, told};
use crate::world::World;

/// Virtual time between two looks at the rings, which are as large as that takes: 10,000 packets, beyond 20 Gbit/s.
pub(crate) const PACE: Duration = Duration::from_millis(5);
/// Packets of the usual length that wait for the writer.
const WAITING: usize = 10_000;
/// Bytes before each of them.
const HEADER: usize = 32;

impl Capture {
    /// # Errors
    /// More is to be kept than a file announces, or less than the headers that name a connection.
    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        if (64..=SNAPLEN).contains(&self.keep) {
            Ok(())
        } else {
            Err(SpecError(format!("capture.keep: want 64 to {SNAPLEN} bytes")))
        }
    }
}

/// One file.
struct Kept {
    host: HostId,
    path: PathBuf,
    file: BufWriter<File>,
    capture: trace::Capture,
    switch: Switch,
    probe: ProbeId,
    block: Vec<u8>,
    /// Bytes the file may still take.
    room: u64,
    /// Packets that found none.
    beyond: u64,
}

/// The captures of a run that is under way.
pub(crate) struct Captures(Vec<Kept>);

impl Captures {
    /// Begins what `task` wants: nothing, if its file does not say so or nothing said where.
    ///
    /// # Errors
    /// A file cannot be made.
    pub(crate) fn begin(world: &mut World, task: &Task) -> Result<Captures, SpecError> {
        let mut all = Vec::new();
        let (Some(request), Some(folder)) = (&task.spec.capture, &task.folders.captures) else {
            return Ok(Captures(all));
        };
        std::fs::create_dir_all(folder).map_err(|error| told(folder, &error))?;
        let sides = [0, 1].map(|side| world.taps.iter().map(|pair| pair[side].clone()).collect::<Vec<_>>());
        for ((host, name), switch) in world.named_hosts(task).into_iter().zip(sides.concat()) {
            let path = folder.join(format!("{name}.pcapng"));
            let file = File::create(&path).map_err(|error| told(&path, &error))?;
            let (clock, keep) = (world.net.clock(), request.keep as usize);
            let room = WAITING * (keep.clamp(192, 1536) + HEADER);
            let mut capture = trace::capture(&switch, move || clock.now(), keep, room);
            let probe = Box::new(capture.annotate(LinkType::Ethernet));
            let Some(core) = world.core(host) else { continue };
            let probe = core.attach(probe);
            let mut block = Vec::new();
            trace::write_start(&mut block, std::iter::once((LinkType::Ethernet, name.as_str())));
            let (file, room) = (BufWriter::new(file), request.limit_mb << 20);
            all.push(Kept { host, path, file, capture, switch, probe, block, room, beyond: 0 });
        }
        Ok(Captures(all))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes what there is so far.
    ///
    /// # Errors
    /// A file takes no more.
    pub(crate) fn drain(&mut self) -> Result<(), SpecError> {
        self.0.iter_mut().try_for_each(|kept| kept.drain(trace::Capture::drain))
    }

    /// Writes the rest, and how many packets there were.
    ///
    /// # Errors
    /// As for [`Captures::drain`].
    pub(crate) fn end(self, world: &mut World, now: Instant) -> Result<(), SpecError> {
        for mut kept in self.0 {
            kept.switch.stop();
            if let Some(core) = world.core(kept.host) {
                drop(core.detach(kept.probe));
            }
            kept.drain(trace::Capture::finish)?;
            let stats = kept.capture.stats();
            let (passed, lacking) = (stats.written() + stats.dropped(), stats.dropped() + kept.beyond);
            ng::write_statistics(&mut kept.block, 0, now, passed, lacking);
            let ended = kept.file.write_all(&kept.block).and_then(|()| kept.file.flush());
            ended.map_err(|error| told(&kept.path, &error))?;
        }
        Ok(())
    }
}

impl Kept {
    fn drain(&mut self, how: fn(&mut trace::Capture, u32, &mut Vec<u8>) -> usize) -> Result<(), SpecError> {
        let count = how(&mut self.capture, 0, &mut self.block);
        if self.room == 0 {
            self.beyond += count as u64;
        } else {
            self.room = self.room.saturating_sub(self.block.len() as u64);
            self.file.write_all(&self.block).map_err(|error| told(&self.path, &error))?;
        }
        self.block.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
