//! The two sides: the interpreter on the kernel, and the same under the launcher, each on a link of its own.

use super::step::Step;
use bench::bed::{Bed, sh};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A program that says nothing for so long hangs.
const LIMIT: Timespec = Timespec { tv_sec: 25, tv_nsec: 0 };

struct Running {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    /// Bytes that were read and not asked for yet.
    text: Vec<u8>,
}

impl Running {
    /// Returns the next line, or `None` if the program ended or hangs.
    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&self.text[..end]).into_owned();
                self.text.drain(..=end);
                return Some(line);
            }
            let mut row = [PollFd::new(&self.from, PollFlags::IN)];
            if poll(&mut row, Some(&LIMIT)).ok()? == 0 {
                return None;
            }
            let mut more = [0; 1 << 14];
            let count = self.from.read(&mut more).ok().filter(|count| *count > 0)?;
            self.text.extend_from_slice(&more[..count]);
        }
    }
}

/// One side of the comparison. Its interpreter is started when it is needed, and again after it has ended.
pub(super) struct Side {
    bed: Bed,
    command: Vec<String>,
    running: Option<Running>,
}

impl Side {
    /// Makes a link and says what to run on it: `program`, under the launcher if `millstream` is there. Both run on one
    /// processor, which saves waking another for each packet.
    ///
    /// # Errors
    /// No network namespaces can be made.
    pub(super) fn new(program: &Path, millstream: Option<&Path>, cpu: usize) -> Result<Side, String> {
        let bed = Bed::new(true)?;
        // The program's own ports lie below these, and cubic is the stack's default.
        bed.in_ns(&bed.server, "sysctl", &["-qw", "net.ipv4.ip_local_port_range=60000 65000"])?;
        bed.in_ns(&bed.client, "sysctl", &["-qw", "net.ipv4.ip_local_port_range=60000 65000"])?;
        // One processor receives all that arrives, also what timers of another one send: packets keep their order.
        for (ns, device) in [(&bed.server, "ms0"), (&bed.server, "lo"), (&bed.client, "ms1")] {
            let order = format!("echo {} > /sys/class/net/{device}/queues/rx-0/rps_cpus", mask(cpu));
            if let Err(why) = bed.in_ns(ns, "sh", &["-c", &order]) {
                eprintln!("differ: without RPS, packets of several processors may change their order: {why}");
            }
        }
        let route = |ns: &str, words: &str| {
            let words = format!("-n {ns} route replace {words}");
            sh("ip", &words.split(' ').collect::<Vec<_>>())
        };
        route(&bed.server, "fd77::/64 dev ms0 metric 256 congctl cubic")?;
        // The peer acknowledges at once: whether a close that lingers has ended depends on no timer.
        route(&bed.client, "10.77.0.0/16 dev ms1 quickack 1")?;
        route(&bed.client, "fd77::/64 dev ms1 metric 256 quickack 1")?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut command: Vec<String> =
            ["netns", "exec", &bed.server, "taskset", "-c", &cpu.to_string()].map(str::to_owned).into();
        if let Some(millstream) = millstream {
            command.push(text(millstream));
            let run = ["run", "--quiet", "--link", "xdp:ms0", "--set", "ephemeral=60000-65000", "--"];
            command.extend(run.map(str::to_owned));
        }
        command.extend([text(program), bed.client.clone()]);
        if millstream.is_some() {
            command.push("launched".to_owned());
        }
        Ok(Side { bed, command, running: None })
    }

    /// Starts the interpreter. A link is free again some time after the process that had it was killed.
    fn start(&mut self) -> Result<(), String> {
        for _ in 0..40 {
            let mut running = self.spawn()?;
            let first = running.line();
            self.running = Some(running);
            if first.as_deref() == Some("ready") {
                return Ok(());
            }
            self.restart()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = std::fs::read_to_string(self.bed.dir.join("log")).unwrap_or_default();
        Err(format!("the interpreter does not start: {said}"))
    }

    fn spawn(&self) -> Result<Running, String> {
        let log = std::fs::File::create(self.bed.dir.join("log")).map_err(|e| e.to_string())?;
        let mut child = Command::new("ip")
            .args(&self.command)
            .env("MILLSTREAM_RUN", &self.bed.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(|e| format!("ip: {e}"))?;
        let to = child.stdin.take().ok_or("no input")?;
        let from = child.stdout.take().ok_or("no output")?;
        Ok(Running { child, to, from, text: Vec::new() })
    }

    /// Ends the interpreter: the next program finds a fresh one.
    ///
    /// # Errors
    /// It cannot be killed.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        if let Some(mut running) = self.running.take() {
            // Children of a program that has ended may still hold the link. Where there are none, kill says so.
            let killed = kill_process_group(Pid::from_child(&running.child), Signal::KILL);
            if running.child.try_wait().map_err(|e| e.to_string())?.is_none() {
                killed.map_err(|e| format!("the interpreter cannot be killed: {e}"))?;
            }
            running.child.wait().map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Hands a program to the interpreter.
    ///
    /// # Errors
    /// The interpreter cannot be started.
    pub(super) fn begin(&mut self, steps: &[Step]) -> Result<(), String> {
        if self.running.is_none() {
            self.start()?;
        }
        let text: String = steps.iter().map(Step::line).collect();
        let Some(running) = &mut self.running else { return Ok(()) };
        // One that has ended meanwhile is noticed when its results are read.
        let _ = running.to.write_all((text + ".\n").as_bytes()).and_then(|()| running.to.flush());
        Ok(())
    }

    /// Reads the results of the program. The last line tells if the interpreter ended or hangs.
    ///
    /// # Errors
    /// It cannot be killed.
    pub(super) fn results(&mut self) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        let Some(running) = &mut self.running else { return Ok(all) };
        loop {
            match running.line() {
                Some(line) if line == "." => return Ok(all),
                Some(line) if line == "!" => break,
                Some(line) => all.push(line),
                None => {
                    let said = std::fs::read_to_string(self.bed.dir.join("log")).unwrap_or_default();
                    all.push(format!(
                        "the program ended or hangs: {}",
                        said.lines().last().unwrap_or_default()
                    ));
                    break;
                }
            }
        }
        self.restart()?;
        Ok(all)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Err(e) = self.restart() {
            eprintln!("differ: {e}");
        }
    }
}

/// Returns the processors that this process may use.
///
/// # Errors
/// The kernel does not say.
pub(super) fn processors() -> Result<Vec<usize>, String> {
    let all = rustix::thread::sched_getaffinity(None).map_err(|e| format!("processors: {e}"))?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect())
}

/// Moves the calling thread to a processor: that of its sides, which then wake no other.
///
/// # Errors
/// The kernel refuses.
pub(super) fn stay_on(cpu: usize) -> Result<(), String> {
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).map_err(|e| format!("processor {cpu}: {e}"))
}

/// Returns the mask of a processor as the kernel reads it: words of 32 bits in hexadecimal digits, the last one first.
fn mask(cpu: usize) -> String {
    format!("{:x}", 1_u32 << (cpu % 32)) + &",00000000".repeat(cpu / 32)
}

#[test]
fn masks_have_words_of_32_bits() {
    assert_eq!([0, 5, 33].map(mask), ["1", "20", "2,00000000"]);
}

#[test]
fn lines_are_read_whole_and_an_end_is_none() {
    let mut child = Command::new("sh")
        .args(["-c", "printf 'one\ntw'; sleep 0.05; printf 'o\n.\nrest'"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let (to, from) = (child.stdin.take().expect("input"), child.stdout.take().expect("output"));
    let mut running = Running { child, to, from, text: Vec::new() };
    let lines: Vec<_> = std::iter::from_fn(|| running.line()).collect();
    assert_eq!(lines, ["one", "two", "."]);
    running.child.wait().expect("its end");
}
