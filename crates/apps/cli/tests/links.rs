//! Goal: an unmodified program fetches and serves the same bytes over every kind of link that the launcher can open;
//! without one it runs on the kernel, if that was asked for, and says so once.
//!
//! Tests that need network namespaces need root, and report that they were skipped without it.

use bench::bed::{Bed, CLIENT_BASE, SERVER_ADDR, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const SERVE: &[&str] = &["python3", "-u", "-m", "http.server", "-d"];
const CURL: &[&str] = &["curl", "-sSf", "--max-time", "20", "-o"];

/// Bytes that are the same nowhere, in `file` of the bed's folder.
fn file(bed: &Bed) -> Vec<u8> {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(bed.dir.join("file"), &bytes).expect("a file");
    bytes
}

/// Returns the output of `curl`, with the arguments before it, in this namespace once the server listens.
fn fetch(bed: &Bed, ns: &str, before: &[&str], host: &str, port: u16) -> Vec<u8> {
    let got = bed.dir.join("got");
    let (path, url) = (got.to_string_lossy(), format!("http://{host}:{port}/file"));
    let all = [before, CURL, &[&path, &url]].concat();
    for attempt in 0.. {
        match bed.in_ns(ns, all[0], &all[1..]) {
            Ok(_) => break,
            // Not there yet (curl's 7: it could not connect). Every other error is one.
            Err(e) if attempt == 50 || !e.contains("exit status: 7:") => panic!("{all:?}: {e}"),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    std::fs::read(got).expect("what came")
}

/// An HTTP server of Python's over the bed's folder; what stands before it.
fn serve(bed: &Bed, ns: &str, before: &[&str], port: &str) -> Server {
    let dir = bed.dir.to_string_lossy();
    let all = [before, SERVE, &[&dir, port]].concat();
    bed.spawn(ns, Path::new(all[0]), &all[1..]).expect("it starts")
}

/// Both roles over one link: a launched server in `ns`, then a launched client there and the kernel's server in the
/// clients' namespace.
fn both_roles(bed: &Bed, ns: &str, link: &[&str]) {
    let bytes = file(bed);
    let launched = [&[MILLSTREAM, "run"], link, &["--"]].concat();
    let server = serve(bed, ns, &launched, "8000");
    assert!(fetch(bed, &bed.client, &[], SERVER_ADDR, 8000) == bytes, "served over {link:?}");
    // Over some links one process at a time has the interface.
    drop(server);
    let _server = serve(bed, &bed.client, &[], "8001");
    assert!(fetch(bed, &bed.client, &[], CLIENT_BASE, 8001) == bytes, "the kernel's server");
    assert!(fetch(bed, ns, &launched, CLIENT_BASE, 8001) == bytes, "fetched over {link:?}");
}

#[test]
fn links_that_share_an_interface_with_the_kernel() {
    let Some(bed) = Bed::if_root(true) else { return };
    for link in ["nic:ms0", "xdp:ms0", "xdp:ms0,mode=generic", "packet:ms0"] {
        both_roles(&bed, &bed.server, &["--link", link]);
    }
}

#[test]
fn a_tap_with_an_address_of_its_own() {
    let Some(bed) = Bed::if_root(true) else { return };
    bed.tap_instead().expect("a tap device");
    let address = format!("{SERVER_ADDR}/16");
    both_roles(&bed, &bed.client, &["--link", "tap:mst0", "--address", &address]);
}

/// A folder of this test's; gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ms-links-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the folder is ours");
    }
}

/// Memory that two processes share takes no rights: this runs as any user.
#[test]
fn memory_shared_with_another_stack() {
    let folder = Folder::new("shm");
    let link = format!("shm:{}/link", folder.0.display());
    let mut command = Command::new(MILLSTREAM);
    command.args(["serve", "--link", &link, "--address", "10.9.0.1/24"]).env("MILLSTREAM_RUN", &folder.0);
    let _server = bench::bed::serving(command).expect("serve starts");
    let run = ["run", "--link", &link, "--address", "10.9.0.2/24", "--", "curl", "-sSf", "--max-time", "20"];
    let output = Command::new(MILLSTREAM).args(run).arg("http://10.9.0.1/300000").output().expect("it runs");
    let wanted: Vec<u8> = (0..300_000).map(|i| b'!' + (i % 89) as u8).collect();
    assert!(output.stdout == wanted, "{}", String::from_utf8_lossy(&output.stderr));
}

/// A server and a client in one program, over the loopback; and what the environment says of a launch.
const TALK: &str = "
import os, socket, threading
s = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(s.getsockname())
a, _ = s.accept()
threading.Thread(target=lambda: (a.sendall(b'x' * 3_000_000), a.close())).start()
got = 0
while more := c.recv(65536):
    got += len(more)
print(got, os.getuid(), 'millstream' in os.environ.get('LD_PRELOAD', ''))
";

fn run(command: &mut Command, more: &[&str]) -> Output {
    command.arg("run").args(more).args(["--", "python3", "-c", TALK]).output().expect("it runs")
}

/// Returns the output, and the lines of standard error.
fn said(output: &Output) -> (String, Vec<String>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr).lines().map(str::to_owned).collect())
}

/// This runs as any user: where root could open the link, there is none of that name.
#[test]
fn without_a_link_the_program_runs_on_the_kernel_if_that_was_asked_for() {
    let plain = Command::new("python3").args(["-c", TALK]).output().expect("it runs");
    for link in ["", "xdp:nowhere0", "nic:nowhere0", "packet:nowhere0"] {
        let output = run(&mut Command::new(MILLSTREAM), &["--fallback", "kernel", "--link", link]);
        let (printed, lines) = said(&output);
        assert_eq!(printed, said(&plain).0, "{link:?}: {lines:?}");
        assert!(output.status.success());
        assert_eq!(lines.len(), 1, "{lines:?}");
        let told = lines[0].starts_with("millstream: ") && lines[0].ends_with(": python3 runs on the kernel");
        assert!(told, "{lines:?}");
    }
    // What is no link anywhere is an error in any case, as none is by itself.
    for more in [&["--fallback", "kernel", "--link", "pigeon:1"][..], &["--link", ""]] {
        let refused = run(&mut Command::new(MILLSTREAM), more);
        assert!(!refused.status.success() && said(&refused).1[0].contains("link"), "{:?}", said(&refused));
    }
}

/// The first line says where the program will be.
#[test]
fn without_the_flag_the_first_line_says_where_the_program_will_be() {
    let launched = |more: &[&str]| {
        let mut command = Command::new(MILLSTREAM);
        command.env("MILLSTREAM_LINK", "shm:/nowhere/at/all").env("MILLSTREAM_ADDRESS", "10.9.0.2/24");
        let output = command.arg("run").args(more).args(["--", "true"]).output().expect("it runs");
        said(&output).1
    };
    let lines = launched(&[]);
    assert!(lines[0].contains("true runs on shm:/nowhere/at/all, which a setting names"), "{lines:?}");
    assert_eq!(launched(&["--quiet"]), [] as [String; 0]);
    let launched = |link: &[&str]| {
        let run = [&["run", "--quiet"][..], link, &["--", "true"]].concat();
        said(&Command::new(MILLSTREAM).args(run).output().expect("it runs")).1
    };
    assert_eq!(launched(&[]), [] as [String; 0]);
    let lines = launched(&["--link", ""]);
    assert!(lines[0].contains("true is not run") && lines[0].contains("--fallback kernel"), "{lines:?}");
    let output = Command::new(MILLSTREAM).args(["run", "--", "true"]).output().expect("it runs");
    let (_, lines) = said(&output);
    assert!(lines[0].ends_with("true runs on tap:millstream0, the default without --link"), "{lines:?}");
    let path = ["run", "--link", "nic:lo", "--path", "rtt_ms=1", "--", "true"];
    let (_, lines) = said(&Command::new(MILLSTREAM).args(path).output().expect("it runs"));
    assert!(lines[0].contains("millstream pipe"), "{lines:?}");
}

/// By itself a link that cannot be opened is an error of the call that needs it, with a line that says what would help.
#[test]
fn without_a_link_a_call_fails_otherwise() {
    let connect = "import socket; socket.create_connection(('192.0.2.1', 9), 5)";
    let link = ["--link", "shm:/nowhere/at/all", "--address", "10.9.0.2/24"];
    let run = [&["run"][..], &link, &["--", "python3", "-c", connect]].concat();
    let (_, lines) = said(&Command::new(MILLSTREAM).args(run).output().expect("it runs"));
    let has = |words: &str| lines.iter().any(|line| line.contains(words));
    assert!(has("millstream: ") && has("Network is down"), "{lines:?}");
}

#[test]
fn a_user_without_rights_runs_on_the_kernel() {
    let Some(bed) = Bed::if_root(true) else { return };
    let nobody = ["--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", MILLSTREAM];
    for link in ["nic:ms0", "xdp:ms0", "packet:ms0"] {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &bed.server, "setpriv"]).args(nobody);
        let (printed, lines) = said(&run(&mut command, &["--fallback", "kernel", "--link", link]));
        assert_eq!(printed, "3000000 65534 False\n", "{lines:?}");
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
    // Whom root names runs without rights on the kernel, too.
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &bed.server, MILLSTREAM]);
    let more = ["--fallback", "kernel", "--link", "nic:nowhere0", "--user", "nobody"];
    assert_eq!(said(&run(&mut command, &more)).0, "3000000 65534 False\n");
}

#[test]
fn a_link_that_can_be_opened_is_used() {
    let Some(bed) = Bed::if_root(true) else { return };
    for link in ["nic:ms0", "xdp:ms0", "packet:ms0"] {
        both_roles(&bed, &bed.server, &["--fallback", "kernel", "--link", link]);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &bed.server, MILLSTREAM]);
        let (printed, lines) = said(&run(&mut command, &["--quiet", "--fallback", "kernel", "--link", link]));
        assert_eq!((printed.as_str(), lines.len()), ("3000000 0 True\n", 0), "{lines:?}");
    }
}

#[test]
fn what_nobody_could_reach_is_refused() {
    let link = format!("shm:{}/no-address-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let refused = |args: &[&str], words: &[&str]| {
        let args = [&args[..1], &["--link", &link], &args[1..]].concat();
        let output = Command::new(MILLSTREAM).args(args).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.iter().all(|word| said.contains(word)), "{said}");
    };
    refused(&["serve"], &["no address", "--address"]);
    refused(&["load", "http://10.0.0.1/"], &["no address", "--address"]);
    refused(&["load", "--address", "10.0.0.2/24", "http://10.1.0.1/"], &["10.1.0.1:80", "--gateway"]);
    refused(&["load", "--address", "10.0.0.2", "http://10.0.0.1/"], &["10.0.0.2/24"]);
}
