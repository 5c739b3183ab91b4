//! The two sides: the interpreter on the kernel, and the same under the launcher, each on a link of its own.

use super::step::Step;
use bench::bed::{Bed, sh};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A program that says nothing for so long hangs.
const LIMIT: Duration = Duration::from_secs(25);

struct Running {
    child: Child,
    to: ChildStdin,
    lines: Receiver<String>,
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
            command.extend(["run", "--quiet", "--link", "xdp:ms0", "--"].map(str::to_owned));
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
            let running = self.spawn()?;
            let first = running.lines.recv_timeout(LIMIT);
            self.running = Some(running);
            if first.as_deref() == Ok("ready") {
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
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Running { child, to, lines })
    }

    /// Ends the interpreter: the next program finds a fresh one.
    ///
    /// # Errors
    /// It cannot be killed.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        if let Some(mut running) = self.running.take() {
            // Children of a program that has ended may still hold the link. Where there are none, kill says so.
            let killed = sh("kill", &["-KILL", "--", &format!("-{}", running.child.id())]);
            if running.child.try_wait().map_err(|e| e.to_string())?.is_none() {
                killed?;
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
        let Some(running) = &self.running else { return Ok(all) };
        loop {
            match running.lines.recv_timeout(LIMIT) {
                Ok(line) if line == "." => return Ok(all),
                Ok(line) if line == "!" => break,
                Ok(line) => all.push(line),
                Err(_) => {
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

/// Returns the mask of a processor as the kernel reads it: words of 32 bits in hexadecimal digits, the last one first.
fn mask(cpu: usize) -> String {
    format!("{:x}", 1_u32 << (cpu % 32)) + &",00000000".repeat(cpu / 32)
}

#[test]
fn masks_have_words_of_32_bits() {
    assert_eq!([0, 5, 33].map(mask), ["1", "20", "2,00000000"]);
}
