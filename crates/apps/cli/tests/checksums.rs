//! Goal: `millstream why` names a wrong guess about checksums: packets dropped for a wrong one, open ones that were
//! accepted, and peers that acknowledge nothing while the card is to fill in all of them.
//!
//! Tests with network namespaces need root, and say that they were skipped without it.

use bench::bed::{Bed, SERVER_ADDR, Server, sh};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
/// An address of the clients' kernel.
const PEER: &str = "10.77.1.1";
/// Sends SYNs whose checksum is wrong.
const WRONG: &str = "
import socket, struct, sys
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
for port in range(2000, 2003):
    raw.sendto(struct.pack('!HHIIBBHHH', port, 80, 1, 0, 5 << 4, 2, 1000, 0x1234, 0), (sys.argv[1], 0))
";

fn ask(bed: &Bed, server: &Server, question: &[&str]) -> Output {
    let mut command = Command::new(MILLSTREAM);
    command.args(question).args(["--pid", &server.pid().to_string()]).env("MILLSTREAM_RUN", &bed.dir);
    command.output().expect("it runs")
}

fn rows(bed: &Bed, server: &Server, question: &[&str]) -> Vec<Value> {
    let output = ask(bed, server, &[question, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Findings of `why`, which watches for a short time.
fn findings(bed: &Bed, server: &Server) -> Vec<Value> {
    let rows = rows(bed, server, &["why", "--seconds", "0.1"]);
    rows.into_iter().filter(|row| row["finding"].is_string()).collect()
}

#[allow(clippy::disallowed_methods, reason = "real programs take real time")]
fn wait<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(Instant::now() < until, "{what}: not within 40 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn find(found: &[Value], name: &str) -> Option<Value> {
    found.iter().find(|row| row["finding"] == name).cloned()
}

#[test]
fn wrong_and_open_checksums_are_named() {
    let Some(bed) = Bed::if_root(true) else { return };
    let server =
        bed.start(&bed.server, Path::new(MILLSTREAM), &["serve", "--link", "xdp:ms0"]).expect("a server");
    assert_eq!(findings(&bed, &server), [] as [Value; 0]);
    // The peer's kernel leaves its checksums to a card, and veth has none.
    let url = format!("http://{SERVER_ADDR}/100");
    bed.in_ns(&bed.client, "curl", &["-sSf", "-o", "/dev/null", &url]).expect("an answer");
    let found = findings(&bed, &server);
    let open = find(&found, "open-checksum").unwrap_or_else(|| panic!("{found:?}"));
    assert!(open["count"].as_u64() > Some(0) && find(&found, "bad-checksum").is_none(), "{found:?}");

    bed.in_ns(&bed.client, "python3", &["-c", WRONG, SERVER_ADDR]).expect("three SYNs");
    let bad = wait("the drops are named", || find(&findings(&bed, &server), "bad-checksum"));
    assert_eq!(bad["count"], 3, "{bad}");
    let text = String::from_utf8(ask(&bed, &server, &["why", "--seconds", "0.1"]).stdout).expect("text");
    let told = text.lines().find(|line| line.contains("bad-checksum")).unwrap_or_else(|| panic!("{text}"));
    assert!(
        told.contains("3 packets since the stack began") && told.contains("0 of them in the last"),
        "{told}"
    );
}

#[test]
fn silence_with_the_cards_checksums_is_a_hint() {
    let Some(bed) = Bed::if_root(true) else { return };
    // The peer's kernel answers the question for its link-layer address, and drops its answers to everything else.
    sh("ip", &["-n", &bed.client, "route", "add", "blackhole", SERVER_ADDR]).expect("a route");
    let url = format!("http://{PEER}:80/");
    for (link, card) in [("xdp:ms0", true), ("xdp:ms0,checksum=stack", false)] {
        let args = ["load", "--link", link, "-c", "2", "-s", "60", &url];
        let client = bed.spawn(&bed.server, Path::new(MILLSTREAM), &args).expect("a client");
        let unheard = |row: &Value| row["delivered"] == 0 && row["retransmits"].as_u64() >= Some(2);
        wait("both SYNs were sent again twice", || {
            let rows = rows(&bed, &client, &["ss"]);
            (rows.iter().filter(|row| unheard(row)).count() == 2).then_some(())
        });
        let (found, stat) = (findings(&bed, &client), rows(&bed, &client, &["stat"]));
        // Kernels before 6.11 have no checksums for AF_XDP.
        let left = stat[0]["port"]["tx_checksum"] == true;
        assert!(card || !left, "checksum=stack leaves none to the card: {}", stat[0]["port"]);
        let hint = find(&found, "unacknowledged");
        assert_eq!(hint.is_some(), left, "{found:?}");
        if let Some(hint) = hint {
            assert_eq!(hint["count"], 2);
            assert!(
                hint["text"].as_str().is_some_and(|text| text.contains("xdp:ms0,checksum=stack")),
                "{hint}"
            );
        }
        client.kill().expect("it ends");
    }
}
