//! Network namespaces, links, peers and processes that link benchmarks and the demo share. Everything a bed makes
//! is gone when it is dropped.

mod stale;

use serde_json::Value;
use stale::PREFIX;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The server, whichever it is.
pub const SERVER_ADDR: &str = "10.77.0.1";
/// The server's IPv6 address.
pub const SERVER_ADDR6: &str = "fd77::1";
/// Our server on a tap device beside the veth link.
pub const TAP_ADDR: &str = "10.78.0.1";
/// The clients' first address.
pub const CLIENT_BASE: &str = "10.77.1.1";
/// How many addresses the clients have.
pub const CLIENT_ADDRS: u32 = 16;
/// Where servers run.
pub const SERVER_CPU: &str = "0";
/// Where clients run.
pub const CLIENT_CPU: &str = "1";

/// Copies a program that is to be run. Another process does it: a thread of this one that starts a program meanwhile
/// would hand on the open copy to it, and a program file that is open for writing cannot be run (ETXTBSY).
pub fn copy_program(from: &str, to: &Path) -> Result<(), String> {
    sh("cp", &[from, &to.to_string_lossy()]).map(drop)
}

/// Makes errors of a file name it.
pub(crate) fn of_file(path: impl AsRef<Path>) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.as_ref().display())
}

/// Runs a command to its end; its output, or what it said.
pub fn sh(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .map_err(|e| format!("{program}: {e}; install it (Debian: iproute2, ethtool, gcc)"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let last =
        said.trim_end().lines().last().map_or(String::new(), |line| format!(" (its last line: {line})"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}: {}{last}", args.join(" "), output.status, complaint.trim()))
}

/// May a test make network namespaces here? If not, standard error says that it is skipped.
pub fn is_root() -> bool {
    let root = std::fs::read_to_string("/proc/self/status").unwrap_or_default().contains("Uid:\t0\t0");
    if !root {
        eprintln!("skipped: network namespaces need root");
    }
    root
}

/// Two namespaces and the link between them; gone when dropped.
pub struct Bed {
    /// The server's namespace.
    pub server: String,
    /// The clients' namespace.
    pub client: String,
    /// Files of this run.
    pub dir: PathBuf,
}

impl Drop for Bed {
    fn drop(&mut self) {
        for ns in [&self.server, &self.client] {
            if let Err(e) = sh("ip", &["netns", "del", ns]) {
                eprintln!("millstream-bench: {e}");
            }
        }
        if let Err(e) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("millstream-bench: {}: {e}", self.dir.display());
        }
    }
}

/// A link that was just set up drops packets until the kernel has noticed that it has a carrier.
fn wait_until_up(ns: &str, dev: &str) -> Result<(), String> {
    for _ in 0..300 {
        if sh("ip", &["-n", ns, "-o", "link", "show", dev])?.contains("state UP") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("{dev} has no carrier after three seconds"))
}

impl Bed {
    /// Namespaces joined by veth (`ms0` at the server's end), or only the client's with a tap device for us.
    pub fn new(offloads: bool) -> Result<Bed, String> {
        static BEDS: AtomicU32 = AtomicU32::new(0);
        stale::sweep();
        let name = format!("{}-{}", std::process::id(), BEDS.fetch_add(1, Ordering::Relaxed));
        let (server, client) = (format!("{PREFIX}s-{name}"), format!("{PREFIX}c-{name}"));
        let dir = std::env::temp_dir().join(format!("{PREFIX}{name}"));
        std::fs::create_dir_all(&dir).map_err(of_file(&dir))?;
        sh("ip", &["netns", "add", &server])
            .map_err(|e| format!("{e}; network namespaces need root (sudo) or `unshare -Urn`"))?;
        let bed = Bed { server, client, dir };
        sh("ip", &["netns", "add", &bed.client])?;
        for ns in [&bed.server, &bed.client] {
            sh("ip", &["-n", ns, "link", "set", "lo", "up"])?;
            bed.in_ns(
                ns,
                "sysctl",
                &[
                    "-qw",
                    "net.ipv4.ip_local_port_range=1024 65000",
                    "net.core.somaxconn=65535",
                    "net.ipv4.tcp_max_syn_backlog=65535",
                ],
            )?;
        }
        bed.lay_cable()?;
        if !offloads {
            for (ns, dev) in [(&bed.server, "ms0"), (&bed.client, "ms1")] {
                bed.in_ns(ns, "ethtool", &["-K", dev, "tso", "off", "gso", "off", "gro", "off"])?;
            }
        }
        Ok(bed)
    }

    /// A bed for a test, or `None`, said on standard error, where network namespaces may not be made.
    ///
    /// # Panics
    /// If it should be possible and is not.
    pub fn if_root(offloads: bool) -> Option<Bed> {
        is_root().then(|| Bed::new(offloads).expect("a bed of two namespaces"))
    }

    /// Joins the namespaces by veth, with all addresses: again, if a test has deleted `ms0`.
    pub fn lay_cable(&self) -> Result<(), String> {
        self.lay_cable_of(1)
    }

    /// [`lay_cable`](Self::lay_cable) with `queues` at the server's end.
    pub fn lay_cable_of(&self, queues: u16) -> Result<(), String> {
        let (server, client) = (&*self.server, &*self.client);
        let count = queues.to_string();
        let near = ["link", "add", "ms0", "netns", server];
        let several: &[&str] = if queues > 1 { &["numtxqueues", &count, "numrxqueues", &count] } else { &[] };
        sh("ip", &[&near[..], several, &["type", "veth", "peer", "name", "ms1", "netns", client]].concat())?;
        if queues > 1 {
            // As before: veth gives both ends as many, and a connection would come to another core.
            self.in_ns(client, "ethtool", &["-L", "ms1", "rx", "1", "tx", "1"])?;
        }
        self.address("ms0", "ms1")?;
        wait_until_up(server, "ms0")?;
        wait_until_up(client, "ms1")
    }

    fn address(&self, server_dev: &str, client_dev: &str) -> Result<(), String> {
        sh("ip", &["-n", &self.server, "addr", "add", &format!("{SERVER_ADDR}/16"), "dev", server_dev])?;
        sh("ip", &["-n", &self.server, "link", "set", server_dev, "up"])?;
        sh(
            "ip",
            &["-n", &self.server, "route", "replace", "10.77.0.0/16", "dev", server_dev, "congctl", "cubic"],
        )?;
        sh(
            "ip",
            &["-n", &self.server, "addr", "add", &format!("{SERVER_ADDR6}/64"), "dev", server_dev, "nodad"],
        )?;
        self.client_addresses(client_dev)
    }

    /// Takes the veth link away and puts a tap device `mst0` in the client's namespace, for a server of ours at
    /// [`SERVER_ADDR`].
    pub fn tap_instead(&self) -> Result<(), String> {
        sh("ip", &["-n", &self.client, "link", "del", "ms1"])?;
        self.make_tap()?;
        self.client_addresses("mst0")
    }

    fn client_addresses(&self, dev: &str) -> Result<(), String> {
        let base: std::net::Ipv4Addr = CLIENT_BASE.parse().map_err(|_| "address")?;
        for i in 0..CLIENT_ADDRS {
            let addr = std::net::Ipv4Addr::from(u32::from(base) + i);
            sh("ip", &["-n", &self.client, "addr", "add", &format!("{addr}/16"), "dev", dev])?;
        }
        sh("ip", &["-n", &self.client, "addr", "add", "fd77::2/64", "dev", dev, "nodad"])?;
        sh("ip", &["-n", &self.client, "link", "set", dev, "up"])?;
        // The machine's default may be another: cubic on both sides, as the stack under test uses.
        sh("ip", &["-n", &self.client, "route", "replace", "10.77.0.0/16", "dev", dev, "congctl", "cubic"])?;
        Ok(())
    }

    /// Runs a command in a namespace; one that takes five minutes hangs, and is killed.
    pub fn in_ns(&self, ns: &str, program: &str, args: &[&str]) -> Result<String, String> {
        self.in_ns_within(ns, 300, program, args)
    }

    /// Runs a program as `in_ns`. It and all that it started are killed after `seconds`, which is an error.
    pub fn in_ns_within(
        &self,
        ns: &str,
        seconds: u32,
        program: &str,
        args: &[&str],
    ) -> Result<String, String> {
        let limit = seconds.to_string();
        sh("ip", &[&["netns", "exec", ns, "timeout", "-s", "KILL", &limit, program][..], args].concat())
    }

    fn make_tap(&self) -> Result<(), String> {
        let made = sh("ip", &["-n", &self.client, "tuntap", "add", "mst0", "mode", "tap", "vnet_hdr"]);
        made.map(|_| ()).map_err(|e| {
            let hint = if e.contains("ermission denied") {
                "; let users open it: chmod 666 /dev/net/tun, as root"
            } else {
                ""
            };
            format!("{e}{hint}")
        })
    }

    /// A tap device beside the veth link, on a network of its own, for a server of ours at [`TAP_ADDR`].
    pub fn tap_beside(&self) -> Result<(), String> {
        self.make_tap()?;
        sh("ip", &["-n", &self.client, "addr", "add", "10.78.0.254/24", "dev", "mst0"])?;
        sh("ip", &["-n", &self.client, "link", "set", "mst0", "up"])?;
        Ok(())
    }

    /// Starts a program pinned to `cpus`, its output still to be read.
    fn command(&self, ns: &str, cpus: &str, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", ns, "taskset", "-c", cpus]).arg(program).args(args);
        // The log of every packet is turned on through the control socket.
        command.env("MILLSTREAM_RUN", &self.dir).env("MILLSTREAM_CONTROL", "full");
        command
    }

    /// Starts a server pinned to its core; it says nothing when it is ready.
    pub fn spawn(&self, ns: &str, program: &Path, args: &[&str]) -> Result<Server, String> {
        Server::spawn(self.command(ns, SERVER_CPU, program, args))
    }

    /// Starts a server pinned to its core and waits until it says that it serves.
    pub fn start(&self, ns: &str, program: &Path, args: &[&str]) -> Result<Server, String> {
        self.start_on(ns, SERVER_CPU, program, args)
    }

    /// [`Bed::start`] on other cores.
    pub fn start_on(&self, ns: &str, cpus: &str, program: &Path, args: &[&str]) -> Result<Server, String> {
        serving(self.command(ns, cpus, program, args))
    }

    /// Microseconds a server of ours has spent looking for packets that were not there; 0 for others.
    pub fn spin_us(&self, server: &Server) -> Result<u64, String> {
        let path = self.dir.join(format!("{}.sock", server.pid()));
        let Ok(mut socket) = UnixStream::connect(&path) else { return Ok(0) };
        let mut text = String::new();
        socket.write_all(b"stat\n").and_then(|()| socket.read_to_string(&mut text)).map_err(of_file(path))?;
        let spun = |line: &str| serde_json::from_str::<Value>(line).ok()?["sock"]["spin_us"].as_u64();
        text.lines().map(|line| spun(line).ok_or_else(|| format!("odd answer of the server: {line}"))).sum()
    }

    /// Runs the client to its end; what it printed.
    pub fn client(&self, program: &Path, mode: &str, in_flight: u32, seconds: f64) -> Result<Value, String> {
        let (n, secs, count) = (in_flight.to_string(), seconds.to_string(), CLIENT_ADDRS.to_string());
        let program = program.to_string_lossy();
        let text = self.in_ns(
            &self.client,
            "taskset",
            &["-c", CLIENT_CPU, &program, mode, SERVER_ADDR, "80", &n, &secs, CLIENT_BASE, &count],
        )?;
        serde_json::from_str(text.lines().last().unwrap_or_default())
            .map_err(|e| format!("the client said {text:?}: {e}"))
    }
}

/// Starts a command and waits until it says that it serves or is ready.
///
/// # Errors
/// It cannot be run, or said something else.
pub fn serving(mut command: Command) -> Result<Server, String> {
    command.stdout(Stdio::piped());
    let mut server = Server::spawn(command)?;
    let mut line = String::new();
    let mut out = BufReader::new(server.child.stdout.take().ok_or("no output")?);
    out.read_line(&mut line).map_err(|e| e.to_string())?;
    if !(line.contains("ready") || line.contains("serving")) {
        let status = server.child.wait().map_err(|e| e.to_string())?;
        return Err(format!("it did not start ({status}): {line}"));
    }
    server.out = Some(out);
    Ok(server)
}

/// A running server; ended when dropped.
pub struct Server {
    child: Child,
    /// Kept open, so that the server can say its last words.
    out: Option<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts a command.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn spawn(mut command: Command) -> Result<Server, String> {
        let child = command.spawn().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
        Ok(Server { child, out: None })
    }

    /// Waits until a program on the kernel listens on `port`, in this server's namespace.
    ///
    /// # Errors
    /// None does within half a minute.
    pub fn on_port(self, port: u16) -> Result<Server, String> {
        let listens = |list: &str| {
            let path = format!("/proc/{}/net/{list}", self.child.id());
            let all = std::fs::read_to_string(path).unwrap_or_default();
            // Columns: number, local address, remote address, state (0A: LISTEN).
            all.lines().any(|line| {
                let columns: Vec<_> = line.split_whitespace().take(4).collect();
                matches!(columns[..], [_, local, _, "0A"] if local.ends_with(&format!(":{port:04X}")))
            })
        };
        for _ in 0..3000 {
            if listens("tcp") || listens("tcp6") {
                return Ok(self);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("nothing listens on port {port} after 30 s"))
    }

    /// Asks it to end (SIGTERM) and reads what it says until it has.
    ///
    /// # Errors
    /// It did not end well, or not within half a minute: then it is killed.
    pub fn stop(mut self) -> Result<String, String> {
        sh("kill", &["-TERM", &self.child.id().to_string()])?;
        for _ in 0..3000 {
            if self.child.try_wait().map_err(|e| e.to_string())?.is_some() {
                return self.wait();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let killed = self.kill();
        Err(format!("it did not end within 30 s of being asked to, and was killed ({killed:?})"))
    }

    /// Reads what it says until it ends by itself.
    ///
    /// # Errors
    /// It did not end well.
    pub fn wait(mut self) -> Result<String, String> {
        let mut said = String::new();
        if let Some(out) = &mut self.out {
            out.read_to_string(&mut said).map_err(|e| e.to_string())?;
        }
        let status = self.child.wait().map_err(|e| e.to_string())?;
        if status.success() { Ok(said) } else { Err(format!("it ended with {status}: {said}")) }
    }

    /// Returns how it ended, if it has.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|e| e.to_string())
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with no chance to tidy up (SIGKILL) and waits for its end.
    pub fn kill(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(|_| ()).map_err(|e| e.to_string())
    }

    /// CPU time of all its threads so far, also of those that have ended, nanoseconds.
    pub fn cpu_ns(&self) -> Result<u64, String> {
        let used = pio::process_cpu(self.child.id());
        used.map(|used| used.as_nanos() as u64)
            .map_err(|e| format!("CPU time of process {}: {e}", self.child.id()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match self.child.try_wait() {
            Ok(Some(_)) => return,
            Ok(None) => {}
            Err(e) => eprintln!("millstream-bench: {e}"),
        }
        // One that is stopped ends when it goes on.
        for signal in ["-TERM", "-CONT"] {
            if let Err(e) = sh("kill", &[signal, &self.child.id().to_string()]) {
                eprintln!("millstream-bench: {e}");
            }
        }
        if let Err(e) = self.child.wait() {
            eprintln!("millstream-bench: {e}");
        }
    }
}

/// Busy time of a CPU so far, softirqs included, of all of them without a number: microseconds (10 ms ticks).
pub(crate) fn busy_us(cpu: &str) -> Result<u64, String> {
    let stat = std::fs::read_to_string("/proc/stat").map_err(of_file("/proc/stat"))?;
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name)).ok_or("no such CPU")?;
    let ticks = line.split_whitespace().filter_map(|n| n.parse::<u64>().ok());
    // user nice system idle iowait irq softirq steal: all but idle, iowait and steal.
    let busy: u64 = ticks.enumerate().filter(|(i, _)| !matches!(i, 3 | 4 | 7..)).map(|(_, n)| n).sum();
    Ok(busy * 10_000)
}

/// Peers compiled for this run, and our own command.
pub struct Programs {
    /// Minimal epoll server.
    pub server: PathBuf,
    /// Closed-loop client.
    pub client: PathBuf,
    /// Stateless responder.
    pub ideal: PathBuf,
    /// Sender of SYNs from addresses that do not exist.
    pub flood: PathBuf,
    /// The `millstream` command.
    pub ours: PathBuf,
}

/// The `millstream` command beside this one, or the one that `MILLSTREAM_BIN` names.
pub fn our_command() -> Result<PathBuf, String> {
    let ours = match std::env::var_os("MILLSTREAM_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("millstream"),
    };
    if ours.exists() {
        return Ok(ours);
    }
    Err(format!(
        "{} is missing; build it (cargo build --profile dist) or name it in MILLSTREAM_BIN",
        ours.display()
    ))
}

impl Programs {
    /// Compiles the peers into `dir`; `ours` is the `millstream` command.
    pub fn build(dir: &Path, ours: &Path) -> Result<Programs, String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let compile = |name: &str| -> Result<PathBuf, String> {
            let out = dir.join(name);
            let file = source.join(format!("{name}.c"));
            sh("cc", &["-O2", "-pthread", "-o", &out.to_string_lossy(), &file.to_string_lossy(), "-lm"])?;
            Ok(out)
        };
        Ok(Programs {
            server: compile("server")?,
            client: compile("client")?,
            ideal: compile("ideal")?,
            flood: compile("flood")?,
            ours: ours.to_path_buf(),
        })
    }
}

#[cfg(test)]
mod tests;
