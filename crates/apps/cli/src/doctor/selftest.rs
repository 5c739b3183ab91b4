//! The test of a link: a question over TCP that travels through the open link, and its answer.
//!
//! The question is a SYN. The kernel keeps ARP, ND and ICMP on the links that share its addresses, so only TCP passes
//! both ways through the link itself. Any answer counts, a refusal (RST) like an acceptance.

use base::{Duration, Endpoint};
use pio::Inspection;
use sock::{Clock, Errno, Family, Fd, Opened, PollFd, Ready, Settings, Stack, SystemClock};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Ports that are asked at the same time where none was named: a host without a firewall refuses the first, and a
/// firewall mostly lets one of the others through.
const PORTS: [u16; 4] = [9, 53, 80, 443];
/// The most neighbours that are asked, one after the other.
const PEERS_MAX: usize = 3;

/// A peer to ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    addr: IpAddr,
    /// `None` for all of [`PORTS`].
    port: Option<u16>,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        if let Ok(at) = text.parse::<SocketAddr>() {
            return match at.port() {
                0 => Err("port 0 is no listener's; leave it away or name one".into()),
                port => Ok(Peer { addr: at.ip(), port: Some(port) }),
            };
        }
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let addr =
            bare.parse().map_err(|_| "want an address such as 10.0.0.1, 10.0.0.1:80 or [fd00::1]:80")?;
        Ok(Peer { addr, port: None })
    }
}

/// Returns the peers to ask where no peer was named: gateways, then neighbours.
pub(super) fn peers(seen: &Inspection) -> Vec<Peer> {
    let mut defaults: Vec<_> = seen.routes.iter().filter(|route| route.gateway.is_some()).collect();
    defaults.sort_by_key(|route| (route.prefix, !route.dst.is_v4(), route.metric));
    let gateways = defaults.into_iter().filter_map(|route| route.gateway);
    let mut found: Vec<Peer> = Vec::new();
    for addr in gateways.chain(seen.neighbours.iter().map(|(addr, _)| *addr)) {
        let peer = Peer { addr: addr.into(), port: None };
        // A link-local address says nothing without its interface.
        if !addr.is_link_local_v6() && !found.contains(&peer) {
            found.push(peer);
        }
    }
    found.truncate(PEERS_MAX);
    found
}

/// The open link, as it says of itself.
#[derive(Clone, Default, Debug)]
pub(super) struct Choice {
    /// The link that `nic:` became: `xdp:eth0` or `packet:eth0`.
    pub(super) name: String,
    /// Why no faster way was taken, if one was refused.
    pub(super) fallback: Option<String>,
    /// The program runs in the driver; `None` on packet sockets.
    pub(super) native: Option<bool>,
    pub(super) zero_copy: bool,
    /// Checksums of what is sent are left to kernel or driver.
    pub(super) tx_checksum: bool,
    /// Super-segments may be sent.
    pub(super) segmentation: bool,
}

/// Result of the question.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// The peer that answered, or that was asked last.
    pub(super) peer: Option<String>,
    /// How long the answer took.
    pub(super) took: Option<Duration>,
    /// The answer in words, or the reason why there was none.
    pub(super) what: String,
    asked: Option<IpAddr>,
}

impl Verdict {
    /// No peer was asked.
    pub(super) fn unasked(why: String) -> Verdict {
        Verdict { peer: None, took: None, what: why, asked: None }
    }

    pub(super) fn answered(&self) -> bool {
        self.took.is_some()
    }

    /// Adds the kernel's knowledge of the peer that did not answer.
    pub(super) fn explained(mut self, link: &str, interface: &str) -> Verdict {
        let Some(addr) = self.asked else { return self };
        let now = match pio::inspect(interface) {
            Ok(now) => now,
            Err(error) => {
                self.what = format!("the interface went away meanwhile: {error}");
                return self;
            }
        };
        let known = now.neighbours.iter().find(|(at, _)| IpAddr::from(*at) == addr);
        self.what += &match known {
            Some((_, mac)) => format!(
                "; it is there, for its link-layer address is known ({}). A firewall may drop the question: name a \
                 TCP server with --peer ADDRESS:PORT. If that answers the kernel and not {link}, the fault is here",
                super::report::mac(*mac)
            ),
            None => "; no link-layer address of it is known, so either it is not there (or behind a gateway), or \
                     nothing passes the wire: see cable, VLAN and addresses, or name another with --peer ADDRESS"
                .into(),
        };
        self
    }
}

/// A link that was opened as any command opens it.
pub(super) struct Link {
    opened: Opened,
}

impl Link {
    /// Opens the link with a queue for each core.
    ///
    /// # Errors
    /// In words.
    pub(super) fn open(link: &str, cores: u16) -> Result<Link, String> {
        // Neither file nor environment: the link is what this command is about.
        let settings = Settings { link: link.into(), cores, pin: false, ..Settings::default() };
        let opened = sock::open(&settings).map_err(|e| e.to_string())?;
        Ok(Link { opened })
    }

    /// Returns the facts that the link tells of itself, as `millstream stat` has it.
    pub(super) fn choice(&self) -> Choice {
        let mut choice = Choice::default();
        self.opened.stacks[0].inspect(Box::new(|engine| {
            let stats = sock::control::stats(engine);
            let (port, link) = (&stats["port"], &stats["link"]);
            let flag = |name: &str| link[name].as_u64().map(|n| n != 0);
            choice = Choice {
                name: port["name"].as_str().unwrap_or_default().into(),
                fallback: port["fallback"].as_str().map(String::from),
                native: flag("xdp_native"),
                zero_copy: flag("xdp_zero_copy") == Some(true),
                tx_checksum: port["tx_checksum"] == true,
                segmentation: port["tso_max"] != 0,
            };
        }));
        choice
    }

    /// Asks the peers in turn, from every core, until one has answered each. The answer of the last core counts.
    pub(super) fn ask(&self, peers: &[Peer], timeout: Duration) -> Verdict {
        let mut last = Verdict::unasked("no peer was asked".into());
        for peer in peers {
            let mut cores = self.opened.stacks.iter().enumerate();
            let failed = cores.find_map(|(core, stack)| {
                last = ask(stack, peer, timeout);
                (!last.answered()).then_some(core)
            });
            match failed {
                None => return last,
                Some(core) if core > 0 => {
                    last.what += &format!(" (core {core}; the cores before it were answered)");
                    return last;
                }
                Some(_) => {}
            }
        }
        last
    }
}

/// One question that is on its way.
struct Question {
    fd: Fd,
    at: SocketAddr,
}

/// Asks one peer from one stack.
fn ask(stack: &Stack, peer: &Peer, timeout: Duration) -> Verdict {
    let asked = Some(peer.addr);
    let none = |what: String| Verdict { peer: Some(peer.addr.to_string()), took: None, what, asked };
    let clock = SystemClock::new();
    let begin = clock.now();
    let ports = peer.port.map_or(PORTS.to_vec(), |port| vec![port]);
    let mut questions = Vec::new();
    for port in ports {
        let at = SocketAddr::new(peer.addr, port);
        match send(stack, at) {
            Ok(fd) => questions.push(Question { fd, at }),
            Err(errno) => {
                questions.into_iter().for_each(|question: Question| close(stack, question.fd));
                return none(explain(errno.raw()));
            }
        }
    }
    let mut failure = 0;
    let verdict = loop {
        let left = timeout.saturating_sub(clock.now() - begin);
        let interest = Ready::OUT;
        let mut fds: Vec<_> =
            questions.iter().map(|q| PollFd { fd: q.fd, interest, ready: Ready::default() }).collect();
        if let Err(errno) = stack.poll(&mut fds, Some(left)) {
            break none(explain(errno.raw()));
        }
        let mut answer = None;
        // A port that does not answer need not be the last word.
        questions.retain(|question| {
            if !fds.iter().any(|fd| fd.fd == question.fd && fd.ready != Ready::default()) {
                return true;
            }
            let what = match result(stack, question.fd) {
                Ok(()) => Ok("accepted the connection"),
                Err(libc::ECONNREFUSED) => Ok("refused the connection, which is an answer"),
                Err(errno) => Err(errno),
            };
            match what {
                Ok(what) => answer = answer.or(Some((question.at, what))),
                Err(errno) => failure = errno,
            }
            close(stack, question.fd);
            false
        });
        if let Some((at, what)) = answer {
            let took = Some(clock.now() - begin);
            break Verdict { peer: Some(at.to_string()), took, what: what.into(), asked };
        }
        if questions.is_empty() {
            break none(explain(failure));
        }
        if left.is_zero() {
            break none(format!("no answer within {} s", timeout.as_secs()));
        }
    };
    questions.into_iter().for_each(|question| close(stack, question.fd));
    verdict
}

/// Sends a SYN.
fn send(stack: &Stack, at: SocketAddr) -> Result<Fd, Errno> {
    let family = if at.is_ipv4() { Family::V4 } else { Family::V6 };
    let fd = stack.socket(family)?;
    let sent = stack.set_nonblocking(fd, true).and_then(|()| match stack.connect(fd, Endpoint::from(at)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(fd),
        Err(errno) => Err(errno),
    });
    if sent.is_err() {
        close(stack, fd);
    }
    sent
}

/// Returns the result of a question that is decided: a connection, or the error.
fn result(stack: &Stack, fd: Fd) -> Result<(), i32> {
    let mut value = [0; 4];
    stack.getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut value).map_err(Errno::raw)?;
    match i32::from_ne_bytes(value) {
        0 => stack.peer_addr(fd).map(drop).map_err(Errno::raw),
        errno => Err(errno),
    }
}

fn close(stack: &Stack, fd: Fd) {
    // A reset rather than a farewell: nothing shall be left when the command ends. The program that closed it already
    // is right.
    let linger: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];
    let _ = stack.setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
    let _ = stack.close(fd);
}

fn explain(errno: i32) -> String {
    match errno {
        libc::ENETUNREACH => "no route of this interface leads there".into(),
        libc::EHOSTUNREACH => "its link-layer address was asked for, and no peer answered".into(),
        libc::ETIMEDOUT => "no answer".into(),
        other => format!("no answer: {}", std::io::Error::from_raw_os_error(other)),
    }
}
