//! Goal: `millstream doctor` says of an interface what is true, proves that packets come and go, or says why not, and
//! leaves nothing behind.
//!
//! Tests with network namespaces need root, and say that they were skipped without it.

use bench::bed::{Bed, SERVER_ADDR, sh};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
/// An address of the clients' kernel, and its IPv6 address.
const PEER: &str = "10.77.1.1";
const PEER6: &str = "fd77::2";

fn output(bed: &Bed, before: &[&str], args: &[&str]) -> Output {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &bed.server, "timeout", "60"])
        .args(before)
        .args([MILLSTREAM, "doctor"])
        .args(args);
    command.output().expect("it runs")
}

/// The exit status, and the report.
fn examine(bed: &Bed, before: &[&str], args: &[&str]) -> (i32, Value) {
    let output = output(bed, before, &[args, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|e| {
        panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr));
    });
    let status = output.status.code().expect("an exit status");
    assert_eq!(report["status"], status);
    (status, report)
}

fn says(value: &Value, words: &str) {
    assert!(value.as_str().is_some_and(|text| text.contains(words)), "no {words:?} in {value}");
}

/// The commands that were advised.
fn commands(report: &Value) -> String {
    let advice = report["advice"].as_array().expect("a list");
    advice.iter().filter_map(|one| one["command"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Nothing of ours is on the interface.
fn is_clean(bed: &Bed) {
    let link = sh("ip", &["-n", &bed.server, "-d", "link", "show", "ms0"]).expect("the link");
    assert!(!link.contains("xdp") && link.contains("promiscuity 0"), "{link}");
}

#[test]
fn a_neighbour_answers_and_nothing_is_left() {
    let Some(bed) = Bed::if_root(true) else { return };
    for peer in [PEER.to_string(), PEER6.into(), format!("{PEER}:4"), format!("[{PEER6}]:4")] {
        let (status, report) = examine(&bed, &[], &["ms0", "--peer", &peer]);
        assert_eq!(status, 0, "{report}");
        assert!(report["test"]["answered"] == true && report["test"]["us"].as_u64() > Some(0), "{report}");
        // One mechanism: veth with one queue is opened where the network stack runs the program.
        let choice = &report["choice"];
        assert!(
            choice["port"] == "xdp:ms0" && choice["native"] == false && choice["fallback"].is_null(),
            "{choice}"
        );
        is_clean(&bed);
    }
    // Now the kernel knows the neighbour, and no peer needs to be named.
    let (status, report) = examine(&bed, &[], &["ms0"]);
    assert_eq!(status, 0, "{report}");
    let interface = &report["interface"];
    assert!(
        interface["driver"] == "veth" && interface["up"] == true && interface["mtu"] == 1500,
        "{interface}"
    );
    assert!(interface["addresses"].to_string().contains(SERVER_ADDR), "{interface}");
    // People see the same.
    let output = output(&bed, &[], &["ms0", "--peer", PEER]);
    let text = String::from_utf8_lossy(&output.stdout);
    for words in ["driver veth", "nic:ms0 goes by generic XDP", "test: 10.77.1.1:9 refused the connection"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    // Looking alone opens nothing.
    let (status, report) = examine(&bed, &[], &["ms0", "--look"]);
    assert!(status == 0 && report["choice"].is_null() && report["test"].is_null(), "{report}");
}

#[test]
fn silence_is_told_with_what_is_known() {
    let Some(bed) = Bed::if_root(true) else { return };
    // No host has this address.
    let (status, report) = examine(&bed, &[], &["ms0", "--peer", "10.77.9.9"]);
    assert_eq!((status, &report["test"]["answered"]), (3, &Value::Bool(false)), "{report}");
    says(&report["test"]["what"], "no peer answered");
    says(&report["test"]["what"], "cable, VLAN and addresses");
    // No route of the interface leads there.
    let (status, report) = examine(&bed, &[], &["ms0", "--peer", "192.0.2.1"]);
    assert_eq!(status, 3, "{report}");
    says(&report["test"]["what"], "no route");
    // This one answers the question for its link-layer address, and drops its answers to everything else.
    sh("ip", &["-n", &bed.client, "route", "add", "blackhole", SERVER_ADDR]).expect("a route");
    let (status, report) = examine(&bed, &[], &["ms0", "--peer", PEER]);
    assert_eq!(status, 3, "{report}");
    says(&report["test"]["what"], "its link-layer address is known");
    is_clean(&bed);
}

#[test]
fn an_interface_that_is_not_fit_is_told_with_the_remedy() {
    let Some(bed) = Bed::if_root(true) else { return };
    let (status, report) = examine(&bed, &[], &["ms"]);
    assert_eq!(status, 1, "{report}");
    says(&report["refused"], "no interface 'ms'; there are: ms0");
    let (status, report) = examine(&bed, &[], &["lo"]);
    assert_eq!(status, 1, "{report}");
    says(&report["refused"], "loopback");
    says(&report["refused"], "(ms0)");

    sh("ip", &["-n", &bed.server, "link", "set", "ms0", "down"]).expect("it goes down");
    let (status, report) = examine(&bed, &[], &["ms0"]);
    assert_eq!(status, 3, "{report}");
    says(&report["test"]["what"], "switched off");
    assert!(commands(&report).contains("sudo ip link set ms0 up"), "{report}");

    sh("ip", &["-n", &bed.server, "link", "set", "ms0", "up"]).expect("it comes up");
    sh("ip", &["-n", &bed.client, "link", "set", "ms1", "down"]).expect("it goes down");
    let (status, report) = examine(&bed, &[], &["ms0"]);
    assert_eq!(status, 3, "{report}");
    says(&report["test"]["what"], "no carrier");

    sh("ip", &["-n", &bed.client, "link", "set", "ms1", "up"]).expect("it comes up");
    sh("ip", &["netns", "exec", &bed.server, "sysctl", "-qw", "net.ipv6.conf.ms0.disable_ipv6=1"])
        .expect("no IPv6");
    sh("ip", &["-n", &bed.server, "addr", "flush", "dev", "ms0"]).expect("no address");
    let (status, report) = examine(&bed, &[], &["ms0"]);
    assert_eq!(status, 3, "{report}");
    says(&report["test"]["what"], "no address");
    assert!(commands(&report).contains("sudo ip addr add 192.0.2.10/24 dev ms0"), "{report}");

    sh("ip", &["-n", &bed.server, "link", "del", "ms0"]).expect("it goes");
    let (status, report) = examine(&bed, &[], &["ms0"]);
    assert_eq!(status, 1, "{report}");
    says(&report["refused"], "no other but loopback");
}

#[test]
fn without_rights_it_says_which_are_missing() {
    let Some(bed) = Bed::if_root(true) else { return };
    let nobody = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
    let (status, report) = examine(&bed, &nobody, &["ms0", "--peer", PEER]);
    assert_eq!(status, 1, "{report}");
    says(&report["refused"], "no permission");
    // As it stands it can be typed, also where the program is not on the shell's path.
    let wanted = format!("sudo setcap cap_net_admin,cap_net_raw,cap_bpf+ep \"{MILLSTREAM}\"");
    assert!(commands(&report).contains(&wanted), "{report}");
    assert!(!commands(&report).contains("ulimit"), "above the hard limit it takes root: {report}");
    // What takes no rights is told all the same.
    assert!(report["interface"]["driver"] == "veth" && report["interface"]["queues"] == 1, "{report}");
    assert_eq!(report["machine"]["capabilities"]["CAP_NET_RAW"], false);
}

/// Where another program has the XDP program `nic:` goes by packet sockets: `doctor` and `stat` say why.
#[test]
fn a_fallback_is_told() {
    let Some(bed) = Bed::if_root(true) else { return };
    let first =
        bed.start(&bed.server, Path::new(MILLSTREAM), &["serve", "--link", "xdp:ms0"]).expect("a server");
    let (status, report) = examine(&bed, &[], &["ms0", "--peer", PEER]);
    assert_eq!(status, 0, "{report}");
    assert_eq!(report["choice"]["port"], "packet:ms0");
    says(&report["choice"]["fallback"], "AF_XDP does not open: interface 'ms0' is in use");
    let holder = format!("(pid {})", first.pid());
    assert!(report["interface"]["xdp_holders"].to_string().contains(&holder), "{report}");

    let args = ["serve", "--link", "nic:ms0", "--listen", "0.0.0.0:81"];
    let second = bed.start(&bed.server, Path::new(MILLSTREAM), &args).expect("another server");
    let stat = |server: &bench::bed::Server| {
        let mut command = Command::new(MILLSTREAM);
        command.args(["stat", "--pid", &server.pid().to_string()]).env("MILLSTREAM_RUN", &bed.dir);
        String::from_utf8(command.output().expect("it runs").stdout).expect("text")
    };
    let told = stat(&second);
    let line = told.lines().find(|line| line.contains("port.fallback")).unwrap_or_else(|| panic!("{told}"));
    assert!(
        line.contains("AF_XDP does not open: interface 'ms0' is in use") && line.contains(&holder),
        "{line}"
    );
    assert!(told.contains("port.name") && told.contains("packet:ms0"), "{told}");
    let told = stat(&first);
    assert!(told.contains("xdp:ms0") && !told.contains("port.fallback"), "{told}");
}

#[test]
fn mistakes_in_the_command_line_have_a_status_of_their_own() {
    for args in
        [&["doctor"][..], &["doctor", "x", "--peer", "nobody"], &["doctor", "x", "--peer", "1.2.3.4:0"]]
    {
        let output = Command::new(MILLSTREAM).args(args).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    let output = Command::new(MILLSTREAM).args(["doctor", "nowhere0"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("no interface 'nowhere0'"));
}
