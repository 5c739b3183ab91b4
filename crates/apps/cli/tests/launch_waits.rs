//! Goal: `millstream run` waits for its program, hands signals on to it, ends as it does, and has told before; where a
//! supervisor knows the program by number, or it is asked to, it becomes the program.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
/// No program here opens its link, so nothing takes root.
const LINK: &str = "packet:lo";
const NOTHING: &str = "millstream: nothing was on the stack\n";

/// A directory of its own for the reports of a test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = std::env::temp_dir().join(format!("millstream-waits-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        Place(place)
    }

    /// A command there, which no supervisor has started.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("MILLSTREAM_RUN", &self.0).stdin(Stdio::null());
        for name in ["SYSTEMD_EXEC_PID", "LISTEN_PID", "NOTIFY_SOCKET"] {
            command.env_remove(name);
        }
        command
    }

    fn launch(&self, flags: &[&str], program: &[&str]) -> Command {
        let mut command = self.command(MILLSTREAM);
        command.args(["run", "--link", LINK]).args(flags).arg("--").args(program);
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("it is there");
    }
}

/// A started launch, and its program's output.
struct Launched {
    run: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Launched {
    fn start(place: &Place, code: &str) -> Launched {
        let mut command = place.launch(&[], &["python3", "-u", "-c", code]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut run = command.spawn().expect("it starts");
        let out = BufReader::new(run.stdout.take().expect("piped"));
        Launched { run, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line
    }

    fn signal(&self, signal: &str) {
        kill(signal, &self.run.id().to_string());
    }

    /// The letter of its state: T when it is stopped.
    fn waits_for(&self, state: char) {
        for _ in 0..3_000 {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.run.id())).expect("it lives");
            if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(state)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it is not in state {state} after half a minute");
    }

    /// Its end, the rest of what the program printed, and what was said before that end.
    fn end(mut self) -> (ExitStatus, String, String) {
        let status = self.run.wait().expect("it ends");
        let (mut printed, mut said) = (String::new(), String::new());
        self.out.read_to_string(&mut printed).expect("text");
        self.run.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        (status, printed, said)
    }
}

fn kill(signal: &str, process: &str) {
    let status = Command::new("kill").args(["-s", signal, "--", process]).status();
    assert!(status.expect("kill runs").success(), "{signal} to {process}");
}

#[test]
fn run_ends_as_its_program_does() {
    let place = Place::new("ends");
    for (code, status, signal) in [
        ("exit 7", Some(7), None),
        ("exit 0", Some(0), None),
        ("kill -KILL $$", None, Some(9)),
        ("kill -TERM $$", None, Some(15)),
        ("ulimit -c 0; kill -ABRT $$", None, Some(6)),
    ] {
        let launched = place.launch(&[], &["sh", "-c", code]).output().expect("it runs");
        assert_eq!((launched.status.code(), launched.status.signal()), (status, signal), "{code}");
        assert_eq!(String::from_utf8_lossy(&launched.stderr), NOTHING, "{code}");
    }
    let left = std::fs::read_dir(&place.0).expect("a directory").count();
    assert_eq!(left, 0, "the report's file is removed");
}

#[test]
fn a_program_that_cannot_be_run_is_told_of_by_its_error_alone() {
    let place = Place::new("none");
    for flags in [&[][..], &["--exec"]] {
        let output = place.launch(flags, &["/nowhere/program"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with("millstream: /nowhere/program: No such file") && said.lines().count() == 1,
            "{said}"
        );
    }
}

/// Counts the signals that come, and ends by the first of TERM.
const COUNTS: &str = "
import os, signal, sys
got = []
def note(number, frame):
    got.append(signal.Signals(number).name)
    print(got[-1])
for name in ('HUP', 'INT', 'USR1', 'USR2', 'WINCH', 'CONT', 'ALRM'):
    signal.signal(getattr(signal, 'SIG' + name), note)
print(os.getppid(), os.getpgrp())
while True:
    signal.pause()
";

#[test]
fn signals_that_are_sent_to_run_alone_reach_the_program() {
    let place = Place::new("alone");
    let mut launched = Launched::start(&place, COUNTS);
    let run = launched.run.id();
    assert_eq!(launched.line(), format!("{run} {run}\n"), "its child, in its group");
    for name in ["HUP", "INT", "USR1", "USR2", "WINCH", "ALRM"] {
        launched.signal(name);
        assert_eq!(launched.line(), format!("SIG{name}\n"));
    }
    launched.signal("TERM");
    let (status, printed, said) = launched.end();
    assert_eq!((status.signal(), &*printed, &*said), (Some(15), "", NOTHING));
}

#[test]
fn run_stops_and_goes_on_with_its_program() {
    let place = Place::new("stops");
    let mut launched = Launched::start(&place, COUNTS);
    launched.line();
    for signal in ["TSTP", "TTIN", "TTOU"] {
        launched.signal(signal);
        launched.waits_for('T');
        launched.signal("CONT");
        assert_eq!(launched.line(), "SIGCONT\n", "{signal}");
        launched.waits_for('S');
    }
    launched.signal("TERM");
    assert_eq!(launched.end().0.signal(), Some(15));
}

/// Nothing would let `run` go on: its process is none that the program's child knows.
#[test]
fn a_program_that_is_stopped_alone_goes_on_alone() {
    let code = "
import os, signal, time
program = os.getpid()
if os.fork() == 0:
    while open(f'/proc/{program}/stat').read().rsplit(') ')[1][0] != 'T':
        time.sleep(0.01)
    os.kill(program, signal.SIGCONT)
    os._exit(0)
os.kill(program, signal.SIGSTOP)
os.wait()
print('goes on')
";
    let place = Place::new("alone-stopped");
    let mut launched = Launched::start(&place, code);
    assert_eq!(launched.line(), "goes on\n");
    assert_eq!(launched.end().0.code(), Some(0));
}

#[test]
fn the_program_dies_with_run() {
    let place = Place::new("dies");
    // The kernel forgets the parent's part where a process changes its user.
    let other = if rustix::process::geteuid().is_root() { "os.setgid(65534), os.setuid(65534)" } else { "" };
    for change in ["", other] {
        let code = format!("import os, signal\n{change}\nprint(os.getpid())\nsignal.pause()");
        let mut launched = Launched::start(&place, &code);
        let program = launched.line();
        launched.signal("KILL");
        let (status, printed, _) = launched.end();
        // The end of its output has come: the program has ended.
        assert_eq!((status.signal(), &*printed), (Some(9), ""), "{change}: process {program}");
    }
}

/// A terminal whose foreground job is the launch, as a shell has it: the first argument says what is typed.
const TERMINAL: &str = r#"
import fcntl, os, pty, signal, sys, termios
typed, run = sys.argv[1], sys.argv[2:]
leader, terminal = pty.fork()
if leader == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(run[0], run)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            print('stopped', signal.Signals(os.WSTOPSIG(status)).name, flush=True)
            os.tcsetpgrp(0, job)
            os.kill(-job, signal.SIGCONT)
        else:
            print('ended', status, flush=True)
            os._exit(0)
text = b''
while True:
    try:
        more = os.read(terminal, 4096)
    except OSError:
        break
    if not more:
        break
    text += more
    if b'ready' in text and typed:
        os.write(terminal, typed.encode())
        typed = ''
os.waitpid(leader, 0)
sys.stdout.write(text.decode().replace('\r', ''))
"#;

fn in_terminal(place: &Place, typed: &str, code: &str) -> String {
    let run = [MILLSTREAM, "run", "--link", LINK, "--", "python3", "-u", "-c", code];
    let output = place
        .command("timeout")
        .args(["-s", "KILL", "60", "python3", "-c", TERMINAL, typed])
        .args(run)
        .output()
        .expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_key_of_the_terminal_reaches_the_program_once() {
    let counts = "
import os, signal, time
got = []
signal.signal(signal.SIGINT, lambda *_: got.append('INT'))
signal.signal(signal.SIGUSR1, lambda *_: got.append('USR1'))
signal.signal(signal.SIGTERM, lambda *_: (print(got), exit(3)))
print('ready')
while not got:
    time.sleep(0.01)
# What run hands on comes before these.
os.system('kill -USR1 %d' % os.getppid())
while got[-1] != 'USR1':
    time.sleep(0.01)
os.system('kill -TERM %d' % os.getppid())
while True:
    time.sleep(1)
";
    let said = in_terminal(&Place::new("key"), "\u{3}", counts);
    assert!(said.contains("['INT', 'USR1']\n"), "{said}");
    assert!(said.ends_with(&format!("{NOTHING}ended {}\n", 3 << 8)), "{said}");
}

#[test]
fn a_job_that_is_stopped_by_a_key_is_stopped_for_its_shell() {
    let code = "
import signal
signal.signal(signal.SIGCONT, lambda *_: (print('goes on'), exit(0)))
print('ready')
while True:
    signal.pause()
";
    let said = in_terminal(&Place::new("stop"), "\u{1a}", code);
    assert!(said.contains("stopped SIGTSTP\n") && said.contains("goes on\n"), "{said}");
    assert!(said.ends_with(&format!("{NOTHING}ended 0\n")), "{said}");
}

#[test]
fn run_is_the_program_where_its_number_counts() {
    let place = Place::new("number");
    let number = |flags: &[&str], name: &str, value: &str| {
        // The shell's number is the one of what it becomes.
        let script = format!(
            "echo $$; [ -z \"$1\" ] || export \"$1=$(eval echo \"$2\")\"; exec {MILLSTREAM} run --link {LINK} {} -- \
             sh -c 'echo $$ $LISTEN_PID'",
            flags.join(" ")
        );
        let output = place.command("sh").args(["-c", &script, "sh", name, value]).output().expect("sh runs");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = printed.split_whitespace().map(str::to_owned);
        let [run, program] = [words.next(), words.next()].map(|word| word.expect("a number"));
        (run == program, words.next().map(|listens| listens == run))
    };
    assert_eq!(number(&[], "", ""), (false, None));
    assert_eq!(number(&[], "SYSTEMD_EXEC_PID", "1"), (false, None), "that of another process");
    assert_eq!(number(&["--exec"], "", ""), (true, None));
    assert_eq!(number(&["--quiet"], "", ""), (true, None));
    assert_eq!(number(&[], "LISTEN_PID", "$$"), (true, Some(true)));
    assert_eq!(number(&[], "SYSTEMD_EXEC_PID", "$$"), (true, None));
    assert_eq!(number(&[], "NOTIFY_SOCKET", "/nowhere"), (true, None));
}

/// A pipe that the program has closed has no other writer, and its descriptors are no business of run's.
#[test]
fn run_keeps_none_of_the_programs_descriptors() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let place = Place::new("pipes");
    let code = "
import os, sys
for fd in [1] + [int(name) for name in os.listdir('/proc/self/fd') if int(name) > 2]:
    try:
        os.close(fd)
    except OSError:
        pass
os.read(0, 1)
";
    let (more, further) = std::io::pipe().expect("a pipe");
    let inherits = format!("exec {MILLSTREAM} run --link {LINK} -- python3 -c \"$0\" 5>&1");
    let mut run = place
        .command("sh")
        .args(["-c", &inherits, code])
        .stdin(more)
        .stdout(writer)
        .stderr(File::create("/dev/null").expect("it is there"))
        .spawn()
        .expect("sh runs");
    let mut all = Vec::new();
    let mut reader = reader;
    reader.read_to_end(&mut all).expect("the end, while the program runs");
    assert_eq!((run.try_wait().expect("a child"), all.len()), (None, 0));
    drop(further);
    assert!(run.wait().expect("a child").success());
}
