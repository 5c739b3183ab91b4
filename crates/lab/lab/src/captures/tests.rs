//! Goal: an experiment with the key leaves a capture of each host and run, the same bytes each time, which says of
//! each packet when it passed and what its connection thought, and which others can read.
use super::*;
use crate::tests::testing::Folder;
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
        packets.is_sorted_by_key(|(at, _)| *at) && packets.last().unwrap().0 > Instant::from_millis(1_990)
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
