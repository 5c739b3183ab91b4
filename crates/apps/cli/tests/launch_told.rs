//! Goal: a launch says what was on the stack and what was not, says each thing once, and fails where it is asked to.
//!
//! Needs root for network namespaces; without it every test says that it was skipped.

use bench::bed::{Bed, CLIENT_BASE, SERVER_ADDR};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");

/// Runs the command in the server's namespace, until nothing has its standard error any more.
fn run(bed: &Bed, args: &[&str]) -> (Output, String) {
    let output = Command::new("ip")
        .args(["netns", "exec", &bed.server, "timeout", "-s", "KILL", "60", MILLSTREAM])
        .args(args)
        .output()
        .expect("ip netns");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

fn launched<'a>(flags: &[&'a str], program: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--link", "nic:ms0"], flags, &["--"], program].concat()
}

/// A server for one connection of the link's, one of the loopback's, and a connection of its own.
const SERVES: &str = "
import socket, sys
l = socket.create_server(('', 8300))
l.settimeout(50)
c = socket.create_connection(('127.0.0.1', 8300))
# The two may come in either order.
ends = {s.getpeername(): s for s in (l.accept()[0], l.accept()[0])}
ends.pop(c.getsockname())
d, = ends.values()
assert d.recv(100, socket.MSG_WAITALL) == b'x' * 100
d.sendall(b'y' * 2000)
assert d.recv(1) == b''
";

/// A client for it.
const ASKS: &str = "
import socket, sys, time
for attempt in range(200):
    try:
        c = socket.create_connection((sys.argv[1], 8300), 20)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
c.sendall(b'x' * 100)
print(len(c.recv(2000, socket.MSG_WAITALL)))
";

#[test]
fn the_end_of_a_launch_tells_what_was_where() {
    let Some(bed) = Bed::if_root(true) else { return };
    for form in ["--json", "--quiet", "--require"] {
        let (said, got) = std::thread::scope(|scope| {
            let server = scope.spawn(|| run(&bed, &launched(&[form], &["python3", "-c", SERVES])));
            let got = bed.in_ns_within(&bed.client, 60, "python3", &["-c", ASKS, SERVER_ADDR]);
            let (output, said) = server.join().expect("a thread");
            assert!(output.status.success(), "{said}");
            (said, got.unwrap_or_else(|e| panic!("{e}")))
        });
        assert_eq!(got, "2000\n");
        match form {
            "--quiet" => assert_eq!(said, ""),
            "--json" => {
                let told: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
                let number = |name: &str| told[name].as_u64();
                assert_eq!((number("accepted"), number("connected")), (Some(1), Some(0)), "{said}");
                assert_eq!((number("bytes_in"), number("bytes_out")), (Some(100), Some(2000)), "{said}");
                assert_eq!((number("kernel_connections"), number("untold")), (Some(2), Some(0)), "{said}");
                assert_eq!(told["listeners"], serde_json::json!(["0.0.0.0:8300"]), "{said}");
            }
            _ => {
                assert!(
                    said.contains("on the stack: listened at 0.0.0.0:8300, 1 connection accepted"),
                    "{said}"
                );
                assert!(said.contains("on the kernel: 2 connections"), "{said}");
            }
        }
    }
}

#[test]
fn a_listener_that_was_never_asked_for_a_connection_is_told_of() {
    let Some(bed) = Bed::if_root(true) else { return };
    let listens = "import os, select, socket
at = [socket.create_server(name).detach() for name in [('', 8340), ('127.0.0.1', 8341)]]";
    for (then, told) in [("", true), ("select.select(at[:1], [], [], 0)", false), ("os.fork()", false)] {
        let program = format!("{listens}\n{then}");
        let (output, said) = run(&bed, &launched(&[], &["python3", "-c", &program]));
        assert!(output.status.success(), "{said}");
        let line =
            "on the kernel: a listener at 0.0.0.0:8340: the program never called accept, poll or epoll_wait";
        assert_eq!(said.contains(line), told, "{then}: {said}");
        assert!(!said.contains("8341"), "{said}");
    }
}

/// Workers that end in order, some after the process that started them.
const WORKERS: &str = "
import os, socket, sys, time
listeners = [socket.create_server(('', 8330 + i)) for i in range(4)]
read, write = os.pipe()
for i, listener in enumerate(listeners):
    listener.setblocking(False)
    if i == 0 or os.fork() == 0:
        try:
            listener.accept()
        except BlockingIOError:
            os.write(write, b'x')
        if i > 0:
            time.sleep(i * 0.05)
            os._exit(0) if i == 1 else sys.exit(0)
for i in range(4):
    os.read(read, 1)
";

#[test]
fn the_report_is_there_before_run_returns_and_counts_workers_that_end_in_order() {
    let Some(bed) = Bed::if_root(true) else { return };
    for (end, killed) in
        [("", false), ("os._exit(0)", false), ("os.kill(os.getpid(), 9)", true), ("os.abort()", true)]
    {
        let program = format!("{WORKERS}{end}");
        let script = format!("{MILLSTREAM} run --link nic:ms0 -- python3 -c \"$0\"; echo returned >&2");
        let output = Command::new("ip")
            .args([
                "netns",
                "exec",
                &bed.server,
                "timeout",
                "-s",
                "KILL",
                "60",
                "sh",
                "-c",
                &script,
                &program,
            ])
            .output()
            .expect("ip netns");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("by 4 processes") && said.ends_with("\nreturned\n"), "{said}");
        let uncounted = said.lines().filter(|line| line.contains("not counted")).collect::<Vec<_>>();
        let first = ["millstream: not counted: what 1 process did, killed"];
        assert_eq!(uncounted, if killed { &first[..] } else { &[] }, "{said}");
    }
}

/// Ends while its peer does not read, and again in the handler of a signal that comes meanwhile, as workers of Apache.
const ENDS_TWICE: &str = r#"
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
static void again(int signal) { (void)signal; exit(0); }
int main(int count, char **args) {
    static char bytes[1000];
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(8309)};
    inet_pton(AF_INET, args[1], &peer.sin_addr);
    int c = socket(AF_INET, SOCK_STREAM, 0), all = 0, sent;
    if (count != 2 || connect(c, (void *)&peer, sizeof peer)) return 1;
    while ((sent = send(c, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) all += sent;
    printf("%d\n", all);
    fflush(stdout);
    signal(SIGALRM, again);
    alarm(1);
    exit(0);
}
"#;

/// Its peer: reads once the signal has come.
const READS_LATE: &str = "
import socket, time
s = socket.create_server(('', 8309))
print('ready', flush=True)
c = s.accept()[0]
time.sleep(2)
got = 0
while more := c.recv(65536):
    got += len(more)
print(got, flush=True)
";

#[test]
fn a_process_that_ends_twice_sends_all_and_is_counted() {
    let Some(bed) = Bed::if_root(true) else { return };
    let [source, program] = ["ends.c", "ends"].map(|name| bed.dir.join(name).to_string_lossy().into_owned());
    std::fs::write(&source, ENDS_TWICE).expect("a file");
    bench::bed::sh("cc", &["-o", &program, &source]).expect("it compiles");
    let peer = bed.start(&bed.client, Path::new("python3"), &["-c", READS_LATE]).expect("the peer starts");
    let (output, said) = run(&bed, &launched(&["--json"], &[&program, CLIENT_BASE]));
    assert!(output.status.success(), "{said}");
    let told: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!((told["connected"].as_u64(), told["untold"].as_u64()), (Some(1), Some(0)), "{said}");
    assert_eq!(peer.wait().as_deref(), Ok(&*String::from_utf8_lossy(&output.stdout)), "{said}");
}

/// A client as Java and gRPC have them: IPv6 sockets for every address, IPv4 ones mapped. One channel does not block.
const JAVA: &str = r#"
import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;

public class Client {
    public static void main(String[] args) throws Exception {
        InetAddress peer = InetAddress.getByName(args[0]);
        try (Socket socket = new Socket(peer, 8305)) {
            socket.getOutputStream().write("hello".getBytes());
            System.out.println(new String(socket.getInputStream().readNBytes(5)) + " " + socket.getInetAddress());
        }
        try (SocketChannel channel = SocketChannel.open(); Selector selector = Selector.open()) {
            channel.configureBlocking(false);
            channel.register(selector, SelectionKey.OP_CONNECT);
            if (!channel.connect(new InetSocketAddress(peer, 8305))) {
                selector.select();
                channel.finishConnect();
            }
            channel.keyFor(selector).interestOps(SelectionKey.OP_READ);
            channel.write(ByteBuffer.wrap("again".getBytes()));
            ByteBuffer got = ByteBuffer.allocate(5);
            while (got.hasRemaining() && selector.select() >= 0)
                channel.read(got);
            System.out.println(new String(got.array()) + " " + channel.getRemoteAddress());
        }
    }
}
"#;

/// An echo server for it, of the kernel's.
const ECHOES: &str = "
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while more := self.request.recv(65536):
            self.request.sendall(more)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(('', 8305), Echo).serve_forever()
";

#[test]
fn a_java_client_is_on_the_stack() {
    let Some(bed) = Bed::if_root(true) else { return };
    let source = bed.dir.join("Client.java").to_string_lossy().into_owned();
    std::fs::write(&source, JAVA).expect("a file");
    let dir = bed.dir.to_string_lossy().into_owned();
    if let Err(why) = bench::bed::sh("javac", &["-d", &dir, &source]) {
        assert!(!why.contains("error:"), "{why}");
        eprintln!("skipped: there is no javac");
        return;
    }
    let server = bed.spawn(&bed.client, Path::new("python3"), &["-c", ECHOES]);
    let _server = server.and_then(|server| server.on_port(8305)).expect("the server starts");
    let program = ["java", "-Xshare:auto", "-cp", &dir, "Client", CLIENT_BASE];
    let (output, said) = run(&bed, &launched(&["--require", "--json"], &program));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(printed, format!("hello /{CLIENT_BASE}\nagain /{CLIENT_BASE}:8305\n"), "{said}");
    let told: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    let number = |name: &str| told[name].as_u64();
    assert_eq!((number("connected"), number("kernel_connections")), (Some(2), Some(0)), "{said}");
}

/// Connects by a library that is loaded with RTLD_DEEPBIND, as PHP loads its extensions.
const DEEP: &str = "
import ctypes, os, socket, struct, sys
library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
s = socket.socket()
address = struct.pack('=HH4s8x', socket.AF_INET, socket.htons(8305), socket.inet_aton(sys.argv[2]))
assert library.joins(s.fileno(), address, 16) == 0
s.sendall(b'hello')
print(s.recv(9).decode())
";

#[test]
fn a_library_that_binds_deep_is_on_the_stack() {
    let Some(bed) = Bed::if_root(true) else { return };
    let [source, library] =
        ["deep.c", "deep.so"].map(|name| bed.dir.join(name).to_string_lossy().into_owned());
    let text =
        "#include <sys/socket.h>\nint joins(int s, const void *to, int n) { return connect(s, to, n); }";
    std::fs::write(&source, text).expect("a file");
    bench::bed::sh("cc", &["-shared", "-fPIC", "-o", &library, &source]).expect("it compiles");
    let server = bed.spawn(&bed.client, Path::new("python3"), &["-c", ECHOES]);
    let _server = server.and_then(|server| server.on_port(8305)).expect("the server starts");
    let program = ["python3", "-c", DEEP, &library, CLIENT_BASE];
    let (output, said) = run(&bed, &launched(&["--require", "--json"], &program));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n", "{said}");
    let told: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(told["connected"].as_u64(), Some(1), "{said}");
}

/// Every way by which a TCP socket could come to the kernel: its errors and what is said.
const STRAYS: &str = "
import errno, os, socket, sys
peer, other = sys.argv[1:]
def tried(what, call):
    try:
        call()
        print(what, 'done')
    except OSError as e:
        print(what, errno.errorcode[e.errno])
far = ('192.0.2.1', 8306)
def tcp(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_STREAM)
tried('an address beyond the link', lambda: tcp().connect(far))
tried('mapped', lambda: tcp(socket.AF_INET6).connect(('::ffff:192.0.2.1', 8306)))
tried('fast open', lambda: tcp().sendto(b'x', socket.MSG_FASTOPEN, far))
tried('fast open of a message', lambda: tcp().sendmsg([b'x'], [], socket.MSG_FASTOPEN, far))
tried('another own address', lambda: tcp().bind((other, 8306)))
tried('mapped own address', lambda: tcp(socket.AF_INET6).bind(('::ffff:' + other, 8306)))
tried('another device', lambda: tcp().setsockopt(socket.SOL_SOCKET, 25, b'ms9'))
l = tcp()
l.bind(('127.0.0.1', 8307))
tried('a listener on the loopback', l.listen)
tried('the loopback', lambda: tcp().connect(('127.0.0.1', 8307)))
c = tcp()
try:
    c.connect(('127.0.0.1', 8308))
except ConnectionRefusedError:
    pass
tried('beyond, after the loopback', lambda: c.connect(far))
tried('the link, after the loopback', lambda: c.connect((peer, 8306)))
";

#[test]
fn with_require_no_socket_is_left_to_the_kernel() {
    let Some(bed) = Bed::if_root(true) else { return };
    // The way to 192.0.2.1 leads over an interface that the link is not.
    for command in [
        "link add ms9 type veth peer name ms8",
        "address add 198.51.100.9/24 dev ms9",
        "link set ms9 up",
        "route add 192.0.2.0/24 dev ms9",
    ] {
        bed.in_ns(&bed.server, "ip", &command.split(' ').collect::<Vec<_>>()).expect("an interface");
    }
    let program = ["python3", "-u", "-c", STRAYS, CLIENT_BASE, "198.51.100.9"];
    let (output, said) = run(&bed, &launched(&["--require"], &program));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    // A socket that the loopback refused is the stack's.
    let allowed =
        ["a listener on the loopback done", "the loopback done", "the link, after the loopback ECONNREFUSED"];
    let (kept, refused): (Vec<_>, Vec<_>) = printed.lines().partition(|line| allowed.contains(line));
    assert_eq!((kept.len(), refused.len()), (3, 8), "{printed}{said}");
    assert!(refused.iter().all(|line| line.ends_with(" ENETUNREACH")), "{printed}{said}");
    for line in ["connections to 192.0.2.1: ", "a socket at 198.51.100.9: ", "a socket on another device: "] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(
        said.lines().filter(|line| line.ends_with("and --require forbids the kernel")).count() >= 3,
        "{said}"
    );
}

/// The header of a program that is linked statically.
fn fixed(bed: &Bed) -> String {
    let path = bed.dir.join("fixed").to_string_lossy().into_owned();
    let source = bed.dir.join("fixed.c").to_string_lossy().into_owned();
    std::fs::write(&source, "int main(void) { return 0; }").expect("a file");
    bench::bed::sh("cc", &["-static", "-o", &path, &source]).expect("it compiles");
    path
}

#[test]
fn what_the_launcher_does_not_reach_is_told_or_forbidden() {
    let Some(bed) = Bed::if_root(true) else { return };
    let fixed = fixed(&bed);
    let twice = format!("{fixed}; {fixed}; exec {fixed}");
    for (flags, program, good) in [
        (&[][..], &[fixed.as_str()][..], true),
        (&["--require"], &[&fixed], false),
        (&[], &["sh", "-c", &twice], true),
        (&["--require"], &["sh", "-c", &fixed], false),
    ] {
        let (output, said) = run(&bed, &launched(flags, program));
        assert_eq!(output.status.success(), good, "{program:?}: {said}");
        assert_eq!(
            said.matches("linked statically").count(),
            if good { 2 } else { 1 },
            "{program:?}: {said}"
        );
        assert_eq!(good, said.contains(&format!("on the kernel: {fixed}: is linked statically")), "{said}");
    }
}

/// A program that waits for ever without its sockets, as nginx does, must not begin.
#[test]
fn a_required_link_that_cannot_be_opened_ends_the_launch_at_once() {
    let Some(bed) = Bed::if_root(true) else { return };
    let flags = |require: &'static [&'static str]| {
        [&["run", "--link", "packet:ms0,whole=on"], require, &["--", "sh", "-c", "echo ran; exit 0"]].concat()
    };
    let (output, said) = run(&bed, &flags(&["--require"]));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{said}");
    assert!(said.starts_with("millstream: packet:ms0 with whole=on"), "{said}");
    assert!(said.contains("ip addr flush dev ms0"), "what to do: {said}");
    assert!(said.contains("with --require sh is not run") && said.lines().count() == 1, "{said}");
    let (output, said) = run(&bed, &flags(&[]));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "it opens no socket: {said}");
    assert!(output.status.success(), "{said}");
}

/// Gives up root after it has said what it keeps, as squid does, and asks again and again.
const KEEPS: &str = "
import ctypes, os, socket
c = ctypes.CDLL(None)
c.prctl(8, 1, 0, 0, 0)
os.setuid(65534)
l = socket.create_server(('', 8310))
l.setblocking(False)
for i in range(20):
    try:
        l.accept()
    except OSError as e:
        pass
    if i % 5 == 0 and os.fork() == 0:
        try:
            l.accept()
        except OSError as e:
            os._exit(0)
";

#[test]
fn a_line_is_said_once_in_a_launch() {
    let Some(bed) = Bed::if_root(true) else { return };
    let (output, said) = run(&bed, &launched(&["--quiet"], &["python3", "-c", KEEPS]));
    assert!(output.status.success(), "{said}");
    let (_, told) = run(&bed, &launched(&[], &["python3", "-c", KEEPS]));
    for text in [&said, &told] {
        let lines = text.lines().filter(|line| line.starts_with("millstream: no permission"));
        assert_eq!(lines.count(), 1, "{text}");
    }
    assert!(
        told.contains("on the kernel: sockets of a process are refused (ENETDOWN): no permission"),
        "{told}"
    );
}

const OPTION: &str = "
import os, socket
for i in range(3):
    l = socket.create_server(('', 8320 + i))
    l.setsockopt(socket.SOL_SOCKET, 46, 50)
    l.setblocking(False)
    try:
        l.accept()
    except BlockingIOError:
        pass
    if i == 1 and os.fork() == 0:
        try:
            l.accept()
        except BlockingIOError:
            os._exit(0)
";

#[test]
fn an_option_that_is_refused_is_named_once() {
    let Some(bed) = Bed::if_root(true) else { return };
    let (output, said) = run(&bed, &launched(&[], &["python3", "-c", OPTION]));
    assert!(output.status.success(), "{said}");
    let line = "millstream: SO_BUSY_POLL holds for the kernel's sockets alone: ENOPROTOOPT\n";
    assert_eq!(said.matches(line).count(), 1, "{said}");
    assert!(said.contains("on the kernel: SO_BUSY_POLL: the stack does not know this option"), "{said}");
}

#[test]
fn mistakes_are_named_at_once() {
    let Some(bed) = Bed::if_root(true) else { return };
    let refused = |args: &[&str], wanted: &[&str]| {
        let (output, said) = run(&bed, args);
        assert!(!output.status.success(), "{args:?}");
        wanted.iter().for_each(|part| assert!(said.contains(part), "{args:?}: {said}"));
    };
    refused(&["run", "--link", "nic:nope0", "--", "true"], &["no interface nope0"]);
    let address = ["serve", "--link", "nic:ms0", "--address", "10.99.0.1/24", "--listen", "8000"];
    refused(&address, &["10.99.0.1 is not an address of ms0", "ip address add 10.99.0.1/24 dev ms0"]);
    refused(&["settings", "--set", "adress=10.0.0.1/8"], &["no setting \"adress\"", "near it are address"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let Some(bed) = Bed::if_root(true) else { return };
    // More lines than a pipe holds are printed to a reader that takes one.
    let script = format!("{MILLSTREAM} settings 2>&1 | head -1; echo ${{PIPESTATUS[0]}}");
    let output =
        Command::new("bash").args(["-c", &script]).env("MILLSTREAM_RUN", &bed.dir).output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.ends_with("\n0\n") && !said.contains("panicked"), "{said}");
}

/// Listens, gives up root and asks for connections.
const LEAVES_ROOT: &str = "
import os, select, socket
s = socket.create_server(('', 8390))
os.setuid(65534)
select.select([s], [], [], 0)
";

/// Asks for connections.
const POLLS: &str = "
import select, socket
s = socket.create_server(('', 8390))
select.select([s], [], [], 0)
";

#[test]
fn a_directory_for_errors_that_the_programs_user_may_not_write_is_told_of() {
    let Some(bed) = Bed::if_root(true) else { return };
    let errors = bed.dir.join("errors");
    std::fs::create_dir(&errors).expect("a directory");
    let setting = format!("blackbox_on_error={}", errors.display());
    let set = ["--set", "blackbox=10", "--set", &setting];
    let line = format!(
        "user 65534 may not write there, so connections that end by an error leave no file: chown 65534 {}",
        errors.display()
    );
    for (flags, program, times) in [
        (&[][..], ["python3", "-c", LEAVES_ROOT], 1),
        (&["--user", "nobody"], ["python3", "-c", POLLS], 1),
        (&[], ["python3", "-c", POLLS], 0),
    ] {
        let (output, said) = run(&bed, &launched(&[&set[..], flags].concat(), &program));
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches(&line).count(), times, "{flags:?}: {said}");
    }
}
