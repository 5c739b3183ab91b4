//! Goal: who looks sees what happened: a black box tells the story of each loss and each death, and a capture's
//! comments say what the connection thought at each of its packets.

use crate::harness::{Family, PORT, Pair, Setup, core_config};
use crate::peer::{Peer, Plan};
use base::{Duration, Endpoint, Instant};
use emu::{CoreHost, Network, PipeConfig, PortConfig};
use stack::Core;
use trace::blackbox::{BlackBox, Files, Ring, Size};
use wire::pcap::LinkType;

fn path() -> PipeConfig {
    PipeConfig { delay: Duration::from_millis(10), ..PipeConfig::default() }
}

fn record(pair: &mut Pair, files: Option<Files>) {
    let size = Size { records: 4_096, connections: 16 };
    let make = || BlackBox::new(size);
    let box_ = match files {
        Some(files) => make().on_error(files),
        None => make(),
    };
    pair.net.host_mut(pair.client).core.attach(Box::new(box_));
}

/// Returns the black box's text about the client's only connection.
fn story(pair: &mut Pair) -> String {
    let core = &mut pair.net.host_mut(pair.client).core;
    let (_, box_) = core.probe::<BlackBox>().expect("it was attached");
    box_.rings(None).map(Ring::to_string).collect()
}

/// The lines of a story that say one of these things, one after the other.
fn in_order(story: &str, wanted: &[&str]) {
    let mut lines = story.lines();
    for want in wanted {
        assert!(lines.any(|line| line.contains(want)), "no {want:?} where it should be in\n{story}");
    }
}

#[test]
fn the_story_of_a_lost_segment() {
    // The twentieth packet of the client is one of a window of data.
    let there = PipeConfig { discard: "20".parse().unwrap(), ..path() };
    let mut pair = Setup { there, ..Setup::new(7, Family::V4, path()) }.build();
    record(&mut pair, None);
    let (client, server) = Plan::both(200_000, 0);
    pair.serve(server);
    pair.connect(client);
    pair.finish(Duration::from_secs(130));
    pair.assert_clean();
    let story = story(&mut pair);
    in_order(
        &story,
        &[
            "0.000000 out  [S] seq 0 win",
            "0.020000 in   [S.] seq 0 ack 1 ",
            "SYN-SENT -> ESTABLISHED",
            "cwnd",
            "recovery begins",
            "congestion: loss",
            "ssthresh",
            "  again",
            "recovery ends",
            "CLOSE-WAIT -> LAST-ACK",
            "LAST-ACK -> CLOSED",
        ],
    );
    assert_eq!(story.matches("recovery begins").count(), 1, "{story}");
    assert_eq!(story.matches("  again").count(), 1, "{story}");
    assert!(!story.contains("timeout"), "{story}");
}

#[test]
fn the_story_of_a_death_is_on_disk() {
    let directory = std::env::temp_dir().join(format!("millstream-looking-{}", std::process::id()));
    let files = Files::in_directory(&directory).unwrap();
    let mut pair = Setup::new(8, Family::V6, path()).build();
    record(&mut pair, Some(files.clone()));
    let (client, server) = Plan::both(1 << 40, 0);
    pair.serve(server);
    pair.connect(client);
    pair.net.run_until(Instant::from_millis(100));
    for pipe in [pair.there, pair.back] {
        pair.net.pipe_mut(pipe).set_config(PipeConfig { down: true, ..path() });
    }
    pair.net.run_until(Instant::from_secs(3_600));
    let story = story(&mut pair);
    in_order(
        &story,
        &[
            // Where the link is gone, the neighbour is too.
            ": host unreachable, ",
            "SYN-SENT -> ESTABLISHED",
            "timer: tail-probe",
            "timer: retransmission",
            "retransmission timeout 1",
            "congestion: timeout 1",
            "  again",
            "retransmission timeout 2",
            "retransmission timeout 15",
            "failed: host unreachable",
            "-> CLOSED",
        ],
    );
    while files.counts() == (0, 0) {
        std::thread::yield_now();
    }
    assert_eq!(files.counts(), (1, 0));
    let found = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(found.path()).unwrap(), story);
    std::fs::remove_dir_all(directory).unwrap();
}

/// The comments of the packets of a pcapng file, with their directions: (outbound, comment).
fn comments(mut file: &[u8]) -> Vec<(bool, String)> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let mut all = Vec::new();
    while !file.is_empty() {
        let (block, rest) = file.split_at(word(file, 4) as usize);
        file = rest;
        if word(block, 0) != 6 {
            continue;
        }
        let (mut at, end) = (28 + word(block, 20).next_multiple_of(4) as usize, block.len() - 4);
        let (mut outbound, mut comment) = (false, String::new());
        while at < end && word(block, at) != 0 {
            let (code, len) = (word(block, at) & 0xffff, (word(block, at) >> 16) as usize);
            let value = &block[at + 4..at + 4 + len];
            match code {
                1 => comment = String::from_utf8(value.to_vec()).unwrap(),
                2 => outbound = value[0] == 2,
                _ => {}
            }
            at += 4 + len.next_multiple_of(4);
        }
        all.push((outbound, comment));
    }
    all
}

fn number(comment: &str, key: &str) -> u64 {
    let found = comment.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    found.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {key} in {comment:?}"))
}

#[test]
fn comments_of_a_capture_follow_the_connection() {
    let (seed, family) = (9, Family::V4);
    let mut net = Network::new(seed);
    let (a, b) = (net.port(&PortConfig::default()), net.port(&PortConfig::default()));
    let (pa, pb) = (a.id(), b.id());
    let (port, switch) = trace::tapped(Box::new(a));
    let mut core = Core::new(core_config(seed, family, 1), port);
    let mut capture = trace::capture(&switch, || Instant::ZERO, 65_536, 8 << 20);
    let probe = core.attach(Box::new(capture.annotate(LinkType::Ethernet)));
    let client = net.add_host(CoreHost::new(core, Peer::new(seed)), &[pa]);
    let other = Core::new(core_config(seed, family, 2), Box::new(b));
    let server = net.add_host(CoreHost::new(other, Peer::new(!seed)), &[pb]);
    let there = PipeConfig { discard: "20".parse().unwrap(), ..path() };
    net.link(pa, pb, &there, &path());
    let remote = Endpoint::new(family.addr(2), PORT);
    let (up, down) = Plan::both(200_000, 0);
    let host = net.host_mut(server);
    host.app.listen(&mut host.core, Instant::ZERO, remote, down);
    let host = net.host_mut(client);
    host.app.connect(&mut host.core, Instant::ZERO, remote, up).expect("a connection");
    let mut file = Vec::new();
    let mut taken = 0;
    // Drained in the middle of things, as a writer does.
    for ms in 1..2_000 {
        net.run_until(Instant::from_millis(ms));
        taken += capture.drain(0, &mut file);
    }
    taken += capture.finish(0, &mut file);
    assert_eq!((taken as u64, capture.stats().dropped()), (capture.stats().written(), 0));
    assert!(net.host_mut(client).core.detach(probe).is_some());

    let all = comments(&file);
    let said: Vec<_> = all.iter().filter(|(_, comment)| !comment.is_empty()).collect();
    // ARP, and what TIME-WAIT answered, belong to no connection.
    assert!(all.len() - said.len() <= 4, "{} of {} without a comment", all.len() - said.len(), all.len());
    assert!(said.len() > 150, "{}", said.len());
    let (syn, greeting, answer) = (said[0], said[1], said[2]);
    assert!(syn.0 && syn.1.starts_with("state=SYN-SENT cwnd=") && syn.1.contains("ssthresh=- srtt_us=0 "));
    // Before it was processed, and after what it brought about.
    assert!(!greeting.0 && greeting.1.starts_with("state=SYN-SENT "), "{greeting:?}");
    assert!(answer.0 && answer.1.starts_with("state=ESTABLISHED "), "{answer:?}");
    assert_eq!(number(&answer.1, "srtt_us"), 20_000);
    assert!(said.iter().any(|(_, comment)| comment.contains(" repair=fast ")));
    let widest = said.iter().map(|(_, comment)| number(comment, "cwnd")).max();
    assert!(widest > Some(number(&answer.1, "cwnd")));
    // What leaves is in flight afterwards.
    assert!(said.iter().any(|(outbound, comment)| *outbound && number(comment, "in_flight") > 10_000));
}
