//! Goal: many programs of ours on one interface beside the kernel, and many processes on one listening port: each gets
//! what is its own, whichever process comes, goes or is killed.
//!
//! Needs root for network namespaces; without it every test says that it was skipped. Clients, and servers that must
//! do what `millstream serve` does not, are this very program, started again inside a namespace.

use bench::bed::{Bed, SERVER_ADDR, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
/// Role of this program when it is started again: the name of one of the tests at the end of this file.
const ROLE: &str = "MS_SHARING_ROLE";

/// This program again, in a namespace, told what to do line by line.
struct Helper {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Helper {
    fn start(ns: &str, role: &str) -> Helper {
        let exe = std::env::current_exe().expect("a path");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", ns]).arg(exe);
        command.args(["--exact", role, "--ignored", "--nocapture"]).env(ROLE, role);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts itself again");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Helper { child, stdin, stdout: BufReader::new(stdout) }
    }

    /// Says something; the numbers that are the answer.
    fn ask(&mut self, what: &str) -> Vec<usize> {
        writeln!(self.stdin, "{what}").expect("it listens");
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).expect("it speaks") > 0, "it ended at {what:?}");
            // The test runner talks too, and begins the line.
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.split_whitespace().map(|word| word.parse().expect("a number")).collect();
            }
        }
    }

    /// Asks for connections, of which the last number is how long the slowest took.
    fn ask_timed(&mut self, what: &str) -> (Vec<usize>, Duration) {
        let mut answer = self.ask(what);
        let slowest = answer.pop().expect("a time");
        (answer, Duration::from_millis(slowest as u64))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if self.child.kill().and_then(|()| self.child.wait()).is_err() {
            eprintln!("a helper could not be ended");
        }
    }
}

/// How many of `answers` came from each of those who answer with these lengths; all must have.
fn shares(answers: &[usize], lengths: &[usize]) -> Vec<usize> {
    assert!(answers.iter().all(|answer| lengths.contains(answer)), "{answers:?}");
    lengths.iter().map(|length| answers.iter().filter(|answer| *answer == length).count()).collect()
}

/// Each connection goes to a member by a hash with a key that is drawn, so shares vary as coins do: five standard
/// deviations are exceeded once in a million times.
fn even(answers: &[usize], lengths: &[usize]) {
    let (all, members) = (answers.len() as f64, lengths.len() as f64);
    let (fair, deviation) = (all / members, (all * (members - 1.0)).sqrt() / members);
    let shares = shares(answers, lengths);
    assert!(shares.iter().all(|share| (*share as f64 - fair).abs() <= 5.0 * deviation), "{shares:?}");
}

/// `PORT`: as NSD, listens as root, gives that up, and makes two workers that wait and accept.
const GIVES_UP_ROOT: &str = "
import os, select, socket, sys
s = socket.create_server(('', int(sys.argv[1])), backlog=50)
s.setblocking(False)
os.setgroups([])
os.setuid(65534)
parent = os.getpid()
def work(number):
    set = select.epoll()
    set.register(s, select.EPOLLIN)
    while os.getppid() == parent:
        set.poll(0.2)
        try:
            c, peer = s.accept()
        except BlockingIOError:
            continue
        c.setblocking(True)
        c.sendall(c.recv(100) + b' %d %s' % (number, peer[0].encode()))
        c.close()
    os._exit(0)
for number in range(2):
    if os.fork() == 0:
        work(number)
print('ready', flush=True)
os.wait()
";

/// `ADDRESS PORT TIMES`: asks so often, and prints which workers answered.
const ASKS_WORKERS: &str = "
import socket, sys
heard = set()
for attempt in range(int(sys.argv[3])):
    c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
    c.sendall(b'hello')
    said, number, peer = c.makefile().read().split()
    assert (said, peer) == ('hello', c.getsockname()[0])
    heard.add(number)
print(*sorted(heard))
";

fn workers_have_the_port_of_a_parent_without_root(link: &str) {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = ["python3", "-u", "-c", GIVES_UP_ROOT, "53"];
    let args = [&["run", "--require", "--quiet", "--link", link, "--"][..], &program].concat();
    let server = bed.start(&bed.server, Path::new(MILLSTREAM), &args).expect("it starts");
    let ask = |ns, to, times| bed.in_ns_within(ns, 60, "python3", &["-c", ASKS_WORKERS, to, "53", times]);
    assert_eq!(ask(&bed.client, SERVER_ADDR, "40").as_deref(), Ok("0 1\n"));
    assert!(ask(&bed.server, "127.0.0.1", "4").is_ok());
    server.kill().expect("it ends");
}

#[test]
fn workers_of_a_parent_that_has_given_up_root_have_its_port() {
    workers_have_the_port_of_a_parent_without_root("nic:ms0");
}

#[test]
fn workers_of_a_parent_that_has_given_up_root_have_its_port_over_xdp() {
    workers_have_the_port_of_a_parent_without_root("xdp:ms0");
}

/// A worker that answers with `length` bytes.
fn worker(bed: &Bed, link: &str, length: usize) -> Server {
    let length = length.to_string();
    let args = ["serve", "--link", link, "--reuse-port", "--bytes", &length];
    bed.start(&bed.server, Path::new(MILLSTREAM), &args).expect("serve starts")
}

fn workers_share_a_port(count: usize, link: &str) {
    let Some(bed) = Bed::if_root(true) else { return };
    let mut lengths: Vec<_> = (0..count).map(|n| 1000 + n).collect();
    let mut workers: Vec<_> = lengths.iter().map(|length| worker(&bed, link, *length)).collect();
    let mut client = Helper::start(&bed.client, "a_client");

    // Who came last is still being handed buckets, and a SYN may be lost meanwhile.
    let (answers, slowest) = client.ask_timed("short 50");
    shares(&answers, &lengths);
    assert!(slowest < Duration::from_millis(2500), "{slowest:?}");
    let (answers, slowest) = client.ask_timed("short 400");
    even(&answers, &lengths);
    assert!(slowest < Duration::from_millis(900), "{slowest:?}");
    let open = client.ask("open 80");
    even(&open, &lengths);
    assert_eq!(client.ask("again"), open);

    // One is killed: its connections are reset, those of the others go on, and no thread waits longer than for a SYN
    // that was lost.
    workers.remove(0).kill().expect("SIGKILL");
    let dead = lengths.remove(0);
    let (answers, slowest) = client.ask_timed("short 100");
    shares(&answers, &lengths);
    assert!(slowest < Duration::from_millis(2500), "{slowest:?}");
    let left: Vec<_> = open.iter().map(|&length| if length == dead { 0 } else { length }).collect();
    assert_eq!(client.ask("again"), left);
    let (answers, slowest) = client.ask_timed("short 400");
    even(&answers, &lengths);
    assert!(slowest < Duration::from_millis(900), "{slowest:?}");

    // One joins.
    lengths.push(2000);
    workers.push(worker(&bed, link, 2000));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(client.ask("again"), left);
    even(&client.ask_timed("short 400").0, &lengths);
    assert_eq!(client.ask("again"), left);
}

#[test]
fn two_workers_share_a_port() {
    workers_share_a_port(2, "packet:ms0");
}

#[test]
fn two_workers_one_of_whom_has_xdp_share_a_port() {
    workers_share_a_port(2, "nic:ms0");
}

/// A counter of the link of one worker.
fn link_stat(bed: &Bed, worker: &Server, name: &str) -> u64 {
    let mut command = Command::new(MILLSTREAM);
    command.args(["stat", "--json", "--pid", &worker.pid().to_string()]).env("MILLSTREAM_RUN", &bed.dir);
    let said = command.output().expect("stat runs").stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
    said["link"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {said}"))
}

#[test]
fn who_is_alone_keeps_the_fast_way() {
    let Some(bed) = Bed::if_root(true) else { return };
    let mut client = Helper::start(&bed.client, "a_client");
    let first = worker(&bed, "nic:ms0", 1000);
    let steered = |wanted: u64| {
        let found = (0..40).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            link_stat(&bed, &first, "ports_steered") == wanted
        });
        assert!(found, "not steered {wanted} times");
    };
    steered(1);
    let open = client.ask("open 30");
    assert_eq!((open.clone(), client.ask_timed("short 50").0), (vec![1000; 30], vec![1000; 50]));
    assert_eq!(link_stat(&bed, &first, "beside_packets"), 0);
    let second = worker(&bed, "nic:ms0", 1001);
    steered(0);
    assert_eq!(client.ask("again"), open);
    even(&client.ask_timed("short 200").0, &[1000, 1001]);
    assert!(link_stat(&bed, &first, "beside_packets") > 100);
    assert_eq!(client.ask("large 2000"), [3, 2_000_000].repeat(8));
    drop(second);
    steered(1);
    assert_eq!(client.ask("again"), open);
    let before = link_stat(&bed, &first, "beside_packets");
    assert_eq!(client.ask_timed("short 50").0, [1000; 50]);
    assert_eq!(link_stat(&bed, &first, "beside_packets"), before);
}

#[test]
fn four_workers_share_a_port() {
    workers_share_a_port(4, "nic:ms0");
}

#[test]
fn a_reload_keeps_what_is_open() {
    let Some(bed) = Bed::if_root(true) else { return };
    let mut old = Helper::start(&bed.server, "a_server");
    assert_eq!(old.ask("listen 3000"), [3000]);
    let mut client = Helper::start(&bed.client, "a_client");
    let open = client.ask("open 50");
    assert_eq!(open, [3000; 50]);
    // Alone and parked, it answers nothing until it is wanted again.
    assert_eq!(old.ask("park"), [3000]);
    assert_eq!(client.ask("briefly"), [0]);
    assert_eq!(old.ask("unpark"), [3000]);

    let mut new = Helper::start(&bed.server, "a_server");
    assert_eq!(new.ask("listen 4000"), [4000]);
    std::thread::sleep(Duration::from_millis(100));
    even(&client.ask_timed("short 200").0, &[3000, 4000]);
    assert_eq!(old.ask("close"), [3000]);
    let (answers, slowest) = client.ask_timed("short 200");
    assert_eq!(answers, [4000; 200]);
    assert!(slowest < Duration::from_millis(2500), "{slowest:?}");
    assert_eq!(client.ask("again"), open);
    // The old one ends, and its clients hear of it.
    drop(old);
    assert_eq!(client.ask("again"), [0; 50]);
    assert_eq!(client.ask_timed("short 50").0, [4000; 50]);
    drop(new);
    // Of the killed nothing is left once a thread comes.
    drop(worker(&bed, "packet:ms0", 1000));
}

#[test]
fn strangers_do_not_share() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _worker = worker(&bed, "nic:ms0", 1000);
    let refused = |args: &[&str]| {
        let all = [&["serve", "--link", "nic:ms0"], args].concat();
        let said = bed.in_ns(&bed.server, MILLSTREAM, &all).expect_err("taken");
        assert!(said.contains("taken by another program"), "{said}");
    };
    refused(&[]);
    refused(&["--set", "share=9"]);
    refused(&["--reuse-port", "--listen", &format!("{SERVER_ADDR}:80")]);
}

#[test]
fn servers_and_a_client_and_the_kernel_on_one_interface() {
    let Some(bed) = Bed::if_root(true) else { return };
    let serve = |port: &str, length: &str| {
        let args = ["serve", "--json", "--link", "nic:ms0", "--listen", port, "--bytes", length];
        bed.start(&bed.server, Path::new(MILLSTREAM), &args)
    };
    let mut kernels = Helper::start(&bed.server, "a_kernel_server");
    assert_eq!(kernels.ask("22"), [1]);
    let mut client = Helper::start(&bed.client, "a_client");
    let fetch = |client: &mut Helper, port: u16| client.ask(&format!("fetch {port}"))[0];
    let xdp = serve("80", "800").expect("the first takes AF_XDP");
    let packet = serve("81", "810").expect("the second shares");
    let load = || {
        let args = ["load", "--link", "nic:ms0", "--json", "-s", "1", "-c", "4", "http://10.77.1.1:8000/"];
        bed.in_ns(&bed.server, MILLSTREAM, &args).expect("load runs")
    };
    let mut far = Helper::start(&bed.client, "a_kernel_server");
    assert_eq!(far.ask("8000"), [1]);
    let figures = std::thread::scope(|scope| {
        let load = scope.spawn(load);
        for _ in 0..20 {
            assert_eq!(
                (fetch(&mut client, 80), fetch(&mut client, 81), fetch(&mut client, 22)),
                (800, 810, 5)
            );
        }
        bed.in_ns(&bed.client, "ping", &["-c", "3", "-i", "0.2", "-W", "2", SERVER_ADDR]).expect("ping");
        load.join().expect("load")
    });
    let figures: serde_json::Value =
        serde_json::from_str(figures.lines().last().expect("figures")).expect("JSON");
    assert_eq!(figures["errors"], 0, "{figures}");
    assert!(figures["requests"].as_u64() > Some(100), "{figures}");

    // A thread that has a port has it alone: of ours, and of the kernel's.
    assert!(serve("80", "1").is_err() && serve("81", "1").is_err() && serve("22", "1").is_err());
    assert_eq!((kernels.ask("80"), kernels.ask("81")), (vec![0], vec![0]));

    // The owner of the XDP program is killed: its port is free at once, the others go on, the program is to be had.
    xdp.kill().expect("SIGKILL");
    assert_eq!((fetch(&mut client, 81), fetch(&mut client, 22)), (810, 5));
    assert_eq!(kernels.ask("80"), [1]);
    assert_eq!(fetch(&mut client, 80), 5);
    let args = ["serve", "--link", "xdp:ms0", "--listen", "82", "--bytes", "820"];
    let again = bed.start(&bed.server, Path::new(MILLSTREAM), &args).expect("AF_XDP is free");
    assert_eq!((fetch(&mut client, 82), fetch(&mut client, 81)), (820, 810));
    // And one on a packet socket.
    packet.kill().expect("SIGKILL");
    assert_eq!(kernels.ask("81"), [1]);
    assert_eq!((fetch(&mut client, 81), fetch(&mut client, 82)), (5, 820));
    drop(again);
}

/// `MILLSTREAM_KILLS=300` is the full number.
fn kills() -> u32 {
    std::env::var("MILLSTREAM_KILLS").map_or(6, |count| count.parse().expect("a number of kills"))
}

/// Processes of ours are killed at any moment of their lives, on the interface and on the port of another: that one
/// keeps its connections, and has the whole port back each time.
#[test]
fn a_process_that_is_killed_at_any_moment_takes_nothing_from_another() {
    let Some(bed) = Bed::if_root(true) else { return };
    let survivor = worker(&bed, "nic:ms0", 1000);
    let mut client = Helper::start(&bed.client, "a_client");
    let open = client.ask("open 40");
    assert_eq!(open, [1000; 40]);
    let (ways, mut rng) = (["serve", "serve on nic:", "run"], base::Rng::new(1));
    let (mut served, kills) = ([0; 3], kills());
    for nth in 0..kills {
        let way = nth as usize % ways.len();
        let line = match way {
            0 => "serve --link packet:ms0 --reuse-port --bytes 2000",
            1 => "serve --link nic:ms0 --reuse-port --bytes 2000",
            _ => "run --link packet:ms0 -- python3 -m http.server 81",
        };
        let victim: Vec<_> = line.split(' ').collect();
        let victim = bed.spawn(&bed.server, Path::new(MILLSTREAM), &victim).expect("it starts");
        // A server is up within some 60 ms; what the launcher runs, within some 400.
        let moment = rng.below(if way == 2 { 600 } else { 150 });
        std::thread::sleep(Duration::from_millis(moment));
        // Some have connections of their own when they are killed.
        served[way] += usize::from(moment % 2 == 1 && client.ask("briefly") == [1]);
        victim.kill().expect("SIGKILL");
        assert_eq!(client.ask("again"), open, "kill {nth} of {}, after {moment} ms", ways[way]);
        if nth % 10 == 9 || nth + 1 == kills {
            let (answers, slowest) = client.ask_timed("short 10");
            assert_eq!(answers, [1000; 10], "kill {nth}");
            assert!(slowest < Duration::from_millis(2500), "{slowest:?}");
        }
    }
    assert_eq!(client.ask("large 1000"), [3, 1_000_000].repeat(8));
    println!("{kills} processes killed; 40 connections of another kept; {served:?} connections between");
    survivor.stop().expect("it ends");
}

fn signal(pid: u32, name: &str) {
    let done = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs");
    assert!(done.success(), "{name} {pid}");
}

/// Stops a process. The signal stops one thread, which stops the others: until then they answer, and a connection that
/// begins meanwhile waits for the stopped process.
fn stop(pid: u32) {
    signal(pid, "-STOP");
    let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
        let state =
            std::fs::read_to_string(thread.expect("a thread").path().join("stat")).expect("its state");
        state.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"))
    };
    let all = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process").all(is_stopped);
    let soon = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        all()
    });
    assert!(soon, "process {pid} does not stop");
}

/// One of two workers is stopped: the other answers all that is new, as workers with one listener on the kernel do.
/// Connections of the stopped one wait, and when it goes on it takes part again.
fn a_stopped_worker_keeps_no_share(pids: [u32; 2], client: &mut Helper, lengths: &[usize]) {
    let open = client.ask("open 40");
    even(&open, lengths);
    stop(pids[0]);
    let (answers, slowest) = client.ask_timed("short 20");
    assert_eq!(answers, vec![lengths[1]; 20], "{slowest:?}");
    assert!(slowest < Duration::from_millis(3500), "{slowest:?}");
    signal(pids[0], "-CONT");
    assert_eq!(client.ask("again"), open);
    let took_part = (0..20).any(|_| client.ask_timed("short 20").0.contains(&lengths[0]));
    assert!(took_part, "it has no share again");
    even(&client.ask_timed("short 200").0, lengths);
    assert_eq!(client.ask("again"), open);
}

#[test]
fn a_worker_that_is_stopped_keeps_no_new_connections() {
    let Some(bed) = Bed::if_root(true) else { return };
    let lengths = [1000, 1001];
    let workers = lengths.map(|length| worker(&bed, "nic:ms0", length));
    let mut client = Helper::start(&bed.client, "a_client");
    client.ask("short 20");
    let [first, second] = [workers[0].pid(), workers[1].pid()];
    a_stopped_worker_keeps_no_share([first, second], &mut client, &lengths);
    // Now the other one, which came last and has only the packet socket.
    let lengths = [1001, 1000];
    a_stopped_worker_keeps_no_share([second, first], &mut client, &lengths);
}

/// It was alone until then, so the XDP program gives it all that comes to the port.
#[test]
fn a_worker_that_was_stopped_alone_keeps_no_new_connections() {
    let Some(bed) = Bed::if_root(true) else { return };
    let first = worker(&bed, "nic:ms0", 1000);
    let mut client = Helper::start(&bed.client, "a_client");
    let open = client.ask("open 20");
    assert_eq!(open, [1000; 20]);
    stop(first.pid());
    let _second = worker(&bed, "nic:ms0", 1001);
    let (answers, slowest) = client.ask_timed("short 20");
    assert_eq!(answers, [1001; 20], "{slowest:?}");
    assert!(slowest < Duration::from_millis(3500), "{slowest:?}");
    signal(first.pid(), "-CONT");
    assert_eq!(client.ask("again"), open);
    let took_part = (0..20).any(|_| client.ask_timed("short 20").0.contains(&1000));
    assert!(took_part, "it has no share again");
    even(&client.ask_timed("short 200").0, &[1000, 1001]);
    assert_eq!(client.ask("again"), open);
}

/// Workers of a launched program have one listener by fork.
#[test]
fn a_launched_worker_that_is_stopped_keeps_no_new_connections() {
    let Some(bed) = Bed::if_root(true) else { return };
    let code = r"
import os, socket, sys, threading
def answer(conn, length):
    while conn.recv(4096):
        conn.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % length + b'x' * length)
listener = socket.create_server(('', 80))
for nth in range(2):
    if os.fork() == 0:
        with open(sys.argv[1] + str(nth), 'w') as file:
            file.write(str(os.getpid()))
        while True:
            threading.Thread(target=answer, args=(listener.accept()[0], 1000 + nth), daemon=True).start()
os.wait()
";
    let named = bed.dir.join("worker-");
    let named = named.to_str().expect("a path");
    let args = ["run", "--link", "nic:ms0", "--", "python3", "-c", code, named];
    let _launched = bed.spawn(&bed.server, Path::new(MILLSTREAM), &args).expect("it starts");
    let pid = |nth: u32| std::fs::read_to_string(format!("{named}{nth}")).ok()?.parse::<u32>().ok();
    let mut client = Helper::start(&bed.client, "a_client");
    let lengths = [1000, 1001];
    let both = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        client.ask("briefly") == [1] && {
            let answers = client.ask_timed("short 20").0;
            lengths.iter().all(|length| answers.contains(length))
        }
    });
    assert!(both, "the workers do not share");
    let pids = [0, 1].map(|nth| pid(nth).expect("it has written its number"));
    a_stopped_worker_keeps_no_share(pids, &mut client, &lengths);
    pids.iter().for_each(|pid| signal(*pid, "-KILL"));
}

/// Returns the orders to a helper of this role, line by line; nothing where the test runner runs the role itself.
fn orders(role: &str) -> impl Iterator<Item = String> {
    let here = std::env::var(ROLE).is_ok_and(|wanted| wanted == role);
    std::io::stdin().lines().map_while(Result::ok).take_while(move |_| here)
}

fn say(answer: &[usize]) {
    let words: Vec<_> = answer.iter().map(usize::to_string).collect();
    println!("> {}", words.join(" "));
}

/// A request on a connection; the length of the answer, 0 if there is none.
fn request(stream: &mut TcpStream) -> usize {
    exchange(stream, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
}

fn exchange(stream: &mut TcpStream, request: &[u8]) -> usize {
    let mut answer = || -> std::io::Result<usize> {
        stream.set_read_timeout(Some(Duration::from_secs(4)))?;
        stream.set_write_timeout(Some(Duration::from_secs(4)))?;
        stream.write_all(request)?;
        let (mut text, mut chunk) = (Vec::new(), [0; 65536]);
        loop {
            let got = stream.read(&mut chunk)?;
            text.extend_from_slice(&chunk[..got]);
            let head = text.windows(4).position(|end| end == b"\r\n\r\n");
            let length = head.and_then(|head| {
                let head = String::from_utf8_lossy(&text[..head]).to_lowercase();
                let (_, length) = head.split_once("content-length: ")?;
                length.split("\r\n").next()?.parse::<usize>().ok()
            });
            match (head, length) {
                (Some(head), Some(length)) if text.len() >= head + 4 + length => return Ok(length),
                _ if got == 0 => return Ok(0),
                _ => {}
            }
        }
    };
    answer().unwrap_or(0)
}

fn connect(port: u16, timeout: Duration) -> Option<TcpStream> {
    let to = std::net::SocketAddr::new(SERVER_ADDR.parse().expect("an address"), port);
    TcpStream::connect_timeout(&to, timeout).ok()
}

#[test]
#[ignore = "a helper of the tests above"]
fn a_client() {
    let mut open: Vec<TcpStream> = Vec::new();
    for order in orders("a_client") {
        let (what, number) = order.split_once(' ').unwrap_or((&order, "1"));
        let number: u16 = number.parse().expect("a number");
        let fresh = || connect(80, Duration::from_secs(4));
        match what {
            "open" => {
                open = (0..number).filter_map(|_| fresh()).collect();
                say(&open.iter_mut().map(request).collect::<Vec<_>>());
            }
            "again" => say(&open.iter_mut().map(request).collect::<Vec<_>>()),
            // As many thousand bytes up, and then down.
            "large" => {
                let size = 1000 * usize::from(number);
                let head = format!("PUT /3 HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n");
                let put = [head.into_bytes(), vec![7; size]].concat();
                let get = format!("GET /{size} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes();
                let both = |mut stream: TcpStream| [&put, &get].map(|ask| exchange(&mut stream, ask));
                say(&(0..8).flat_map(|_| fresh().map_or([0; 2], both)).collect::<Vec<_>>());
            }
            "briefly" => say(&[usize::from(connect(80, Duration::from_millis(300)).is_some())]),
            "fetch" => {
                let mut stream = connect(number, Duration::from_secs(4));
                say(&[stream.as_mut().map_or(0, request)]);
            }
            _ => {
                let mut slowest = 0;
                let mut answers: Vec<usize> = Vec::new();
                for _ in 0..number {
                    let begin = bench::now();
                    answers.push(fresh().as_mut().map_or(0, request));
                    slowest = slowest.max(begin.elapsed().as_millis() as usize);
                }
                answers.push(slowest);
                say(&answers);
            }
        }
    }
}

/// Answers requests until the peer is gone.
fn answer_all(mut stream: impl Read + Write, length: usize) {
    let mut chunk = [0; 1024];
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(length));
    while stream.read(&mut chunk).is_ok_and(|got| got > 0) && stream.write_all(answer.as_bytes()).is_ok() {}
}

#[test]
#[ignore = "a helper of the tests above"]
fn a_kernel_server() {
    for order in orders("a_kernel_server") {
        let listener = TcpListener::bind(("0.0.0.0", order.parse::<u16>().expect("a port")));
        say(&[usize::from(listener.is_ok())]);
        std::thread::spawn(move || {
            let Ok(listener) = listener else { return };
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || answer_all(stream, 5));
            }
        });
    }
}

#[test]
#[ignore = "a helper of the tests above"]
fn a_server() {
    let mut settings = sock::Settings::default();
    for (key, value) in [("link", "packet:ms0"), ("share", "5"), ("pin", "false")] {
        settings.set(key, value).expect("a setting");
    }
    let (mut opened, mut listener, mut length) = (None, None, 0);
    for order in orders("a_server") {
        match order.split_once(' ') {
            Some((_, number)) => {
                length = number.parse().expect("a number");
                let stack = &opened.insert(sock::open(&settings).expect("a stack")).stacks[0];
                let shared = sock::TcpListener::bind_shared(stack, ([0, 0, 0, 0], 80).into(), 64);
                let shared = std::sync::Arc::new(shared.expect("listens"));
                let theirs = shared.clone();
                theirs.set_accept_timeout(Some(Duration::from_millis(50))).expect("a time");
                listener = Some((shared, std::thread::spawn(move || serve_until_alone(&theirs, length))));
            }
            None if order == "close" => {
                // The thread sees that nothing else has the listener any more.
                let (shared, thread) = listener.take().expect("listens");
                drop(shared);
                thread.join().expect("ends");
            }
            None => listener.iter().for_each(|(shared, _)| shared.park(order == "park").expect("parks")),
        }
        say(&[length]);
    }
}

fn serve_until_alone(listener: &std::sync::Arc<sock::TcpListener>, length: usize) {
    while std::sync::Arc::strong_count(listener) > 1 {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_read_timeout(None).expect("a time");
            std::thread::spawn(move || answer_all(stream, length));
        }
    }
}
