//! Goal: ordinary programs on two Linux kernels see the path that `millstream pipe` between them was told to be: its
//! delay, its rate, its losses; and nothing stays behind when it ends, however it ends.
//!
//! Needs root for network namespaces; without it every test says that it was skipped.

use bench::bed::{Server, sh};
use bench::wire::{RIGHT, Wire};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");

/// A wire, unless we may not make one here.
fn wire() -> Option<Wire> {
    bench::bed::is_root().then(|| Wire::new().expect("three namespaces"))
}

fn pipe(wire: &Wire, kind: &str, words: &[&str]) -> Server {
    let mut args = Vec::new();
    for word in words {
        args.extend(["--set", word]);
    }
    wire.pipe(Path::new(MILLSTREAM), kind, &args).expect("the pipe starts")
}

/// Returns the pipe's totals when it ends.
fn end(pipe: Server) -> Value {
    let said = pipe.stop().expect("ends well");
    serde_json::from_str(said.lines().last().expect("a listing")).expect("JSON")
}

/// Sequence numbers that were answered, and round-trip times in milliseconds.
fn ping(wire: &Wire, args: &[&str]) -> Vec<(u64, f64)> {
    // ping fails if nothing at all came back; then what it said is an error.
    let said = wire.run(&wire.left, "ping", &[args, &["-n", RIGHT]].concat()).unwrap_or_default();
    let field = |line: &str, name: &str| -> Option<f64> {
        line.split_whitespace().find_map(|word| word.strip_prefix(name)?.parse().ok())
    };
    said.lines().filter_map(|line| Some((field(line, "icmp_seq=")? as u64, field(line, "time=")?))).collect()
}

#[test]
fn a_ping_takes_as_long_as_the_path() {
    for kind in ["packet", "xdp"] {
        let Some(wire) = wire() else { return };
        let pipe = pipe(&wire, kind, &["rtt_ms=40"]);
        let mut times: Vec<f64> =
            ping(&wire, &["-c", "40", "-i", "0.02"]).iter().map(|(_, ms)| *ms).collect();
        times.sort_by(f64::total_cmp);
        let listing = end(pipe);
        assert_eq!(times.len(), 40, "{kind}: {listing}");
        eprintln!(
            "{kind}: {} .. {} .. {} ms; {}",
            times[0], times[20], times[39], listing["pipes"][0]["late_us"]
        );
        // None may be early. On a busy machine most are late, by what their threads waited for a CPU.
        assert!(times[0] >= 40.0 && times[0] < 42.0, "{kind}: {times:?} {listing}");
        // One more: the ping that found out that packets pass.
        assert!(listing["pipes"][0]["pipe"]["delivered"].as_u64() >= Some(41), "{kind}: {listing}");
    }
}

#[test]
fn load_has_the_rate_of_the_path() {
    for kind in ["packet", "xdp"] {
        // A sender or a pipe that waits for a CPU leaves the line empty, so on a busy machine one of a few turns has to
        // do. More than the line carries is none of that.
        let got: Vec<f64> = (0..5).map_while(|_| udp_of_the_rate(kind)).scan(0.0, until_whole).collect();
        eprintln!("{kind}: {got:.3?} of the rate");
        assert!(got.iter().all(|part| *part < 1.02), "{kind}: {got:?}");
        assert!(got.is_empty() || got.iter().any(|part| *part > 0.98), "{kind}: {got:?}");
    }
}

/// Ends behind the first part that is a whole.
fn until_whole(last: &mut f64, part: f64) -> Option<f64> {
    (std::mem::replace(last, part) < 0.98).then_some(part)
}

/// Returns the share of the path's rate that a receiver gets of datagrams sent at 1.5 times that rate; `None`
/// without privileges.
fn udp_of_the_rate(kind: &str) -> Option<f64> {
    let wire = wire()?;
    // Room for what comes in 80 ms: so long the sender may stand still.
    let _pipe = pipe(&wire, kind, &["rtt_ms=10", "down_kbit=20000", "queue=strict 200000"]);
    let server = wire.spawn(&wire.right, "iperf3", &["-s", "-1"]).and_then(|server| server.on_port(5201));
    let _server = server.expect("iperf3");
    let args = ["-c", RIGHT, "-u", "-b", "30M", "-l", "1372", "-t", "3", "-O", "1"];
    let said = wire.iperf3(&wire.left, &args).expect("iperf3");
    // 28 bytes of headers on each datagram.
    Some(received_rate(&said) / (20e6 * 1372.0 / 1400.0))
}

/// Returns the receiver's rate, bit/s.
fn received_rate(said: &Value) -> f64 {
    let end = &said["end"];
    let sum = if end["sum_received"].is_null() { &end["sum"] } else { &end["sum_received"] };
    let lost = sum["lost_percent"].as_f64().unwrap_or(0.0);
    sum["bits_per_second"].as_f64().unwrap_or(0.0)
        * if sum["sender"] == true { 1.0 - lost / 100.0 } else { 1.0 }
}

#[test]
fn named_positions_are_dropped_and_no_others() {
    let Some(wire) = wire() else { return };
    let words = wire.dir.join("path.toml");
    std::fs::write(&words, "[path]\ndiscard = \"none\"\n").expect("a file");
    let path = words.to_string_lossy();
    let pipe = wire.pipe(Path::new(MILLSTREAM), "packet", &["--path", &path]).expect("the pipe starts");
    // Positions count from the new configuration.
    std::fs::write(&words, "[path]\ndiscard = \"1,5-10,30\"\n").expect("a file");
    sh("kill", &["-HUP", &pipe.pid().to_string()]).expect("a signal");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let answered: Vec<u64> =
        ping(&wire, &["-c", "40", "-i", "0.01", "-W", "1"]).iter().map(|(seq, _)| *seq).collect();
    let wanted: Vec<u64> = (1..=40).filter(|n| !matches!(n, 1 | 5..=10 | 30)).collect();
    let listing = end(pipe);
    assert_eq!(answered, wanted, "{listing}");
    assert_eq!(listing["pipes"][0]["pipe"]["listed"], 8);
    assert_eq!(listing["pipes"][1]["pipe"]["listed"], 0);
}

#[test]
fn the_pipe_sees_packets_of_the_links_size_and_its_log_adds_up() {
    for kind in ["packet", "xdp"] {
        let Some(wire) = wire() else { return };
        let log = wire.dir.join("log.csv");
        let log_name = log.to_string_lossy().into_owned();
        let args = ["--log", &log_name, "--set", "down_kbit=50000", "--set", "queue=strict 50000"];
        let more = ["--set", "loss=0.001", "--set", "up.jitter_ms=1", "--set", "rtt_ms=10"];
        let pipe =
            wire.pipe(Path::new(MILLSTREAM), kind, &[&args[..], &more].concat()).expect("the pipe starts");
        let server = wire.spawn(&wire.right, "iperf3", &["-s", "-1"]).and_then(|server| server.on_port(5201));
        let _server = server.expect("iperf3");
        let said = wire.iperf3(&wire.left, &["-c", RIGHT, "-t", "2"]).expect("iperf3");
        assert!(received_rate(&said) > 5e6, "{kind}: {}", said["end"]);
        let listing = end(pipe);
        let there = &listing["pipes"][0];
        // Over AF_XDP in the driver the kernel cuts before us, but sums are left open.
        let hardware = if kind == "packet" { &there["bridge"]["cut"] } else { &there["bridge"]["completed"] };
        assert!(hardware.as_u64() > Some(10), "{kind}: {listing}");
        assert_eq!(there["bridge"]["oversize"], 0, "{kind}: {listing}");
        let text = std::fs::read_to_string(&log).expect("a log");
        for nth in 0..2 {
            check_log(&text, nth, &listing["pipes"][nth]["pipe"]);
        }
    }
}

#[test]
fn datagrams_of_one_write_pass_one_by_one() {
    let Some(wire) = wire() else { return };
    let pipe = pipe(&wire, "packet", &["rtt_ms=2"]);
    let receive = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', 7)); s.settimeout(5)\n\
                   print('ready', flush=True)\nprint([len(s.recv(9999)) for _ in range(11)])";
    let receiver = wire.start(&wire.right, Path::new("python3"), &["-c", receive]).expect("python3");
    // UDP_SEGMENT is option 103 of level 17.
    let send = format!(
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.setsockopt(17, 103, 1200)\n\
         s.sendto(b'x' * 12100, ('{RIGHT}', 7))"
    );
    wire.run(&wire.left, "python3", &["-c", &send]).expect("sends");
    let said = receiver.wait().expect("eleven datagrams");
    let listing = end(pipe);
    assert!(said.contains(&format!("[{}100]", "1200, ".repeat(10))), "{said} {listing}");
    assert_eq!(listing["pipes"][0]["bridge"]["cut"], 1, "{listing}");
}

/// Each packet enters or is dropped, leaves in order, and the columns of the queue are what that makes of it.
fn check_log(text: &str, pipe: usize, counters: &Value) {
    assert!(text.starts_with("# seed 1\ntime_us,pipe,event,reason,packet,bytes,"), "{}", &text[..80]);
    let (mut inside, mut queued, mut last) = (BTreeMap::new(), 0, 0);
    let (mut entered, mut left, mut dropped) = (0, 0, 0);
    for row in text.lines().skip(2) {
        let cells: Vec<&str> = row.split(',').collect();
        let number = |nth: usize| cells[nth].parse::<u64>().unwrap_or_else(|e| panic!("{row}: {e}"));
        if number(1) != pipe as u64 {
            continue;
        }
        assert!(number(0) >= last, "{row}: before {last}");
        last = number(0);
        let (packet, bytes) = (number(4), number(5));
        assert!(bytes <= 1500, "{row}");
        match cells[2] {
            "enq" => {
                entered += 1;
                queued += bytes;
                inside.insert(packet, bytes);
            }
            "deq" => {
                left += 1;
                let (first, size) = inside.pop_first().unwrap_or_else(|| panic!("{row}: nothing is inside"));
                assert_eq!((first, size), (packet, bytes), "{row}");
                queued -= bytes;
            }
            "drop" => dropped += 1,
            other => panic!("{other}: {row}"),
        }
        assert_eq!((number(11), number(12)), (inside.len() as u64, queued), "{row}");
    }
    assert_eq!(entered, left + inside.len() as u64);
    assert_eq!(Some(entered + dropped), counters["arrived"].as_u64(), "{counters}");
    assert!(entered > 100);
}

#[test]
fn a_killed_pipe_gives_the_links_back() {
    let Some(wire) = wire() else { return };
    let segmentation = |wire: &Wire| {
        let said = wire.run(&wire.left, "ethtool", &["-k", "a0"]).expect("ethtool");
        said.lines().find(|line| line.starts_with("tcp-segmentation-offload")).expect("a row").to_string()
    };
    let before = segmentation(&wire);
    let link = |dev| sh("ip", &["-n", &wire.middle, "-d", "link", "show", dev]).expect("ip");
    let killed = pipe(&wire, "xdp", &["rtt_ms=1"]);
    assert!(link("p0").contains("xdp") && link("p0").contains("promiscuity 1"), "{}", link("p0"));
    killed.kill().expect("SIGKILL");
    for dev in ["p0", "p1"] {
        let said = link(dev);
        assert!(!said.contains("xdp") && said.contains("promiscuity 0"), "{said}");
    }
    assert_eq!(segmentation(&wire), before);
    let again = pipe(&wire, "packet", &["rtt_ms=1"]);
    assert!(link("p0").contains("promiscuity 1"));
    drop(again);
    assert!(link("p1").contains("promiscuity 0"));
    // An interface that the kernel talks on is no end of a wire for packet sockets.
    sh("ip", &["-n", &wire.middle, "addr", "add", "10.9.9.9/24", "dev", "p0"]).expect("an address");
    let said = wire.run(&wire.middle, MILLSTREAM, &["pipe", "packet:p0", "packet:p1"]).expect_err("refused");
    assert!(said.contains("10.9.9.9") && said.contains("ip addr flush dev p0"), "{said}");
}

#[test]
fn a_tap_is_an_end_too() {
    let Some(wire) = wire() else { return };
    // The left kernel has a tap instead of its cable; the pipe runs in its namespace.
    sh("ip", &["-n", &wire.left, "link", "del", "a0"]).expect("gone");
    sh("ip", &["-n", &wire.right, "link", "del", "b0"]).expect("gone");
    let far = ["netns", &wire.right];
    let cable = ["-n", &wire.left, "link", "add", "p1", "type", "veth", "peer", "name", "b0"];
    sh("ip", &[&cable[..], &far].concat()).expect("a cable");
    let args = ["pipe", "--json", "tap:mst0,host=10.79.0.1/24", "packet:p1", "--set", "rtt_ms=20"];
    sh("ip", &["-n", &wire.left, "link", "set", "p1", "up"]).expect("up");
    sh("ip", &["-n", &wire.right, "addr", "add", "10.79.0.2/24", "dev", "b0"]).expect("an address");
    sh("ip", &["-n", &wire.right, "link", "set", "b0", "up"]).expect("up");
    let pipe = wire.start(&wire.left, Path::new(MILLSTREAM), &args).expect("the pipe starts");
    let times = ping(&wire, &["-c", "10", "-i", "0.1", "-W", "1"]);
    assert!(times.len() > 5 && times.iter().all(|(_, ms)| *ms >= 20.0), "{times:?} {}", end(pipe));
}

#[test]
fn wrong_words_say_what_would_be_right() {
    let refused = |args: &[&str], word: &str| {
        let output = std::process::Command::new(MILLSTREAM).arg("pipe").args(args).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(word), "{args:?}: {said}");
    };
    refused(&["tap:ms-a", "tap:ms-b", "--set", "queue=big"], "loose BYTES");
    refused(&["tap:ms-a", "tap:ms-b", "--set", "colour=red"], "colour");
    refused(&["tap:ms-a", "tap:ms-b", "--set", "rtt"], "KEY=VALUE");
    refused(&["pigeon:ms-a", "tap:ms-b"], "xdp:IFACE");
    refused(&["packet:nope0", "packet:nope1"], "nope0");
    refused(&["tap:ms-a"], "LINK");
}
