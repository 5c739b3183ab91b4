//! Goal: programs that people use, unchanged, on our stack: each moves bytes that are compared, as a server for
//! clients on the kernel or as a client of a server there. docs/PROGRAMS.md is the table of them.
//!
//! Needs root for network namespaces, and the programs; what is missing is said and skipped.

mod rows;

use bench::bed::{Bed, CLIENT_BASE, SERVER_ADDR, Server, sh};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const LINK: &str = "nic:ms0";

/// The table of programs and packages.
const SETUP: &str = include_str!("../../../../../.ci/setup");

/// Is a program or a path there? `.ci/setup programs` brings each that is asked for.
fn has(need: &str) -> bool {
    let rows = SETUP.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let brings = |row: Vec<&str>| matches!(row[..], [program, _package, ..] if program == need);
    assert!(
        rows.into_iter().any(brings),
        "`.ci/setup` has no row for {need}, so that the gate runs without it"
    );
    let there = if need.starts_with('/') { Path::new(need).exists() } else { sh("which", &[need]).is_ok() };
    if !there {
        eprintln!("skipped: {need} is not installed");
    }
    there
}

/// A bed with a file to move, unless it cannot be had here or a program is missing.
fn bed(programs: &[&str]) -> Option<(Bed, Vec<u8>)> {
    if !programs.iter().all(|program| has(program)) {
        return None;
    }
    let bed = Bed::if_root(true)?;
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(bed.dir.join("file"), &bytes).expect("a file");
    Some((bed, bytes))
}

/// A path in the bed's directory.
fn at(bed: &Bed, name: &str) -> String {
    bed.dir.join(name).to_string_lossy().into_owned()
}

fn write(bed: &Bed, name: &str, text: &str) -> String {
    std::fs::write(bed.dir.join(name), text).expect("a file");
    at(bed, name)
}

fn launched<'a>(program: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--link", LINK, "--"][..], program].concat()
}

/// Starts a server on our stack.
fn launch(bed: &Bed, program: &[&str]) -> Server {
    bed.spawn(&bed.server, Path::new(MILLSTREAM), &launched(program)).expect("it starts")
}

/// Runs a client on our stack; what it printed.
fn client(bed: &Bed, program: &[&str]) -> String {
    bed.in_ns_within(&bed.server, 30, MILLSTREAM, &launched(program)).expect("it ends well")
}

/// Runs a program on the clients' kernel until its server listens; what it printed.
fn ask(bed: &Bed, program: &str, args: &[&str]) -> String {
    ask_in(bed, &bed.client, program, args)
}

/// Runs the program in one of the two namespaces.
fn ask_in(bed: &Bed, ns: &str, program: &str, args: &[&str]) -> String {
    ask_once_served(bed, ns, program, args).unwrap_or_else(|e| panic!("{program}: {e}"))
}

/// Runs a program that may fail. Only a server that does not listen yet is asked again: a connection that is
/// reset, cut short or silent is an error of the stack.
fn ask_once_served(bed: &Bed, ns: &str, program: &str, args: &[&str]) -> Result<String, String> {
    let mut tries = 0;
    loop {
        match bed.in_ns_within(ns, 30, program, args) {
            Err(e) if tries < 60 && is_refused(&e) => std::thread::sleep(Duration::from_millis(100)),
            ended => return ended,
        }
        tries += 1;
    }
}

/// Returns true if a client says that its connection was refused, or PostgreSQL's that the server begins.
fn is_refused(said: &str) -> bool {
    ["onnection refused", "curl: (7) ", "the database system is starting up"]
        .iter()
        .any(|words| said.contains(words))
}

#[test]
fn only_a_refused_connection_is_tried_again() {
    let Some((bed, _)) = bed(&["curl", "python3"]) else { return };
    let program = format!(
        "import socket, struct, time\n\
         time.sleep(1)\n\
         s = socket.create_server(('{CLIENT_BASE}', 8001))\n\
         for answer in (b'', b'HTTP/1.0 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\nshort', None):\n\
         \x20c, _ = s.accept()\n\
         \x20c.recv(4096)\n\
         \x20if answer is None: c.sendall(b'HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')\n\
         \x20elif answer: c.sendall(answer)\n\
         \x20else: c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n\
         \x20c.close()\n"
    );
    let _server = bed.spawn(&bed.client, Path::new("python3"), &["-c", &program]).expect("python starts");
    let url = format!("http://{CLIENT_BASE}:8001/");
    let get = || ask_once_served(&bed, &bed.client, "curl", &["-sSf", "--max-time", "5", &url]);
    // Refused for a second, then reset, then cut short: neither of these is hidden by the answer that comes third.
    let reset = get().expect_err("a reset");
    assert!(reset.contains("curl: (56)"), "{reset}");
    let short = get().expect_err("five bytes of nine");
    assert!(short.contains("curl: (18)"), "{short}");
    assert_eq!(get(), Ok("ok".to_owned()));
}

/// Returns a kernel client's answer for a URL.
fn get(bed: &Bed, url: &str) -> Vec<u8> {
    let got = at(bed, "got");
    ask(bed, "curl", &["-sSfk", "--max-time", "20", "-o", &got, url]);
    std::fs::read(got).expect("what came")
}

/// The file, from a server on our stack.
fn serves(bed: &Bed, bytes: &[u8], url: &str) {
    let got = get(bed, url);
    assert!(got == bytes, "{url}: {} bytes", got.len());
}

/// A server of files on the clients' kernel.
fn kernel_server(bed: &Bed) -> (Server, String) {
    let dir = bed.dir.to_string_lossy().into_owned();
    let args = ["-u", "-m", "http.server", "-d", &dir, "8000"];
    let server = bed.spawn(&bed.client, Path::new("python3"), &args).expect("python starts");
    serves_itself(bed);
    (server, format!("http://{CLIENT_BASE}:8000/file"))
}

fn serves_itself(bed: &Bed) {
    ask(bed, "curl", &["-sSf", "-o", "/dev/null", &format!("http://{CLIENT_BASE}:8000/")]);
}

/// Sends and reads back what an echo server on our stack is given.
fn echoes(bed: &Bed, port: u16) {
    let program = format!(
        "import socket, threading\n\
         data = open('{}', 'rb').read()\n\
         s = socket.create_connection(('{SERVER_ADDR}', {port}), 20)\n\
         threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR))).start()\n\
         got = bytearray()\n\
         while more := s.recv(65536): got += more\n\
         print(got == data)\n",
        at(bed, "file")
    );
    assert_eq!(ask(bed, "python3", &["-c", &program]), "True\n");
}

fn nginx(bed: &Bed, workers: u32, tls: bool) -> String {
    let dir = bed.dir.display();
    let temp =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].iter().fold(String::new(), |mut all, kind| {
            let _ = write!(all, "{kind}_temp_path {dir}/{kind}; ");
            all
        });
    let listen = if tls {
        format!("listen 443 ssl; ssl_certificate {dir}/cert; ssl_certificate_key {dir}/key;")
    } else {
        "listen 80;".into()
    };
    let conf = format!(
        "user root; daemon off; worker_processes {workers}; pid {dir}/pid; error_log stderr crit;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; sendfile on; {temp} server {{ {listen} root {dir}; }} }}\n"
    );
    write(bed, "nginx.conf", &conf)
}

fn certificate(bed: &Bed) {
    let (key, cert) = (at(bed, "key"), at(bed, "cert"));
    sh(
        "openssl",
        &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-out", &cert, "-subj", "/CN=x"],
    )
    .expect("a certificate");
}

#[test]
fn nginx_with_one_worker_and_two() {
    for workers in [1, 2] {
        let Some((bed, bytes)) = bed(&["nginx"]) else { return };
        let conf = nginx(&bed, workers, false);
        let _server = launch(&bed, &["nginx", "-c", &conf, "-e", "stderr"]);
        for _ in 0..8 {
            serves(&bed, &bytes, &format!("http://{SERVER_ADDR}/file"));
        }
    }
}

#[test]
fn nginx_with_tls() {
    let Some((bed, bytes)) = bed(&["nginx", "openssl"]) else { return };
    certificate(&bed);
    let conf = nginx(&bed, 1, true);
    let _server = launch(&bed, &["nginx", "-c", &conf, "-e", "stderr"]);
    serves(&bed, &bytes, &format!("https://{SERVER_ADDR}/file"));
}

#[test]
fn lighttpd() {
    let Some((bed, bytes)) = bed(&["lighttpd"]) else { return };
    let text = format!("server.document-root=\"{}\"\nserver.port=80\n", bed.dir.display());
    let conf = write(&bed, "lighttpd.conf", &text);
    let _server = launch(&bed, &["lighttpd", "-D", "-f", &conf]);
    serves(&bed, &bytes, &format!("http://{SERVER_ADDR}/file"));
}

/// Threads of Apache hand connections to each other by way of an epoll set: an event that came twice ended it.
#[test]
fn apache_with_events_and_with_workers() {
    let Some((bed, bytes)) = bed(&["apache2", "ab"]) else { return };
    let dir = at(&bed, "");
    write(&bed, "small", &"s".repeat(64));
    sh("chmod", &["-R", "a+rX", &dir]).expect("every user can read");
    let modules = "/usr/lib/apache2/modules";
    for model in ["event", "worker"] {
        let conf = format!(
            "ServerRoot {dir}\nPidFile {dir}/pid\nServerName x\nListen 80\nDocumentRoot {dir}\nErrorLog {dir}/{model}\n\
             LoadModule mpm_{model}_module {modules}/mod_mpm_{model}.so\n\
             LoadModule authz_core_module {modules}/mod_authz_core.so\nUser www-data\nGroup www-data\n"
        );
        let conf = write(&bed, "apache.conf", &conf);
        let server = launch(&bed, &["apache2", "-D", "FOREGROUND", "-f", &conf]);
        serves(&bed, &bytes, &format!("http://{SERVER_ADDR}/file"));
        let small = format!("http://{SERVER_ADDR}/small");
        for keep in [&["-q"][..], &["-q", "-k"]] {
            let said = ask(&bed, "ab", &[keep, &["-n", "2000", "-c", "20", &small]].concat());
            let has = |name: &str, value: &str| {
                said.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.trim() == value))
            };
            assert!(has("Complete requests:", "2000") && has("Failed requests:", "0"), "{model}: {said}");
        }
        let log = std::fs::read_to_string(at(&bed, model)).expect("its log");
        assert!(!log.contains("exit signal"), "{model}: {log}");
        drop(server);
    }
}

/// Processes of Apache accept from one listener, and end when there are too many of them.
#[test]
fn apache_with_a_process_for_each_connection_loses_none() {
    let Some((bed, _)) = bed(&["apache2", "ab"]) else { return };
    let dir = at(&bed, "");
    write(&bed, "small", &"s".repeat(64));
    sh("chmod", &["-R", "a+rX", &dir]).expect("every user can read");
    let modules = "/usr/lib/apache2/modules";
    let conf = format!(
        "ServerRoot {dir}\nPidFile {dir}/pid\nServerName x\nListen 80\nDocumentRoot {dir}\nErrorLog {dir}/log\n\
         LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\nUser www-data\nGroup www-data\n"
    );
    let conf = write(&bed, "apache.conf", &conf);
    // At its end it sends a signal to its process group.
    let _server = launch(&bed, &["setsid", "apache2", "-D", "FOREGROUND", "-f", &conf]);
    let small = format!("http://{SERVER_ADDR}/small");
    ask(&bed, "curl", &["-sSf", "-o", "/dev/null", &small]);
    let args = ["-q", "-n", "20000", "-c", "16", &small];
    let said = bed.in_ns_within(&bed.client, 200, "ab", &args).unwrap_or_else(|e| panic!("ab: {e}"));
    let failed = said.lines().find(|line| line.starts_with("Failed requests:"));
    assert!(said.contains("Complete requests:      20000"), "{said}");
    assert!(failed.is_some_and(|line| line.ends_with(" 0")), "{said}");
}

#[test]
fn haproxy_listens_and_connects() {
    let Some((bed, bytes)) = bed(&["haproxy"]) else { return };
    let (_backend, _) = kernel_server(&bed);
    let text = format!(
        "global\n maxconn 200\ndefaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n\
         frontend f\n bind 0.0.0.0:80\n default_backend b\nbackend b\n server s {CLIENT_BASE}:8000\n"
    );
    let conf = write(&bed, "haproxy.cfg", &text);
    let _server = launch(&bed, &["haproxy", "-db", "-f", &conf]);
    serves(&bed, &bytes, &format!("http://{SERVER_ADDR}/file"));
}

#[test]
fn redis_and_its_benchmark() {
    let Some((bed, _)) = bed(&["redis-server", "redis-cli", "redis-benchmark"]) else { return };
    let server =
        ["redis-server", "--port", "6379", "--protected-mode", "no", "--save", "", "--dir", &at(&bed, "")];
    let _server = launch(&bed, &server);
    assert_eq!(ask(&bed, "redis-cli", &["-h", SERVER_ADDR, "set", "a", "b"]), "OK\n");
    assert_eq!(ask(&bed, "redis-cli", &["-h", SERVER_ADDR, "get", "a"]), "b\n");
    for pipeline in ["1", "16"] {
        let args = ["-h", SERVER_ADDR, "-t", "set,get", "-n", "20000", "-c", "20", "-P", pipeline, "--csv"];
        let said = ask(&bed, "redis-benchmark", &args);
        assert!(said.contains("\"SET\"") && said.contains("\"GET\""), "{said}");
    }
    // The benchmark itself on our stack, against a server on the kernel.
    let other = ["--port", "6380", "--protected-mode", "no", "--save", "", "--dir", &at(&bed, "")];
    let _kernel = bed.spawn(&bed.client, Path::new("redis-server"), &other).expect("redis starts");
    ask(&bed, "redis-cli", &["-p", "6380", "ping"]);
    let said = client(
        &bed,
        &["redis-benchmark", "-h", CLIENT_BASE, "-p", "6380", "-t", "get", "-n", "5000", "--csv"],
    );
    assert!(said.contains("\"GET\""), "{said}");
}

#[test]
fn memcached_that_gives_up_root_before_it_listens() {
    let Some((bed, _)) = bed(&["memcached"]) else { return };
    let _server = launch(&bed, &["memcached", "-u", "nobody", "-l", "0.0.0.0", "-p", "11211"]);
    let program = format!(
        "import socket\n\
         s = socket.create_connection(('{SERVER_ADDR}', 11211), 20)\n\
         value = bytes(i * 7 % 256 for i in range(900000))\n\
         s.sendall(b'set a 0 0 %d\\r\\n' % len(value) + value + b'\\r\\nget a\\r\\nquit\\r\\n')\n\
         got = bytearray()\n\
         while more := s.recv(65536): got += more\n\
         print(value in got)\n"
    );
    assert_eq!(ask(&bed, "python3", &["-c", &program]), "True\n");
}

/// Where Debian puts the server of PostgreSQL, which is in no PATH.
fn postgres() -> Option<String> {
    let found = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().next()?.path().join("bin");
    found.join("postgres").exists().then(|| found.to_string_lossy().into_owned())
}

#[test]
fn postgresql_which_must_not_be_root() {
    let Some(bin) = postgres() else { return eprintln!("skipped: postgres is not installed") };
    let Some((bed, _)) = bed(&["psql", "pgbench", "runuser"]) else { return };
    let script = "set -e; mkdir $2/pg; chown postgres $2/pg; cp $3 $2; cd $2
        runuser -u postgres -- $1/initdb -D $2/pg -A trust -E UTF8 --locale C --no-sync >$2/initdb
        echo 'host all all 10.77.0.0/16 trust' >>$2/pg/pg_hba.conf";
    let library = Path::new(MILLSTREAM).with_file_name("deps").join("libmillstream_preload.so");
    sh("sh", &["-c", script, "sh", &bin, &at(&bed, ""), &library.to_string_lossy()]).expect("a data base");
    let (named, data) =
        (format!("MILLSTREAM_PRELOAD={}", at(&bed, "libmillstream_preload.so")), at(&bed, "pg"));
    let server = format!("{bin}/postgres");
    let sockets = format!("unix_socket_directories={data}");
    let program = [
        [&named, MILLSTREAM, "run", "--link", "xdp:ms0", "--user", "postgres", "--"].as_slice(),
        &[&server, "-D", &data, "-c", "listen_addresses=*", "-c", &sockets, "-c", "fsync=off"],
    ]
    .concat();
    let _server = bed.spawn(&bed.server, Path::new("env"), &program).expect("it starts");

    // Rows that come back as they went, and an answer that is the same over the loopback.
    let row = |i: u64| format!("{i}\t{}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let rows: String = (0..60_000).map(row).collect();
    let (sent, got) = (write(&bed, "sent", &rows), at(&bed, "got"));
    let psql = |host: &str, command: &str| {
        let args = ["-h", host, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qAt", "-c", command];
        let ns = if host == SERVER_ADDR { &bed.client } else { &bed.server };
        ask_in(&bed, ns, "psql", &args)
    };
    psql(SERVER_ADDR, "create table t (i bigint, n numeric)");
    psql(SERVER_ADDR, &format!("\\copy t from '{sent}'"));
    psql(SERVER_ADDR, &format!("\\copy (select * from t order by i) to '{got}'"));
    assert!(std::fs::read_to_string(&got).expect("what came") == rows);
    let question = "select string_agg(md5(i::text), '') from t";
    assert!(psql(SERVER_ADDR, question) == psql("127.0.0.1", question));

    let args = ["-h", SERVER_ADDR, "-U", "postgres"];
    ask(&bed, "pgbench", &[&args[..], &["-i", "-q", "postgres"]].concat());
    let said = ask(&bed, "pgbench", &[&args[..], &["-c", "4", "-T", "2", "postgres"]].concat());
    assert!(said.contains("number of failed transactions: 0 "), "{said}");
    let said = ask(&bed, "pgbench", &[&args[..], &["-C", "-S", "-t", "20", "postgres"]].concat());
    assert!(said.contains("actually processed: 20/20"), "{said}");
}

#[test]
fn pgbouncer_that_gives_up_root_before_it_listens() {
    let Some(bin) = postgres() else { return eprintln!("skipped: postgres is not installed") };
    let Some((bed, _)) = bed(&["pgbouncer", "psql", "runuser", "setpriv"]) else { return };
    let dir = at(&bed, "");
    let script = "set -e; cd $2; chmod a+rx .; mkdir pg sock; chown postgres pg sock
        runuser -u postgres -- $1/initdb -D $2/pg -A trust -E UTF8 --locale C --no-sync >log
        printf '[databases]\npostgres = host=%s/sock user=postgres\n[pgbouncer]\nlisten_addr=0.0.0.0\n\
        listen_port=6432\nauth_type=any\nunix_socket_dir=\n' $2 >conf";
    sh("sh", &["-c", script, "sh", &bin, &dir]).expect("a data base");
    let script = "setpriv --pdeathsig TERM runuser -u postgres -- $1/postgres -D $2/pg -c listen_addresses= \
        -c unix_socket_directories=$2/sock -c fsync=off >$2/log 2>&1 &
        until grep -q 'ready to accept' $2/log; do sleep 0.05; done; exec pgbouncer -u nobody $2/conf";
    let _server = launch(&bed, &["sh", "-c", script, "sh", &bin, &dir]);
    let rows: String = (1..60_000).map(|i| format!("{i}\t{i}000\n")).collect();
    let (sent, got) = (write(&bed, "sent", &rows), at(&bed, "got"));
    for command in [
        "create table t (i bigint, n numeric)",
        &format!("\\copy t from '{sent}'"),
        &format!("\\copy (select * from t order by i) to '{got}'"),
    ] {
        ask(&bed, "psql", &["-h", SERVER_ADDR, "-p", "6432", "-U", "postgres", "-qAtc", command, "postgres"]);
    }
    assert!(std::fs::read_to_string(&got).expect("what came") == rows);
}

#[test]
fn python_asyncio() {
    let Some((bed, _)) = bed(&["python3"]) else { return };
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/bench/peers/echo.py");
    let _server = launch(&bed, &["python3", program]);
    echoes(&bed, 7);
}

#[test]
fn node() {
    let Some((bed, bytes)) = bed(&["node"]) else { return };
    let program = format!(
        "require('http').createServer((q, r) => require('fs').createReadStream('{}').pipe(r)).listen(80)",
        at(&bed, "file")
    );
    let _server = launch(&bed, &["node", "-e", &program]);
    serves(&bed, &bytes, &format!("http://{SERVER_ADDR}/"));
}

#[test]
fn java_nio() {
    let Some((bed, _)) = bed(&["java", "javac"]) else { return };
    let program = "
import java.net.*; import java.nio.*; import java.nio.channels.*;
public class Echo {
    public static void main(String[] args) throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel server = ServerSocketChannel.open();
        server.bind(new InetSocketAddress(\"0.0.0.0\", 7)).configureBlocking(false);
        server.register(selector, SelectionKey.OP_ACCEPT);
        ByteBuffer buffer = ByteBuffer.allocateDirect(65536);
        while (true) {
            selector.select();
            for (var keys = selector.selectedKeys().iterator(); keys.hasNext(); ) {
                SelectionKey key = keys.next(); keys.remove();
                if (key.isAcceptable()) {
                    SocketChannel channel = server.accept();
                    channel.configureBlocking(false).register(selector, SelectionKey.OP_READ);
                    continue;
                }
                SocketChannel channel = (SocketChannel) key.channel();
                buffer.clear();
                if (channel.read(buffer) < 0) { channel.close(); continue; }
                for (buffer.flip(); buffer.hasRemaining(); ) channel.write(buffer);
            }
        }
    }
}
";
    let path = write(&bed, "Echo.java", program);
    let _server = launch(&bed, &["java", &path]);
    echoes(&bed, 7);
}

#[test]
fn openssl_s_server() {
    let Some((bed, bytes)) = bed(&["openssl"]) else { return };
    certificate(&bed);
    let script = format!(
        "cd {} && exec openssl s_server -accept 443 -key key -cert cert -WWW -quiet",
        bed.dir.display()
    );
    let _server = launch(&bed, &["sh", "-c", &script]);
    serves(&bed, &bytes, &format!("https://{SERVER_ADDR}/file"));
}

#[test]
fn rsync_with_a_child_for_each_connection() {
    let Some((bed, bytes)) = bed(&["rsync"]) else { return };
    let text = format!("[files]\npath = {}\nuse chroot = no\nuid = root\ngid = root\n", bed.dir.display());
    let conf = write(&bed, "rsyncd.conf", &text);
    let _server = launch(&bed, &["rsync", "--daemon", "--no-detach", "--port", "873", "--config", &conf]);
    let got = at(&bed, "copy");
    ask(&bed, "rsync", &[&format!("rsync://{SERVER_ADDR}/files/file"), &got]);
    assert!(std::fs::read(got).expect("what came") == bytes);
}

#[test]
fn git_with_a_program_for_each_connection() {
    let Some((bed, bytes)) = bed(&["git"]) else { return };
    let script = "cd \"$1\" && git init -q work && cd work && cp ../file . && git add file && \
                  git -c user.name=a -c user.email=a@b.c commit -qm one && cd .. && git clone -q --bare work bare";
    sh("sh", &["-c", script, "sh", &bed.dir.to_string_lossy()]).expect("a repository");
    let base = format!("--base-path={}", bed.dir.display());
    let _server = launch(&bed, &["git", "daemon", &base, "--export-all", "--reuseaddr"]);
    let clone = at(&bed, "clone");
    ask(&bed, "git", &["clone", "-q", &format!("git://{SERVER_ADDR}/bare"), &clone]);
    assert!(std::fs::read(format!("{clone}/file")).expect("what came") == bytes);
}

#[test]
fn iperf3_both_ways() {
    let Some((bed, _)) = bed(&["iperf3"]) else { return };
    let _server = launch(&bed, &["iperf3", "-s"]);
    for flags in [&[][..], &["-R"], &["-P", "3"]] {
        let args = [&["-c", SERVER_ADDR, "-t", "1", "-J"][..], flags].concat();
        let said = (0..60).map(|_| ask(&bed, "iperf3", &args)).find(|said| {
            let refused = said.contains("unable to connect");
            if refused {
                // Not ready yet; iperf3 says so and ends as if all were well.
                std::thread::sleep(Duration::from_millis(100));
            }
            !refused
        });
        let said: serde_json::Value = serde_json::from_str(&said.expect("it is there")).expect("JSON");
        let received = said["end"]["sum_received"]["bytes"].as_u64();
        assert!(received > Some(1_000_000), "{flags:?}: {said}");
    }
}

#[test]
fn clients_of_a_server_on_the_kernel() {
    let Some((bed, bytes)) = bed(&["curl", "python3"]) else { return };
    let (_server, url) = kernel_server(&bed);
    let got = at(&bed, "got");
    let read =
        format!("import urllib.request\nopen('{got}', 'wb').write(urllib.request.urlopen('{url}').read())");
    let fetchers: [&[&str]; 3] =
        [&["curl", "-sSf", "-o", &got, &url], &["wget", "-q", "-O", &got, &url], &["python3", "-c", &read]];
    for fetcher in fetchers {
        if !has(fetcher[0]) {
            continue;
        }
        std::fs::write(&got, "").expect("a file");
        client(&bed, fetcher);
        assert!(std::fs::read(&got).expect("what came") == bytes, "{}", fetcher[0]);
    }
    if has("ab") {
        let said = client(&bed, &["ab", "-q", "-n", "100", "-c", "4", &url]);
        assert!(
            said.contains("Complete requests:      100") && said.contains("Failed requests:        0"),
            "{said}"
        );
    }
    if has("wrk") {
        let said = client(&bed, &["wrk", "-t1", "-c4", "-d1", &url]);
        assert!(said.contains("Requests/sec:") && !said.contains("Non-2xx"), "{said}");
    }
}
