//! An input on this stack, in virtual time.

use super::case::is_numbered;
use super::input::{AFTERMATH, Action, Call, Half, Input, Step, Switch, echoed};
use super::trace::{Moment, Seen, Trace};
use base::{Addr, Duration, Endpoint};
use drill::run::peer::{Peer, byte};
use drill::run::{Profile, World, core_config, errno_name};
use sock::{Errno, Family, Fd, PollFd, Ready, RecvFlags, SendFlags, Sockets};
use stack::{OwnAddr, Row};

/// Addresses of the near end, its gateway and the peer.
const V4: [Addr; 3] = [Addr::v4([192, 168, 0, 1]), Addr::v4([192, 168, 0, 254]), Addr::v4([192, 0, 2, 1])];
const V6: [Addr; 3] =
    [near(1), near(0xfe), Addr::v6([0xfd, 0x3d, 0xfa, 0x7b, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])];

/// Returns an address of the near end's link, over IPv6.
pub(super) const fn near(last: u8) -> Addr {
    Addr::v6([0xfd, 0x3d, 0xfa, 0x7b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
}

const PORT: u16 = 8080;
const MTU: usize = 1500;

/// This stack with one peer.
pub struct Ours {
    world: World,
    /// The near end's address, and the peer.
    local: Addr,
    remote: Endpoint,
    sockets: Box<dyn Sockets>,
    peer: Peer,
    listener: Option<Fd>,
    stream: Option<Fd>,
    written: u32,
    read: u32,
    /// Time of the last step.
    stepped: Duration,
    /// Times of the last two packets, not counted those that left together.
    sent: [Duration; 2],
    /// Times of the last two that took sequence numbers.
    numbered: [Duration; 2],
    trace: Trace,
}

impl Ours {
    /// A stack with the settings that imitate Linux.
    ///
    /// # Errors
    /// There is no memory for its port.
    pub fn new(isn: u32, v6: bool) -> std::io::Result<Ours> {
        let [own, gateway, peer] = if v6 { V6 } else { V4 };
        let mut config = core_config(Profile::Linux);
        config.addresses = vec![OwnAddr { addr: own, prefix: if v6 { 64 } else { 16 } }];
        config.gateways = vec![gateway];
        // The kernel's limit is switched off as well.
        config.tcp.challenge_ack_limit = 1_000;
        config.max_connections = 64;
        config.max_time_wait = 64;
        config.max_chunks = 1 << 10;
        let world = World::new(config, MTU, false)?;
        let remote = Endpoint::new(peer, PORT);
        let peer = Peer::new(Endpoint::new(own, 0), remote, isn);
        Ok(Ours {
            sockets: Box::new(world.sockets()),
            world,
            local: own,
            remote,
            peer,
            listener: None,
            stream: None,
            written: 0,
            read: 0,
            stepped: Duration::ZERO,
            sent: [Duration::ZERO; 2],
            numbered: [Duration::ZERO; 2],
            trace: Trace::default(),
        })
    }

    /// Runs the whole input.
    ///
    /// # Errors
    /// There is no memory for the stack.
    pub fn run(input: &Input) -> std::io::Result<Trace> {
        let pauses = input.steps.iter().map(Step::pause).chain([AFTERMATH]);
        Ours::run_at(input, &pauses.collect::<Vec<_>>())
    }

    /// Runs the whole input at the times of another trace.
    ///
    /// # Errors
    /// There is no memory for the stack.
    pub fn run_at(input: &Input, pauses: &[Duration]) -> std::io::Result<Trace> {
        let mut ours = Ours::new(input.isn, input.v6)?;
        for (pause, step) in pauses.iter().zip(&input.steps) {
            ours.advance(*pause);
            ours.step(step);
        }
        ours.advance(pauses.get(input.steps.len()).copied().unwrap_or(AFTERMATH));
        Ok(ours.end())
    }

    /// Moves time on.
    pub fn advance(&mut self, time: Duration) {
        self.world.advance(self.world.now() + time);
        self.collect();
    }

    /// Time since the last step.
    pub fn since_step(&self) -> Duration {
        self.world.now() - self.stepped
    }

    /// Time until the next timer.
    pub fn until_timer(&self) -> Option<Duration> {
        self.world.next_timeout().map(|at| at.saturating_sub(self.world.now()))
    }

    /// Returns for how long a timer ran, if it sent the last packet, and for how long one runs since then, if that
    /// started it.
    pub fn timers(&self) -> (Duration, Duration) {
        (self.sent[1] - self.sent[0], self.world.now() - self.sent[1])
    }

    /// Does a step, and everything that happens at once.
    pub fn step(&mut self, step: &Step) {
        self.stepped = self.world.now();
        self.trace.moments.push(Moment::default());
        match &step.action {
            Action::Call(call) => {
                let answer =
                    self.call(*call).unwrap_or_else(|errno| format!("-1 {}", errno_name(errno.raw())));
                self.world.settle();
                self.moment().answer = Some(answer);
            }
            Action::Send(packet, echo) => {
                let packet = echoed(packet, *echo, self.peer.latest_stamp());
                match self.peer.build(&packet) {
                    Ok(bytes) => self.world.inject(bytes, 0),
                    Err(why) => self.trace.wrong.push(why),
                }
            }
        }
        self.collect();
    }

    /// The last step and what followed so far.
    pub fn last(&self) -> Option<&Moment> {
        self.trace.moments.last()
    }

    /// Returns the names of the counters and drop reasons that are not zero.
    pub fn counted(&self) -> Vec<&'static str> {
        let mut engine = self.world.engine();
        let mut all = engine.core().stats();
        all.retain(|(_, value)| *value > 0);
        all.into_iter().map(|(name, _)| name).collect()
    }

    /// States of the sockets, as Linux names them.
    pub fn states(&self) -> String {
        let mut numbers = Vec::new();
        let mut engine = self.world.engine();
        let now = engine.now();
        engine.core().for_each(now, &mut |row| match row {
            Row::Listener { .. } => {}
            Row::Connection(tcp) => numbers.push(tcp.state().number()),
            Row::TimeWait(_) => numbers.push(6),
        });
        names(&numbers)
    }

    /// Ends the run.
    pub fn end(mut self) -> Trace {
        self.trace.end = self.states();
        self.trace
    }

    fn moment(&mut self) -> &mut Moment {
        if self.trace.moments.is_empty() {
            self.trace.moments.push(Moment::default());
        }
        let last = self.trace.moments.len() - 1;
        &mut self.trace.moments[last]
    }

    fn collect(&mut self) {
        for (at, bytes) in self.world.take_sent() {
            match self.peer.read(bytes) {
                Ok(None) => {}
                Ok(Some(packet)) => {
                    if at > self.sent[1] {
                        self.sent = [self.sent[1], at];
                    }
                    if at > self.numbered[1] && is_numbered(&packet) {
                        self.numbered = [self.numbered[1], at];
                    }
                    let gap = self.numbered[1] - self.numbered[0];
                    let at = at.saturating_sub(self.stepped);
                    self.moment().seen.push(Seen { at, gap, unread: Duration::ZERO, packet });
                }
                Err(why) => self.trace.wrong.push(why),
            }
        }
    }

    fn call(&mut self, call: Call) -> Result<String, Errno> {
        let done = |()| "0".to_owned();
        let sockets = &*self.sockets;
        let stream = self.stream.ok_or(Errno::EBADF);
        let family = if self.local.is_v4() { Family::V4 } else { Family::V6 };
        match call {
            Call::Listen => {
                let fd = sockets.socket(family)?;
                sockets.set_nonblocking(fd, true)?;
                sockets.bind(fd, Endpoint::new(self.local, PORT))?;
                sockets.listen(fd, 8)?;
                self.listener = Some(fd);
                self.peer.set_local(Endpoint::new(self.local, PORT));
                Ok("0".into())
            }
            Call::Connect => {
                let fd = match self.stream {
                    Some(fd) => fd,
                    None => sockets.socket(family)?,
                };
                sockets.set_nonblocking(fd, true)?;
                self.stream = Some(fd);
                sockets.connect(fd, self.remote).map(done)
            }
            Call::Accept => {
                let (fd, _) = sockets.accept(self.listener.ok_or(Errno::EBADF)?)?;
                sockets.set_nonblocking(fd, true)?;
                if let Some(before) = self.stream.replace(fd) {
                    sockets.close(before)?;
                }
                (self.written, self.read) = (0, 0);
                Ok("4".into())
            }
            Call::Read(len) => {
                let mut into = vec![0; len as usize];
                let got = sockets.recv(stream?, &mut into, RecvFlags::default())?;
                Ok(self.told_read(&into[..got]))
            }
            Call::Write(len) => {
                let data: Vec<u8> = (1..=len).map(|i| byte(self.written.wrapping_add(i))).collect();
                let sent = sockets.send(stream?, &data, SendFlags::default())?;
                self.written = self.written.wrapping_add(sent as u32);
                Ok(sent.to_string())
            }
            Call::Shutdown(half) => {
                let how = match half {
                    Half::Read => tcp::Shutdown::Read,
                    Half::Write => tcp::Shutdown::Write,
                    Half::Both => tcp::Shutdown::Both,
                };
                sockets.shutdown(stream?, how).map(done)
            }
            Call::Close => {
                let fd = stream?;
                self.stream = None;
                sockets.close(fd).map(done)
            }
            Call::CloseListener => {
                let fd = self.listener.take().ok_or(Errno::EBADF)?;
                sockets.close(fd).map(done)
            }
            Call::Poll => {
                let mut rows = [PollFd { fd: stream?, interest: Ready(0x2005), ready: Ready::NONE }];
                sockets.poll(&mut rows, Some(Duration::ZERO))?;
                Ok(format!("{:#x}", rows[0].ready.0))
            }
            Call::Error => {
                let mut into = [0; 4];
                sockets.getsockopt(stream?, libc::SOL_SOCKET, libc::SO_ERROR, &mut into)?;
                Ok(error_text(i32::from_ne_bytes(into)))
            }
            Call::Set(switch) => {
                let (level, name, value) = switched(switch);
                sockets.setsockopt(stream?, level, name, &value).map(done)
            }
        }
    }

    fn told_read(&mut self, got: &[u8]) -> String {
        let text = told_read(self.read, got);
        self.read = self.read.wrapping_add(got.len() as u32);
        text
    }
}

/// Returns the answer of a read after `before` bytes, and says if these are not the peer's.
pub fn told_read(before: u32, got: &[u8]) -> String {
    let right = (before.wrapping_add(1)..).zip(got).all(|(at, value)| byte(at) == *value);
    format!("{}{}", got.len(), if right { "" } else { ", not the peer's bytes" })
}

/// Returns the error of SO_ERROR as text.
pub fn error_text(errno: i32) -> String {
    if errno == 0 { "0".into() } else { errno_name(errno) }
}

fn switched(switch: Switch) -> (i32, i32, Vec<u8>) {
    let word = |on: bool| i32::from(on).to_ne_bytes().to_vec();
    match switch {
        Switch::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY, word(true)),
        Switch::Cork(on) => (libc::IPPROTO_TCP, libc::TCP_CORK, word(on)),
        Switch::QuickAck(on) => (libc::IPPROTO_TCP, libc::TCP_QUICKACK, word(on)),
        Switch::LingerZero => (libc::SOL_SOCKET, libc::SO_LINGER, [word(true), word(false)].concat()),
    }
}

/// Returns the names of the states with these numbers of Linux's. One that is CLOSED is none: Linux does not list it.
pub fn names(numbers: &[u8]) -> String {
    let mut numbers: Vec<u8> = numbers.iter().copied().filter(|number| *number != 7).collect();
    numbers.sort_unstable();
    numbers.into_iter().map(state).collect::<Vec<_>>().join(" ")
}

/// Returns Linux's name of a state (include/net/tcp_states.h).
fn state(number: u8) -> &'static str {
    const NAMES: [&str; 13] = [
        "?",
        "ESTABLISHED",
        "SYN-SENT",
        "SYN-RECEIVED",
        "FIN-WAIT-1",
        "FIN-WAIT-2",
        "TIME-WAIT",
        "CLOSED",
        "CLOSE-WAIT",
        "LAST-ACK",
        "LISTEN",
        "CLOSING",
        "SYN-RECEIVED",
    ];
    NAMES.get(usize::from(number)).copied().unwrap_or("?")
}

#[test]
fn a_timer_is_measured_from_what_takes_numbers() {
    use drill::lang::{Body, Direction, Flags, IpInfo, Packet, Range, Segment};
    let send = |after, bits, seq: u32, ack: Option<u32>| {
        let flags = Flags { bits, ..Flags::default() };
        let len = u32::from(seq > 1);
        let tcp = Segment {
            ports: None,
            flags,
            seq: Some(Range { start: seq, end: seq + len }),
            len,
            absolute: false,
            ack,
            window: Some(65_535),
            urgent: None,
            options: None,
            udp: None,
        };
        let packet = Packet {
            direction: Direction::In,
            outer: Vec::new(),
            ip: IpInfo::default(),
            body: Body::Tcp(tcp),
        };
        Step { after, action: Action::Send(Box::new(packet), super::input::Echo::AsIs) }
    };
    let call = |call| Step { after: 1, action: Action::Call(call) };
    let syn = send(1, Flags::SYN, 0, None);
    let ack = send(1, Flags::ACK, 1, Some(1));
    // Answered at once, because it is beyond a hole.
    let beyond = send(100, Flags::ACK, 9, Some(1));
    let steps = vec![call(Call::Listen), syn, ack, call(Call::Accept), call(Call::Write(9)), beyond];
    let trace = Ours::run(&Input { seed: 0, isn: 0, v6: false, steps }).expect("memory");
    let last = &trace.moments.last().expect("a step").seen;
    assert_eq!(last[0].at, Duration::ZERO, "{last:?}");
    assert_eq!(last[1].gap, last[1].at + Duration::from_millis(100), "{last:?}");
}
