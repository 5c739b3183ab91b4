//! Goal: `ss`, `why` and `top` on running programs: a server and its client over shared memory, with a path that is the
//! limit; `top` in a pseudo terminal, its keys, a program that is killed while it looks, and the terminal as it was.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory of one test, with control sockets and the link in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        Place(dir)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(MILLSTREAM);
        command.args(args).env("MILLSTREAM_RUN", &self.0).stdin(Stdio::null());
        command
    }

    /// One end of the link.
    fn end(&self, args: &[&str], last: u8) -> Running {
        let (link, address) = (format!("shm:{}/link", self.0.display()), format!("10.9.0.{last}/24"));
        let [command, rest @ ..] = args else { panic!("which command?") };
        let all = [&[*command, "--link", &link, "--address", &address][..], rest].concat();
        let mut command = self.command(&all);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("millstream"))
    }

    /// A server behind a path of 40 ms and 20 Mbit/s.
    fn server(&self) -> Running {
        let path = "rtt_ms=40,up_kbit=20000,queue=strict 200000";
        self.end(&["serve", "--listen", "0.0.0.0:80", "--path", path], 1)
    }

    /// The server, and a client that fetches without end.
    fn pair(&self) -> (Running, Running) {
        let server = self.server();
        let url = "http://10.9.0.1/500000000";
        let client = self.end(&["load", "--seconds", "60", "--connections", "2", url], 2);
        wait("both serve and have connections", || {
            let rows = self.ask(&["ss", "--json"]);
            rows.iter().filter(|row| row["state"] == "ESTABLISHED" && moved(row) > 200_000).count() == 4
        });
        (server, client)
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("millstream");
        String::from_utf8(output.stdout).expect("text")
    }

    fn ask(&self, args: &[&str]) -> Vec<Value> {
        self.text(args).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left over lies in the target directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn moved(row: &Value) -> u64 {
    row["bytes_acked"].as_u64().unwrap_or(0) + row["bytes_received"].as_u64().unwrap_or(0)
}

#[allow(clippy::disallowed_methods, reason = "real programs take real time")]
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(40);
    while !done() {
        assert!(Instant::now() < until, "{what}: not within 40 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn why_explains_what_the_path_limits() {
    let place = Place::new("why");
    let _running = place.pair();
    // Slow start, and the losses that end it, are over sooner or later.
    wait("the congestion window is the limit", || {
        place.ask(&["why", "10.9.0.1:80", "--json", "--seconds", "0.5"]).iter().any(|row| {
            row["sender"]["limit"] == "congestion-window" && row["sender"]["share"].as_f64() > Some(0.5)
        })
    });
    let rows = place.ask(&["why", ":80", "--json", "--seconds", "3"]);
    assert_eq!(rows.len(), 4, "both ends of two connections: {rows:?}");
    let sent: f64 = rows.iter().filter_map(|row| row["sent_bits_per_s"].as_f64()).sum();
    // A recovery that ends between the looks has all acknowledged at once that came since its hole: up to 2.4 Mbit, as
    // the queue and the path hold, in each of its round trips. 3 Mbit/s of these three seconds have room for three.
    assert!((5e6..23e6).contains(&sent), "20 Mbit/s is what there is: {sent}");
    let receives = |row: &&Value| row["received_bits_per_s"].as_f64() > Some(1e6);
    assert!(rows.iter().filter(receives).all(|row| row["verdict"] == "peer"), "{rows:?}");
    let text = place.text(&["why", "10.9.0.1:80", "--seconds", "0.5"]);
    assert!(text.contains("  sending: ") && text.contains("  since it began: "), "{text}");
    let table = place.text(&["ss"]);
    assert!(table.lines().next().is_some_and(|heads| heads.ends_with("Why")), "{table}");
    assert!(place.ask(&["ss", "--json"]).iter().any(|row| row["snd_lim"]["time_cwin_us"].as_u64() > Some(0)));
    // Each side saw a SYN, and the client an acknowledgment of its request: no data is predicted before.
    let stats = place.ask(&["stat", "--json"]);
    let sum = |name: &str| stats.iter().filter_map(|row| row["tcp"][name].as_u64()).sum::<u64>();
    assert!(sum("predicted_data") > 50 && sum("predicted_acks") > 10, "{stats:?}");
    let predicted = sum("segments_in") - sum("unpredicted");
    assert!(
        sum("unpredicted") > 4 && predicted <= sum("predicted_data") + sum("predicted_acks"),
        "{stats:?}"
    );
    assert!(predicted >= sum("predicted_data").max(sum("predicted_acks")), "{stats:?}");
    let figures = place.text(&["stat", "--openmetrics"]);
    for family in [
        "tcp_predicted_data_total",
        "tcp_predicted_acks_total",
        "tcp_unpredicted_total",
        "tcp_limited_congestion_window_seconds_total",
        "connections_limited_by_application",
        "sock_sleep_seconds_total",
    ] {
        assert!(figures.contains(&format!("\nmillstream_{family}{{")), "{family} is missing");
    }
    let nobody = place.command(&["why", "192.0.2.1"]).output().expect("millstream");
    assert!(!nobody.status.success());
    assert!(
        String::from_utf8_lossy(&nobody.stderr).contains("no connection of a running stack has 192.0.2.1")
    );
}

/// A terminal, and what was written to it so far.
struct Terminal {
    ours: File,
    text: String,
}

impl Terminal {
    /// Reads until `wanted` was written since the last time.
    #[allow(clippy::disallowed_methods, reason = "real programs take real time")]
    fn until(&mut self, wanted: &str) {
        let until = Instant::now() + Duration::from_secs(40);
        let mut from = 0;
        loop {
            if let Some(at) = self.text[from..].find(wanted) {
                self.text.drain(..from + at + wanted.len());
                return;
            }
            from = self.text.len().saturating_sub(wanted.len());
            while !self.text.is_char_boundary(from) {
                from -= 1;
            }
            assert!(Instant::now() < until, "no {wanted:?} in {}", self.text);
            let mut ready = [PollFd::new(&self.ours, PollFlags::IN)];
            let time = Timespec { tv_sec: 1, tv_nsec: 0 };
            if poll(&mut ready, Some(&time)).expect("poll") > 0 {
                let mut bytes = [0; 65_536];
                let len = self.ours.read(&mut bytes).expect("the terminal");
                self.text += &String::from_utf8_lossy(&bytes[..len]);
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).expect("the terminal");
    }
}

#[test]
fn many_short_connections_are_one_row() {
    let place = Place::new("short");
    let server = place.server();
    let _client =
        place.end(&["load", "--seconds", "60", "--connections", "8", "--close", "http://10.9.0.1/10000"], 2);
    let pid = server.0.id();
    wait("the server's short connections have a row", || {
        let rows = place.ask(&["why", ":80", "--json", "--seconds", "1"]);
        let of_server = |row: &&Value| row["pid"] == pid && row["short_connections"].as_u64() > Some(20);
        rows.iter().find(of_server).is_some_and(|row| {
            let (count, sent) = (row["short_connections"].as_f64(), row["sent_bits_per_s"].as_f64());
            // Each fetches 10000 bytes and a head.
            sent > count.map(|count| count * 40_000.0) && sent < Some(21e6)
        })
    });
    let table = place.text(&["top", "--once"]);
    let server_short = |line: &str| line.contains("  short  ") && line.ends_with(&format!(" {pid}"));
    assert!(table.lines().any(server_short), "{table}");
}

#[test]
fn top_on_a_terminal() {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("its other side");
    let theirs = ioctl_tiocgptpeer(&ours, OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("its other side");
    tcsetwinsize(&ours, Winsize { ws_row: 30, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).expect("a size");
    let modes = || tcgetattr(&theirs).expect("a terminal").local_modes;
    let before = modes();
    let place = Place::new("top");
    let side = || Stdio::from(theirs.try_clone().expect("a descriptor"));
    let mut top = place.command(&["top", "--delay", "0.3"]);
    let mut top = Running(top.stdin(side()).stdout(side()).stderr(side()).spawn().expect("millstream"));
    let mut terminal = Terminal { ours: File::from(ours), text: String::new() };
    // Before anything runs.
    terminal.until("\x1b[?1049h");
    terminal.until("no stack runs here; waiting for one");
    assert!(!modes().intersects(LocalModes::ICANON | LocalModes::ECHO));
    let (server, client) = place.pair();
    terminal.until("load");
    terminal.until("10.9.0.1:80");
    terminal.until("4 connections");
    // The verdict of the sender, between its rates and its share.
    terminal.until("congestion-window");
    terminal.press("t");
    terminal.until("sorted by rtt ms (t)");
    terminal.press("i");
    terminal.until("(t) inverted");
    terminal.press("?");
    terminal.until("q or Ctrl-C ends");
    terminal.press("p");
    terminal.until(", paused;");
    terminal.press("p");
    let pid = server.0.id();
    drop(server);
    terminal.until(&format!("process {pid} has ended"));
    drop(client);
    terminal.until("no stack runs here; waiting for one");
    terminal.press("q");
    terminal.until("\x1b[?1049l");
    assert!(top.0.wait().expect("its end").success());
    assert_eq!(modes(), before, "the terminal is as it was");
}
