//! Inputs on the kernel: one thread in a network namespace plays many peers at once, on a tap.
//!
//! All calls are non-blocking, so one thread makes the calls of every application, too. What the kernel sends at once
//! stands in the tap's queue when the call or the write returns, so it is read before the next step of any input.

use super::case::is_numbered;
use super::compare::TOGETHER;
use super::input::{AFTERMATH, Action, Call, Half, Input, Switch, echoed};
use super::ours::{error_text, names, near, told_read};
use super::trace::{Moment, Seen, Trace};
use base::{Addr, Duration, Endpoint, Instant};
use drill::run::errno_name;
use drill::run::peer::{Peer, byte};
use pio::{PacketIo, RxBatch, Tap, TapConfig, TxBatch, TxMeta, TxPacket};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, sockopt};
use sock::{Clock, SystemClock};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Settings that differ from the kernel's own: what this machine chose, what is remembered of peers, limits per
/// second, and what waits for a better moment.
const SYSCTLS: [(&str, &str); 19] = [
    ("net.ipv6.conf.ms0.accept_ra", "0"),
    ("net.ipv6.icmp.ratelimit", "0"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_autocorking", "0"),
    ("net.ipv4.tcp_fastopen", "0"),
    // What the congestion window allows leaves at once, however little it is.
    ("net.ipv4.tcp_tso_win_divisor", "255"),
    ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
    ("net.ipv4.tcp_wmem", "4096 131072 4194304"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_window_scaling", "1"),
    ("net.ipv4.tcp_ecn", "2"),
    ("net.ipv4.tcp_comp_sack_nr", "0"),
    ("net.ipv4.tcp_invalid_ratelimit", "0"),
    ("net.ipv4.tcp_challenge_ack_limit", "2147483647"),
    ("net.ipv4.tcp_max_syn_backlog", "4096"),
    ("net.ipv4.tcp_orphan_retries", "0"),
    ("net.ipv4.icmp_ratelimit", "0"),
    ("net.ipv4.ip_local_port_range", "40000 65000"),
];
const LOCAL: [u8; 4] = [192, 168, 0, 1];
const GATEWAY: &str = "192.168.0.254";
const GATEWAY_V6: &str = "fd3d:fa7b::fe";
const GATEWAY_MAC: [u8; 6] = [0x02, 0x4d, 0x53, 0, 0, 0xfe];
const MTU: usize = 1500;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Inputs at a time. Most wait for a timer.
const AT_ONCE: usize = 144;
/// Scheduling priority (nice value) of the thread.
const FIRST: i32 = -20;
/// Longest sleep of the thread: a new input waits so long at most.
const NAP: Duration = Duration::from_millis(4);

/// Pause between two looks at the states of what is over.
const LOOK_UP: Duration = Duration::from_millis(200);

struct Job {
    input: Input,
    reply: Sender<Trace>,
}

/// The kernel, for any thread.
#[derive(Clone)]
pub struct Kernel {
    jobs: Sender<Job>,
}

impl Kernel {
    /// Begins a namespace of its own, which ends with the last handle.
    ///
    /// # Errors
    /// Says what is missing here: privilege, /dev/net/tun, or `ip`.
    pub fn new() -> Result<Kernel, String> {
        if !pio::userns::is_privileged() {
            return Err("it needs CAP_NET_ADMIN, as root has it".into());
        }
        let (jobs, queue) = channel();
        let (ready, is_ready) = channel();
        let thread = std::thread::Builder::new().name("kernel".into());
        let serve = move || match Bench::new(queue) {
            Ok(mut bench) => {
                // The other side waits for this, or is gone with its jobs.
                drop(ready.send(Ok(())));
                bench.serve();
            }
            Err(why) => drop(ready.send(Err(why))),
        };
        thread.spawn(serve).map_err(|error| format!("a thread: {error}"))?;
        is_ready.recv().map_err(|_| "the kernel's thread panicked".to_owned())??;
        Ok(Kernel { jobs })
    }

    /// Begins an input.
    ///
    /// # Errors
    /// The kernel's thread is gone.
    pub fn begin(&self, input: &Input) -> Result<Ticket, String> {
        let (reply, answer) = channel();
        self.jobs.send(Job { input: input.clone(), reply }).map_err(|_| GONE)?;
        Ok(Ticket(answer))
    }
}

const GONE: &str = "the kernel's thread is gone";

/// An input that the kernel has begun or will begin.
pub struct Ticket(Receiver<Trace>);

impl Ticket {
    /// Waits for what the kernel did.
    ///
    /// # Errors
    /// The kernel's thread is gone.
    pub fn wait(&self) -> Result<Trace, String> {
        self.0.recv().map_err(|_| GONE.into())
    }
}

/// A connection on its way.
struct Run {
    job: Job,
    peer: Peer,
    local: Addr,
    remote: Endpoint,
    port: u16,
    listener: Option<OwnedFd>,
    stream: Option<OwnedFd>,
    written: u32,
    read: u32,
    next: usize,
    stepped: Instant,
    /// Times of the last two packets that took sequence numbers, not counted those that left together.
    numbered: [Instant; 2],
    trace: Trace,
}

struct Bench {
    tap: Tap,
    queue: Receiver<Job>,
    is_over: bool,
    clock: SystemClock,
    kernel_mac: [u8; 6],
    runs: HashMap<Addr, Run>,
    /// When the next step of a run is due.
    due: BTreeMap<(Instant, Addr), ()>,
    /// Runs whose states are to be looked up, all together: the kernel's list is long.
    ending: Vec<Run>,
    ended: Instant,
    count: u32,
    received: RxBatch,
    sending: TxBatch,
    looked: Instant,
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    let why = || format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(()).ok_or_else(why)
}

/// Moves the calling thread to a namespace that nothing else is in.
fn enter_new() -> Result<(), String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("ms-differ-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    ip(&["netns", "add", &name])?;
    let netns = File::open(format!("/run/netns/{name}")).map_err(|error| format!("{name}: {error}"));
    // The thread keeps it.
    let entered = netns.and_then(|netns| {
        let network = rustix::thread::LinkNameSpaceType::Network;
        let moved = rustix::thread::move_into_link_name_space(netns.as_fd(), Some(network));
        moved.map_err(|error| format!("{name}: {error}"))
    });
    ip(&["netns", "del", &name])?;
    entered
}

impl Bench {
    fn new(queue: Receiver<Job>) -> Result<Bench, String> {
        enter_new()?;
        // Other programs shall not make the steps late. Without CAP_SYS_NICE they may.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), FIRST);
        let config = TapConfig { offload: false, mtu: Some(MTU), ..TapConfig::new("ms0") };
        let tap = pio::open_tap(&config).map_err(|error| error.to_string())?.pop().ok_or("no queue")?;
        let index = tap.caps().ifindex.ok_or("the tap has no index")?;
        pio::netlink::add_address(index, Addr::v4(LOCAL), 16).map_err(|error| error.to_string())?;
        pio::netlink::add_address(index, near(1), 64).map_err(|error| format!("IPv6: {error}"))?;
        ip(&["link", "set", "lo", "up"])?;
        let mac: Vec<String> = GATEWAY_MAC.iter().map(|byte| format!("{byte:02x}")).collect();
        for (gateway, peers) in [(GATEWAY, "10.0.0.0/8"), (GATEWAY_V6, "fd3d:fa7b:0:1::/64")] {
            ip(&["neigh", "replace", gateway, "lladdr", &mac.join(":"), "dev", "ms0"])?;
            ip(&["route", "add", peers, "via", gateway, "dev", "ms0"])?;
        }
        for (name, value) in SYSCTLS {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            // A kernel without it has nothing to switch off.
            if std::fs::exists(&path).unwrap_or(false) {
                std::fs::write(&path, value).map_err(|error| format!("{path} = {value}: {error}"))?;
            }
        }
        let text = std::fs::read_to_string("/sys/class/net/ms0/address");
        let kernel_mac = match text {
            Ok(text) => mac_of(text.trim()),
            Err(_) => link_address()?,
        };
        let clock = SystemClock::new();
        let looked = clock.now();
        Ok(Bench {
            tap,
            queue,
            is_over: false,
            clock,
            kernel_mac,
            runs: HashMap::new(),
            due: BTreeMap::new(),
            ending: Vec::new(),
            ended: looked,
            count: 0,
            received: RxBatch::new(),
            sending: TxBatch::new(),
            looked,
        })
    }

    fn serve(&mut self) {
        while !self.is_over || !self.runs.is_empty() || !self.ending.is_empty() {
            while self.runs.len() < AT_ONCE && !self.is_over {
                match self.queue.try_recv() {
                    Ok(job) => self.begin(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => self.is_over = true,
                }
            }
            self.read();
            let now = self.clock.now();
            while let Some((&(at, addr), ())) = self.due.first_key_value() {
                if at > now {
                    break;
                }
                self.due.pop_first();
                // What came before the step belongs to the one before.
                self.read();
                self.step(addr, at);
                self.read();
            }
            let now = self.clock.now();
            if now.since(self.ended) > LOOK_UP {
                self.finish();
                self.ended = now;
            }
            let next = self.due.first_key_value().map_or(NAP, |((at, _), ())| at.since(now).min(NAP));
            if !next.is_zero() {
                // An interrupted sleep is looked after as a sleep that is over.
                drop(pio::wait([&mut self.tap], &[], Some(next)));
            }
        }
    }

    /// Answers for the runs that are over.
    fn finish(&mut self) {
        if self.ending.is_empty() {
            return;
        }
        let states = states();
        for mut run in self.ending.drain(..) {
            run.trace.end = states.get(&run.remote.addr).map_or(String::new(), |of| names(of));
            if let Some(stream) = &run.stream {
                // What is left ends at once, and its peer answers no more.
                let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
            }
            // A caller that is gone needs no answer.
            drop(run.job.reply.send(run.trace));
        }
    }

    fn begin(&mut self, job: Job) {
        self.count += 1;
        let [_, a, b, c] = self.count.to_be_bytes();
        let (local, remote) = match job.input.v6 {
            true => (near(1), Addr::v6([0xfd, 0x3d, 0xfa, 0x7b, 0, 0, 0, 1, 0, 0, 0, 0, 0, a, b, c])),
            false => (Addr::v4(LOCAL), Addr::v4([10, a, b, c])),
        };
        let remote = Endpoint::new(remote, 8080);
        let port = 10_000 + (self.count % 25_000) as u16;
        let peer = Peer::new(Endpoint::new(local, 0), remote, job.input.isn);
        let now = self.clock.now();
        let first = job.input.steps.first().map_or(AFTERMATH, super::input::Step::pause);
        let run = Run {
            job,
            peer,
            local,
            remote,
            port,
            listener: None,
            stream: None,
            written: 0,
            read: 0,
            next: 0,
            stepped: now,
            numbered: [now; 2],
            trace: Trace::default(),
        };
        self.runs.insert(remote.addr, run);
        self.due.insert((now + first, remote.addr), ());
    }

    /// The next step of a run, which was due at `at`.
    fn step(&mut self, addr: Addr, at: Instant) {
        let Some(run) = self.runs.get_mut(&addr) else { return };
        let now = self.clock.now();
        run.trace.late = run.trace.late.max(now.since(at));
        run.trace.pauses.push(now.since(run.stepped));
        let Some(step) = run.job.input.steps.get(run.next).cloned() else {
            self.ending.extend(self.runs.remove(&addr));
            return;
        };
        run.next += 1;
        run.stepped = now;
        run.trace.moments.push(Moment::default());
        match &step.action {
            Action::Call(call) => {
                let answer = run
                    .call(*call)
                    .unwrap_or_else(|errno| format!("-1 {}", errno_name(errno.raw_os_error())));
                if let Some(last) = run.trace.moments.last_mut() {
                    last.answer = Some(answer);
                }
            }
            Action::Send(packet, echo) => {
                let packet = echoed(packet, *echo, run.peer.latest_stamp());
                match run.peer.build(&packet) {
                    Ok(bytes) => send(&mut self.tap, &mut self.sending, self.kernel_mac, &bytes),
                    Err(why) => run.trace.wrong.push(why),
                }
            }
        }
        let pause = run.job.input.steps.get(run.next).map_or(AFTERMATH, super::input::Step::pause);
        self.due.insert((now + pause, addr), ());
    }

    /// Takes everything that the kernel has sent.
    fn read(&mut self) {
        let before = std::mem::replace(&mut self.looked, self.clock.now());
        loop {
            let got = self.tap.rx(&mut self.received).unwrap_or(0);
            if got == 0 {
                return;
            }
            let now = self.clock.now();
            // It may have stood there since the queue was last looked at.
            let unread = now.since(before);
            for packet in self.received.drain(..) {
                let data = packet.frame.data();
                let bytes = data.get(ETHERNET..).unwrap_or_default().to_vec();
                let to = match data.get(12..14) {
                    Some([8, 0]) => bytes.get(16..20).and_then(|at| at.try_into().ok()).map(Addr::v4),
                    Some([0x86, 0xdd]) => bytes.get(24..40).and_then(|at| at.try_into().ok()).map(Addr::v6),
                    _ => None,
                };
                self.tap.retire(packet.frame);
                let Some(run) = to.and_then(|to| self.runs.get_mut(&to)) else { continue };
                match run.peer.read(bytes) {
                    Ok(None) => {}
                    Ok(Some(packet)) => {
                        let at = now.since(run.stepped);
                        if is_numbered(&packet) && now.since(run.numbered[1]) > TOGETHER {
                            run.numbered = [run.numbered[1], now];
                        }
                        let gap = run.numbered[1].since(run.numbered[0]);
                        if let Some(last) = run.trace.moments.last_mut() {
                            last.seen.push(Seen { at, gap, unread: unread.min(at), packet });
                        }
                    }
                    Err(why) => run.trace.wrong.push(why),
                }
            }
        }
    }
}

/// Sends an IP packet to the kernel.
fn send(tap: &mut Tap, batch: &mut TxBatch, mac: [u8; 6], bytes: &[u8]) {
    let Some(mut frame) = tap.take() else { return };
    let start = frame.headroom();
    frame.set_range(start, ETHERNET + bytes.len());
    let data = frame.data_mut();
    data[..6].copy_from_slice(&mac);
    data[6..12].copy_from_slice(&GATEWAY_MAC);
    let is_v4 = bytes.first().is_some_and(|first| first >> 4 == 4);
    data[12..14].copy_from_slice(if is_v4 { &[8, 0] } else { &[0x86, 0xdd] });
    data[ETHERNET..].copy_from_slice(bytes);
    batch.push_back(TxPacket { frame, meta: TxMeta::default() });
    // What is not sent shows as a difference.
    drop(tap.tx(batch));
}

fn mac_of(text: &str) -> [u8; 6] {
    let mut mac = [0; 6];
    for (byte, digits) in mac.iter_mut().zip(text.split(':')) {
        *byte = u8::from_str_radix(digits, 16).unwrap_or(0);
    }
    mac
}

/// The address of the kernel's end, where sysfs is another namespace's.
fn link_address() -> Result<[u8; 6], String> {
    let output = Command::new("ip").args(["-o", "link", "show", "ms0"]).output();
    let text = output.map_err(|error| format!("ip: {error}"))?.stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mac = text.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next());
    mac.map(mac_of).ok_or_else(|| "the tap has no address".into())
}

/// States of the sockets by their peers' addresses, listeners left out.
fn states() -> HashMap<Addr, Vec<u8>> {
    let mut states: HashMap<Addr, Vec<u8>> = HashMap::new();
    let read = |name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let texts = [read("tcp"), read("tcp6")];
    for row in texts.iter().flat_map(|text| text.lines().skip(1)) {
        let mut fields = row.split_whitespace().skip(2);
        let (Some(remote), Some(number)) = (fields.next(), fields.next()) else { continue };
        let Some(remote) = remote.split(':').next().and_then(address_of) else { continue };
        // TCP_NEW_SYN_RECV, a request socket, is SYN-RECEIVED.
        let number = match u8::from_str_radix(number, 16) {
            Ok(12) => 3,
            Ok(number) => number,
            Err(_) => continue,
        };
        states.entry(remote).or_default().push(number);
    }
    states
}

/// Returns the address of words in hexadecimal digits, each in the machine's order.
fn address_of(digits: &str) -> Option<Addr> {
    let words =
        digits.as_bytes().chunks(8).map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let bytes: Vec<u8> =
        words.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    match bytes.len() {
        4 => bytes.try_into().ok().map(Addr::v4),
        _ => bytes.try_into().ok().map(Addr::v6),
    }
}

impl Run {
    fn call(&mut self, call: Call) -> Result<String, Errno> {
        let done = |()| "0".to_owned();
        match call {
            Call::Listen => {
                let fd = self.socket()?;
                sockopt::set_socket_reuseaddr(&fd, true)?;
                net::bind(&fd, &SocketAddr::from(Endpoint::new(self.local, self.port)))?;
                net::listen(&fd, 8)?;
                self.listener = Some(fd);
                self.peer.set_local(Endpoint::new(self.local, self.port));
                Ok("0".into())
            }
            Call::Connect => {
                if self.stream.is_none() {
                    self.stream = Some(self.socket()?);
                }
                let remote = SocketAddr::from(self.remote);
                net::connect(self.stream.as_ref().ok_or(Errno::BADF)?, &remote).map(done)
            }
            Call::Accept => {
                let listener = self.listener.as_ref().ok_or(Errno::BADF)?;
                let fd = net::accept_with(listener, net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC)?;
                self.stream = Some(fd);
                (self.written, self.read) = (0, 0);
                Ok("4".into())
            }
            Call::Read(len) => {
                let mut into = vec![0; len as usize];
                let (_, got) = net::recv(self.stream()?, &mut into, net::RecvFlags::empty())?;
                let text = told_read(self.read, &into[..got]);
                self.read = self.read.wrapping_add(got as u32);
                Ok(text)
            }
            Call::Write(len) => {
                let data: Vec<u8> = (1..=len).map(|i| byte(self.written.wrapping_add(i))).collect();
                let sent = net::send(self.stream()?, &data, net::SendFlags::NOSIGNAL)?;
                self.written = self.written.wrapping_add(sent as u32);
                Ok(sent.to_string())
            }
            Call::Shutdown(half) => {
                let how = match half {
                    Half::Read => net::Shutdown::Read,
                    Half::Write => net::Shutdown::Write,
                    Half::Both => net::Shutdown::Both,
                };
                net::shutdown(self.stream()?, how).map(done)
            }
            Call::Close => {
                drop(self.stream.take().ok_or(Errno::BADF)?);
                Ok("0".into())
            }
            Call::CloseListener => {
                drop(self.listener.take().ok_or(Errno::BADF)?);
                Ok("0".into())
            }
            Call::Poll => {
                let interest = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
                let mut rows = [PollFd::new(self.stream()?, interest)];
                rustix::event::poll(&mut rows, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
                Ok(format!("{:#x}", rows[0].revents().bits()))
            }
            Call::Error => {
                let error = sockopt::socket_error(self.stream()?)?;
                Ok(error_text(error.err().map_or(0, Errno::raw_os_error)))
            }
            Call::Set(switch) => {
                let fd = self.stream()?;
                match switch {
                    Switch::NoDelay => sockopt::set_tcp_nodelay(fd, true),
                    Switch::Cork(on) => sockopt::set_tcp_cork(fd, on),
                    Switch::QuickAck(on) => sockopt::set_tcp_quickack(fd, on),
                    Switch::LingerZero => sockopt::set_socket_linger(fd, Some(Duration::ZERO)),
                }
                .map(done)
            }
        }
    }

    fn stream(&self) -> Result<&OwnedFd, Errno> {
        self.stream.as_ref().ok_or(Errno::BADF)
    }

    fn socket(&self) -> Result<OwnedFd, Errno> {
        let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
        let family = if self.local.is_v4() { net::AddressFamily::INET } else { net::AddressFamily::INET6 };
        let fd = net::socket_with(family, net::SocketType::STREAM, flags, None)?;
        // This stack's, whatever this machine's default is.
        sockopt::set_tcp_congestion(&fd, "cubic")?;
        Ok(fd)
    }
}
