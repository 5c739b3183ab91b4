//! Captures of an experiment's hosts, one pcapng file a host and run: each packet as it passed the host's port, with
//! what its connection thought as a comment, dated in virtual time.

use base::{Duration, Instant};
use emu::HostId;
use serde::Deserialize;
use stack::ProbeId;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use trace::Switch;
use wire::pcap::{LinkType, SNAPLEN, ng};

use crate::build::World;
use crate::records::{core, named_hosts, told};
use crate::spec::{SpecError, Task};

/// Virtual time between two looks at the rings, which are as large as that takes: 10,000 packets, beyond 20 Gbit/s.
pub(crate) const PACE: Duration = Duration::from_millis(5);
/// Packets of the usual length that wait for the writer.
const WAITING: usize = 10_000;
/// Bytes before each of them.
const HEADER: usize = 32;

/// The key `capture`: every host keeps one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capture {
    /// Bytes kept of each packet.
    pub keep: u32,
    /// MiB a file may take; packets beyond them are counted at its end.
    pub limit_mb: u64,
}

impl Default for Capture {
    /// All headers there can be.
    fn default() -> Capture {
        Capture { keep: 192, limit_mb: 256 }
    }
}

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
        for ((host, name), switch) in named_hosts(world, task).into_iter().zip(sides.concat()) {
            let path = folder.join(format!("{name}.pcapng"));
            let file = File::create(&path).map_err(|error| told(&path, &error))?;
            let (clock, keep) = (world.net.clock(), request.keep as usize);
            let room = WAITING * (keep.clamp(192, 1536) + HEADER);
            let mut capture = trace::capture(&switch, move || clock.now(), keep, room);
            let probe = Box::new(capture.annotate(LinkType::Ethernet));
            let Some(core) = core(world, host) else { continue };
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
            if let Some(core) = core(world, kept.host) {
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
mod tests {
    //! Goal: an experiment with the key leaves a capture of each host and run, the same bytes each time, which says of
    //! each packet when it passed and what its connection thought, and which others can read.
    use super::*;
    use crate::testing::Folder;
    use crate::{Experiment, run};
    use pio::{PacketIo, PcapConfig, RxBatch, open_pcap};
    use std::collections::BTreeMap;
    use std::process::Command;

    const TEXT: &str = r#"
        title = "Captured"
        seconds = 2
        seeds = 1
        [capture]
        keep = 128
        [path]
        rtt_ms = 20
        down_kbit = 5000
        queue = "slots 20"
        [[flow]]
        cc = "cubic"
        [vary]
        "flow.cc" = ["newreno", "cubic"]
    "#;

    /// Runs the first combination of `text`; what lies in its folder afterwards.
    fn captured(name: &str, text: &str) -> (Folder, BTreeMap<String, Vec<u8>>) {
        let folder = Folder::new(name);
        let mut task = Experiment::parse("captured", text).unwrap().tasks(None).unwrap().swap_remove(0);
        let silent = run(&task).unwrap();
        task.folders.captures = Some(folder.to_path_buf());
        assert_eq!(run(&task).unwrap(), silent, "a capture changes nothing");
        let files = std::fs::read_dir(&*folder).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        });
        let files = files.collect();
        (folder, files)
    }

    /// The blocks of a file: kind and body.
    fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
        let word = |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        let mut all = Vec::new();
        while !file.is_empty() {
            let (block, rest) = file.split_at(word(file, 4) as usize);
            all.push((word(block, 0), &block[8..block.len() - 4]));
            file = rest;
        }
        all
    }

    /// When a packet passed, and what is said of it.
    fn packet(body: &[u8]) -> (Instant, String) {
        let word = |at: usize| u32::from_le_bytes(*body[at..].first_chunk().unwrap());
        let (mut at, mut comment) = (20 + word(12).next_multiple_of(4) as usize, String::new());
        while word(at) != 0 {
            let (code, len) = (word(at) & 0xffff, (word(at) >> 16) as usize);
            if code == 1 {
                comment = String::from_utf8(body[at + 4..at + 4 + len].to_vec()).unwrap();
            }
            at += 4 + len.next_multiple_of(4);
        }
        (Instant::from_nanos(u64::from(word(4)) << 32 | u64::from(word(8))), comment)
    }

    /// (passed, lacking), as the last block says.
    fn statistics(file: &[u8]) -> (u64, u64) {
        let blocks = blocks(file);
        let (kind, body) = blocks.last().unwrap();
        assert_eq!(*kind, 5);
        let long = |at: usize| u64::from_le_bytes(*body[at..].first_chunk().unwrap());
        (long(16), long(28))
    }

    #[test]
    fn one_capture_for_each_host_the_same_each_time() {
        let (folder, files) = captured("capture", TEXT);
        let (again, same) = captured("again", TEXT);
        assert_eq!(files, same);
        drop(again);
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        let of = |side: &str| format!("flow.cc-newreno-seed-1-{side}-1.pcapng");
        assert_eq!(names, [of("receiver"), of("sender")]);
        let sent = &files[&of("sender")];
        let (passed, lacking) = statistics(sent);
        let packets: Vec<_> =
            blocks(sent).iter().filter(|(kind, _)| *kind == 6).map(|(_, body)| packet(body)).collect();
        assert!(passed == packets.len() as u64 && passed > 1_000 && lacking == 0, "{passed} {lacking}");
        assert!(
            packets.is_sorted_by_key(|(at, _)| *at)
                && packets.last().unwrap().0 > Instant::from_millis(1_990)
        );
        // ARP has no state.
        let silent = packets.iter().filter(|(_, comment)| comment.is_empty()).count();
        assert!(silent <= 4, "{silent}");
        let first = packets.iter().find(|(_, comment)| !comment.is_empty()).unwrap();
        assert!(first.1.starts_with("state=SYN-SENT cwnd="), "{first:?}");
        assert!(packets.iter().any(|(_, comment)| comment.contains(" repair=fast ")));
        assert!(packets.iter().all(|(_, comment)| comment.is_empty() || comment.ends_with(" cc=newreno")));
        for name in names {
            reads(&folder.join(name), statistics(&files[name]).0);
        }
    }

    /// The port that plays captures knows every packet, and so does tshark, if it is there.
    fn reads(path: &std::path::Path, packets: u64) {
        let config = PcapConfig { speed: 0.0, ..PcapConfig::new(path) };
        let mut port = open_pcap(&config).unwrap();
        let (mut batch, mut played) = (RxBatch::new(), 0);
        while port.rx(&mut batch).is_ok() {
            played += batch.len() as u64;
            batch.drain(..).for_each(|packet| port.retire(packet.frame));
        }
        // It plays those that are whole.
        let cut = port.stats().into_iter().find(|(name, _)| *name == "rx_truncated").unwrap().1;
        assert!(played > 0 && cut + played == packets, "{}", path.display());
        let tshark =
            Command::new("tshark").arg("-r").arg(path).args(["-T", "fields", "-e", "frame.comment"]).output();
        let Ok(told) = tshark else { return };
        let said = String::from_utf8(told.stdout).unwrap();
        assert_eq!(said.lines().count() as u64, packets, "{}", String::from_utf8_lossy(&told.stderr));
        assert!(said.lines().filter(|line| line.contains("state=")).count() as u64 + 4 >= packets);
    }

    #[test]
    fn a_file_that_is_full_counts_what_it_lacks() {
        let text = TEXT.replace("keep = 128", "keep = 1500\nlimit_mb = 1");
        let (_folder, files) = captured("full", &text);
        for file in files.values() {
            let (passed, lacking) = statistics(file);
            let there = blocks(file).iter().filter(|(kind, _)| *kind == 6).count() as u64;
            assert!(lacking > 0 || file.len() < 1 << 20, "{} bytes, {lacking} lacking", file.len());
            assert_eq!(passed, there + lacking);
        }
        assert!(files.values().any(|file| statistics(file).1 > 0));
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        for wrong in ["keep = 63", "keep = 300000"] {
            let error = Experiment::parse("bad", &TEXT.replace("keep = 128", wrong)).unwrap_err();
            assert!(error.0.contains("capture.keep"), "{error}");
        }
    }
}
