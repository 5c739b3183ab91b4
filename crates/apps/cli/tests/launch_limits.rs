//! Goal: a program that has reached its limit of descriptors is answered as on the kernel: connect works, accept is
//! EMFILE and the connection waits until a number is free. Where not even the stack can have numbers the call is
//! EMFILE, and works later. A limit of address space that a program sets is its own.
//!
//! Needs root for network namespaces; without it every test says that it was skipped.

use bench::bed::{Bed, CLIENT_BASE, SERVER_ADDR, Server, serving};
use std::path::Path;
use std::process::Command;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");

/// `MODE PEER PORT`: takes all numbers of a limit that can be raised (`soft`) or not (`hard`), and asks. `early` modes
/// have a stack by then.
const FULL: &str = "
import errno, os, resource, select, socket, sys
mode, peer, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def said(what, call):
    try:
        print(what, call(), flush=True)
    except OSError as e:
        print(what, errno.errorcode[e.errno], flush=True)
def fill():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64 if 'hard' in mode else most))
    taken = []
    while True:
        try:
            taken.append(os.dup(2))
        except OSError as e:
            assert e.errno == errno.EMFILE
            return taken
s, t = socket.socket(), socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if 'connect' in mode:
    if 'early' in mode:
        t.connect((peer, port))
    taken = fill()
    print('ready', flush=True)
    said('connect', lambda: s.connect((peer, port)))
    said('the limit', lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    said('dup', lambda: os.dup(2))
    for fd in taken:
        os.close(fd)
    if 'hard' in mode:
        u = socket.socket()
        said('connect later', lambda: u.connect((peer, port)))
else:
    s.bind(('', port))
    s.listen()
    if 'early' in mode:
        select.select([s], [], [], 0)
    taken = fill()
    print('ready', flush=True)
    if 'soft' in mode or 'early' in mode:
        said('a connection waits', lambda: len(select.select([s], [], [], 20)[0]))
        said('it still waits', lambda: len(select.select([s], [], [], 0)[0]))
    said('accept', s.accept)
    said('accept again', s.accept)
    for fd in taken if mode == 'hard accept' else taken[:1]:
        os.close(fd)
    said('accept later', lambda: s.accept()[0].sendall(b'hello'))
";

/// Connects, and prints what comes.
const ASKS: &str = "
import socket, sys, time
for attempt in range(200):
    try:
        c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
print(c.recv(100).decode())
";

/// Accepts, and says nothing.
const WAITS: &str = "
import socket, sys
s = socket.create_server(('', int(sys.argv[1])), backlog=64)
print('ready', flush=True)
kept = []
while True:
    kept.append(s.accept()[0])
";

fn start(bed: &Bed, ours: bool, args: &[&str]) -> Server {
    let python = [&["python3", "-u", "-c", FULL], args].concat();
    let launch = ["run", "--quiet", "--link", "nic:ms0", "--"];
    let (program, args) =
        if ours { (MILLSTREAM, [&launch[..], &python].concat()) } else { (python[0], python[1..].to_vec()) };
    bed.start(&bed.server, Path::new(program), &args).expect("it starts")
}

fn peer(bed: &Bed) -> Server {
    bed.start(&bed.client, Path::new("python3"), &["-u", "-c", WAITS, "9300"]).expect("a peer")
}

/// Returns what a program says of connect.
fn connects(bed: &Bed, ours: bool, mode: &str) -> String {
    start(bed, ours, &[mode, CLIENT_BASE, "9300"]).wait().expect("it ends")
}

/// Returns what a program says of accept, and what its client has heard.
fn accepts(bed: &Bed, ours: bool, mode: &str, port: &str) -> String {
    let server = start(bed, ours, &[mode, "-", port]);
    let heard = bed.in_ns_within(&bed.client, 30, "python3", &["-c", ASKS, SERVER_ADDR, port]);
    let heard = heard.unwrap_or_else(|e| panic!("{mode}: {e}"));
    server.wait().expect("it ends") + &heard
}

#[test]
fn connect_works_at_the_limit() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _peer = peer(&bed);
    for mode in ["soft connect", "early soft connect"] {
        assert_eq!(connects(&bed, true, mode), connects(&bed, false, mode), "{mode}");
    }
}

#[test]
fn a_connection_waits_until_accept_has_a_number() {
    let Some(bed) = Bed::if_root(true) else { return };
    let modes = ["soft accept", "early soft accept", "early hard accept", "hard accept"];
    for (mode, port) in modes.into_iter().zip(["9310", "9311", "9312", "9313"]) {
        assert_eq!(accepts(&bed, true, mode, port), accepts(&bed, false, mode, port), "{mode}");
    }
}

#[test]
fn a_stack_that_cannot_have_numbers_is_emfile_until_it_can() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _peer = peer(&bed);
    for mode in ["hard connect", "early hard connect"] {
        let said = connects(&bed, true, mode);
        assert_eq!(said, "connect EMFILE\nthe limit 64\ndup EMFILE\nconnect later None\n", "{mode}");
    }
}

/// `PORT`: with a stack, limits its address space as vsftpd does, in a child too, and goes on.
const SMALL: &str = "
import mmap, os, resource, select, socket, sys
s = socket.create_server(('', int(sys.argv[1])))
select.select([s], [], [], 0)
def small():
    limit = 200 << 20, 300 << 20
    resource.setrlimit(resource.RLIMIT_AS, limit)
    print(resource.getrlimit(resource.RLIMIT_AS) == limit, resource.prlimit(0, resource.RLIMIT_AS) == limit)
    print(len(mmap.mmap(-1, 64 << 20)))
    print(resource.prlimit(os.getpid(), resource.RLIMIT_AS, (250 << 20, 300 << 20)) == limit)
    t = socket.create_server(('', int(sys.argv[1]) + 1))
    print(select.select([t], [], [], 0), flush=True)
    os._exit(0)
if os.fork() == 0:
    small()
os.wait()
small()
";

#[test]
fn a_limit_of_address_space_is_the_programs() {
    let Some(bed) = Bed::if_root(true) else { return };
    let python = ["python3", "-c", SMALL, "9320"];
    let launched = [&["run", "--require", "--quiet", "--link", "nic:ms0", "--"][..], &python].concat();
    let ours = bed.in_ns_within(&bed.server, 30, MILLSTREAM, &launched);
    assert_eq!(ours, bed.in_ns_within(&bed.server, 30, python[0], &python[1..]));
    assert_eq!(ours.as_deref(), Ok("True True\n67108864\nTrue\n([], [], [])\n".repeat(2).as_str()));
}

/// `PORT`: closes, replaces and sweeps every number that is not its own, by each call that there is; what it inherited
/// it has closed before.
const SWEEPS: &str = "
import ctypes, errno, os, socket, sys
os.closerange(3, 1 << 16)
libc = ctypes.CDLL(None, use_errno=True)
s = socket.create_server(('', int(sys.argv[1])))
print('ready', flush=True)
c = s.accept()[0]
null = os.open('/dev/null', os.O_RDWR)
own = {0, 1, 2, s.fileno(), c.fileno(), null}
there = lambda n: os.path.lexists('/proc/self/fd/%d' % n)
others = [n for n in map(int, os.listdir('/proc/self/fd')) if n not in own]
others = [n for n in others if there(n)]
def says(call):
    try:
        return 'done' if call() != -1 else errno.errorcode[ctypes.get_errno()]
    except OSError as e:
        return errno.errorcode[e.errno]
names = {n: os.readlink('/proc/self/fd/%d' % n) for n in others}
close = {says(lambda: os.close(n)) for n in others}
exposed = [(n, names[n]) for n in others if not there(n)]
raw = {says(lambda: libc.syscall(3, n)) for n in others}
dup = {says(lambda: os.dup2(null, n)) for n in others} | {says(lambda: os.dup2(n, null)) for n in others}
os.closerange(max(own) + 1, 1 << 16)
libc.closefrom(max(own) + 1)
print(len(others) > 3, exposed, all(map(there, others)), close, raw, sorted(dup), flush=True)
c.sendall(b'hello')
s.accept()[0].sendall(b'again')
";

#[test]
fn a_program_that_closes_and_replaces_every_number_is_served_on() {
    let Some(bed) = Bed::if_root(true) else { return };
    let args =
        ["run", "--require", "--quiet", "--link", "nic:ms0", "--", "python3", "-u", "-c", SWEEPS, "9330"];
    let server = bed.start(&bed.server, Path::new(MILLSTREAM), &args).expect("it starts");
    let ask = || bed.in_ns_within(&bed.client, 30, "python3", &["-c", ASKS, SERVER_ADDR, "9330"]);
    let heard = [ask(), ask()];
    let said = server.wait().expect("it ends");
    assert_eq!(said, "True [] True {'EBADF'} {'EBADF'} ['EBADF', 'EBUSY']\n");
    assert_eq!(heard, ["hello\n", "again\n"].map(|line| Ok(line.to_owned())));
}

/// Address space of a program that listens, in MB.
const SIZE: &str = "
import re, select, socket, sys
s = socket.create_server(('', int(sys.argv[1])))
select.select([s], [], [], 0)
print(int(re.search(r'VmSize:\\s+(\\d+)', open('/proc/self/status').read()).group(1)) // 1000)
";

/// Programs limit their address space, and some reckon with what they have.
#[test]
fn a_stack_takes_little_address_space() {
    let Some(bed) = Bed::if_root(true) else { return };
    let python = ["python3", "-c", SIZE, "9340"];
    let size = |program: &str, args: &[&str]| -> u64 {
        let said = bed.in_ns_within(&bed.server, 30, program, args).expect("it runs");
        said.trim().parse().expect("a number")
    };
    let plain = size(python[0], &python[1..]);
    let launched = [&["run", "--require", "--quiet", "--link", "nic:ms0", "--"][..], &python].concat();
    let ours = size(MILLSTREAM, &launched);
    assert!(ours < plain + 70, "{ours} MB, and {plain} without a stack");
}

/// `PORT`: counts how often the lowest free number is not what dup, open, socket and accept get, until two clients have
/// come, of which the first is reset.
const LOWEST: &str = "
import os, select, socket, sys
s = socket.create_server(('', int(sys.argv[1])))
s.setblocking(False)
select.select([s], [], [], 0)
free = os.dup(0)
os.close(free)
wrong, all, kept = {}, 0, []
def got(call, fd):
    global all
    all += 1
    if fd != free + len(kept):
        wrong[call] = wrong.get(call, 0) + 1
    return fd
print('ready', flush=True)
while len(kept) < 2:
    for _ in range(100):
        os.close(got('dup', os.dup(0)))
    os.close(got('open', os.open('/dev/null', os.O_RDONLY)))
    u = socket.socket(socket.AF_UNIX)
    got('socket', u.fileno())
    u.close()
    try:
        c = s.accept()[0]
        got('accept', c.fileno())
        kept.append(c)
    except BlockingIOError:
        pass
print(wrong, all > 1000, flush=True)
";

/// Connects, and is reset.
const RESETS: &str = "
import socket, struct, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
c.close()
";

/// Asks for the metrics.
const MEASURES: &str = "
import sys, urllib.request
print(urllib.request.urlopen('http://127.0.0.1:' + sys.argv[1], timeout=20).status)
";

/// Programs close 0 and open a file, and servers close everything from 3 on and count.
#[test]
fn the_lowest_free_number_is_the_programs() {
    let Some(bed) = Bed::if_root(true) else { return };
    let errors = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("errors-{}", std::process::id()));
    let directory = format!("blackbox_on_error={}", errors.display());
    let settings = ["--set", "metrics=127.0.0.1:9351", "--set", "blackbox=10", "--set", &directory];
    let launch = ["run", "--require", "--quiet", "--link", "nic:ms0"];
    let args = [&launch[..], &settings, &["--", "python3", "-u", "-c", LOWEST, "9350"]].concat();
    // On every CPU: threads of the stack run beside the program.
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &bed.server, MILLSTREAM]).args(args).env("MILLSTREAM_RUN", &bed.dir);
    let server = serving(command).expect("it starts");
    let run = format!("MILLSTREAM_RUN={}", bed.dir.display());
    let ask = |program: &str, args: &[&str]| {
        let all = [&[&run, program], args].concat();
        bed.in_ns_within(&bed.server, 30, "env", &all).expect("it answers")
    };
    for _ in 0..10 {
        for what in ["ss", "stat", "sysctl"] {
            let all: &[&str] = if what == "sysctl" { &[what, "-a"] } else { &[what] };
            assert!(!ask(MILLSTREAM, all).is_empty(), "{what}");
        }
        assert_eq!(ask("python3", &["-c", MEASURES, "9351"]), "200\n");
    }
    for _ in 0..2 {
        bed.in_ns_within(&bed.client, 30, "python3", &["-c", RESETS, SERVER_ADDR, "9350"])
            .expect("it connects");
    }
    assert_eq!(server.wait().expect("it ends"), "{} True\n");
    let written = std::fs::read_dir(&errors).expect("a directory").count();
    assert!(written > 0, "no record of a connection that was reset");
    std::fs::remove_dir_all(&errors).expect("it goes");
}
