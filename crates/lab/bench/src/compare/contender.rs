//! Contenders, their settings, and the points that each leaves out.

use crate::bed::{SERVER_ADDR, our_command, sh};
use std::path::Path;

/// Something that can be measured.
pub struct Contender {
    /// Its name in the table and the results.
    pub name: &'static str,
    /// Name on the page.
    pub label: &'static str,
    /// Settings, and what it lacks of what others do.
    pub about: &'static str,
    /// How it runs.
    pub(super) kind: Kind,
    /// Its version, or how it can be had.
    pub(super) version: fn() -> Result<String, String>,
}

/// How a contender runs.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// The minimal epoll server on the kernel.
    Kernel,
    /// `millstream serve` with these settings.
    Ours(&'static [&'static str]),
    /// The responder without state.
    Ideal,
    /// A program of its own with both stacks in it: `PROGRAM LOAD N SECONDS`.
    InMemory(Program),
}

/// A program with both stacks in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// This one, with this word first.
    Own(&'static str),
    /// `peers/lwip.c`.
    Lwip,
    /// `peers/gvisor`.
    Gvisor,
}

/// Where Debian puts the sources of gVisor.
pub(crate) const GOPATH: &str = "/usr/share/gocode";

/// All.
pub const CONTENDERS: &[Contender] = &[
    Contender {
        name: "millstream",
        label: "Millstream",
        about: "millstream serve, direct mode as it comes: AF_XDP on veth, on a tap device for bulk with offloads. \
                Timestamps, SACK, RACK, CUBIC, TIME-WAIT. In memory the same stack with a TIME-WAIT table of \
                262,144.",
        kind: Kind::Ours(&[]),
        version: || Ok(env!("CARGO_PKG_VERSION").into()),
    },
    Contender {
        name: "paired",
        label: "Millstream, paired",
        about: "the same with mode = paired: stack and application are two threads on the one core.",
        kind: Kind::Ours(&["--mode", "paired"]),
        version: || Ok(env!("CARGO_PKG_VERSION").into()),
    },
    Contender {
        name: "spinning",
        label: "Millstream, spinning",
        about: "spin_us = 200: it looks for packets so long before it sleeps.",
        kind: Kind::Ours(&["--set", "spin_us=200"]),
        version: || Ok(env!("CARGO_PKG_VERSION").into()),
    },
    Contender {
        name: "blocking",
        label: "Millstream, blocking",
        about: "spin_us = 0: it sleeps whenever nothing is there.",
        kind: Kind::Ours(&["--set", "spin_us=0"]),
        version: || Ok(env!("CARGO_PKG_VERSION").into()),
    },
    Contender {
        name: "kernel",
        label: "Linux kernel",
        about: "a minimal epoll server in C, tuned: SO_REUSEPORT, backlog and SYN queue of 65,535, TCP_NODELAY, \
                CUBIC, ports 1024-65000. Timestamps, SACK, RACK, TIME-WAIT.",
        kind: Kind::Kernel,
        version: || Ok(format!("Linux {}", sh("uname", &["-r"])?.trim())),
    },
    Contender {
        name: "ideal",
        label: "ideal responder",
        about: "a raw AF_XDP program that answers with prepared segments, keeps no state and checks nothing: the \
                floor that veth and the client's kernel leave. Not a TCP.",
        kind: Kind::Ideal,
        version: || Ok("peers/ideal.c".into()),
    },
    Contender {
        name: "smoltcp",
        label: "smoltcp",
        about: "buffers of 1 KiB each way (64 KiB for bulk), no Nagle. No timestamps, no SACK, no congestion \
                control, no table for TIME-WAIT (sockets are aborted there). Walks every socket for every packet.",
        kind: Kind::InMemory(Program::Own("smoltcp")),
        version: || Ok("0.13".into()),
    },
    Contender {
        name: "lwip",
        label: "lwIP",
        about: "Debian's library as it is built there, raw calls, loaded once for each end. No timestamps, ignores \
                SACK, Reno, window 64 KiB; TIME-WAIT ended at once. Walks a list of connections.",
        kind: Kind::InMemory(Program::Lwip),
        version: lwip,
    },
    Contender {
        name: "gvisor",
        label: "gVisor netstack",
        about: "Debian's package, a goroutine a connection, one processor (GOMAXPROCS=1). Timestamps, SACK, RACK; \
                TIME-WAIT of a millisecond.",
        kind: Kind::InMemory(Program::Gvisor),
        version: gvisor,
    },
];

fn debian(package: &str) -> Result<String, String> {
    sh("dpkg-query", &["-W", "-f", "${Version}", package])
}

fn lwip() -> Result<String, String> {
    if !Path::new("/usr/include/lwip/lwip/tcp.h").exists() {
        return Err("apt-get install liblwip-dev".into());
    }
    Ok(debian("liblwip-dev").unwrap_or_else(|_| "of this system".into()))
}

fn gvisor() -> Result<String, String> {
    if !Path::new(GOPATH).join("src/gvisor.dev/gvisor/pkg/tcpip").exists() || go().is_none() {
        return Err("apt-get install golang-gvisor-gvisor-dev golang-1.19-go".into());
    }
    Ok(debian("golang-gvisor-gvisor-dev").unwrap_or_else(|_| "of this system".into()))
}

/// The Go that builds that gVisor: newer ones refuse what it takes of their runtime.
pub(crate) fn go() -> Option<&'static str> {
    Some("/usr/lib/go-1.19/bin/go").filter(|go| Path::new(go).exists())
}

impl Contender {
    /// The contender of that name.
    pub(crate) fn of(name: &str) -> Option<&'static Contender> {
        CONTENDERS.iter().find(|contender| contender.name == name)
    }

    /// Arguments of our command for a link.
    pub(super) fn serve(&self, link: &str, address: Option<&str>) -> Option<Vec<String>> {
        let Kind::Ours(settings) = self.kind else { return None };
        let mut args = vec!["serve", "--link", link, "--cores", "1"];
        args.extend(address.iter().flat_map(|address| ["--address", address]));
        args.extend(settings);
        Some(args.into_iter().map(String::from).collect())
    }

    /// Is everything here that it needs?
    pub(crate) fn present(&self) -> Result<String, String> {
        let version = (self.version)()?;
        if matches!(self.kind, Kind::Ours(_)) {
            our_command()?;
        }
        Ok(version)
    }
}

/// Where servers listen.
pub(super) fn network() -> String {
    format!("{SERVER_ADDR}/16")
}
