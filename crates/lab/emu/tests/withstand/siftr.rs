//! Goal: SIFTR's log of a whole conversation over a bad path: every packet is a line or is counted as skipped, the same
//! run gives the same bytes, and TEACUP's analysis, as far as its rules are known, reads what is true.

use crate::harness::{Family, Pair, Setup};
use crate::peer::Plan;
use base::{Duration, Instant, Rate};
use emu::{PipeConfig, Queue};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex};
use trace::siftr::{Log, LogConfig, Profile, Summary};

/// A file in memory.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One host's log, and what there is to compare it with.
struct Logged {
    text: String,
    summary: Summary,
    /// Segments in and out as the core counted them.
    segments: [u64; 2],
}

impl Logged {
    fn rows(&self) -> Vec<Vec<&str>> {
        let lines: Vec<&str> = self.text.lines().collect();
        lines[1..lines.len() - 1].iter().map(|line| line.split(',').collect()).collect()
    }

    fn of_direction(&self, direction: &str) -> u64 {
        self.rows().iter().filter(|row| row[0] == direction).count() as u64
    }
}

fn path(bad: bool) -> PipeConfig {
    let ill = |chance: f64| if bad { chance } else { 0.0 };
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(20_000_000)),
        delay: Duration::from_millis(10),
        queue: Queue::Strict(64 << 10),
        loss: ill(0.02),
        reorder: ill(0.02),
        reorder_by: Duration::from_millis(6),
        spares_neighbours: true,
        ..PipeConfig::default()
    }
}

/// A conversation of which both hosts keep a log: the client's and the server's.
fn logged(seed: u64, family: Family, bad: bool, config: &LogConfig) -> [Logged; 2] {
    let mut pair: Pair = Setup::new(seed, family, path(bad)).build();
    let (client, server) = Plan::both(1 << 20, 64 << 10);
    let hosts = [pair.client, pair.server];
    let now = pair.net.now();
    let logs = hosts.map(|host| {
        let file = File::default();
        let config = LogConfig { threaded: false, seed, ..config.clone() };
        let (log, hooks) = Log::begin(&config, Box::new(file.clone()), now).unwrap();
        let core = &mut pair.net.host_mut(host).core;
        let probes: Vec<_> = hooks.into_iter().map(|hook| core.attach(Box::new(hook))).collect();
        (file, log, probes)
    });
    pair.serve(server);
    pair.connect(client);
    pair.finish(Duration::from_secs(60));
    // What comes behind the last FIN belongs to it too.
    pair.net.run_until(pair.net.now() + Duration::from_secs(5));
    let end: Instant = pair.net.now();
    let mut logs = logs.into_iter();
    hosts.map(|host| {
        let (file, log, probes) = logs.next().unwrap();
        let core = &mut pair.net.host_mut(host).core;
        let counters = core.tcp_counters();
        let segments = [counters.segments_in, counters.segments_out];
        probes.into_iter().for_each(|probe| drop(core.detach(probe).unwrap()));
        let summary = log.end(end).unwrap();
        Logged {
            text: String::from_utf8(std::mem::take(&mut file.0.lock().unwrap())).unwrap(),
            summary,
            segments,
        }
    })
}

#[test]
fn every_packet_is_a_line_or_is_counted() {
    for seed in 1..4 {
        for &profile in Profile::ALL {
            let config = LogConfig { profile, ..LogConfig::default() };
            for log in logged(seed, Family::of(seed), true, &config) {
                let Summary { packets, skipped, flows } = &log.summary;
                let rows = log.rows();
                assert_eq!(rows.len() as u64, packets.iter().sum::<u64>() - skipped.total(), "seed {seed}");
                assert!(rows.iter().all(|row| row.len() == profile.columns()));
                assert_eq!((skipped.malloc, flows.len()), ([0, 0], 1));
                if profile != Profile::V1_3 {
                    // Independent of the hook: what the core counted.
                    assert_eq!([log.of_direction("i"), log.of_direction("o")], log.segments, "seed {seed}");
                } else {
                    assert!(skipped.tcpcb.iter().sum::<u64>() >= 2, "the handshake is left out");
                }
                let last = log.text.lines().last().unwrap();
                assert!(last.contains(&format!("\ttotal_tcp_pkts={}\t", packets.iter().sum::<u64>())));
                assert!(last.contains(&format!("\ttotal_skipped_tcp_pkts={}\t", skipped.total())));
            }
        }
    }
}

#[test]
fn what_finds_no_room_is_counted() {
    for config in
        [LogConfig { room: 2_048, ..LogConfig::default() }, LogConfig { flows: 0, ..LogConfig::default() }]
    {
        for log in logged(5, Family::V4, true, &config) {
            let Summary { packets, skipped, .. } = &log.summary;
            assert!(skipped.malloc.iter().sum::<u64>() > 100, "{skipped:?}");
            assert_eq!(log.rows().len() as u64, packets.iter().sum::<u64>() - skipped.total());
        }
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let config = LogConfig { genhashes: true, ..LogConfig::default() };
    let [a, b] = [(); 2].map(|()| logged(7, Family::V6, true, &config).map(|log| log.text));
    assert!(a == b);
}

/// The first packet of a flow is logged, and then every n-th, both directions together.
#[test]
fn one_packet_in_ten() {
    let all = logged(8, Family::V4, true, &LogConfig::default());
    let some = logged(8, Family::V4, true, &LogConfig { ppl: 10, ..LogConfig::default() });
    for (all, some) in all.iter().zip(&some) {
        let (all, some) = (all.rows(), some.rows());
        assert!(
            all.len() > 100 && all.iter().step_by(10).eq(some.iter()),
            "{} and {}",
            all.len(),
            some.len()
        );
    }
}

#[test]
fn one_port_of_many() {
    for (port, logs) in [(crate::harness::PORT, true), (1, false)] {
        for profile in [Profile::V1_2, Profile::V1_3] {
            let config = LogConfig { port_filter: port, profile, ..LogConfig::default() };
            for log in logged(9, Family::V4, false, &config) {
                assert_eq!(log.rows().is_empty(), !logs);
                // The new version does not count what it filters.
                let counted = log.summary.packets != [0, 0];
                assert_eq!(counted, logs || profile == Profile::V1_2);
            }
        }
    }
}

/// A packet is found again in the other host's log, if it arrived, by its hash.
#[test]
fn packets_are_found_again_by_their_hashes() {
    let config = LogConfig { genhashes: true, ..LogConfig::default() };
    let [client, server] = logged(10, Family::V4, false, &config);
    let hashes = |log: &Logged, direction: &str| -> Vec<String> {
        let rows = log.rows();
        rows.iter().filter(|row| row[0] == direction).map(|row| row[1].to_string()).collect()
    };
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (left, came) = (hashes(from, "o"), hashes(to, "i"));
        let left_set: BTreeSet<&String> = left.iter().collect();
        assert!(left.len() > 50 && left_set.len() + 2 > left.len(), "packets are told apart");
        assert!(came.iter().all(|hash| left_set.contains(hash)));
        assert!(hashes(from, "o").iter().all(|hash| hash.len() == 10 && hash != "0x00000000"));
    }
}

/// Line as TEACUP's rules read it: time, the window, and the round-trip time, smoothed and not, in
/// milliseconds.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: f64,
    cwnd: u64,
    srtt: f64,
    rtt: f64,
}

/// Rows by the flow that they are of.
type Flows = BTreeMap<[String; 4], Vec<Row>>;

/// The rules, as far as they are known: the last line says that logging was disabled; tokens four and five of the first
/// say what the unit of round-trip times is; the second line has 27 columns at least; lines of packets that go out
/// count; a flow is columns four to seven; its first two windows mean nothing; and the last line of data is left alone.
fn teacup(text: &str) -> Result<Flows, &'static str> {
    let lines: Vec<&str> = text.lines().collect();
    let [first, data @ .., last] = &lines[..] else { return Err("too short") };
    if !last.contains("disable_time_secs") {
        return Err("not over");
    }
    if data.first().is_none_or(|line| line.split(',').count() < 27) {
        return Err("not the patched version");
    }
    let token = |nth: usize, key: &str| -> Option<f64> {
        first.split_whitespace().nth(nth)?.strip_prefix(key)?.strip_prefix('=')?.parse().ok()
    };
    let (hz, scale) = token(3, "hz").zip(token(4, "tcp_rtt_scale")).ok_or("no units")?;
    let mut flows = Flows::new();
    for line in &data[..data.len() - 1] {
        let columns: Vec<&str> = line.split(',').collect();
        if columns[0] != "o" {
            continue;
        }
        let number = |nth: usize| columns[nth - 1].parse::<f64>().map_err(|_| "not a number");
        let millis = |value: f64| value * 1000.0 / (hz * scale);
        let flow: [String; 4] = std::array::from_fn(|nth| columns[3 + nth].to_string());
        let (srtt, rtt) = (millis(number(17)?), millis(number(27)?));
        let row = Row { at: number(3)?, cwnd: number(9)? as u64, srtt, rtt };
        flows.entry(flow).or_default().push(row);
    }
    flows.values_mut().for_each(|rows| drop(rows.drain(..rows.len().min(2))));
    Ok(flows)
}

#[test]
fn teacup_reads_what_is_true() {
    let [client, server] = logged(11, Family::V4, true, &LogConfig::default());
    let read = teacup(&client.text).unwrap();
    assert_eq!(read.len(), 1);
    let (flow, rows) = read.first_key_value().unwrap();
    assert_eq!((&flow[0][..], &flow[2][..], &flow[3][..]), ("10.0.0.1", "10.0.0.2", "7000"));
    assert!(rows.len() > 500 && rows.is_sorted_by(|a, b| a.at <= b.at));
    assert!(rows.iter().all(|row| (1_448..4 << 20).contains(&row.cwnd)), "windows");
    // The path takes 20 ms, and a full queue of 64 KiB at 20 Mbit/s another 26 each way; a repair measures longer.
    let measured: Vec<_> = rows.iter().filter(|row| row.rtt > 0.0).collect();
    assert!(measured.len() > 500 && measured.iter().all(|row| (20.0..400.0).contains(&row.rtt)));
    assert!(measured.iter().all(|row| (20.0..400.0).contains(&row.srtt)));
    // Samples jump, their average does not.
    let roughness =
        |of: fn(&Row) -> f64| -> f64 { measured.windows(2).map(|two| (of(two[1]) - of(two[0])).abs()).sum() };
    assert!(roughness(|row| row.rtt) > 2.0 * roughness(|row| row.srtt));
    // What came too early waits at the receiver, and its log says so.
    let waits = |log: &Logged| log.rows().iter().filter(|row| row[25] != "0").count();
    assert!(waits(&server) > 10, "{}", waits(&server));

    let short = LogConfig { profile: Profile::V1_2, ..LogConfig::default() };
    let [log, _] = logged(11, Family::V4, false, &short);
    assert_eq!(teacup(&log.text).err(), Some("not the patched version"));
    let running = client.text.trim_end().rsplit_once('\n').unwrap().0;
    assert_eq!(teacup(running).err(), Some("not over"));
}
