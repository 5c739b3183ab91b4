//! Goal: unmodified programs on our stack, over veth between two namespaces: bytes as they were, the loopback beside
//! the link, and a port that is taken.
//!
//! Needs root for network namespaces; without it every test says that it was skipped.

use bench::bed::{Bed, CLIENT_BASE, SERVER_ADDR, SERVER_ADDR6, Server};
use std::path::Path;
use std::time::Duration;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const LINK: &str = "xdp:ms0";

/// Arguments that run `program` under the launcher.
fn launched<'a>(program: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--link", LINK, "--"][..], program].concat()
}

/// Starts `program` on our stack, at the server's end.
fn launch(bed: &Bed, program: &[&str]) -> Server {
    bed.spawn(&bed.server, Path::new(MILLSTREAM), &launched(program)).expect("it starts")
}

/// Bytes that are the same nowhere.
fn file(bed: &Bed, name: &str, len: u32) -> Vec<u8> {
    let bytes: Vec<u8> = (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(bed.dir.join(name), &bytes).expect("a file");
    bytes
}

/// Returns curl's output, once the server listens.
fn get(bed: &Bed, ns: &str, curl: &[&str], url: &str) -> Vec<u8> {
    let out = bed.dir.join("got");
    let out_name = out.to_string_lossy();
    let mut args = curl.to_vec();
    args.extend(["-sSf", "--max-time", "20", "-o", &out_name, url]);
    let (program, args) = args.split_first().expect("a program");
    for attempt in 0.. {
        match bed.in_ns(ns, program, args) {
            Ok(_) => break,
            // Not there yet (curl's 7: it could not connect). Every other error is one.
            Err(e) if attempt == 50 || !e.contains("exit status: 7:") => panic!("{url}: {e}"),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    std::fs::read(out).expect("what came")
}

const SERVE: &[&str] = &["python3", "-u", "-m", "http.server", "--bind", "::", "-d"];

#[test]
fn python_serves_the_link_and_the_loopback() {
    let Some(bed) = Bed::if_root(true) else { return };
    let bytes = file(&bed, "file", 5_000_000);
    let dir = bed.dir.to_string_lossy().into_owned();
    let _server = launch(&bed, &[SERVE, &[&dir, "8000"]].concat());
    let address6 = format!("[{SERVER_ADDR6}]");
    for host in [SERVER_ADDR, &address6] {
        let got = get(&bed, &bed.client, &["curl"], &format!("http://{host}:8000/file"));
        assert!(got == bytes, "{host}: {} bytes", got.len());
    }
    let got = get(&bed, &bed.server, &["curl"], "http://127.0.0.1:8000/file");
    assert!(got == bytes, "the loopback: {} bytes", got.len());
    // The kernel and another launched program find the port taken.
    let second = ["python3", "-c", "import socket; socket.socket().bind(('', 8000))"];
    let said =
        bed.in_ns(&bed.server, second[0], &second[1..]).expect_err("the kernel has given the port away");
    assert!(said.contains("in use"), "{said}");
    let said =
        bed.in_ns(&bed.server, MILLSTREAM, &launched(&second)).expect_err("a port is given away twice");
    assert!(said.contains("in use"), "{said}");
}

#[test]
fn curl_and_python_fetch_from_the_kernel() {
    let Some(bed) = Bed::if_root(true) else { return };
    let bytes = file(&bed, "file", 5_000_000);
    let dir = bed.dir.to_string_lossy().into_owned();
    let args = [&SERVE[1..], &[&dir, "8000"]].concat();
    let _server = bed.spawn(&bed.client, Path::new(SERVE[0]), &args).expect("the kernel's server starts");
    let client = CLIENT_BASE;
    let url = format!("http://{client}:8000/file");
    let got = get(&bed, &bed.server, &[&[MILLSTREAM][..], &launched(&["curl"])].concat(), &url);
    assert!(got == bytes, "curl: {} bytes", got.len());
    let script = format!("import urllib.request as u; print(len(u.urlopen('{url}').read()))");
    let said = bed.in_ns(&bed.server, MILLSTREAM, &launched(&["python3", "-c", &script])).expect("python");
    assert_eq!(said.trim(), "5000000");
}

/// Each child takes over what its parent has accepted, and another program what the child has.
const FORKS: &str = "
import os, signal, socket
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
s = socket.socket()
s.bind(('', 8002))
s.listen()
while True:
    c, a = s.accept()
    if os.fork() == 0:
        s.close()
        assert c.getpeername() == a
        assert c.getsockname()[1] == 8002
        os.dup2(c.fileno(), 0)
        os.dup2(c.fileno(), 1)
        os.execvp('cat', ['cat'])
    c.close()
";

/// Sends bytes to an echo server and says whether they came back.
const ECHO: &str = "
import os, socket, sys, threading, time
for size in (1, 100_000, 3_000_000):
    data = os.urandom(size)
    for attempt in range(50):
        try:
            c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    threading.Thread(target=lambda: (c.sendall(data), c.shutdown(socket.SHUT_WR))).start()
    got = b''
    while more := c.recv(65536):
        got += more
    print(size, got == data)
";

#[test]
fn children_and_their_programs_use_connections_of_the_parent() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = launch(&bed, &["python3", "-u", "-c", FORKS]);
    let said =
        bed.in_ns(&bed.client, "python3", &["-c", ECHO, SERVER_ADDR, "8002"]).expect("the client ends");
    assert_eq!(said, "1 True\n100000 True\n3000000 True\n");
}

/// A child for the connection listens, says so, and accepts once it is told that its client has connected: as FTP does.
const SESSION: &str = "
import os, socket
c, a = socket.create_server(('', 8018)).accept()
if os.fork() == 0:
    l = socket.create_server(('', 8019))
    c.sendall(b'listens')
    assert c.recv(100) == b'connected'
    l.accept()[0].sendall(b'data')
    os._exit(0)
os.wait()
";

const TWICE: &str = "
import socket, sys, time
for attempt in range(100):
    try:
        c = socket.create_connection((sys.argv[1], 8018), 10)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
print(c.recv(100).decode())
d = socket.create_connection((sys.argv[1], 8019), 10)
c.sendall(b'connected')
print(d.recv(100).decode())
";

#[test]
fn a_child_for_a_connection_listens_before_it_accepts() {
    let Some(bed) = Bed::if_root(true) else { return };
    let run = ["run", "--link", "nic:ms0", "--", "python3", "-c", SESSION];
    let _server = bed.spawn(&bed.server, Path::new(MILLSTREAM), &run).expect("it starts");
    let said = bed.in_ns_within(&bed.client, 30, "python3", &["-c", TWICE, SERVER_ADDR]);
    assert_eq!(said.as_deref(), Ok("listens\ndata\n"));
}

/// `ORDER`: gives up root before it listens or afterwards, and tells each client its process.
const LEAVES_ROOT: &str = "
import os, socket, sys
if sys.argv[1] == 'before':
    os.setuid(65534)
l = socket.create_server(('', 8023))
if sys.argv[1] == 'after':
    os.setuid(65534)
while True:
    c, _ = l.accept()
    c.sendall(b'%d\\n' % os.getpid())
    c.close()
";

/// A client of it, which prints that.
const HEARS: &str = "
import socket, sys, time
for attempt in range(200):
    try:
        c = socket.create_connection((sys.argv[1], 8023), 20)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
print(c.makefile().read(), end='')
";

/// The file of a SIFTR log lies where root alone may write, and the log begins when the program is no longer root: by
/// the settings where the stack is opened afterwards, by the control socket where it was opened before.
#[test]
fn a_log_is_written_after_root_was_given_up() {
    let Some(bed) = Bed::if_root(true) else { return };
    let log = bed.dir.join("siftr.log");
    let named = format!("net.inet.siftr.logfile={}", log.display());
    for order in ["before", "after"] {
        let enabled = if order == "before" { "net.inet.siftr.enabled=1" } else { "net.inet.siftr.ppl=1" };
        let run = ["run", "--link", "nic:ms0", "--set", &named, "--set", enabled, "--"];
        let run = [&run[..], &["python3", "-c", LEAVES_ROOT, order]].concat();
        let server = bed.spawn(&bed.server, Path::new(MILLSTREAM), &run).expect("it starts");
        let hear =
            || bed.in_ns_within(&bed.client, 30, "python3", &["-c", HEARS, SERVER_ADDR]).expect("it serves");
        let pid = hear().trim().to_owned();
        if order == "after" {
            let directory = format!("MILLSTREAM_RUN={}", bed.dir.display());
            let begin = [&directory, MILLSTREAM, "sysctl", "--pid", &pid, "net.inet.siftr.enabled=1"];
            bed.in_ns(&bed.server, "env", &begin).expect("the log begins");
            hear();
        }
        let written = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            std::fs::read_to_string(&log).is_ok_and(|text| text.contains(",8023,"))
        });
        assert!(written, "{order}: {:?}", std::fs::read_to_string(&log));
        drop(server);
        std::fs::remove_file(&log).expect("it was written");
    }
}

/// `PEER`: a child for the connection gives up what opening a stack takes, and then listens, accepts and connects.
const CUT_OFF: &str = "
import errno, os, select, socket, sys
own = socket.create_server(('', 8020))
c, a = own.accept()
def failing(call, *args):
    try:
        return call(*args) and 'done'
    except OSError as e:
        return errno.errorcode[e.errno]
def bound(port, *options):
    s = socket.socket()
    for level, name, value in options:
        s.setsockopt(level, name, value)
    s.bind((c.getsockname()[0], port))
    return s
def joined(name):
    s = socket.socket()
    s.connect(name)
    return s
if os.fork():
    c.close()
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
own.close()
os.chroot('/tmp')
os.setgroups([])
os.setuid(65534)
said = []
reuse = (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l = bound(0, reuse, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
l.listen()
c.sendall(b'%d\\n' % l.getsockname()[1])
assert select.select([l], [], [], 20)[0]
d, peer = l.accept()
said += [d.getpeername() == peer, d.getsockname() == l.getsockname(), d.recv(100), d.recv(100), l.family, d.type]
said += [d.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), l.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)]
said += [failing(l.getpeername), failing(bound, l.getsockname()[1], reuse), failing(bound, 8020, reuse)]
said += [failing(bound, 8020, reuse, (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)), failing(bound, 80)]
l.setblocking(False)
said += [failing(l.accept)]
e = select.epoll()
e.register(l, select.EPOLLIN)
said += [e.poll(0)]
own = [joined(l.getsockname()) for i in range(3)]
for o in own:
    e.poll(20)
    d, peer = l.accept()
    said += [peer == o.getsockname()]
    d.sendall(b'to itself')
    said += [o.recv(100)]
said += [failing(l.accept)]
p = bound(0, reuse)
name = p.getsockname()
p.connect((sys.argv[1], 8021))
said += [p.getsockname() == name, p.getpeername(), p.recv(100) == b'%d' % name[1]]
n = socket.socket()
n.setblocking(False)
assert n.connect_ex((sys.argv[1], 8021)) in (0, errno.EINPROGRESS)
assert select.select([], [n], [], 20)[1]
said += [n.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), select.select([n], [], [], 20)[0] == [n]]
said += [n.recv(100) == b'%d' % n.getsockname()[1]]
said += [failing(joined, (sys.argv[1], 8022))]
c.sendall(repr(said).encode())
";

/// Drives that, and says what it has said.
const DRIVES: &str = "
import socket, sys, time
own = socket.create_server(('', 8021))
own.settimeout(20)
for attempt in range(100):
    try:
        c = socket.create_connection((sys.argv[1], 8020), 10)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
f = c.makefile('rb')
d = socket.create_connection((sys.argv[1], int(f.readline())), 10)
d.sendall(b'data')
d.shutdown(socket.SHUT_WR)
for i in range(2):
    s, a = own.accept()
    s.sendall(b'%d' % a[1])
print(f.read().decode())
";

#[test]
fn a_child_that_can_open_no_stack_listens_and_connects_by_way_of_its_parent() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = ["python3", "-c", CUT_OFF, CLIENT_BASE];
    let said = |launch: &[&str]| {
        let all = [launch, &program].concat();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| bed.in_ns_within(&bed.server, 60, all[0], &all[1..]));
            let said = bed.in_ns_within(&bed.client, 60, "python3", &["-c", DRIVES, SERVER_ADDR]);
            (said, server.join().expect("a thread").map(drop))
        })
    };
    let kernel = said(&[]);
    assert!(kernel.0.as_ref().is_ok_and(|said| said.len() > 200), "{kernel:?}");
    for link in ["nic:ms0", LINK] {
        assert_eq!(said(&[MILLSTREAM, "run", "--require", "--link", link, "--"]), kernel, "{link}");
    }
}

/// Each child sends, wants to wait for its client in close, and ends.
const LINGERS: &str = "
import os, socket, struct
l = socket.create_server(('', 8023))
while True:
    c, a = l.accept()
    if os.fork() == 0:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 30))
        c.sendall(bytes(40_000))
        os._exit(0)
    c.close()
";

/// Does not read from the first connection, and all from the others.
const SLOW: &str = "
import socket, sys, time
for attempt in range(100):
    try:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect((sys.argv[1], 8023))
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
slow.recv(1)
for i in range(5):
    c = socket.create_connection((sys.argv[1], 8023), 10)
    print(len(c.makefile('rb').read()))
";

#[test]
fn a_slow_client_of_one_child_does_not_hold_up_those_of_others() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = launch(&bed, &["python3", "-c", LINGERS]);
    let said = bed.in_ns_within(&bed.client, 60, "python3", &["-c", SLOW, SERVER_ADDR]);
    assert_eq!(said.as_deref(), Ok("40000\n".repeat(5).as_str()));
}

/// Eight children accept from one listener. All but the first serve 20 connections or a few more and end, and others
/// take their places.
const SHORT_LIVED: &str = "
import ctypes, os, signal, socket
l = socket.create_server(('', 8030), backlog=128)
born = 0
def bear():
    global born
    born += 1
    if os.fork() == 0:
        # PR_SET_PDEATHSIG: it does not outlive its parent.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        for _ in range(20 + born * 7 % 20 if born > 1 else 1000000):
            c, a = l.accept()
            c.sendall(c.recv(100))
            c.close()
        os._exit(0)
for _ in range(8):
    bear()
while True:
    os.wait()
    bear()
";

/// 2,000 requests, 16 at a time.
const ASKS_OFTEN: &str = "
import collections, socket, sys, threading, time
told = collections.Counter()
def ask():
    try:
        c = socket.create_connection((sys.argv[1], 8030), 20)
        c.sendall(b'served')
        told[c.recv(100).decode()] += 1
        c.close()
    except OSError as e:
        told[repr(e)] += 1
while not told['served']:
    ask()
    time.sleep(0.1)
told.clear()
def ask_again():
    for _ in range(125):
        ask()
threads = [threading.Thread(target=ask_again) for _ in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
print(dict(told))
";

#[test]
fn children_that_end_lose_no_connection() {
    let Some(bed) = Bed::if_root(true) else { return };
    let args = ["run", "--quiet", "--link", "nic:ms0", "--", "python3", "-c", SHORT_LIVED];
    let _server = bed.spawn(&bed.server, Path::new(MILLSTREAM), &args).expect("it starts");
    let said = bed.in_ns_within(&bed.client, 120, "python3", &["-c", ASKS_OFTEN, SERVER_ADDR]);
    assert_eq!(said.as_deref(), Ok("{'served': 2000}\n"));
}

/// Gives up the effective user before its first listener, as ProFTPD does, and takes root back.
const OTHERWISE: &str = "
import os, socket, sys
exec(sys.argv[1])
assert os.geteuid() == 65534
for port in 8006, 8007:
    l = socket.create_server(('', port))
    c, a = l.accept()
    c.sendall(b'served')
    c.close()
    l.close()
os.seteuid(0)
assert os.geteuid() == 0
";

/// Reads from two ports, one after the other.
const READS: &str = "
import socket, sys, time
for port in 8006, 8007:
    for attempt in range(100):
        try:
            c = socket.create_connection((sys.argv[1], port), 10)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    print(c.recv(100).decode())
";

#[test]
fn a_server_that_gave_up_its_effective_user_first_is_served() {
    let Some(bed) = Bed::if_root(true) else { return };
    for link in ["nic:ms0", LINK] {
        for how in ["os.seteuid(65534)", "os.setreuid(0, 65534)", "os.setresuid(0, 65534, 0)"] {
            let run = ["run", "--require", "--link", link, "--", "python3", "-c", OTHERWISE, how];
            let (client, server) = std::thread::scope(|scope| {
                let server = scope.spawn(|| bed.in_ns_within(&bed.server, 60, MILLSTREAM, &run));
                let client = bed.in_ns_within(&bed.client, 60, "python3", &["-c", READS, SERVER_ADDR]);
                (client, server.join().expect("a thread"))
            });
            assert_eq!(
                (client.as_deref(), server.is_ok()),
                (Ok("served\nserved\n"), true),
                "{link}, {how}: {server:?}"
            );
        }
    }
}

/// Another program for each connection, made without a fork and with an environment of its own.
const SPAWNS: &str = "
import os, socket
s = socket.socket()
s.bind(('', 8004))
s.listen()
while True:
    c, a = s.accept()
    actions = [(os.POSIX_SPAWN_DUP2, c.fileno(), fd) for fd in (0, 1)]
    pid = os.posix_spawn('/bin/cat', ['cat'], {}, file_actions=actions)
    c.close()
    os.waitpid(pid, 0)
";

#[test]
fn spawned_programs_use_connections_of_the_parent() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = launch(&bed, &["python3", "-u", "-c", SPAWNS]);
    let said =
        bed.in_ns(&bed.client, "python3", &["-c", ECHO, SERVER_ADDR, "8004"]).expect("the client ends");
    assert_eq!(said, "1 True\n100000 True\n3000000 True\n");
}

/// Every way to run another program, whose environment says nothing of a launch.
const RUNS: &str = "
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
strings = lambda *all: (ctypes.c_char_p * (len(all) + 1))(*all, None)
sh, end = b'/bin/sh', None
script = b'case $LD_PRELOAD in *millstream*) echo $0 $# $7 $A;; esac'
more = [script] + [b'%d' % i for i in range(8)]
args, env = strings(sh, b'-c', *more), strings(b'A=' + b'a' * 3)
os.environ.pop('LD_PRELOAD')
flat = [b'sh', b'-c', *more]
fd = os.open('/bin/sh', os.O_RDONLY)
ways = [
    lambda: c.execve(sh, args, env), lambda: c.execv(sh, args), lambda: c.execvp(b'sh', args),
    lambda: c.execvpe(b'sh', args, env), lambda: c.fexecve(fd, args, env),
    lambda: c.execveat(fd, b'', args, env, 0x1000), lambda: c.execveat(-100, sh, args, env, 0),
    lambda: c.execl(sh, *flat, end), lambda: c.execlp(b'sh', *flat, end), lambda: c.execle(sh, *flat, end, env),
    lambda: c.posix_spawn(None, sh, None, None, args, env), lambda: c.posix_spawnp(None, b'sh', None, None, args, env),
]
for way in ways:
    if os.fork() == 0:
        way()
        os.wait()
        os._exit(0)
    os.wait()
";

/// Listens for Multipath TCP, as Go's programs do, and echoes.
const MULTIPATH: &str = "
import socket
IPPROTO_MPTCP = 262
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
assert s.getsockopt(socket.SOL_SOCKET, 38) == socket.IPPROTO_TCP, 'SO_PROTOCOL'
s.bind(('', 8005))
s.listen()
while True:
    c, _ = s.accept()
    while data := c.recv(65536):
        c.sendall(data)
    c.close()
";

#[test]
fn a_socket_of_multipath_tcp_is_taken_as_tcp() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = launch(&bed, &["python3", "-u", "-c", MULTIPATH]);
    let said =
        bed.in_ns(&bed.client, "python3", &["-c", ECHO, SERVER_ADDR, "8005"]).expect("the client ends");
    assert_eq!(said, "1 True\n100000 True\n3000000 True\n");
}

#[test]
fn programs_that_a_program_runs_are_launched_too() {
    let program = ["python3", "-u", "-c", RUNS];
    // None of them opens the link; its interface is there.
    let program = [&["run", "--link", "xdp:lo", "--"][..], &program].concat();
    let said = bench::bed::sh(MILLSTREAM, &program).expect("it ends");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 12, "{said}");
    let told = |wanted: &str| lines.iter().filter(|line| **line == wanted).count();
    assert_eq!((told("0 7 7 aaa"), told("0 7 7")), (8, 4), "{said}");
}

#[test]
fn nginx_with_a_worker_of_no_privileges() {
    nginx(LINK, 1);
}

#[test]
fn nginx_with_two_workers_that_share_the_port() {
    nginx("nic:ms0", 2);
}

/// Each worker opens a stack of its own before it stops being root.
fn nginx(link: &str, workers: u32) {
    let Some(bed) = Bed::if_root(true) else { return };
    if bench::bed::sh("nginx", &["-v"]).is_err() {
        eprintln!("skipped: there is no nginx");
        return;
    }
    let bytes = file(&bed, "file", 5_000_000);
    let dir = bed.dir.to_string_lossy().into_owned();
    bench::bed::sh("chmod", &["-R", "a+rX", &dir]).expect("every user can read");
    let config = format!(
        "worker_processes {workers}; daemon off; error_log {dir}/errors; pid {dir}/pid; events {{}}
         http {{ access_log off; sendfile on; server {{ listen 8080; listen [::]:8080; root {dir}; }} }}"
    );
    let path = bed.dir.join("nginx.conf");
    std::fs::write(&path, config).expect("a file");
    let path = path.to_string_lossy();
    let args = ["run", "--link", link, "--", "nginx", "-c", &path];
    let _server = bed.spawn(&bed.server, Path::new(MILLSTREAM), &args).expect("it starts");
    let address6 = format!("[{SERVER_ADDR6}]");
    for host in [SERVER_ADDR, &address6] {
        let got = get(&bed, &bed.client, &["curl"], &format!("http://{host}:8080/file"));
        assert!(got == bytes, "{host}: {} bytes", got.len());
    }
    assert!(get(&bed, &bed.server, &["curl"], "http://127.0.0.1:8080/file") == bytes, "the loopback");
}

/// A handler that is installed without SA_RESTART ends a call that waits for a connection, and poll in any case.
const SIGNALS: &str = "
import select, signal, socket, sys
class Rung(Exception): pass
def rung(*_): raise Rung
signal.signal(signal.SIGALRM, rung)
c = socket.create_connection((sys.argv[1], 8000), 10)
c.settimeout(None)
p = select.poll()
p.register(c, select.POLLIN)
for wait in (lambda: c.recv(1), p.poll, lambda: select.select([c], [], [])):
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        wait()
        print('no signal')
    except Rung:
        print('rung')
";

#[test]
fn signals_end_calls_that_wait() {
    let Some(bed) = Bed::if_root(true) else { return };
    let dir = bed.dir.to_string_lossy().into_owned();
    file(&bed, "file", 9);
    let args = [&SERVE[1..], &[&dir, "8000"]].concat();
    let _server = bed.spawn(&bed.client, Path::new(SERVE[0]), &args).expect("the kernel's server starts");
    let client = CLIENT_BASE;
    get(&bed, &bed.server, &["curl"], &format!("http://{client}:8000/file"));
    let program = launched(&["python3", "-c", SIGNALS, client]);
    let said = bed.in_ns_within(&bed.server, 20, MILLSTREAM, &program).expect("it ends");
    assert_eq!(said, "rung\nrung\nrung\n");
}

/// Threads wait on one connection each, and one of them writes on another's.
const THREADS: &str = "
import socket, sys, threading
connections = [socket.create_connection((sys.argv[1], 8003), 10) for _ in range(8)]
got = [0] * 8
def read(i):
    while more := connections[i].recv(65536):
        got[i] += len(more)
threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
for t in threads: t.start()
for i in range(8):
    connections[(i + 3) % 8].sendall(b'x' * 300_000)
for c in connections: c.shutdown(socket.SHUT_WR)
for t in threads: t.join()
print(got == [300_000] * 8)
";

/// The kernel's echo server for them.
const ECHOES: &str = "
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while more := self.request.recv(65536):
            self.request.sendall(more)
socketserver.ThreadingTCPServer(('', 8003), Echo).serve_forever()
";

#[test]
fn threads_wait_on_connections_of_their_own() {
    let Some(bed) = Bed::if_root(true) else { return };
    let server = bed.spawn(&bed.client, Path::new("python3"), &["-c", ECHOES]);
    let _server = server.and_then(|server| server.on_port(8003)).expect("the server starts");
    let program = launched(&["python3", "-c", THREADS, CLIENT_BASE]);
    let said = bed.in_ns_within(&bed.server, 30, MILLSTREAM, &program).expect("it ends");
    assert_eq!(said, "True\n");
}

/// Takes one connection, computes for 300 ms, and takes the others.
const COMPUTES: &str = "
import os, socket, time
server = socket.create_server(('', 8004), backlog=200)
held = [server.accept()]
end = time.monotonic() + 0.3
while time.monotonic() < end:
    pass
while True:
    held.append(server.accept())
";

/// Connects over and over while the server computes. Tells how many milliseconds the fastest ten in a row took.
const MEANWHILE: &str = "
import socket, sys, time
def connect(attempts=100):
    try:
        return socket.create_connection((sys.argv[1], 8004))
    except ConnectionRefusedError:
        if attempts == 0:
            raise
        time.sleep(0.1)
        return connect(attempts - 1)
held = [connect()]
time.sleep(0.03)
times = [time.monotonic()]
while len(times) < 150 and times[-1] < times[0] + 0.2:
    held.append(connect())
    times.append(time.monotonic())
print(min(int(1000 * (end - start)) for start, end in zip(times, times[10:]) if end < times[0] + 0.25))
";

#[test]
fn a_thread_of_its_own_turns_the_stack_of_a_program_that_computes() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = ["run", "--link", LINK, "--mode", "paired", "--", "python3", "-c", COMPUTES];
    let _server = bed.spawn(&bed.server, Path::new(MILLSTREAM), &program).expect("it starts");
    let said = bed
        .in_ns_within(&bed.client, 30, "python3", &["-c", MEANWHILE, SERVER_ADDR])
        .expect("every connect is answered");
    // The watchdog of the other mode looks every 4 ms at most, and answers one of them each time.
    let ten: u32 = said.trim().parse().expect("milliseconds");
    assert!(ten < 30, "ten connections in {ten} ms");
}
