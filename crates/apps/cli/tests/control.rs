//! Goal: a stack's control socket is its user's and root's. Other users are refused in words, commands that load code
//! or write files are refused unless a setting allows them, and a client that says nothing delays no other.
//!
//! Needs root, to be other users; without it every test says that it was skipped.

use bench::bed::{Bed, SERVER_ADDR, copy_program, is_root, sh};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
/// The number of the user `nobody`.
const NOBODY: &str = "65534";

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory of one test that every user may enter, with a copy of the command that every user may run.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("ms-control-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        copy_program(MILLSTREAM, &dir.join("millstream")).expect("a copy");
        Place(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// The command, as another user if one is named. It looks for stacks in `run`.
    fn millstream(&self, user: Option<&str>, args: &[&str]) -> Command {
        let program = self.path("millstream");
        let mut command = match user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", user, "--regid", user, "--clear-groups", &program]);
                command
            }
            None => Command::new(&program),
        };
        command.args(args).env("MILLSTREAM_RUN", self.path("run")).stdin(Stdio::null());
        command
    }

    fn output(&self, user: Option<&str>, args: &[&str]) -> Output {
        self.millstream(user, args).output().expect("it runs")
    }

    /// A server on a link of shared memory, in a process whose umask is 0; once its socket is there.
    fn serve(&self, user: Option<&str>, more: &[&str]) -> (Running, PathBuf) {
        let (link, run) = (format!("shm:{}", self.path("link")), self.path("run"));
        let serve = ["serve", "--link", &link, "--address", "10.9.0.1/24", "--listen", "0.0.0.0:80"];
        let command = self.millstream(user, &[&serve[..], more].concat());
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
        shell.env("MILLSTREAM_RUN", &run).stdin(Stdio::null()).stdout(Stdio::null());
        let running = Running(shell.spawn().expect("a shell"));
        let socket = self.0.join("run").join(format!("{}.sock", running.0.id()));
        // An answer, for a client that is not let go yet counts among those that are answered at once.
        wait("the server answers", || {
            UnixStream::connect(&socket)
                .is_ok_and(|stream| stream.shutdown(Shutdown::Write).is_ok() && !rest_of(stream).is_empty())
        });
        (running, socket)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left over lies in the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[allow(clippy::disallowed_methods, reason = "real programs take real time")]
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "{what}: not within 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ticks of CPU time (USER_HZ) that a thread of a process with this name has used.
fn ticks(process: u32, name: &str) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let of_task = |path: PathBuf| {
        let text = std::fs::read_to_string(path.join("stat")).ok()?;
        let (head, rest) = text.rsplit_once(')')?;
        let field = |at: usize| rest.split_whitespace().nth(at)?.parse::<u64>().ok();
        head.contains(name).then(|| Some(field(11)? + field(12)?))?
    };
    let all: Vec<_> = tasks.flatten().filter_map(|entry| of_task(entry.path())).collect();
    assert!(!all.is_empty(), "no thread {name}");
    all.iter().sum()
}

/// Every kind of question that a control socket answers.
const COMMANDS: &[&[&str]] = &[
    &["ss"],
    &["stat"],
    &["stat", "--hosts"],
    &["stat", "--openmetrics"],
    &["sysctl", "-a"],
    &["sysctl", "net.inet.tcp.cc.load=/tmp/any.so"],
    &["sysctl", "net.inet.siftr.logfile=/tmp/any"],
    &["blackbox"],
    &["capture", "-s", "1", "-w", "/dev/null"],
];

/// A question to a socket, straight.
fn ask(socket: &Path, question: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    writeln!(stream, "{question}").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

/// Nothing else may ask the stack behind `socket`: not through the command, not through a socket whose mode was
/// widened.
fn check_closed(place: &Place, pid: u32, socket: &Path) {
    let meta = std::fs::symlink_metadata(socket).expect("a socket");
    assert_eq!((meta.mode() & 0o777, meta.uid()), (0o600, 0), "mode and owner of {}", socket.display());
    for command in COMMANDS {
        let output = place.output(Some(NOBODY), command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command:?} as another user: {output:?}");
        for word in [&pid.to_string(), "user root", "sudo"] {
            assert!(said.contains(word), "{command:?} must name {word}: {said}");
        }
        assert!(output.stdout.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
    // Without the mode there are the credentials.
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).expect("a mode");
    for command in COMMANDS {
        let output = place.output(Some(NOBODY), command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command:?} as another user: {output:?}");
        assert!(said.contains("does not answer") && said.contains(NOBODY), "{command:?}: {said}");
        assert!(output.stdout.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600)).expect("a mode");
}

#[test]
fn other_users_are_refused_in_words() {
    if !is_root() {
        return;
    }
    let place = Place::new("others");
    let (server, socket) = place.serve(None, &[]);
    check_closed(&place, server.0.id(), &socket);
    assert!(ask(&socket, "ss").contains("LISTEN"));
}

#[test]
fn nginx_as_a_daemon_under_the_launcher_is_closed_to_other_users() {
    if !is_root() {
        return;
    }
    if sh("nginx", &["-v"]).is_err() {
        return eprintln!("skipped: there is no nginx");
    }
    let bed = Bed::if_root(true).expect("root");
    let place = Place::new("nginx");
    let (dir, run) = (place.0.display().to_string(), place.path("run"));
    std::fs::write(place.0.join("file"), "hello").expect("a file");
    let config = format!(
        "worker_processes 1; user www-data; daemon on; error_log {dir}/errors; pid {dir}/pid; events {{}}
         http {{ access_log off; server {{ listen 8080; root {dir}; }} }}"
    );
    std::fs::write(place.0.join("nginx.conf"), config).expect("a file");
    let args = ["run", "--link", "nic:ms0", "--", "nginx", "-c", &place.path("nginx.conf")];
    let status = Command::new("ip")
        .args([&["netns", "exec", &bed.server, MILLSTREAM][..], &args].concat())
        .env("MILLSTREAM_RUN", &run)
        .status();
    assert!(status.expect("ip").success());
    /// The daemon, ended with the test.
    struct Daemon(String);
    impl Drop for Daemon {
        fn drop(&mut self) {
            // It may have ended by itself.
            let _ = sh("kill", &["-TERM", &self.0]);
        }
    }
    wait("nginx writes its number", || {
        std::fs::read_to_string(place.0.join("pid")).is_ok_and(|text| !text.trim().is_empty())
    });
    let master = std::fs::read_to_string(place.0.join("pid")).expect("a number").trim().to_owned();
    let _daemon = Daemon(master.clone());
    let url = format!("http://{SERVER_ADDR}:8080/file");
    wait("nginx serves", || {
        match bed.in_ns(&bed.client, "curl", &["-sSf", "--max-time", "20", &url]) {
            Ok(text) => text == "hello",
            // curl's status 7: nothing listens yet.
            Err(e) if e.contains("exit status: 7") => false,
            Err(e) => panic!("{e}"),
        }
    });
    let worker = sh("pgrep", &["-P", &master]).expect("a worker").trim().to_owned();
    let socket = Path::new(&run).join(format!("{worker}.sock"));
    let directory = std::fs::metadata(&run).expect("a directory");
    assert_eq!(directory.mode() & 0o022, 0, "only its user may put sockets into {run}");
    check_closed(&place, worker.parse().expect("a number"), &socket);
    assert!(ask(&socket, "ss").contains("LISTEN"), "root may ask");
}

#[test]
fn loading_and_writing_need_the_setting() {
    if !is_root() {
        return;
    }
    let place = Place::new("setting");
    let log = place.path("log");
    let beyond = [
        "net.inet.tcp.cc.load=/tmp/any.so".to_owned(),
        format!("net.inet.siftr.logfile={log}"),
        "net.inet.siftr.enabled=1".to_owned(),
    ];
    {
        let (_server, socket) = place.serve(None, &[]);
        for assignment in &beyond {
            let said = ask(&socket, &format!("sysctl {assignment}"));
            assert!(
                said.contains("error") && said.contains("control = \\\"full\\\""),
                "{assignment}: {said}"
            );
        }
        let said = ask(&socket, "sysctl net.inet.tcp.cc.algorithm=newreno");
        assert!(!said.contains("error"), "tuning is allowed: {said}");
    }
    {
        let (_server, socket) = place.serve(None, &["--set", "control=look"]);
        let said = ask(&socket, "sysctl net.inet.tcp.cc.algorithm=newreno");
        assert!(said.contains("error") && said.contains("control = \\\"tune\\\""), "{said}");
        let said = ask(&socket, "blackbox on 8");
        assert!(said.contains("error") && said.contains("control = \\\"tune\\\""), "{said}");
        assert!(ask(&socket, "sysctl net.inet.tcp.cc.algorithm").contains("cubic"), "reading is allowed");
    }
    let (_server, socket) = place.serve(None, &["--set", "control=full"]);
    let said = ask(&socket, &format!("sysctl {}", beyond[0]));
    assert!(said.contains("/tmp/any.so"), "the loader itself answers: {said}");
    for assignment in &beyond[1..] {
        let said = ask(&socket, &format!("sysctl {assignment}"));
        assert!(!said.contains("error"), "{assignment}: {said}");
    }
    assert!(Path::new(&log).exists(), "the log is written");
}

#[test]
fn ss_shows_what_its_user_may_see_and_names_the_rest() {
    if !is_root() {
        return;
    }
    let place = Place::new("names");
    let (server, _socket) = place.serve(None, &[]);
    let other = Place::new("names-other");
    // Both users' sockets in one directory, as in that of temporary files.
    std::fs::set_permissions(place.path("run"), std::fs::Permissions::from_mode(0o1777)).expect("a mode");
    let link = format!("shm:{}", other.path("link"));
    std::fs::set_permissions(&other.0, std::fs::Permissions::from_mode(0o1777)).expect("a mode");
    let serve = ["serve", "--link", &link, "--address", "10.9.0.1/24", "--listen", "0.0.0.0:81"];
    let mut command = place.millstream(Some(NOBODY), &serve);
    let own = Running(command.stdout(Stdio::null()).spawn().expect("it starts"));
    let rows = |user| String::from_utf8(place.output(user, &["ss"]).stdout).expect("text");
    wait("the second server answers", || rows(None).contains(":81"));
    assert!(rows(None).contains(":80"), "root sees both: {}", rows(None));
    let output = place.output(Some(NOBODY), &["ss"]);
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{output:?}");
    assert!(shown.contains(":81") && !shown.contains(":80"), "{shown}");
    let number = server.0.id().to_string();
    assert!(said.contains(&number) && said.contains("user root") && said.contains("sudo"), "{said}");
    assert!(!said.contains(&own.0.id().to_string()), "{said}");
}

#[test]
fn clients_that_say_nothing_delay_no_other() {
    if !is_root() {
        return;
    }
    let place = Place::new("silent");
    let (_server, socket) = place.serve(None, &[]);
    let connect = || UnixStream::connect(&socket).expect("it listens");
    let silent: Vec<_> = (0..15).map(|_| connect()).collect();
    // Each says nothing for five seconds: one after the other they would take more than a minute.
    let output = Command::new("timeout")
        .args(["40", &place.path("millstream"), "ss"])
        .env("MILLSTREAM_RUN", place.path("run"))
        .output()
        .expect("timeout runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("LISTEN"), "{output:?}");
    // One that goes on saying nothing is let go in the end.
    for stream in silent {
        let text = rest_of(stream);
        assert!(text.contains("error"), "{text}");
    }
}

/// All that the server says until it lets the client go, with or without having read everything.
fn rest_of(mut stream: UnixStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let (mut text, mut some) = (Vec::new(), [0; 1_024]);
    loop {
        match stream.read(&mut some) {
            Ok(0) => break,
            Ok(len) => text.extend_from_slice(&some[..len]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(e) => panic!("it is not let go: {e}"),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The server's user may have no more threads: its socket answers nevertheless, one client after the other.
#[test]
fn a_server_that_may_make_no_thread_answers() {
    if !is_root() {
        return;
    }
    let place = Place::new("no-thread");
    std::fs::create_dir(place.path("run")).expect("a directory");
    std::os::unix::fs::chown(&place.0, Some(65_534), Some(65_534)).expect("nobody's");
    std::os::unix::fs::chown(place.path("run"), Some(65_534), Some(65_534)).expect("nobody's");
    let (server, socket) = place.serve(Some(NOBODY), &[]);
    let (pid, user) = (server.0.id().to_string(), ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    sh("setpriv", &[&user[..], &["prlimit", "--pid", &pid, "--nproc=1"]].concat()).expect("a limit");
    for _ in 0..2 {
        assert!(ask(&socket, "ss").contains("LISTEN"));
    }
}

/// Sixteen clients have a thread each; one more is told so at once.
#[test]
fn clients_are_bounded_and_so_is_a_question() {
    if !is_root() {
        return;
    }
    let place = Place::new("bounds");
    let (_server, socket) = place.serve(None, &[]);
    let connect = || UnixStream::connect(&socket).expect("it listens");
    let silent: Vec<_> = (0..16).map(|_| connect()).collect();
    let text = rest_of(connect());
    assert!(text.contains("as many questions as may be"), "{text}");
    silent.into_iter().for_each(|stream| drop(rest_of(stream)));
    // A line that never ends is refused when it is too long, and not kept.
    let mut endless = connect();
    let line = [b'x'; 1_024];
    let sent = (0..1_024).take_while(|_| endless.write_all(&line).is_ok()).count();
    assert!(sent >= 64, "{sent} KiB were taken");
    let text = rest_of(endless);
    assert!(text.contains("a question has at most 65536 bytes"), "{text}");
}

#[test]
fn a_process_without_descriptors_does_not_spin() {
    if !is_root() {
        return;
    }
    let place = Place::new("descriptors");
    let (server, socket) = place.serve(None, &[]);
    let process = server.0.id();
    let limit = |files: usize| {
        let value = format!("--nofile={files}:");
        sh("prlimit", &["--pid", &process.to_string(), &value]).expect("root may limit");
    };
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).expect("a process").count();
    limit(open);
    let mut waiting = UnixStream::connect(&socket).expect("the kernel takes it");
    writeln!(waiting, "ss").expect("the kernel takes it");
    let before = ticks(process, "millstream-cont");
    std::thread::sleep(Duration::from_secs(4));
    let used = ticks(process, "millstream-cont") - before;
    assert!(used < 20, "a thread that cannot accept used {used} ticks of CPU time in 4 s");
    // With descriptors it answers.
    limit(1_024);
    waiting.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut text = String::new();
    waiting.read_to_string(&mut text).expect("an answer");
    assert!(text.contains("LISTEN"), "{text}");
}
