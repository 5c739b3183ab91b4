//! Programs of calls from a seed. The generator keeps a rough model of what each descriptor is and which end of the
//! peer it is joined to. Two calls in three follow the one before: they do what it made possible, or tell what it did.
//! Of the others most make sense in the state that they meet, and some have odd states, lengths and pointers.

use super::step::{STEPS_MAX, Step};
use base::Rng;
use sock::boundary::{Ask, Row, Verdict};

/// Slots that the generator uses.
const SLOTS: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Free,
    /// A TCP socket that is neither connected nor listening, and its family.
    New(i64),
    Listening(i64, i64),
    Connected,
    /// One of the kernel's own that can be read or written.
    Kernel,
    Set,
}

/// Options that cut a connection off, delay its packets or acknowledgments, or change what the socket is.
const LEFT_OUT: &[&str] = &[
    "TCP_REPAIR",
    "TCP_REPAIR_QUEUE",
    "TCP_REPAIR_OPTIONS",
    "TCP_REPAIR_WINDOW",
    "TCP_QUEUE_SEQ",
    "TCP_MD5SIG",
    "TCP_MD5SIG_EXT",
    "TCP_AO_ADD_KEY",
    "TCP_AO_DEL_KEY",
    "TCP_AO_INFO",
    "TCP_AO_GET_KEYS",
    "TCP_AO_REPAIR",
    "TCP_TX_DELAY",
    "SO_ATTACH_FILTER",
    "SO_MAX_PACING_RATE",
    "IPV6_ADDRFORM",
    "SO_BINDTODEVICE",
    "IP_OPTIONS",
    "TCP_ULP",
    "SO_PEEK_OFF",
    "SO_ATTACH_REUSEPORT_CBPF",
    "IPV6_PKTINFO",
    "SO_TXTIME",
    "SO_SNDBUF",
    "SO_RCVBUF",
    "SO_SNDBUFFORCE",
    "SO_RCVBUFFORCE",
    "SO_BINDTOIFINDEX",
    "IP_UNICAST_IF",
    "IPV6_UNICAST_IF",
    "IP_MTU",
    "TCP_WINDOW_CLAMP",
    "TCP_FASTOPEN_CONNECT",
    "TCP_QUICKACK",
    "TCP_DEFER_ACCEPT",
];

/// Options that change what later calls do, drawn more often.
const WITH_EFFECTS: &[&str] = &["SO_LINGER", "SO_RCVLOWAT", "TCP_CORK", "TCP_NODELAY"];

struct Generator {
    rng: Rng,
    steps: Vec<Step>,
    slots: [Kind; SLOTS],
    /// The peer's slot at the other end of a connection. It stays when the connection is closed.
    ends: [Option<usize>; SLOTS],
    /// The peer's: 0 free, 1 listening, 2 connected; and the port of a listener.
    peers: [(u8, i64); SLOTS],
    /// The last port that was given.
    port: i64,
}

/// Returns the program of a seed.
pub(super) fn program(seed: u64) -> Vec<Step> {
    let rng = Rng::new(seed);
    let mut g = Generator {
        rng,
        steps: Vec::new(),
        slots: [Kind::Free; SLOTS],
        ends: [None; SLOTS],
        peers: [(0, 0); SLOTS],
        port: 0,
    };
    let count = 3 + g.below(STEPS_MAX as u64 - 2) as usize;
    if g.one_in(12) {
        g.socket();
    } else if g.one_in(30) {
        g.little_room();
    } else if g.one_in(3) {
        g.accepted();
    } else {
        g.connected();
    }
    while g.steps.len() < count {
        if g.one_in(3) || !g.follow() {
            g.any();
        }
    }
    g.steps.truncate(STEPS_MAX);
    g.steps
}

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn push(&mut self, name: &'static str, args: &[i64]) {
        self.steps.push(Step { name, args: args.to_vec() });
    }

    fn free_slot(&mut self) -> usize {
        let free = self.slots.iter().position(|kind| *kind == Kind::Free);
        free.unwrap_or_else(|| self.below(SLOTS as u64) as usize)
    }

    fn free_peer(&mut self) -> usize {
        let free = self.peers.iter().position(|(state, _)| *state == 0);
        free.unwrap_or_else(|| self.below(SLOTS as u64) as usize)
    }

    /// A slot of the kind that is asked for, most of the time and where there is one.
    fn slot(&mut self, is: fn(Kind) -> bool) -> usize {
        let fitting: Vec<_> = (0..SLOTS).filter(|slot| is(self.slots[*slot])).collect();
        if fitting.is_empty() || self.one_in(25) {
            return self.below(SLOTS as u64) as usize;
        }
        self.pick(&fitting)
    }

    fn connection(&mut self) -> usize {
        self.slot(|kind| kind == Kind::Connected)
    }

    fn any_slot(&mut self) -> usize {
        self.slot(|kind| kind != Kind::Free)
    }

    fn peer(&mut self) -> usize {
        let fitting: Vec<_> = (0..SLOTS).filter(|peer| self.peers[*peer].0 == 2).collect();
        if fitting.is_empty() { self.below(SLOTS as u64) as usize } else { self.pick(&fitting) }
    }

    fn next_port(&mut self) -> i64 {
        self.port = self.port % 6 + 1;
        self.port
    }

    fn type_and_flags(&mut self) -> i64 {
        let flags = [0, libc::SOCK_NONBLOCK, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC];
        i64::from(libc::SOCK_STREAM | self.pick(&flags))
    }

    fn socket(&mut self) -> usize {
        let slot = self.free_slot();
        let family = self.pick(&[2, 2, 10]);
        let (kind, protocol) = (self.type_and_flags(), self.pick(&[0, 0, 0, 6]));
        self.push("socket", &[slot as i64, family, kind, protocol]);
        self.slots[slot] = Kind::New(family);
        self.ends[slot] = None;
        slot
    }

    /// Joins a connection to a slot of the peer.
    fn join(&mut self, slot: usize, peer: usize) {
        self.ends.iter_mut().filter(|end| **end == Some(peer)).for_each(|end| *end = None);
        self.ends[slot] = Some(peer);
        self.peers[peer] = (2, 0);
    }

    /// The peer's address for a family.
    fn peer_address(&mut self, family: i64) -> i64 {
        if family == 2 { 0 } else { self.pick(&[4, 4, 4, 8]) }
    }

    fn listening_peer(&mut self) -> (usize, i64) {
        if let Some(peer) = self.peers.iter().position(|(state, _)| *state == 1)
            && !self.one_in(4)
        {
            return (peer, self.peers[peer].1);
        }
        let (peer, port) = (self.free_peer(), self.next_port());
        let backlog = self.pick(&[8, 8, 8, 0]);
        self.push("plisten", &[peer as i64, port, backlog, 0]);
        self.peers[peer] = (1, port);
        (peer, port)
    }

    /// A connection that connected.
    fn connected(&mut self) {
        let (listener, port) = self.listening_peer();
        let slot = self.socket();
        let Kind::New(family) = self.slots[slot] else { return };
        if self.one_in(5) {
            self.option(slot, true);
        }
        let to = self.peer_address(family);
        self.push("connect", &[slot as i64, to, port, -1]);
        self.slots[slot] = Kind::Connected;
        if !self.one_in(15) {
            let peer = self.free_peer();
            self.push("paccept", &[listener as i64, peer as i64]);
            if self.peers[peer].0 != 1 {
                self.join(slot, peer);
            }
        }
    }

    /// A connection that was accepted.
    fn accepted(&mut self) {
        let listener = match self.slots.iter().position(|kind| matches!(kind, Kind::Listening(..))) {
            Some(slot) => slot,
            None => self.listener(),
        };
        let Kind::Listening(family, port) = self.slots[listener] else { return };
        let peer = self.free_peer();
        let from = if family == 2 { 2 } else { self.pick(&[6, 6, 2]) };
        self.push("pconnect", &[peer as i64, from, port]);
        self.peers[peer] = (2, 0);
        if self.one_in(8) {
            self.push("psend", &[peer as i64, 10, 0]);
        }
        if !self.one_in(10) {
            let slot = self.free_slot();
            let (how, address) = (self.pick(&[0, 1, 1, 2, 3]), self.pick(&[0, 0, 1, 1, 1, 2]));
            self.push("accept", &[listener as i64, slot as i64, how, address]);
            self.slots[slot] = Kind::Connected;
            self.join(slot, peer);
        }
    }

    fn listener(&mut self) -> usize {
        let slot = self.socket();
        let Kind::New(family) = self.slots[slot] else { return slot };
        let port = self.next_port();
        let at = if family == 2 { self.pick(&[1, 1, 2]) } else { self.pick(&[5, 5, 6]) };
        self.push("bind", &[slot as i64, at, port, -1]);
        if self.one_in(5) {
            self.option(slot, true);
        }
        let backlog = self.pick(&[8, 8, 1, 0]);
        self.push("listen", &[slot as i64, backlog]);
        if !self.one_in(10) {
            // The stack hears of a listener at its first wait.
            self.push("poll", &[0, 1, slot as i64, 1]);
        }
        self.slots[slot] = Kind::Listening(family, port);
        slot
    }

    fn option(&mut self, slot: usize, set: bool) {
        let with_effects = set && self.one_in(3);
        let rows: Vec<_> = sock::boundary::rows()
            .filter(|row| row.number.is_some() && !LEFT_OUT.contains(&row.name))
            .filter(|row| !with_effects || WITH_EFFECTS.contains(&row.name))
            .collect();
        let mut row = self.pick(&rows);
        if !matches!(row.verdict, Verdict::Same) && !self.one_in(5) {
            row = self.pick(&rows);
        }
        self.option_of(row, slot, set);
    }

    fn option_of(&mut self, row: &Row, slot: usize, set: bool) {
        let (level, number) = (i64::from(row.manual.level()), i64::from(row.number.unwrap_or(0)));
        let pointer = if self.one_in(25) { self.pick(&[1, 2, 3, 4, 4, 6]) } else { 0 };
        if set {
            let value = match row.ask {
                // A close with this value resets.
                Ask::Bytes(_) if row.name == "SO_LINGER" && self.one_in(2) => vec![1, 0, 0, 0, 0, 0, 0, 0],
                Ask::Ints(all) | Ask::LengthAfter(all) => self.pick(all).to_ne_bytes().to_vec(),
                Ask::Bytes(all) => self.pick(all).1.to_vec(),
                Ask::Read(_) | Ask::ReadLength(_) | Ask::Part => vec![1, 0, 0, 0],
            };
            let mut words = [0_u8; 16];
            words[..value.len().min(16)].copy_from_slice(&value[..value.len().min(16)]);
            let word = |at: usize| i64::from_ne_bytes(words[at..at + 8].try_into().expect("eight bytes"));
            let len = if self.one_in(10) { self.pick(&[0, 1, 2, 3, 8, 16, -1]) } else { value.len() as i64 };
            self.push("setopt", &[slot as i64, level, number, len, word(0), word(8), pointer]);
        } else {
            let (room, shows) = match row.ask {
                Ask::Ints(_) => (4, 1),
                Ask::Bytes(_) => (32, 1),
                Ask::LengthAfter(_) | Ask::Part => (4, 0),
                Ask::Read(room) => (i64::from(room), 1),
                Ask::ReadLength(room) => (i64::from(room), 0),
            };
            let room = if self.one_in(8) { self.pick(&[0, 1, 2, 3, 5, 8, -1]) } else { room };
            self.push("getopt", &[slot as i64, level, number, room, shows, pointer]);
        }
    }

    fn flags(&mut self, all: &[i32]) -> i64 {
        let mut flags = 0;
        while self.one_in(3) {
            flags |= self.pick(all);
        }
        i64::from(flags)
    }

    fn pointer(&mut self) -> i64 {
        if self.one_in(40) { self.pick(&[1, 2, 3, 4, 5]) } else { 0 }
    }

    fn send(&mut self, slot: usize) {
        use libc::*;
        let flags = self.flags(&[
            MSG_DONTWAIT,
            MSG_DONTWAIT,
            MSG_NOSIGNAL,
            MSG_NOSIGNAL,
            MSG_MORE,
            MSG_EOR,
            MSG_CONFIRM,
            MSG_DONTROUTE,
            MSG_TRUNC,
            MSG_PEEK,
            MSG_WAITALL,
            MSG_ERRQUEUE,
        ]);
        let len = self.pick(&[1, 5, 100, 100, 777, 1448, 2000, 3000, 0]);
        let (how, pointer) = (self.pick(&[0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), self.pointer());
        let pointer = if how == 8 { 0 } else { pointer };
        self.push("send", &[slot as i64, len, flags, how, pointer]);
    }

    fn recv(&mut self, slot: usize) {
        use libc::*;
        let flags = self.flags(&[
            MSG_DONTWAIT,
            MSG_DONTWAIT,
            MSG_PEEK,
            MSG_PEEK,
            MSG_TRUNC,
            MSG_WAITALL,
            MSG_WAITALL,
            MSG_NOSIGNAL,
            MSG_ERRQUEUE,
            MSG_CMSG_CLOEXEC,
            MSG_MORE,
            MSG_OOB,
        ]);
        let len = self.pick(&[1, 3, 50, 100, 100, 1000, 4000, 0]);
        let (how, pointer) = (self.pick(&[0, 0, 0, 1, 2, 3, 4, 5, 6, 7]), self.pointer());
        self.push("recv", &[slot as i64, len, flags, how, pointer]);
    }

    fn rows(&mut self, events: &[i64]) -> Vec<i64> {
        let mut rows = Vec::new();
        for _ in 0..1 + self.below(3) {
            let slot = self.any_slot() as i64;
            rows.extend([slot, self.pick(events)]);
        }
        rows
    }

    fn wait(&mut self) -> i64 {
        self.pick(&[0, 0, 0, 0, 0, 0, 0, 2, 3, -1, -1])
    }

    fn set(&mut self) -> usize {
        if let Some(slot) = self.slots.iter().position(|kind| *kind == Kind::Set) {
            return slot;
        }
        let slot = self.free_slot();
        let flags = self.pick(&[0, 0, i64::from(libc::EPOLL_CLOEXEC), -2, -1, 5]);
        self.push("epoll", &[slot as i64, flags]);
        self.slots[slot] = Kind::Set;
        for _ in 0..1 + self.below(3) {
            self.control(slot);
        }
        slot
    }

    fn control(&mut self, set: usize) {
        use libc::*;
        let slot = self.any_slot() as i64;
        let mut events =
            self.pick(&[EPOLLIN, EPOLLIN, EPOLLIN | EPOLLOUT, EPOLLOUT, EPOLLIN | EPOLLRDHUP, 0]);
        for extra in [EPOLLET, EPOLLONESHOT, EPOLLRDHUP, EPOLLPRI] {
            if self.one_in(5) {
                events |= extra;
            }
        }
        if self.one_in(20) {
            events |= self.pick(&[EPOLLEXCLUSIVE, EPOLLHUP, EPOLLWAKEUP]);
        }
        let op = self.pick(&[1, 1, 1, 1, 3, 3, 2, 9]);
        let null = i64::from(self.one_in(30));
        self.push("ctl", &[set as i64, op, slot, i64::from(events as u32), null]);
    }

    fn wait_on(&mut self, set: usize) {
        let (max, wait) = (self.pick(&[8, 8, 8, 8, 0, -1]), self.wait());
        let (how, pointer) = (self.pick(&[0, 0, 1, 2]), self.pointer().min(4));
        self.push("wait", &[set as i64, max, wait, how, pointer]);
    }

    fn close(&mut self, slot: usize) {
        self.push("close", &[slot as i64]);
        self.slots[slot] = Kind::Free;
    }

    /// A call that shows the state of a connection.
    fn look(&mut self, slot: usize) {
        let set = self.slots.iter().position(|kind| *kind == Kind::Set);
        match (self.below(10), set) {
            (0..4, _) => self.recv(slot),
            (4 | 5, _) => {
                let (wait, events) = (self.wait(), self.pick(&[1, 1, 4, 5, 0x2001]));
                self.push("poll", &[wait, 1, slot as i64, events]);
            }
            (6 | 7, Some(set)) => self.wait_on(set),
            (8, _) => self.send(slot),
            (6 | 9, _) => {
                self.push("getopt", &[slot as i64, libc::SOL_SOCKET.into(), libc::SO_ERROR.into(), 4, 1, 0]);
            }
            _ => self.push("ioctl", &[slot as i64, libc::FIONREAD as i64, 0, 0]),
        }
    }

    /// An act that ends a call which sleeps on this connection, most of the time.
    fn wake(&mut self, slot: usize) {
        let Some(peer) = self.ends[slot] else { return self.any() };
        let peer = peer as i64;
        match self.below(8) {
            0..4 => {
                let len = self.pick(&[1, 1, 3, 100, 1448]);
                self.push("psend", &[peer, len, 0]);
            }
            4 => self.push("pshut", &[peer, 1]),
            5 => self.push("pclose", &[peer, 1]),
            6 => self.push("shutdown", &[slot as i64, 2]),
            _ => {
                self.push("kill", &[0]);
                self.push("join", &[0]);
            }
        }
    }

    /// The effect of an option that was set, or its value.
    fn effect(&mut self, slot: usize, level: i64, number: i64) {
        let is =
            |row: &&Row| (i64::from(row.manual.level()), row.number.map(i64::from)) == (level, Some(number));
        let Some(row) = sock::boundary::rows().find(is) else { return self.any() };
        match (row.name, self.ends[slot]) {
            ("SO_LINGER", Some(peer)) => {
                self.close(slot);
                self.push("precv", &[peer as i64]);
            }
            ("SO_RCVLOWAT", Some(peer)) => {
                let len = self.pick(&[1, 3, 5]);
                self.push("psend", &[peer as i64, len, 0]);
                self.look(slot);
            }
            ("TCP_CORK" | "TCP_NODELAY", Some(peer)) => {
                self.send(slot);
                self.push("precv", &[peer as i64]);
            }
            _ => self.option_of(row, slot, false),
        }
    }

    /// Draws a call that the last one made possible, or that tells what it did. False if there is none.
    fn follow(&mut self) -> bool {
        let Some(last) = self.steps.last().cloned() else { return false };
        let (first, second) = (last.arg(0).max(0) as usize % SLOTS, last.arg(1).max(0) as usize % SLOTS);
        let end = self.ends[first].map(|peer| peer as i64);
        match (last.name, self.below(4), end) {
            ("psend" | "pshut" | "pclose", ..) => {
                let is =
                    |slot: &usize| self.ends[*slot] == Some(first) && self.slots[*slot] == Kind::Connected;
                let joined: Vec<_> = (0..SLOTS).filter(is).collect();
                if joined.is_empty() {
                    return false;
                }
                let slot = self.pick(&joined);
                self.look(slot);
            }
            ("send" | "shutdown" | "close", 0 | 1, Some(peer)) => self.push("precv", &[peer]),
            ("close", 2, Some(peer)) => self.push("psend", &[peer, 100, 0]),
            ("send", 2, _) => self.push("ioctl", &[first as i64, libc::TIOCOUTQ as i64, 0, 0]),
            ("send" | "shutdown", 3, _) => self.send(first),
            ("shutdown", ..) => self.look(first),
            ("recv", 0, _) => self.recv(first),
            ("recv", 1 | 2, _) => self.wake(first),
            ("recv" | "poll" | "select", 3, _) if last.name == "recv" || last.arg(1) > 0 => {
                let slot = if last.name == "recv" { first } else { last.arg(2) as usize };
                self.look(slot);
            }
            ("poll" | "select", ..) if last.arg(0) < 0 && last.arg(1) > 0 => self.wake(last.arg(2) as usize),
            ("wait", ..) if last.arg(2) < 0 => {
                let slot = self.connection();
                self.wake(slot);
            }
            ("wait" | "poll" | "select", 0 | 1, _) => self.push(last.name, &last.args),
            ("ctl", 0 | 1, _) => self.wait_on(first),
            ("ctl", 2, _) => self.wake(last.arg(2) as usize),
            ("ctl", ..) => self.control(first),
            ("setopt", ..) => self.effect(first, last.arg(1), last.arg(2)),
            ("dup", 0..3, _) => {
                let (one, other) = if self.one_in(2) { (first, second) } else { (second, first) };
                self.close(one);
                match (self.below(3), end) {
                    (0, Some(peer)) => {
                        self.close(other);
                        self.push("precv", &[peer]);
                    }
                    (1, _) => self.send(other),
                    _ => self.look(other),
                }
            }
            ("accept", 0 | 1, _) => self.push("fcntl", &[second as i64, libc::F_GETFL.into(), 0]),
            ("accept", ..) => self.look(second),
            ("connect" | "fcntl" | "ioctl", 0 | 1, _) => self.look(first),
            ("connect", 2, _) => self.push("connect", &last.args),
            ("fcntl" | "ioctl", 2, _) => self.push("fcntl", &[first as i64, libc::F_GETFL.into(), 0]),
            _ => return false,
        }
        true
    }

    fn any(&mut self) {
        let peer = self.peer() as i64;
        match self.below(100) {
            0..14 => {
                let len = self.pick(&[1, 3, 100, 100, 500, 1448, 3000]);
                self.push("psend", &[peer, len, 0]);
            }
            14..28 => {
                let slot = if self.one_in(6) { self.any_slot() } else { self.connection() };
                self.recv(slot);
            }
            28..39 => {
                let slot = if self.one_in(6) { self.any_slot() } else { self.connection() };
                self.send(slot);
            }
            39..43 => self.push("precv", &[peer]),
            43..48 => {
                let mut args = vec![self.wait(), 0];
                let rows = self.rows(&[1, 1, 4, 5, 0x2001, 2, 0, 0x41]);
                args[1] = rows.len() as i64 / 2;
                args.extend(rows);
                self.push("poll", &args);
            }
            48..51 => {
                let mut args = vec![self.wait(), 0];
                let rows = self.rows(&[1, 1, 2, 3, 4, 7]);
                args[1] = rows.len() as i64 / 2;
                args.extend(rows);
                self.push("select", &args);
            }
            51..54 => {
                let set = self.set();
                self.control(set);
            }
            54..61 => {
                let set = self.set();
                self.wait_on(set);
            }
            61..63 => {
                let (set, max) = (self.set() as i64, self.pick(&[1, 1, 2, 3]));
                self.push("union", &[set, max]);
            }
            63..72 => {
                let (slot, set) = (self.any_slot(), self.one_in(2));
                self.option(slot, set);
            }
            72..74 => {
                let (slot, how) = (self.connection() as i64, self.pick(&[0, 1, 1, 2, 3]));
                self.push("shutdown", &[slot, how]);
            }
            74..76 => {
                let slot = self.any_slot();
                self.close(slot);
            }
            76..78 => {
                let (from, to) = (self.any_slot(), self.free_slot());
                let how = self.below(5) as i64;
                self.push("dup", &[from as i64, to as i64, how]);
                self.slots[to] = self.slots[from];
                self.ends[to] = self.ends[from];
            }
            78..80 => {
                let (slot, which) = (self.any_slot() as i64, self.below(2) as i64);
                let how = if self.one_in(5) { 1 + self.below(6) as i64 } else { 0 };
                self.push("name", &[slot, which, how]);
            }
            80..82 => {
                use libc::*;
                let requests = [FIONREAD, FIONREAD, TIOCOUTQ, FIONBIO, FIOASYNC, 0x8905, 0x894b, 0x1234];
                let (slot, value) = (self.any_slot() as i64, self.below(2) as i64);
                let request = self.pick(&requests) as i64;
                let pointer = if self.one_in(25) { self.pick(&[1, 2, 3, 4]) } else { 0 };
                self.push("ioctl", &[slot, request, value, pointer]);
            }
            82..84 => {
                use libc::*;
                let (command, value) = self.pick(&[
                    (F_GETFL, 0),
                    (F_GETFD, 0),
                    (F_SETFL, 0),
                    (F_SETFL, O_NONBLOCK),
                    (F_SETFL, O_NONBLOCK | O_APPEND),
                    (F_SETFD, 1),
                    (F_SETFD, 0),
                    (77, 0),
                    (F_GETOWN, 0),
                ]);
                let slot = self.any_slot() as i64;
                self.push("fcntl", &[slot, i64::from(command), i64::from(value)]);
            }
            84..86 => {
                let how = self.pick(&[1, 1, 1, 2, 0]);
                self.push("pshut", &[peer, how]);
            }
            86..88 => {
                let with_reset = self.pick(&[1, 1, 0]);
                self.push("pclose", &[peer, with_reset]);
                self.peers[peer as usize] = (0, 0);
            }
            88 => match self.below(3) {
                0 => {
                    let slot = self.connection() as i64;
                    self.push("stuff", &[slot]);
                    for peer in 0..SLOTS {
                        if self.peers[peer].0 == 2 {
                            self.push("precv", &[peer as i64]);
                        }
                    }
                }
                1 => {
                    // How much fits, and how soon there is room again, is each stack's own.
                    self.push("pstuff", &[peer]);
                    for slot in 0..SLOTS {
                        if self.slots[slot] == Kind::Connected {
                            self.push("drain", &[slot as i64]);
                        }
                    }
                }
                _ => {
                    let slot = self.connection() as i64;
                    self.push("drain", &[slot]);
                }
            },
            89..91 => {
                // A call that sleeps, a signal, and how it ended.
                let slot = self.connection();
                if self.one_in(2) {
                    self.push("fcntl", &[slot as i64, i64::from(libc::F_SETFL), 0]);
                    self.recv(slot);
                }
                self.push("kill", &[0]);
                self.push("join", &[0]);
            }
            91 => self.push("join", &[0]),
            92 => {
                let on = self.below(2) as i64;
                self.push("restart", &[on]);
            }
            93 => self.connected(),
            94 => self.accepted(),
            95..97 => self.odd(),
            97..99 => self.of_the_kernel(),
            _ => self.child(),
        }
    }

    /// Calls with addresses, states and lengths that do not fit.
    fn odd(&mut self) {
        let slot = if self.one_in(2) { self.socket() } else { self.any_slot() } as i64;
        let cut = if self.one_in(4) { self.below(10) as i64 } else { -1 };
        let address = self.below(16) as i64;
        let port = self.pick(&[7, 7, -1, 1, 2, 3]);
        match self.below(6) {
            0 => self.push("bind", &[slot, address, port, cut]),
            1 => self.push("listen", &[slot, 4]),
            2 => {
                let to = self.free_slot() as i64;
                let (how, room) = (self.pick(&[0, 1, 4]), self.below(6) as i64);
                self.push("accept", &[slot, to, how, room]);
            }
            3 => {
                // Refused, and once more where one listens.
                let (_, open) = self.listening_peer();
                self.push("connect", &[slot, 0, 7, -1]);
                self.push("connect", &[slot, 0, open, -1]);
                self.push("connect", &[slot, 0, open, -1]);
            }
            4 => {
                let (family, kind) = (self.pick(&[2, 10, 1, 99]), self.pick(&[1, 2, 5, 77]));
                let protocol = self.pick(&[0, 6, 17, 262]);
                self.push("socket", &[slot, family, kind | i64::from(libc::SOCK_NONBLOCK), protocol]);
                self.slots[slot as usize] = Kind::New(family);
            }
            _ => self.push("connect", &[slot, address, port, cut]),
        }
    }

    fn of_the_kernel(&mut self) {
        let one = self.free_slot();
        self.slots[one] = Kind::Kernel;
        let nonblocking = i64::from(libc::O_NONBLOCK);
        match self.below(3) {
            0 => {
                let value = self.below(2) as i64;
                self.push("eventfd", &[one as i64, value, nonblocking]);
            }
            which => {
                let two = self.free_slot();
                self.slots[two] = Kind::Kernel;
                let (one, two) = (one as i64, two as i64);
                if which == 1 {
                    self.push("pipe", &[one, two, nonblocking]);
                } else {
                    self.push("pair", &[one, two, i64::from(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)]);
                }
                self.push("send", &[two, 5, 0, 1, 0]);
            }
        }
        if let Some(set) = self.slots.iter().position(|kind| *kind == Kind::Set) {
            self.push("ctl", &[set as i64, 1, one as i64, 1, 0]);
        }
    }

    /// Connections and one of the kernel's descriptors that are all ready, and waits with little room.
    fn little_room(&mut self) {
        let count = 1 + self.below(3) as usize;
        for _ in 0..count {
            self.connected();
        }
        for peer in 0..SLOTS {
            if self.peers[peer].0 == 2 {
                self.push("psend", &[peer as i64, 10, 0]);
            }
        }
        let event = self.free_slot();
        self.push("eventfd", &[event as i64, 1, 0]);
        self.slots[event] = Kind::Kernel;
        let set = self.free_slot();
        self.push("epoll", &[set as i64, 0]);
        self.slots[set] = Kind::Set;
        for slot in 0..SLOTS {
            if matches!(self.slots[slot], Kind::Connected | Kind::Kernel) {
                self.push("ctl", &[set as i64, 1, slot as i64, 1, 0]);
            }
        }
        let room = 1 + self.below(count as u64) as i64;
        self.push("union", &[set as i64, room]);
    }

    /// A child that uses a connection once or twice; the parent lets it go.
    fn child(&mut self) {
        let how = if self.one_in(8) { self.pick(&[1, 2, 3]) } else { 0 };
        let slot = self.connection() as i64;
        let count = 1 + self.below(2) as i64;
        self.push("child", &[how, count]);
        for _ in 0..count {
            match self.below(3) {
                0 => self.push("recv", &[slot, 50, i64::from(libc::MSG_DONTWAIT), 0, 0]),
                1 => self.push("send", &[slot, 20, i64::from(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL), 0, 0]),
                _ => self.push("name", &[slot, 1, 0]),
            }
        }
        self.close(slot as usize);
    }
}

#[cfg(test)]
mod tests;
