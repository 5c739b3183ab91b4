//! Goal: launched programs reach themselves: by the stack's own loopback where the setting says so, and otherwise by
//! the kernel's, so that nothing that listened before is lost.
//!
//! Needs root for network namespaces, and python3; what is missing is said and skipped.

use bench::bed::{Bed, SERVER_ADDR, SERVER_ADDR6, sh};
use std::path::Path;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const LINK: &str = "packet:ms0";

/// Connects to a listener of its own and prints what `millstream ss` shows of it.
const ITSELF: &str = "\
import socket, subprocess, sys, threading, os
millstream, at, to = sys.argv[1:]
family = socket.AF_INET6 if ':' in to else socket.AF_INET
server = socket.create_server((at, 0), family=family)
port = server.getsockname()[1]
client = socket.socket(family)
client.settimeout(10)
client.connect((to, port))
peer, name = server.accept()
assert name == client.getsockname() and client.getpeername()[:2] == (to, port), (name, client.getpeername())
assert peer.getsockname() == client.getpeername(), peer.getsockname()
sent = os.urandom(1000000)
def serve():
    while data := peer.recv(65536): peer.sendall(data)
    peer.close()
threading.Thread(target=serve).start()
threading.Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR))).start()
got = bytearray()
while data := client.recv(65536): got += data
assert got == sent, len(got)
client.close()
client = socket.socket(family)
client.settimeout(10)
client.connect((to, port))
peer, name = server.accept()
print(subprocess.run([millstream, 'ss'], capture_output=True, text=True).stdout)
";

fn bed() -> Option<Bed> {
    if sh("which", &["python3"]).is_err() {
        eprintln!("skipped: python3 is not installed");
        return None;
    }
    Bed::if_root(true)
}

fn launched(bed: &Bed, loopback: &str, program: &[&str]) -> Result<String, String> {
    let loopback = format!("MILLSTREAM_LOOPBACK={loopback}");
    let run = [&[&loopback, MILLSTREAM, "run", "--link", LINK, "--"], program].concat();
    bed.in_ns_within(&bed.server, 60, "env", &run)
}

/// Connections that `millstream ss` shows of a program that connects to itself by `to`.
fn shown(bed: &Bed, loopback: &str, at: &str, to: &str) -> usize {
    let shown = launched(bed, loopback, &["python3", "-c", ITSELF, MILLSTREAM, at, to])
        .unwrap_or_else(|e| panic!("loopback={loopback}, from {to} to {at}: {e}"));
    let ends = shown.lines().filter(|line| line.starts_with("ESTABLISHED"));
    let ends: Vec<_> = ends.filter(|line| line.contains(to)).collect();
    ends.len()
}

/// `millstream ss` in a namespace, in the directory where every stack is: its output, and what it said.
fn ss(bed: &Bed, ns: &str, flags: &[&str]) -> Result<String, String> {
    bed.in_ns_within(ns, 60, MILLSTREAM, &[&["ss"], flags].concat())
}

#[test]
fn stacks_of_other_network_namespaces_are_shown_on_request_alone() {
    let Some(bed) = bed() else { return };
    let serve =
        ["-u", "MILLSTREAM_RUN", MILLSTREAM, "serve", "--link", "packet:ms1", "--listen", "0.0.0.0:8020"];
    let server = bed.start(&bed.client, Path::new("env"), &serve).expect("it serves");
    let is_shown = |ns: &str, flags: &[&str]| ss(&bed, ns, flags).map(|said| said.contains(":8020"));
    assert_eq!(is_shown(&bed.client, &[]), Ok(true));
    assert_eq!(is_shown(&bed.server, &["--all"]), Ok(true));
    assert_eq!(is_shown(&bed.server, &["--pid", &server.pid().to_string()]), Ok(true));
    let said = ss(&bed, &bed.server, &[]).expect_err("there is none here");
    assert!(
        said.contains("no stack runs in this network namespace") && said.contains("--all shows them"),
        "{said}"
    );
}

#[test]
fn a_program_reaches_itself_inside_the_stack() {
    let Some(bed) = bed() else { return };
    // Another stack of the machine is no part of what is shown.
    let serve =
        ["-u", "MILLSTREAM_RUN", MILLSTREAM, "serve", "--link", "packet:ms1", "--listen", "0.0.0.0:8020"];
    let _other = bed.start(&bed.client, Path::new("env"), &serve).expect("it serves");
    for (loopback, at, to, ends) in [
        ("all", "127.0.0.1", "127.0.0.1", 2),
        ("all", "", "127.0.0.1", 2),
        ("all", "::", "::1", 2),
        ("all", "::1", "::1", 2),
        ("all", "", SERVER_ADDR, 2),
        ("link", "", SERVER_ADDR, 2),
        ("link", SERVER_ADDR6, SERVER_ADDR6, 2),
        ("link", "127.0.0.1", "127.0.0.1", 0),
        ("link", "::", "::1", 0),
        ("off", "", SERVER_ADDR, 0),
        ("off", "", "127.0.0.1", 0),
    ] {
        assert_eq!(shown(&bed, loopback, at, to), ends, "loopback={loopback}, from {to} to {at:?}");
    }
}

/// Listeners outside the process's stack are reached where they are: a kernel's server, another process of the
/// launch, a listener that a child has, too.
#[test]
fn everybody_else_is_found_by_the_kernels_loopback() {
    let Some(bed) = bed() else { return };
    let dir = bed.dir.to_string_lossy().into_owned();
    let args = ["-u", "-m", "http.server", "-b", "127.0.0.1", "-d", &dir, "8011"];
    let _kernels = bed.spawn(&bed.server, Path::new("python3"), &args).expect("python starts");
    let args = ["-u", "-m", "http.server", "-d", &dir, "8010"];
    let _on_the_link = bed.spawn(&bed.server, Path::new("python3"), &args).expect("python starts");
    std::fs::write(bed.dir.join("file"), "on this machine").expect("a file");
    let program = format!(
        "import socket, os, subprocess, sys, time, urllib.request\n\
         def get(url):\n\
         \x20for _ in range(300):\n\
         \x20 try: return urllib.request.urlopen(url, timeout=10).read().decode()\n\
         \x20 except OSError as e:\n\
         \x20  if 'refused' not in str(e): raise\n\
         \x20  time.sleep(.1)\n\
         print(get('http://127.0.0.1:8011/file'))\n\
         print(get('http://{SERVER_ADDR}:8010/file'))\n\
         other = subprocess.Popen([sys.executable, '-m', 'http.server', '-d', '{dir}', '8012'],\n\
         \x20                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n\
         print(get('http://127.0.0.1:8012/file'))\n\
         print(get('http://{SERVER_ADDR}:8012/file'))\n\
         other.kill()\n\
         server = socket.create_server(('', 8013))\n\
         child = os.fork()\n\
         if child == 0:\n\
         \x20server.accept()[0].sendall(b'the child')\n\
         \x20os._exit(0)\n\
         print(socket.create_connection(('127.0.0.1', 8013), 10).recv(100).decode())\n\
         os.waitpid(child, 0)\n\
         server.close()\n\
         for here in '127.0.0.1', '{SERVER_ADDR}':\n\
         \x20try: socket.create_connection((here, 8013), 10)\n\
         \x20except ConnectionRefusedError: print('refused')\n"
    );
    let said = launched(&bed, "all", &["python3", "-c", &program]).expect("it ends well");
    let answers: Vec<_> = said.lines().collect();
    let file = "on this machine";
    assert_eq!(answers, [file, file, file, file, "the child", "refused", "refused"], "{said}");
}

/// One thread accepts and looks at the other end, whose connect another thread has called.
#[test]
fn threads_of_a_program_share_both_ends() {
    let Some(bed) = bed() else { return };
    let program = "\
import select, socket, threading
server = socket.create_server(('127.0.0.1', 0))
server.settimeout(10)
for turn in range(20):
    client = socket.socket()
    thread = threading.Thread(target=lambda: client.connect(server.getsockname()))
    thread.start()
    peer, _ = server.accept()
    peer.close()
    assert select.select([client], [], [], 5)[0] == [client]
    assert client.recv(1) == b'', 'the end'
    thread.join()
    client.close()
print('done')
";
    let said = launched(&bed, "all", &["python3", "-c", program]).expect("it ends well");
    assert_eq!(said, "done\n");
}

/// A port that the kernel gives to a socket is had on the stack as well, though a connection from there is in
/// TIME-WAIT.
#[test]
fn the_kernel_says_which_ports_are_free() {
    let Some(bed) = bed() else { return };
    // An address that TIME-WAIT keeps is not the program's to choose, and no obstacle where the kernel chooses it.
    let program = "\
import errno, socket
RANGE = '/proc/sys/net/ipv4/ip_local_port_range'
server = socket.create_server(('127.0.0.1', 0))
def port_in_time_wait():
    client = socket.create_connection(server.getsockname(), 10)
    peer, (_, port) = server.accept()
    client.close()
    assert peer.recv(1) == b''
    peer.close()
    return port
def bound_to_one():
    port, bound = port_in_time_wait(), socket.socket()
    try:
        bound.bind(('127.0.0.1', port))
        assert False, 'bound'
    except OSError as error:
        assert error.errno == errno.EADDRINUSE
    ports = open(RANGE).read()
    open(RANGE, 'w').write(f'{port} {port}')
    bound.bind(('127.0.0.1', 0))
    open(RANGE, 'w').write(ports)
    assert bound.getsockname()[1] == port
    return bound
listener = bound_to_one()
listener.listen()
client = socket.create_connection(listener.getsockname(), 10)
assert listener.accept()[1] == client.getsockname()
client = bound_to_one()
assert client.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 0
client.connect(listener.getsockname())
assert listener.accept()[1] == client.getsockname()
assert client.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 0
print('done')
";
    let said = launched(&bed, "all", &["python3", "-c", program]).expect("it ends well");
    assert_eq!(said, "done\n");
}

/// Reads until the end of the stream, by the C library's own function.
const READS: &str = "\
import ctypes, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
server = socket.create_server(('127.0.0.1', 0))
for turn in range(20):
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    threading.Thread(target=lambda: (peer.sendall(b'x'), peer.close())).start()
    room = ctypes.create_string_buffer(9)
    for expected in (1, 0):
        ctypes.set_errno(0)
        got = libc.read(client.fileno(), room, 9)
        assert (got, ctypes.get_errno()) == (expected, 0), (turn, got, ctypes.get_errno())
print('kept')
";

/// A call that succeeds leaves `errno` as it was. OpenSSL asks for it after a read that returns 0: with an EAGAIN there
/// it took the end of a stream for a wait, and read again for ever.
#[test]
fn calls_that_succeed_leave_errno_alone() {
    let Some(bed) = bed() else { return };
    let said = launched(&bed, "all", &["python3", "-c", READS]).expect("errno is kept");
    assert_eq!(said.trim(), "kept");
}
