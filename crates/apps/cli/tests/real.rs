//! Goal: ordinary clients and servers on the Linux kernel on one side, the `millstream` command on the other, over
//! AF_XDP on veth, AF_PACKET and tap; and what happens when things go wrong around them.
//!
//! Needs root for network namespaces; without it every test says that it was skipped. `MILLSTREAM_CHURN` sets how
//! many connections the churn tests open (default 20,000; the acceptance run uses 1,000,000).

use bench::bed::{Bed, Programs, SERVER_ADDR, SERVER_ADDR6, Server, sh};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");

fn serve(bed: &Bed, args: &[&str]) -> Server {
    let mut all = vec!["serve"];
    all.extend_from_slice(args);
    bed.start(&bed.server, Path::new(MILLSTREAM), &all).expect("serve starts")
}

fn serve_tap(bed: &Bed) -> Server {
    bed.tap_instead().expect("a tap device");
    let (v4, v6) = (format!("{SERVER_ADDR}/16"), format!("{SERVER_ADDR6}/64"));
    let args = ["serve", "--link", "tap:mst0", "--address", &format!("{v4},{v6}"), "--listen", "[::]:80"];
    bed.start(&bed.client, Path::new(MILLSTREAM), &args).expect("serve starts")
}

fn curl(bed: &Bed, url: &str) -> Result<String, String> {
    bed.in_ns(&bed.client, "curl", &["-sSf", "--max-time", "20", url])
}

fn pattern(len: usize) -> String {
    (0..len).map(|i| char::from(b'!' + (i % 89) as u8)).collect()
}

/// Sizes around the MSS, a window and many windows, over both families.
fn compare(bed: &Bed) {
    for host in [SERVER_ADDR.to_string(), format!("[{SERVER_ADDR6}]")] {
        for len in [0, 1, 1_447, 1_448, 1_449, 65_536, 5_000_000] {
            let got = curl(bed, &format!("http://{host}/{len}"))
                .unwrap_or_else(|e| panic!("{e}\n{}", state_of(bed)));
            assert!(got == pattern(len), "{host}: {len} bytes differ (got {})", got.len());
        }
    }
}

/// Returns the state of the kernels on both sides, for a failure's report.
fn state_of(bed: &Bed) -> String {
    let mut all = String::new();
    for ns in [&bed.server, &bed.client] {
        for what in [&["addr"][..], &["-6", "route"], &["neigh"]] {
            let mut args = vec!["-n", ns];
            args.extend_from_slice(what);
            all += &sh("ip", &args).unwrap_or_else(|e| e);
        }
    }
    all + &stat(bed).to_string()
}

/// Sends `bytes` to the server, which drops them; curl must see the 200.
fn upload(bed: &Bed, bytes: usize) {
    let file = bed.dir.join("upload");
    std::fs::write(&file, vec![7; bytes]).expect("a file");
    let url = format!("http://{SERVER_ADDR}/3");
    let got = bed
        .in_ns(&bed.client, "curl", &["-sSf", "--max-time", "30", "-T", &file.to_string_lossy(), &url])
        .expect("upload");
    assert_eq!(got, pattern(3));
}

fn look(bed: &Bed, args: &[&str]) -> std::process::Output {
    let mut command = std::process::Command::new(MILLSTREAM);
    command.args(args).env("MILLSTREAM_RUN", &bed.dir).output().expect("millstream runs")
}

fn ask(bed: &Bed, args: &[&str]) -> String {
    let output = look(bed, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stat(bed: &Bed) -> Value {
    serde_json::from_str(ask(bed, &["stat", "--json"]).lines().next().expect("one core")).expect("JSON")
}

fn number(stat: &Value, section: &str, key: &str) -> u64 {
    stat[section][key].as_u64().unwrap_or_else(|| panic!("{section}.{key} is missing: {stat}"))
}

fn churn() -> u64 {
    std::env::var("MILLSTREAM_CHURN").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

#[test]
fn curl_over_af_xdp_with_and_without_offloads_at_the_peer() {
    for offloads in [true, false] {
        let Some(bed) = Bed::if_root(offloads) else { return };
        let _server = serve(&bed, &["--link", "xdp:ms0", "--listen", "[::]:80"]);
        compare(&bed);
        upload(&bed, 3_000_000);
    }
}

#[test]
fn curl_over_af_packet() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = serve(&bed, &["--link", "packet:ms0", "--listen", "[::]:80"]);
    compare(&bed);
    upload(&bed, 3_000_000);
}

#[test]
fn curl_over_tap() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = serve_tap(&bed);
    compare(&bed);
    upload(&bed, 3_000_000);
}

/// An emulated path under the stack is visible to its peers.
#[test]
fn a_path_under_the_stack_is_between_it_and_everybody() {
    for link in ["xdp:ms0", "packet:ms0"] {
        let Some(bed) = Bed::if_root(true) else { return };
        let path = "rtt_ms=40,down_kbit=4000,up_kbit=8000,queue=strict 100000,up.every=200";
        let _server = serve(&bed, &["--link", link, "--path", path]);
        let url = format!("http://{SERVER_ADDR}/500000");
        let got = bed.in_ns(&bed.client, "curl", &["-sSf", "-w", "\n%{time_connect} %{time_total}", &url]);
        let got = got.unwrap_or_else(|e| panic!("{e}\n{}", state_of(&bed)));
        let (bytes, times) = got.rsplit_once('\n').expect("times");
        assert!(bytes == pattern(500_000), "{link}: {} bytes", bytes.len());
        let times: Vec<f64> = times.split(' ').map(|time| time.parse().expect("seconds")).collect();
        eprintln!("{link}: connected in {} s, {} s in all", times[0], times[1]);
        assert!(times[0] >= 0.04 && times[0] < 0.4, "{link}: {times:?}");
        // Half a second on the line and two round trips; slow start and repairs take theirs.
        assert!(times[1] >= 0.58 && times[1] < 3.0, "{link}: {times:?}");
    }
}

#[test]
fn paired_mode_serves_too() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = serve(&bed, &["--link", "xdp:ms0", "--listen", "[::]:80", "--mode", "paired"]);
    compare(&bed);
    upload(&bed, 3_000_000);
}

#[test]
fn iperf3_measures_both_directions() {
    let Some(bed) = Bed::if_root(true) else { return };
    let args = ["iperf", "--link", "xdp:ms0", "--tests", "3"];
    let _server = bed.start(&bed.server, Path::new(MILLSTREAM), &args).expect("iperf starts");
    for flags in [&[][..], &["-R"], &["-P", "3"]] {
        let mut args = vec!["-c", SERVER_ADDR, "-t", "1", "-J"];
        args.extend_from_slice(flags);
        let text = bed.in_ns(&bed.client, "iperf3", &args).expect("iperf3");
        let said: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{flags:?}: {e} in {text:?}"));
        let received = said["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
        assert!(received > 1_000_000, "{flags:?}: {received} bytes: {said}");
        let again = said["end"]["sum_sent"]["retransmits"].as_i64();
        assert!(
            again.is_some_and(|again| (0..100_000).contains(&again)),
            "{flags:?}: {again:?} retransmissions"
        );
    }
}

#[test]
fn our_client_talks_to_a_kernel_server() {
    let Some(bed) = Bed::if_root(true) else { return };
    let programs = peers(&bed);
    let _server =
        bed.start(&bed.client, &programs.server, &["10.77.1.1", "80", "1000"]).expect("kernel server");
    for (flags, per) in [(&["--close"][..], "connections"), (&[][..], "requests")] {
        let mut args =
            vec!["load", "--link", "xdp:ms0", "--json", "-s", "2", "-c", "16", "http://10.77.1.1/"];
        args.extend_from_slice(flags);
        let text = bed.in_ns(&bed.server, MILLSTREAM, &args).expect("load runs");
        let figures: Value = serde_json::from_str(text.lines().last().expect("figures")).expect("JSON");
        assert_eq!(figures["errors"], 0, "{figures}");
        assert!(figures[per].as_u64() > Some(500), "{figures}");
    }
}

/// The kernel at the other end sends all that it answers to the first queue, so the other core's answers are steered.
#[test]
fn a_client_of_two_cores_is_answered_on_both() {
    let Some(bed) = Bed::if_root(true) else { return };
    bed.in_ns(&bed.server, "ethtool", &["-L", "ms0", "rx", "2", "tx", "2"]).expect("two queues");
    let programs = peers(&bed);
    let _server =
        bed.start(&bed.client, &programs.server, &["10.77.1.1", "80", "1000"]).expect("kernel server");
    for flags in [&["--close"][..], &[], &["--mode", "paired"], &["--offload", "workers=1"]] {
        let mut args = vec!["load", "--link", "nic:ms0", "--cores", "2", "--json", "-s", "2", "-c", "16"];
        // Every core wants as much, however fast the other is.
        args.extend(["--rate", "1000", "http://10.77.1.1/"]);
        args.extend_from_slice(flags);
        let text = bed.in_ns(&bed.server, MILLSTREAM, &args).expect("load runs");
        let figures: Value = serde_json::from_str(text.lines().last().expect("figures")).expect("JSON");
        assert_eq!(figures["errors"], 0, "{flags:?}: {figures}");
        let all = figures["requests"].as_u64().expect("a number");
        let shares = figures["core_requests"].as_array().expect("a list");
        let fair = |share: &Value| share.as_u64().is_some_and(|share| share * 100 >= all * 15);
        assert!(all > 500 && shares.len() == 2 && shares.iter().all(fair), "{flags:?}: {figures}");
    }
}

fn peers(bed: &Bed) -> Programs {
    Programs::build(&bed.dir, Path::new(MILLSTREAM)).expect("a C compiler builds the peers")
}

#[test]
fn the_kernel_keeps_everything_else_on_the_same_address() {
    let Some(bed) = Bed::if_root(true) else { return };
    let programs = peers(&bed);
    let _ssh_like =
        bed.start(&bed.server, &programs.server, &[SERVER_ADDR, "2222", "64"]).expect("kernel server");
    let _server = serve(&bed, &["--link", "xdp:ms0"]);
    bed.in_ns(&bed.client, "ping", &["-c", "3", "-i", "0.2", "-W", "2", SERVER_ADDR]).expect("ping");
    assert_eq!(curl(&bed, &format!("http://{SERVER_ADDR}:2222/")).expect("the kernel's port").len(), 64);
    assert_eq!(curl(&bed, &format!("http://{SERVER_ADDR}/64")).expect("our port"), pattern(64));
    let closed = curl(&bed, &format!("http://{SERVER_ADDR}:99/")).expect_err("nothing listens");
    assert!(closed.contains("refused") || closed.contains("connect to"), "{closed}");
}

#[test]
fn one_port_has_one_owner() {
    let Some(bed) = Bed::if_root(true) else { return };
    let programs = peers(&bed);
    {
        let _kernel =
            bed.start(&bed.server, &programs.server, &[SERVER_ADDR, "80", "64"]).expect("kernel server");
        let said = bed.in_ns(&bed.server, MILLSTREAM, &["serve", "--link", "xdp:ms0"]).expect_err("taken");
        assert!(said.contains("taken by another program"), "{said}");
    }
    let ours = serve(&bed, &["--link", "xdp:ms0"]);
    let kernel = bed.start(&bed.server, &programs.server, &[SERVER_ADDR, "80", "64"]);
    assert!(kernel.is_err(), "the kernel must not get a port that is ours");
    drop(ours);
    bed.start(&bed.server, &programs.server, &[SERVER_ADDR, "80", "64"]).expect("free again");
}

#[test]
fn a_killed_program_leaves_nothing_behind() {
    let Some(bed) = Bed::if_root(true) else { return };
    let programs = peers(&bed);
    let ours = serve(&bed, &["--link", "xdp:ms0"]);
    assert_eq!(curl(&bed, &format!("http://{SERVER_ADDR}/9")).expect("ours"), pattern(9));
    ours.kill().expect("SIGKILL");
    let begin = bench::now();
    let kernel =
        bed.start(&bed.server, &programs.server, &[SERVER_ADDR, "80", "64"]).expect("the port is free");
    assert_eq!(curl(&bed, &format!("http://{SERVER_ADDR}/")).expect("the kernel answers").len(), 64);
    assert!(begin.elapsed() < Duration::from_secs(2), "freed after {:?}", begin.elapsed());
    drop(kernel);
    let _again = serve(&bed, &["--link", "xdp:ms0"]);
    assert_eq!(curl(&bed, &format!("http://{SERVER_ADDR}/9")).expect("ours again"), pattern(9));
}

#[test]
fn the_interface_goes_down_and_up() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = serve(&bed, &["--link", "xdp:ms0"]);
    assert_eq!(curl(&bed, &format!("http://{SERVER_ADDR}/9")).expect("before"), pattern(9));
    sh("ip", &["-n", &bed.server, "link", "set", "ms0", "down"]).expect("down");
    std::thread::sleep(Duration::from_millis(300));
    assert!(curl_briefly(&bed).is_err());
    sh("ip", &["-n", &bed.server, "link", "set", "ms0", "up"]).expect("up");
    let begin = bench::now();
    while curl_briefly(&bed).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(10), "no answer ten seconds after the link came up");
    }
}

/// Asks on one connection before the file named third is there, then once it is, and compares what comes.
const KEEPS_OPEN: &str = r#"
import os, socket, sys, time
host, gone, size = sys.argv[1], sys.argv[2], 300000
stream = socket.create_connection((host, 80), 20)
stream.settimeout(60)
answers = stream.makefile("rb")
want = bytes(33 + i % 89 for i in range(size))
def ask():
    stream.sendall(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % size)
def answer():
    while answers.readline().strip():
        pass
    assert answers.read(size) == want
ask()
answer()
print("ready", flush=True)
while not os.path.exists(gone):
    time.sleep(0.01)
ask()
answer()
ask()
answer()
"#;

/// A card that is pulled out and put back: what was open goes on, and what is new is answered.
#[test]
fn an_interface_that_is_made_again_is_served_again() {
    let (paired, cores) = (&["--mode", "paired"][..], &["--cores", "2"][..]);
    let mut cases = Vec::from(
        ["packet:ms0", "xdp:ms0"].map(|link| [(link, &[][..]), (link, paired), (link, cores)]).as_flattened(),
    );
    cases.extend([("xdp:ms0,mode=native", &[][..]), ("nic:ms0", &[][..]), ("nic:ms0", cores)]);
    for (link, more) in cases {
        let Some(bed) = Bed::if_root(true) else { return };
        let queues = if more == cores && !link.starts_with("packet") { 2 } else { 1 };
        if queues == 2 {
            bed.in_ns(&bed.server, "ethtool", &["-L", "ms0", "rx", "2", "tx", "2"]).expect("two queues");
        }
        let _server = serve(&bed, &[&["--link", link, "--listen", "[::]:80"], more].concat());
        let gone = bed.dir.join("gone").to_string_lossy().into_owned();
        let clients = [SERVER_ADDR, SERVER_ADDR6].map(|host| {
            let args = ["-c", KEEPS_OPEN, host, &gone];
            bed.start(&bed.client, Path::new("python3"), &args).expect("a client")
        });
        sh("ip", &["-n", &bed.server, "link", "del", "ms0"]).expect("deleted");
        let begin = bench::now();
        while number(&stat(&bed), "link", "down") == 0 {
            assert!(begin.elapsed() < Duration::from_secs(10), "the link is not said to be down");
        }
        assert_eq!(number(&stat(&bed), "link", "returns"), 0);
        std::fs::write(&gone, "").expect("a file");
        bed.lay_cable_of(queues).expect("a cable again");
        for client in clients {
            client.wait().unwrap_or_else(|e| panic!("{link} {more:?}: {e}\n{}", state_of(&bed)));
        }
        for host in [SERVER_ADDR.to_string(), format!("[{SERVER_ADDR6}]")] {
            let got = curl(&bed, &format!("http://{host}/70000"));
            assert_eq!(got.unwrap_or_else(|e| panic!("{link} {more:?}: {e}")), pattern(70_000));
        }
        let stat = stat(&bed);
        assert_eq!(
            (number(&stat, "link", "returns"), number(&stat, "link", "down")),
            (1, 0),
            "{link} {more:?} {stat}"
        );
    }
}

fn curl_briefly(bed: &Bed) -> Result<String, String> {
    bed.in_ns(&bed.client, "curl", &["-sSf", "--max-time", "1", &format!("http://{SERVER_ADDR}/9")])
}

#[test]
fn wrong_configurations_say_what_would_be_right() {
    let Some(bed) = Bed::if_root(true) else { return };
    let refused = |args: &[&str], expect: &[&str]| {
        let said = bed.in_ns(&bed.server, MILLSTREAM, args).expect_err("must be refused");
        for word in expect {
            assert!(said.contains(word), "{args:?} said: {said}");
        }
    };
    refused(&["serve", "--link", "xdp:nope0"], &["nope0", "ms0"]);
    refused(&["serve", "--link", "carrier-pigeon:1"], &["xdp:", "tap:"]);
    refused(&["serve", "--link", "xdp:ms0", "--cc", "magic"], &["magic", "cubic", "newreno"]);
    refused(
        &["serve", "--link", "xdp:ms0", "--set", "colour=red"],
        &["colour", "near it are", "millstream settings"],
    );
    refused(&["serve", "--link", "xdp:ms0", "--set", "time_wait=900s"], &["time_wait", "240s"]);
    refused(&["serve", "--link", "xdp:ms0", "--listen", "nowhere"], &["ADDRESS:PORT"]);
    refused(&["serve", "--link", "xdp:ms0", "--listen", "9.9.9.9:80"], &["9.9.9.9"]);
    refused(&["serve", "--link", "xdp:ms0", "--path", "colour=red"], &["colour", "rtt_ms"]);
    refused(&["serve", "--link", "xdp:ms0", "--path", "rtt_ms=1", "--cores", "2"], &["--path", "use one"]);
    refused(&["serve", "--link", "xdp:ms0", "--dir", "/does/not/exist"], &["/does/not/exist"]);
    refused(&["load", "--link", "xdp:ms0", "10.77.1.1"], &["http://"]);
}

#[test]
fn without_privilege_the_error_says_how_to_get_it() {
    let Some(bed) = Bed::if_root(true) else { return };
    let said = bed
        .in_ns(
            &bed.server,
            "setpriv",
            &[
                "--reuid=65534",
                "--clear-groups",
                "--inh-caps=-all",
                "--bounding-set=-all",
                MILLSTREAM,
                "serve",
                "--link",
                "xdp:ms0",
            ],
        )
        .expect_err("that user may not");
    assert!(said.contains("CAP_") || said.contains("root") || said.contains("Permission denied"), "{said}");
}

#[test]
fn looking_at_a_running_stack() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = serve(&bed, &["--link", "xdp:ms0"]);
    curl(&bed, &format!("http://{SERVER_ADDR}/9")).expect("curl");
    let ss = ask(&bed, &["ss"]);
    assert!(ss.contains("LISTEN") && ss.contains(":80"), "{ss}");
    assert_eq!(number(&stat(&bed), "tcp", "passive_opens"), 1);
    let told = ask(&bed, &["sysctl", "net.inet.tcp.cc.algorithm=htcp", "net.inet.tcp.cc.htcp"]);
    assert!(told.starts_with("net.inet.tcp.cc.algorithm: cubic -> htcp\n"), "{told}");
    assert!(told.contains("\nnet.inet.tcp.cc.htcp.rtt_scaling: 0\n"), "{told}");
    let refused = look(&bed, &["sysctl", "net.inet.tcp.cc.available=htcp"]);
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("can only be read")
    );
    let file: PathBuf = bed.dir.join("packets.pcapng");
    let capture = std::thread::scope(|scope| {
        let capture = scope.spawn(|| ask(&bed, &["capture", "-s", "2", "-w", &file.to_string_lossy()]));
        // The file's head is written when the capture has begun.
        let begun = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            std::fs::metadata(&file).is_ok_and(|file| file.len() > 0)
        });
        assert!(begun, "the capture begins");
        curl(&bed, &format!("http://{SERVER_ADDR}/9")).expect("curl");
        capture.join()
    });
    capture.expect("capture runs");
    let bytes = std::fs::read(&file).expect("a file");
    assert_eq!(bytes[..4], 0x0a0d_0d0au32.to_le_bytes(), "a pcapng section header");
    let packets = count_blocks(&bytes, 6);
    assert!((8..=20).contains(&packets), "{packets} packets of one short connection");
}

/// pcapng blocks of one type.
fn count_blocks(mut bytes: &[u8], kind: u32) -> usize {
    let mut count = 0;
    while bytes.len() >= 12 {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        count += usize::from(word(0) == kind);
        let len = word(4) as usize;
        assert!(len >= 12 && len <= bytes.len() && word(len - 4) == len as u32, "a block of {len} bytes");
        bytes = &bytes[len..];
    }
    count
}

/// Opens, uses and closes connections; then everything must be as before, TIME-WAIT included.
fn churn_on(bed: &Bed, programs: &Programs) {
    let goal = churn();
    let mut done = 0;
    let rss = || {
        let stat = stat(bed);
        number(&stat, "stack", "footprint") + number(&stat, "sock", "footprint")
    };
    let (mut warm, mut idle) = (0, 0);
    let begin = bench::now();
    while done < goal {
        let said = bed.client(&programs.client, "short", 64, 2.0).expect("client");
        assert_eq!(said["errors"], 0, "{said}");
        let more = said["requests"].as_u64().unwrap_or(0);
        // A machine with other work may stand still for a while; a stack that does stays so.
        idle = if more > 0 { 0 } else { idle + 1 };
        assert!(idle < 5, "no progress after {done} of {goal}");
        done += more;
        if warm == 0 && done > 0 {
            warm = rss();
        }
        eprintln!("{done} of {goal} connections after {:?}", begin.elapsed());
    }
    std::thread::sleep(Duration::from_secs(3));
    let stat = stat(bed);
    assert!(number(&stat, "tcp", "passive_opens") >= done);
    assert_eq!(number(&stat, "tcp", "passive_opens"), number(&stat, "tcp", "closed"), "{stat}");
    assert_eq!(number(&stat, "stack", "time_wait"), 0, "{stat}");
    assert_eq!(number(&stat, "sock", "descriptors"), 2, "listener and epoll");
    assert!(rss() <= warm + warm / 4 + (1 << 20), "footprint grew from {warm} to {}", rss());
}

#[test]
fn churn_over_af_xdp() {
    let Some(bed) = Bed::if_root(true) else { return };
    let programs = peers(&bed);
    let _server = serve(&bed, &["--link", "xdp:ms0", "--set", "time_wait=1s"]);
    churn_on(&bed, &programs);
}

#[test]
fn churn_over_tap() {
    let Some(bed) = Bed::if_root(true) else { return };
    let programs = peers(&bed);
    bed.tap_instead().expect("a tap device");
    let address = format!("{SERVER_ADDR}/16");
    let args = ["serve", "--link", "tap:mst0", "--address", &address, "--set", "time_wait=1s"];
    let _server = bed.start(&bed.client, Path::new(MILLSTREAM), &args).expect("serve starts");
    churn_on(&bed, &programs);
}
