//! Goal: what a program has inherited, duplicated or forgotten works under the launcher as it does on the kernel:
//! listeners and connections across fork and exec, streams over standard input and output, a cleared environment, the
//! machine's connections to itself.
//!
//! Needs root for network namespaces; without it every test says that it was skipped.

use bench::bed::{Bed, SERVER_ADDR, Server, sh};
use std::path::Path;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c");

/// Starts `program` on our stack, at the server's end, over a link that several processes may share.
fn launch(bed: &Bed, program: &[&str]) -> Server {
    let args = [&["run", "--link", "nic:ms0", "--"][..], program].concat();
    bed.spawn(&bed.server, Path::new(MILLSTREAM), &args).expect("it starts")
}

/// `ADDRESS PORT`: connects, once a server is there.
const CONNECTS: &str = "
import socket, sys, time
for attempt in range(100):
    try:
        c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
";

/// Behind [`CONNECTS`]: sends a line, and prints what comes back until the end.
const ASKS: &str = "
c.sendall(b'hello\\n')
got = b''
while more := c.recv(65536):
    got += more
print(got.decode(), c.getsockname()[1])
";

/// Returns the server's answer, and the client's port.
fn ask(bed: &Bed, port: &str) -> (String, String) {
    let said = bed
        .in_ns_within(&bed.client, 30, "python3", &["-c", &format!("{CONNECTS}{ASKS}"), SERVER_ADDR, port])
        .unwrap_or_else(|e| panic!("{e}"));
    let (answer, port) = said.trim_end().rsplit_once(' ').expect("an answer and a port");
    (answer.to_owned(), port.to_owned())
}

/// A server whose listener another program serves.
const LISTENS: &str = "
import os, socket, subprocess, sys
if len(sys.argv) > 1:
    fd = int(sys.argv[1])
    s = socket.socket(fileno=fd)
    if not s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        s.listen()
    assert os.environ.get('MILLSTREAM_SOCKETS') is None
    c, a = s.accept()
    assert c.getpeername() == a
    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    c.recv(100)
    c.sendall(b'child')
    c.close()
    sys.exit()
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.bind(('', PORT))
LISTEN
WAY
";

/// The ways in which another program gets a listener. Each child is without an environment of its own.
#[test]
fn a_listener_is_served_by_a_program_that_has_inherited_it() {
    let Some(bed) = Bed::if_root(true) else { return };
    let script = bed.dir.join("listens.py").to_string_lossy().into_owned();
    let ways = [
        // A number that is agreed upon, as LISTEN_FDS does.
        "os.dup2(s.fileno(), 9); os.execve(sys.executable, [sys.executable, __file__, '9'], {})",
        "subprocess.run([sys.executable, __file__, str(s.fileno())], pass_fds=[s.fileno()], env={})",
        "os.posix_spawn(sys.executable, [sys.executable, __file__, '7'], {}, \
         file_actions=[(os.POSIX_SPAWN_DUP2, s.fileno(), 7)]); os.wait()",
    ];
    for (at, way) in ways.iter().enumerate() {
        for listen in ["s.listen()", "pass"] {
            let port = format!("81{at}{}", usize::from(listen == "pass"));
            let text = LISTENS.replace("PORT", &port).replace("LISTEN\n", &format!("{listen}\n"));
            std::fs::write(&script, text.replace("WAY", way)).expect("a file");
            let _server = launch(&bed, &["python3", &script]);
            assert_eq!(ask(&bed, &port).0, "child", "{way} after {listen}");
        }
    }
}

/// Serves by a child: `no exec` asks in the child itself, else in a program that the child becomes.
const PEERS: &str = "
import os, socket, sys
def tell(s):
    for level, name, told in ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                              (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 8), (socket.IPPROTO_IP, socket.IP_TOS, 8)):
        s.setsockopt(level, name, 8)
        got = s.getsockopt(level, name)
        assert got == told, (level, name, got)
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    assert info[0] == 1, info[0]
    try:
        s.setsockopt(socket.IPPROTO_TCP, 9999, 1)
        raise SystemExit('there is no such option')
    except OSError as e:
        assert e.strerror == 'Protocol not available', e
    domain = s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN)
    assert domain == socket.AF_INET and s.family == socket.AF_INET, (domain, s.family)
    s.sendall(repr((s.getpeername(), s.getsockname())).encode())
if sys.argv[1] == 'child':
    tell(socket.socket(fileno=int(sys.argv[2])))
    sys.exit()
l = socket.create_server(('', int(sys.argv[2])))
while True:
    c, a = l.accept()
    if sys.argv[1] == 'spawn':
        os.posix_spawn(sys.executable, [sys.executable, __file__, 'child', '0'], {},
                       file_actions=[(os.POSIX_SPAWN_DUP2, c.fileno(), 0)])
    elif sys.argv[1] == 'inherit':
        os.set_inheritable(c.fileno(), True)
        os.posix_spawn(sys.executable, [sys.executable, __file__, 'child', str(c.fileno())], {})
    elif os.fork() == 0:
        if sys.argv[1] == 'exec':
            os.dup2(c.fileno(), 0)
            os.execve(sys.executable, [sys.executable, __file__, 'child', '0'], {})
        tell(c)
        c.close()
        os._exit(0)
    c.close()
";

#[test]
fn a_child_and_its_program_know_and_change_a_connection_as_on_linux() {
    let Some(bed) = Bed::if_root(true) else { return };
    let script = bed.dir.join("peers.py").to_string_lossy().into_owned();
    std::fs::write(&script, PEERS).expect("a file");
    for (way, port) in [("fork", "8200"), ("exec", "8201"), ("spawn", "8202"), ("inherit", "8203")] {
        let _server = launch(&bed, &["python3", "-u", &script, way, port]);
        let (answer, own) = ask(&bed, port);
        let wanted = format!("(('{}', {own}), ('{SERVER_ADDR}', {port}))", bench::bed::CLIENT_BASE);
        assert_eq!(answer, wanted, "{way}");
    }
}

fn compiled(bed: &Bed, name: &str) -> String {
    let program = bed.dir.join(name).to_string_lossy().into_owned();
    sh("cc", &["-o", &program, &format!("{OWN}/{name}.c")]).expect("it compiles");
    program
}

/// The link is opened before the capabilities go that it takes; no thread of the process keeps more than was asked.
/// Over AF_XDP: a port of a packet socket takes a filter, for which some kernels want CAP_NET_ADMIN.
#[test]
fn a_program_that_drops_capabilities_before_it_listens_is_served() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = compiled(&bed, "drops");
    // All users may run it.
    sh("chmod", &["-R", "a+rX", &bed.dir.to_string_lossy()]).expect("root may");
    let kept = "14 0 1 0, 4c0 4c0, others 4c0";
    let less = "14 0 1 1, 400 400, others 400";
    for (way, port, wanted) in
        [("function", "81", kept), ("call", "82", kept), ("keeps", "83", kept), ("less", "84", less)]
    {
        let args = ["run", "--link", "xdp:ms0", "--", &program, port, way];
        let _server = bed.spawn(&bed.server, Path::new(MILLSTREAM), &args).expect("it starts");
        // EFAULT and EPERM are 14 and 1.
        assert_eq!(ask(&bed, port).0, wanted, "{way}");
    }
}

#[test]
fn streams_of_the_c_library_read_and_write_a_connection_on_0_and_1() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = compiled(&bed, "stdio");
    for (way, port) in [("same", "8210"), ("child", "8211")] {
        let _server = launch(&bed, &[&program, port, way]);
        assert_eq!(ask(&bed, port).0, "echo hello\n nodelay 1 family 2", "{way}");
    }
}

#[test]
fn a_program_that_clears_its_environment_is_on_the_stack() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = compiled(&bed, "clears");
    let _server = launch(&bed, &[&program, "8220"]);
    assert_eq!(ask(&bed, "8220").0, "hi");
    // The kernel's socket is on the loopback alone, so it was the stack that answered.
    let listening = bed.in_ns(&bed.server, "ss", &["-Hltn", "sport = :8220"]).expect("ss");
    assert!(!listening.contains("0.0.0.0:8220 ") || listening.contains("%lo"), "{listening}");
}

/// Connects to itself by the link's address, before the first accept and after it.
const ITSELF: &str = "
import socket, sys
l = socket.create_server((sys.argv[1], 8230))
l.settimeout(20)
for turn in range(2):
    c = socket.create_connection((sys.argv[2], 8230), timeout=20)
    d, a = l.accept()
    assert a == c.getsockname() and a[0] == sys.argv[2], (a, c.getsockname())
    assert d.getpeername() == a and c.getpeername() == (sys.argv[2], 8230)
    c.sendall(b'hello')
    assert d.recv(9) == b'hello'
print('itself')
";

#[test]
fn a_launched_program_reaches_launched_listeners_of_its_own_machine_by_the_link_s_address() {
    let Some(bed) = Bed::if_root(true) else { return };
    for link in ["nic:ms0", "xdp:ms0", "packet:ms0"] {
        for own in ["0.0.0.0", SERVER_ADDR] {
            let program = ["run", "--link", link, "--", "python3", "-c", ITSELF, own, SERVER_ADDR];
            let said = bed.in_ns_within(&bed.server, 60, MILLSTREAM, &program);
            assert_eq!(said.unwrap_or_else(|e| panic!("{link} {own}: {e}")), "itself\n");
        }
    }
}

/// Serves short connections, and counts descriptors that one call names twice.
const TWICE: &str = "
import select, socket
l = socket.create_server(('', 8240), backlog=128)
l.setblocking(False)
e = select.epoll()
e.register(l, select.EPOLLIN)
open, twice, served = {}, 0, 0
while served < 600:
    events = [fd for fd, _ in e.poll()]
    twice += len(events) - len(set(events))
    for fd in events:
        if fd == l.fileno():
            try:
                s, _ = l.accept()
            except BlockingIOError:
                continue
            s.setblocking(False)
            open[s.fileno()] = s
            e.register(s, select.EPOLLIN)
        elif fd in open:
            if open[fd].recv(4096):
                open[fd].send(b'hello')
                open[fd].shutdown(socket.SHUT_WR)
            else:
                e.unregister(fd)
                open.pop(fd).close()
                served += 1
print('twice', twice, flush=True)
";

/// Makes 600 connections, 20 at a time.
const SHORT: &str = "
import socket, sys, threading, time
def ask(times):
    for _ in range(times):
        for attempt in range(100):
            try:
                c = socket.create_connection((sys.argv[1], 8240), 20)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        c.sendall(b'x')
        while c.recv(100):
            pass
        c.close()
threads = [threading.Thread(target=ask, args=(30,)) for _ in range(20)]
for t in threads: t.start()
for t in threads: t.join()
";

#[test]
fn one_epoll_wait_names_a_descriptor_once() {
    let Some(bed) = Bed::if_root(true) else { return };
    let out = bed.dir.join("said");
    let script = format!("exec python3 -c \"$0\" > {}", out.display());
    let server = launch(&bed, &["sh", "-c", &script, TWICE]);
    bed.in_ns_within(&bed.client, 60, "python3", &["-c", SHORT, SERVER_ADDR])
        .unwrap_or_else(|e| panic!("{e}"));
    let mut said = String::new();
    for _ in 0..200 {
        said = std::fs::read_to_string(&out).unwrap_or_default();
        if said.ends_with('\n') {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    drop(server);
    assert_eq!(said, "twice 0\n");
}

/// A server that runs a program which inherits its connection and never uses it, and goes on with the connection
/// meanwhile, as git does with `index-pack`, or when that has ended. Then a program that does use it, and one that ends
/// it.
const STARTS: &str = "
import socket, subprocess, sys
s = socket.create_server(('', 8230))
c, _ = s.accept()
# A shell that makes a process of its own, and both end.
subprocess.run(['sh', '-c', '/bin/true; exit 0'], pass_fds=[c.fileno()], check=True)
idle = subprocess.Popen(['sleep', '40'], pass_fds=[c.fileno()])
c.sendall(b'go')
got = bytearray()
while len(got) < 1000000:
    more = c.recv(65536)
    assert more
    got += more
idle.kill()
assert got == bytes(i % 251 for i in range(1000000))
says = 'import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.sendall(b\"child\")'
for how in ('', '; s.shutdown(socket.SHUT_WR)'):
    subprocess.run([sys.executable, '-c', says + how, str(c.fileno())], pass_fds=[c.fileno()], check=True)
    if not how:
        c.sendall(b' parent ')
# The peer has read the end, though this process has the connection.
assert c.recv(1) == b''
";

const SENDS: &str = "
import socket, sys, time
for attempt in range(100):
    try:
        c = socket.create_connection((sys.argv[1], 8230), 10)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
assert c.recv(2) == b'go'
c.sendall(bytes(i % 251 for i in range(1000000)))
got = b''
while more := c.recv(100):
    got += more
print(got.decode())
";

#[test]
fn a_connection_stays_with_the_parent_of_a_program_that_does_not_use_it() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = launch(&bed, &["python3", "-c", STARTS]);
    let said = bed.in_ns_within(&bed.client, 30, "python3", &["-c", SENDS, SERVER_ADDR]);
    assert_eq!(said.as_deref(), Ok("child parent child\n"));
}

/// A child that has not used its connection forks another, and both have the connection.
const GRANDCHILD: &str = "
import os, socket, sys
way = sys.argv[1]
parent, lives = os.pipe()
l = socket.create_server(('', int(sys.argv[2])))
c, a = l.accept()
if way == 'neither':
    c.recv(100)
if os.fork() == 0:
    l.close()
    os.close(lives)
    (gone_on, go_on), (done, is_done) = os.pipe(), os.pipe()
    if os.fork() == 0:
        known = c.getpeername() == a and c.getsockname()[1] == int(sys.argv[2])
        if way == 'child first':
            os.read(gone_on, 1)
        if way != 'neither':
            c.sendall(b'grandchild %d ' % known)
        c.close()
        os.write(is_done, b'x')
        os._exit(0)
    if way == 'child first':
        c.sendall(c.recv(100))
        os.write(go_on, b'x')
    os.read(done, 1)
    if way == 'grandchild first':
        c.sendall(c.recv(100))
    if way != 'neither':
        c.sendall(b'child')
    c.close()
    os.read(parent, 1)
    os._exit(0)
c.close()
os.wait()
";

#[test]
fn a_child_and_its_child_have_one_connection_as_on_linux() {
    let Some(bed) = Bed::if_root(true) else { return };
    let ways = [
        ("child first", "8232", "hello\ngrandchild 1 child"),
        ("grandchild first", "8233", "grandchild 1 hello\nchild"),
        // Both live on, and the end comes when the last of them has closed it.
        ("neither", "8234", ""),
    ];
    for (way, port, wanted) in ways {
        let _server = launch(&bed, &["python3", "-u", "-c", GRANDCHILD, way, port]);
        assert_eq!(ask(&bed, port).0, wanted, "{way}");
    }
}

/// Greets on the descriptor that its argument names, without a library.
const GREETS: &str = "
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    (void)argc;
    return write(atoi(argv[1]), \"static\", 6) != 6;
}
";

/// Spawns a program for each connection that has it by inheritance alone.
const SPAWNS: &str = "
import os, socket, sys
l = socket.create_server(('', 8204))
while True:
    c, a = l.accept()
    os.set_inheritable(c.fileno(), True)
    pid = os.posix_spawn(sys.argv[1], [sys.argv[1], str(c.fileno())], {})
    c.close()
    assert os.waitpid(pid, 0)[1] == 0
";

/// A program that the launcher cannot launch has the connections that it inherits by posix_spawn, too.
#[test]
fn a_static_program_that_is_spawned_has_the_connection() {
    let Some(bed) = Bed::if_root(true) else { return };
    let [source, program] =
        ["greets.c", "greets"].map(|name| bed.dir.join(name).to_string_lossy().into_owned());
    std::fs::write(&source, GREETS).expect("a file");
    sh("cc", &["-static", "-o", &program, &source]).expect("it compiles");
    let _server = launch(&bed, &["python3", "-u", "-c", SPAWNS, &program]);
    assert_eq!(ask(&bed, "8204").0, "static");
}

/// Children are made in ten ways, of which one is past every library.
#[test]
fn whatever_makes_a_child_the_parent_serves_on() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = compiled(&bed, "clones");
    for link in ["nic:ms0", "xdp:ms0"] {
        let args = ["run", "--link", link, "--", &program];
        let _server = bed.spawn(&bed.server, Path::new(MILLSTREAM), &args).expect("it starts");
        for turn in 0..2 {
            for way in 0..10 {
                let who = if way == 9 { "parent" } else { "child" };
                assert_eq!(ask(&bed, "7600").0, format!("{who} {way}"), "{link}, turn {turn}");
            }
        }
    }
}

/// Connects, says something, and reads four bytes or to the end.
const SAYS: &str = "
import socket, sys
c = socket.create_connection((sys.argv[1], 7700), 20)
c.sendall(sys.argv[2].encode() + b'\\n')
print(c.recv(4, socket.MSG_WAITALL).decode())
";

/// Children that have given up root misuse their way to the parent: it serves the others, and keeps nothing.
/// A parent that listens on the stack because of a call that may keep it from that later, and a child that serves.
const LEAVES: &str = "
import os, signal, socket
s = socket.create_server(('', 8260))
os.chroot('/')
if os.fork():
    os.wait()
signal.alarm(60)
for turn in range(12):
    c, _ = s.accept()
    c.recv(100)
    c.sendall(b'child')
    c.close()
";

#[test]
fn a_parent_that_does_not_accept_leaves_connections_to_its_child() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _server = launch(&bed, &["python3", "-c", LEAVES]);
    for _ in 0..12 {
        assert_eq!(ask(&bed, "8260").0, "child");
    }
}

/// Connects, 20 clients at a time, says something, and reads to the end.
const MANY: &str = "
import concurrent.futures, socket, sys
def ask(turn):
    c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 30)
    c.sendall(b'hello')
    got = b''
    while more := c.recv(100):
        got += more
    return got
with concurrent.futures.ThreadPoolExecutor(20) as clients:
    answers = list(clients.map(ask, range(int(sys.argv[3]))))
assert all(answer == b'child' for answer in answers), answers
print(len(answers))
";

/// As the master of a mail server does: it waits for a listener, and a program that it starts accepts.
#[test]
fn a_master_that_only_waits_leaves_connections_to_programs_that_it_starts() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = compiled(&bed, "master");
    let ways = [("poll", "8270"), ("epoll", "8271"), ("again", "8272"), ("spawn", "8273"), ("reuse", "8274")];
    for (way, port) in ways {
        let _server = launch(&bed, &[&program, port, way]);
        assert_eq!(ask(&bed, port).0, "child", "{way}");
        let served = bed.in_ns_within(&bed.client, 120, "python3", &["-c", MANY, SERVER_ADDR, port, "200"]);
        assert_eq!(served.unwrap_or_else(|e| panic!("{way}: {e}")), "200\n", "{way}");
    }
}

#[test]
fn a_hostile_child_has_no_hold_on_its_parent() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = compiled(&bed, "hostile");
    let _server = launch(&bed, &[&program]);
    let say = |what: &str| {
        let said = bed.in_ns_within(&bed.client, 60, "python3", &["-c", SAYS, SERVER_ADDR, what]);
        said.unwrap_or_else(|e| panic!("{what}: {e}")).trim_end().to_owned()
    };
    assert_eq!(ask(&bed, "7700").0, "hello");
    let count = || say("count").parse::<u32>().expect("a number");
    let before = count();
    for how in ["block", "leak", "share"] {
        assert_eq!(say(how), "done", "{how}");
        for _ in 0..5 {
            assert_eq!(say("hello"), "hell", "beside {how}");
        }
        // Shares are bounded, and every child that lives has a channel and its connection.
        let most = if how == "share" { 256 + 40 } else { 40 };
        assert!(count() < before + most, "{how}: {before}, {}", count());
    }
}

/// Hands connections to itself, reads none of them, and ends.
const HANDS_TO_ITSELF: &str = "
import os, socket
server = socket.create_server(('', 8330))
here, there = socket.socketpair()
served = server.accept()[0]
socket.send_fds(here, [b'!'], [served.fileno()])
print('handed over', flush=True)
";

/// The kernel closes its UNIX socket, and with that the connection.
#[test]
fn a_process_that_hands_a_connection_to_itself_and_never_reads_it_ends() {
    let Some(bed) = Bed::if_root(true) else { return };
    let args = ["run", "--link", "nic:ms0", "--", "python3", "-c", HANDS_TO_ITSELF];
    let (ended, got) = std::thread::scope(|scope| {
        let server = scope.spawn(|| bed.in_ns_within(&bed.server, 30, MILLSTREAM, &args));
        // It sends nothing: a connection with unread bytes ends by a reset.
        let waits = format!("{CONNECTS}print(c.recv(1))");
        let got = bed.in_ns_within(&bed.client, 30, "python3", &["-c", &waits, SERVER_ADDR, "8330"]);
        (server.join().expect("a thread"), got)
    });
    assert_eq!(ended.as_deref(), Ok("handed over\n"));
    assert_eq!(got.as_deref(), Ok("b''\n"));
}

/// A process serves what another one hands it over a UNIX socket.
#[test]
fn what_a_process_hands_over_another_serves() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = compiled(&bed, "passes");
    for (at, how) in ["fork", "exec"].into_iter().enumerate() {
        for (what, port) in [("connection", 8300 + at), ("listener", 8310 + at), ("limited", 8320 + at)] {
            let port = port.to_string();
            let _server = launch(&bed, &[&program, what, how, &port]);
            for _ in 0..20 {
                let (answer, own) = ask(&bed, &port);
                assert_eq!(answer, format!("peer {own}"), "{what}, {how}");
            }
        }
    }
}
