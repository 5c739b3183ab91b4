//! A link between two kernels with `millstream pipe` in its middle: three network namespaces in a row.
//!
//! ```text
//!   left: a0 10.79.0.1 ==veth== p0 :middle: p1 ==veth== b0 10.79.0.2 :right
//! ```

use crate::bed::{Server, of_file, serving, sh};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The left host.
pub const LEFT: &str = "10.79.0.1";
/// The right host.
pub const RIGHT: &str = "10.79.0.2";
/// Link-layer addresses of both, which know each other from the beginning: no packet passes that a test does not send.
const MACS: [&str; 2] = ["02:00:00:00:79:01", "02:00:00:00:79:02"];

/// Three namespaces in a row; gone when dropped.
pub struct Wire {
    /// Namespace of [`LEFT`], on `a0`.
    pub left: String,
    /// Where the pipe runs, between `p0` and `p1`.
    pub middle: String,
    /// Namespace of [`RIGHT`], on `b0`.
    pub right: String,
    /// Files of this run.
    pub dir: PathBuf,
}

impl Drop for Wire {
    fn drop(&mut self) {
        for ns in [&self.left, &self.middle, &self.right] {
            if let Err(e) = sh("ip", &["netns", "del", ns]) {
                eprintln!("millstream-bench: {e}");
            }
        }
        if let Err(e) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("millstream-bench: {}: {e}", self.dir.display());
        }
    }
}

impl Wire {
    /// Makes the namespaces and cables; no pipe yet.
    ///
    /// # Errors
    /// The missing requirement: network namespaces need root.
    pub fn new() -> Result<Wire, String> {
        static WIRES: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), WIRES.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(format!("ms-wire-{name}"));
        std::fs::create_dir_all(&dir).map_err(of_file(&dir))?;
        let ns = |side: &str| format!("ms-wire-{side}-{name}");
        let wire = Wire { left: ns("l"), middle: ns("m"), right: ns("r"), dir };
        for ns in [&wire.left, &wire.middle, &wire.right] {
            sh("ip", &["netns", "add", ns])?;
            // Kernels that look for routers would be packets that no test sent.
            wire.run(ns, "sysctl", &["-qw", "net.ipv6.conf.all.disable_ipv6=1"])?;
            wire.run(ns, "sysctl", &["-qw", "net.ipv6.conf.default.disable_ipv6=1"])?;
            sh("ip", &["-n", ns, "link", "set", "lo", "up"])?;
        }
        let ends = [(&wire.left, "a0", "p0", LEFT, RIGHT), (&wire.right, "b0", "p1", RIGHT, LEFT)];
        for (nth, (ns, near, far, own, other)) in ends.into_iter().enumerate() {
            let peer = ["peer", "name", far, "netns", &wire.middle];
            let cable = ["link", "add", near, "netns", ns, "address", MACS[nth], "type", "veth"];
            sh("ip", &[&cable[..], &peer].concat())?;
            sh("ip", &["-n", ns, "addr", "add", &format!("{own}/24"), "dev", near])?;
            sh("ip", &["-n", ns, "link", "set", near, "up"])?;
            sh("ip", &["-n", &wire.middle, "link", "set", far, "up"])?;
            sh("ip", &["-n", ns, "neigh", "add", other, "lladdr", MACS[1 - nth], "dev", near])?;
            sh("ip", &["-n", ns, "route", "replace", "10.79.0.0/24", "dev", near, "congctl", "cubic"])?;
        }
        Ok(wire)
    }

    /// Runs a program in a namespace to its end; its output.
    ///
    /// # Errors
    /// The program's output when it failed.
    pub fn run(&self, ns: &str, program: &str, args: &[&str]) -> Result<String, String> {
        sh("ip", &[&["netns", "exec", ns, program], args].concat())
    }

    /// Starts a program in a namespace and waits until it says that it is ready.
    ///
    /// # Errors
    /// It said something else.
    pub fn start(&self, ns: &str, program: &Path, args: &[&str]) -> Result<Server, String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", ns]).arg(program).args(args).env("MILLSTREAM_RUN", &self.dir);
        serving(command)
    }

    /// Starts a program in a namespace that says nothing when it is ready; what else it says is not heard.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn spawn(&self, ns: &str, program: &str, args: &[&str]) -> Result<Server, String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", ns, program]).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        Server::spawn(command)
    }

    /// Starts the pipe over `kind` (`packet` or `xdp`) with `more` arguments.
    ///
    /// # Errors
    /// It did not start.
    pub fn pipe(&self, ours: &Path, kind: &str, more: &[&str]) -> Result<Server, String> {
        let (p0, p1) = (format!("{kind}:p0"), format!("{kind}:p1"));
        let server = self.start(&self.middle, ours, &[&["pipe", "--json", &p0, &p1], more].concat())?;
        // AF_XDP in the driver changes the other end's offloads, which takes the carrier for a moment.
        for _ in 0..300 {
            if self.run(&self.left, "ping", &["-c", "1", "-W", "1", "-i", "0.01", RIGHT]).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("no packet passes the pipe".into())
    }

    /// Has the right kernel merge what comes within so many microseconds (GRO).
    ///
    /// # Errors
    /// The message of a failed command.
    pub fn merge_at_the_right(&self, micros: u32) -> Result<(), String> {
        // veth hands packets to GRO if their sender cannot have merged them itself.
        self.run(&self.middle, "ethtool", &["-K", "p1", "tso", "off"])?;
        self.run(&self.right, "ethtool", &["-K", "b0", "gro", "on"])?;
        let nanos = format!("echo {}000 > /sys/class/net/b0/gro_flush_timeout", micros);
        self.run(&self.right, "sh", &["-c", &nanos]).map(drop)
    }

    /// An iperf3 client's own figures.
    ///
    /// # Errors
    /// It failed, or said no JSON.
    pub fn iperf3(&self, ns: &str, args: &[&str]) -> Result<Value, String> {
        let text = self.run(ns, "iperf3", &[&["-J"], args].concat())?;
        serde_json::from_str(&text).map_err(|e| format!("iperf3 said {text:?}: {e}"))
    }
}
