//! Circumstances of a difference that a row may ask for. They come from the steps and from what the kernel answered.
//! They hold for the steps that act on the connection in question, at either end, or wait for it.

use super::compare::step_of;
use super::step::Step;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of an open file: descriptors that dup made share it.
type File = usize;

/// Files that the steps made and used.
#[derive(Default)]
struct Walk {
    made: File,
    /// Files of the program by slot.
    slots: BTreeMap<i64, File>,
    /// The connection at whose other end a slot of the peer is.
    peers: BTreeMap<i64, File>,
    /// Ports of the program's sockets, and of the peer's listeners by slot.
    ports: BTreeMap<File, i64>,
    peer_ports: BTreeMap<i64, i64>,
    /// Connections that are not accepted yet, by port: of the program, and of the peer.
    outgoing: BTreeMap<i64, VecDeque<File>>,
    incoming: BTreeMap<i64, VecDeque<File>>,
    /// Files of accept calls that sleep, by port.
    accepting: BTreeMap<i64, VecDeque<File>>,
    /// Files that an epoll set watches, sets that were waited for since they changed, and pipes and the like.
    watched: BTreeMap<File, BTreeSet<File>>,
    looked: BTreeSet<File>,
    plain: BTreeSet<File>,
    /// The files that each step acts on.
    of_step: Vec<BTreeSet<File>>,
    /// Files that a child used.
    relayed: BTreeSet<File>,
    /// Files that were closed while a call on them slept.
    let_go: BTreeSet<File>,
    /// Files of which several calls that take something slept at once: reads of a socket, or waits for a set.
    shared: BTreeSet<File>,
    /// Sockets of Multipath TCP.
    multipath: BTreeSet<File>,
    /// Connections, whatever became of them, and those that an end has closed or shut.
    joined: BTreeSet<File>,
    ended: BTreeSet<File>,
    /// Connections of which the peer has closed or shut its receiving side, and those with unread data of the peer's.
    hung_up: BTreeSet<File>,
    unread: BTreeMap<File, i64>,
    /// Connections of which MSG_MORE holds data back, and those where something came from the peer while it did.
    held: BTreeSet<File>,
    heard: BTreeSet<File>,
    /// Sockets that asked for timestamps when data had come already.
    late_stamps: BTreeSet<File>,
    /// Files that one call read while another one, which peeks, slept.
    raced: BTreeSet<File>,
    /// Files for which a wait and a call that takes something slept at once, and those for which a connect and another
    /// one, a read or a wait did.
    beside: BTreeSet<File>,
    connecting: BTreeSet<File>,
    /// Connections whose receiving side is shut, those that the peer has filled, and both.
    read_shut: BTreeSet<File>,
    filled: BTreeSet<File>,
    stalled: BTreeSet<File>,
    /// Of those that the peer has filled, the ones of which the program has not read a segment at once since.
    full: BTreeSet<File>,
    /// Connections that the program has filled.
    stuffed: BTreeSet<File>,
    /// Sockets that have connected to a mapped address, and those of them that connect to an IPv6 one afterwards.
    mapped: BTreeSet<File>,
    unmapped: BTreeSet<File>,
    /// Sockets of which an option with _NEW has changed whether there are timestamps.
    stamped_anew: BTreeSet<File>,
    /// Sockets with a low-water mark of their own, and those where a read slept while they had one.
    marked: BTreeSet<File>,
    short: BTreeSet<File>,
    /// Sockets with TCP_CORK.
    corked: BTreeSet<File>,
    /// Sockets of which TCP_INQ was set while a read slept.
    counted: BTreeSet<File>,
    /// Ports at which the program has accepted connections, and sockets with SO_REUSEADDR.
    accepted: BTreeSet<i64>,
    reusing: BTreeSet<File>,
    /// Sockets that connect over the loopback to a listener in whose queue is a connection of the link.
    beside_queue: BTreeSet<File>,
    /// Sockets that connect over the loopback and are not accepted yet, by port; listeners with such and with
    /// connections of the link at once, and those connections.
    looped: BTreeMap<i64, VecDeque<File>>,
    two_queues: BTreeSet<File>,
    unordered: BTreeSet<File>,
    /// Sockets with TCP_NOTSENT_LOWAT, and those that have connected to AF_UNSPEC.
    limited: BTreeSet<File>,
    apart: BTreeSet<File>,
    /// Sockets that recvmmsg has read with bad pointers.
    faulty: BTreeSet<File>,
    /// Sockets with IPV6_RTHDRDSTOPTS, and ports to which such ones connect.
    cut_off: BTreeSet<File>,
    cut_off_ports: BTreeSet<i64>,
}

/// A call that slept, and the step that woke it.
struct Sleeper {
    step: usize,
    until: usize,
}

fn sleepers(lines: &[String]) -> Vec<Sleeper> {
    let mut all: Vec<Sleeper> = Vec::new();
    let mut last = 0;
    for line in lines {
        let Some(step) = step_of(line) else { continue };
        if line.ends_with(": asleep") {
            all.push(Sleeper { step, until: usize::MAX });
        } else if line.contains(" woke:") {
            all.iter_mut().filter(|sleeper| sleeper.step == step).for_each(|sleeper| sleeper.until = last);
            continue;
        }
        last = last.max(step);
    }
    all
}

impl Walk {
    fn new_file(&mut self, slot: i64) -> File {
        self.made += 1;
        self.slots.insert(slot, self.made);
        self.made
    }

    /// Bytes from the peer that no call has asked for yet.
    fn unread(&self, file: File) -> i64 {
        self.unread.get(&file).copied().unwrap_or(0)
    }

    /// Takes note of the family of a connect that sends something.
    fn take_family(&mut self, step: &Step) {
        let Some(file) = self.slots.get(&step.arg(0)).copied() else { return };
        match step.arg(1) {
            8..12 => _ = self.mapped.insert(file),
            4..8 if self.mapped.contains(&file) => _ = self.unmapped.insert(file),
            _ => {}
        }
    }

    /// Returns true if the step is about a connection whose packets are lost for IPV6_RTHDRDSTOPTS.
    fn is_cut_off(&self, at: usize, step: &Step) -> bool {
        let port = match step.name {
            "paccept" => self.peer_ports.get(&step.arg(0)).copied(),
            "pconnect" => Some(step.arg(2)),
            _ => return self.of_step.get(at).is_some_and(|of| !of.is_disjoint(&self.cut_off)),
        };
        let listens = |file: &File| self.ports.get(file).copied() == port;
        port.is_some_and(|port| self.cut_off_ports.contains(&port) || self.cut_off.iter().any(listens))
    }

    /// Returns true if a step waits, not for the first time, for a set of connections and of pipes or the like.
    fn waits_for_both(&self, step: &Step) -> bool {
        let set = self.slots.get(&step.arg(0)).filter(|set| step.name == "wait" && self.looked.contains(set));
        set.and_then(|set| self.watched.get(set))
            .is_some_and(|files| !files.is_disjoint(&self.joined) && !files.is_disjoint(&self.plain))
    }

    /// Returns true if a listener at the port was closed while a call on it slept.
    fn was_let_go(&self, port: i64) -> bool {
        self.let_go.iter().any(|file| self.ports.get(file) == Some(&port))
    }

    /// The files that a step acts on, before it.
    fn files_of(&self, step: &Step) -> BTreeSet<File> {
        let slot = |at: usize| self.slots.get(&step.arg(at)).copied();
        let with_watched = |file: File| self.watched.get(&file).into_iter().flatten().copied().chain([file]);
        let peer = || self.peers.get(&step.arg(0)).copied().into_iter().collect();
        match step.name {
            "psend" | "pstuff" | "precv" | "pshut" | "pclose" => peer(),
            "plisten" | "paccept" | "pconnect" | "kill" | "restart" | "join" | "child" => BTreeSet::new(),
            "poll" | "select" => {
                (0..step.arg(1) as usize).filter_map(|row| slot(2 + 2 * row)).flat_map(with_watched).collect()
            }
            "ctl" => [slot(0), slot(2)].into_iter().flatten().collect(),
            "wait" | "union" => slot(0).into_iter().flat_map(with_watched).collect(),
            _ => slot(0).into_iter().collect(),
        }
    }

    /// Takes note of a step that did not fail.
    fn take(&mut self, step: &Step) {
        let (first, second) = (step.arg(0), step.arg(1));
        match step.name {
            "socket" => {
                let file = self.new_file(first);
                if step.arg(3) == i64::from(libc::IPPROTO_MPTCP) {
                    self.multipath.insert(file);
                }
            }
            "epoll" => {
                let set = self.new_file(first);
                self.watched.entry(set).or_default();
            }
            "eventfd" => {
                let file = self.new_file(first);
                self.plain.insert(file);
            }
            // Nothing lets nothing go; a file is sent without its first byte.
            "send" if second <= i64::from(step.arg(3) == 8) || step.arg(3) == 9 => {}
            "send" => {
                if let Some(file) = self.slots.get(&first) {
                    match step.kind().contains("MSG_MORE") && !matches!(step.arg(3), 1 | 2 | 7 | 8) {
                        true => self.held.insert(*file),
                        // What was there before may go along, and less behind it stays.
                        false if self.corked.contains(file) => false,
                        false => self.heard.remove(file) | self.held.remove(file),
                    };
                }
            }
            "psend" | "pshut" | "pclose" | "pstuff" => {
                let file = self.peers.get(&first).copied();
                self.heard.extend(file.filter(|file| self.held.contains(file)));
                match step.name {
                    "psend" => self.unread.extend(file.map(|file| (file, self.unread(file) + second))),
                    "pstuff" => {
                        self.unread.extend(file.map(|file| (file, i64::MAX / 2)));
                        self.filled.extend(file);
                        self.full.extend(file);
                    }
                    _ => self.ended.extend(file),
                }
                let reads_no_more = step.name == "pclose" || (step.name == "pshut" && second != 1);
                self.hung_up.extend(file.filter(|_| reads_no_more));
                // A listener resets what it has not accepted.
                if let Some(port) = self.peer_ports.get(&first).copied().filter(|_| reads_no_more) {
                    self.peer_ports.remove(&first);
                    self.ended.extend(self.outgoing.remove(&port).into_iter().flatten());
                }
            }
            "stuff" => self.stuffed.extend(self.slots.get(&first).copied()),
            "shutdown" => {
                let file = self.slots.get(&first).copied();
                self.ended.extend(file);
                self.read_shut.extend(file.filter(|_| second != 1));
            }
            "setopt" if sets_mark(step) => self.marked.extend(self.slots.get(&first).copied()),
            "setopt" if (second, step.arg(2)) == (1, libc::SO_REUSEADDR.into()) => {
                self.reusing.extend(self.slots.get(&first).copied());
            }
            "setopt" if (second, step.arg(2)) == (6, libc::TCP_CORK.into()) => {
                if let Some(file) = self.slots.get(&first) {
                    _ = match step.arg(4) as i32 {
                        0 => self.corked.remove(file),
                        _ => self.corked.insert(*file),
                    };
                }
            }
            "setopt" if (second, step.arg(2)) == (6, TCP_NOTSENT_LOWAT) => {
                if let Some(file) = self.slots.get(&first) {
                    _ = match step.arg(4) as i32 {
                        0 => self.limited.remove(file),
                        _ => self.limited.insert(*file),
                    };
                }
            }
            "setopt" if second == 1 && NEW_STAMPS.contains(&step.arg(2)) => {
                self.stamped_anew.extend(self.slots.get(&first).copied());
            }
            "setopt" if second == 1 && STAMPS.contains(&(step.arg(2) as i32)) => {
                let file = self.slots.get(&first).filter(|file| self.unread(**file) > 0);
                self.late_stamps.extend(file.copied());
            }
            "setopt" if (second, step.arg(2)) == RTHDRDSTOPTS => {
                if let Some(file) = self.slots.get(&first) {
                    _ = match step.arg(3) {
                        0 => self.cut_off.remove(file),
                        _ => self.cut_off.insert(*file),
                    };
                }
            }
            "recv" | "drain" => {
                let file = self.slots.get(&first).copied();
                self.faulty
                    .extend(file.filter(|_| step.name == "recv" && step.arg(3) == 5 && step.arg(4) != 0));
                let file = file.filter(|_| !is_peek(step));
                let all = if step.name == "drain" { i64::MAX } else { second };
                file.filter(|_| all >= SEGMENT).iter().for_each(|file| _ = self.full.remove(file));
                self.unread.extend(file.map(|file| (file, (self.unread(file) - all).max(0))));
            }
            "pipe" | "pair" => {
                let ends = [self.new_file(first), self.new_file(second)];
                self.plain.extend(ends);
            }
            "dup" => {
                if let Some(file) = self.slots.get(&first).copied() {
                    self.slots.insert(second, file);
                }
            }
            "close" => {
                self.slots.remove(&first);
            }
            "bind" => {
                if let Some(file) = self.slots.get(&first) {
                    self.ports.insert(*file, step.arg(2));
                }
            }
            "connect" if matches!(second, 0..12) && second % 4 != 0 => {
                let waits = self.incoming.get(&step.arg(2)).is_some_and(|queue| !queue.is_empty());
                let file = self.slots.get(&first).copied();
                self.beside_queue.extend(file.filter(|_| waits && second % 4 != 2));
                self.looped.entry(step.arg(2)).or_default().extend(file);
            }
            "connect" if matches!(second, 0 | 4 | 8) => {
                if let Some(file) = self.slots.get(&first) {
                    self.joined.insert(*file);
                    self.apart.remove(file);
                    if self.cut_off.contains(file) {
                        self.cut_off_ports.insert(step.arg(2));
                        return;
                    }
                    match self.peer_ports.values().any(|port| *port == step.arg(2)) {
                        true => self.outgoing.entry(step.arg(2)).or_default().push_back(*file),
                        // It is refused.
                        false => {
                            self.ended.insert(*file);
                        }
                    }
                }
            }
            "connect" if second == 12 => {
                let file = self.slots.get(&first).copied();
                self.ended.extend(file);
                self.apart.extend(file);
            }
            "plisten" => {
                self.peer_ports.insert(first, second);
            }
            "paccept" => {
                let port = self.peer_ports.get(&first);
                let queue = port.and_then(|port| self.outgoing.get_mut(port));
                if let Some(file) = queue.and_then(VecDeque::pop_front) {
                    self.peers.insert(second, file);
                }
            }
            "pconnect" => {
                let port = step.arg(2);
                match self.accepting.get_mut(&port).and_then(VecDeque::pop_front) {
                    Some(file) => {
                        self.peers.insert(first, file);
                    }
                    None => {
                        self.made += 1;
                        self.peers.insert(first, self.made);
                        self.incoming.entry(port).or_default().push_back(self.made);
                    }
                }
            }
            "accept" => {
                let port = self.slots.get(&first).and_then(|file| self.ports.get(file)).copied();
                let mut empty = VecDeque::new();
                let queue = port.and_then(|port| self.incoming.get_mut(&port)).unwrap_or(&mut empty);
                let looped = port.and_then(|port| self.looped.get_mut(&port)).filter(|all| !all.is_empty());
                match looped {
                    Some(looped) if queue.is_empty() => _ = looped.pop_front(),
                    Some(looped) => {
                        self.two_queues.extend(self.slots.get(&first));
                        self.unordered.extend(looped.iter().chain(queue.iter()));
                    }
                    None => {}
                }
                let known = queue.pop_front();
                let file = known.unwrap_or_else(|| self.new_file(second));
                // A listener's options are its connections', too.
                if self.slots.get(&first).is_some_and(|listener| self.marked.contains(listener)) {
                    self.marked.insert(file);
                }
                self.slots.insert(second, file);
                self.joined.insert(file);
                self.accepted.extend(port);
                if let (Some(port), None) = (port, known) {
                    self.accepting.entry(port).or_default().push_back(file);
                }
            }
            "ctl" => {
                if let (Some(set), Some(file)) = (self.slots.get(&first), self.slots.get(&step.arg(2))) {
                    self.watched.entry(*set).or_default().insert(*file);
                    self.looked.remove(set);
                }
            }
            "wait" | "union" => self.looked.extend(self.slots.get(&first)),
            _ => {}
        }
        self.stalled.extend(self.read_shut.intersection(&self.filled));
    }
}

/// Returns true for a step that sets SO_RCVLOWAT to more than a byte.
fn sets_mark(step: &Step) -> bool {
    let is_it = step.name == "setopt" && (step.arg(1), step.arg(2)) == (1, libc::SO_RCVLOWAT.into());
    is_it && !matches!(step.arg(4) as i32, 0 | 1)
}

/// Bytes of a segment, about: a read of less opens no window.
const SEGMENT: i64 = 1_000;
/// TCP_INQ, with its level.
const TCP_INQ: (i64, i64) = (6, 36);
/// TCP_NOTSENT_LOWAT.
const TCP_NOTSENT_LOWAT: i64 = 25;
/// IPV6_RTHDRDSTOPTS, with its level.
const RTHDRDSTOPTS: (i64, i64) = (41, 55);
/// Options of a socket that ask for timestamps.
const STAMPS: [i32; 3] = [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS, libc::SO_TIMESTAMPING];

/// SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW and SO_TIMESTAMPING_NEW.
const NEW_STAMPS: [i64; 3] = [63, 64, 65];

/// Returns true for a call that reads an option that asks for timestamps.
fn asks_stamps(step: &Step) -> bool {
    step.name == "getopt" && step.arg(1) == 1 && STAMPS.contains(&(step.arg(2) as i32))
}

/// Returns true for a call that tells what is not acknowledged or not sent.
fn asks_unsent(step: &Step) -> bool {
    step.name == "ioctl" && matches!(step.arg(1), 0x5411 | 0x894b)
}

/// Returns true for a step that takes data of the peer's, or tells whether there is some.
fn asks_data(name: &str) -> bool {
    matches!(name, "recv" | "drain" | "ioctl" | "poll" | "select" | "wait" | "union")
}

/// Returns true for a read of nothing.
fn reads_nothing(step: &Step) -> bool {
    step.name == "recv" && (step.arg(1) == 0 || step.arg(3) == 6)
}

/// Returns true for a read that leaves what it reads.
fn is_peek(step: &Step) -> bool {
    step.name == "recv" && step.arg(2) & i64::from(libc::MSG_PEEK) != 0
}

/// Walks the steps with the kernel's lines.
fn walk(steps: &[Step], lines: &[String]) -> Walk {
    let mut walk = Walk::default();
    let sleepers = sleepers(lines);
    let mut in_child = 0;
    for (at, step) in steps.iter().enumerate() {
        let files = walk.files_of(step);
        if step.name == "child" {
            in_child = step.arg(1) + 1;
        } else if in_child > 0 {
            walk.relayed.extend(&files);
        }
        in_child = (in_child - 1).max(0);
        if lines.iter().any(|line| *line == format!("{at}: all threads sleep")) {
            // It was left out.
            walk.of_step.push(files);
            continue;
        }
        let asleep = |file: &File, which: &dyn Fn(usize) -> bool| {
            sleepers.iter().any(|sleeper| {
                sleeper.step < at
                    && at <= sleeper.until
                    && which(sleeper.step)
                    && walk.of_step[sleeper.step].contains(file)
            })
        };
        // What dup2 and dup3 close is behind their second argument.
        let closed = match step.name {
            "close" => walk.slots.get(&step.arg(0)).copied(),
            "dup" if matches!(step.arg(2), 1 | 2) => walk.slots.get(&step.arg(1)).copied(),
            _ => None,
        };
        let closed = closed.filter(|file| asleep(file, &|_| true));
        // With a listener goes what it has not accepted.
        let queued = closed.and_then(|file| walk.ports.get(&file)).and_then(|port| walk.incoming.get(port));
        let let_go: Vec<File> = closed.into_iter().chain(queued.into_iter().flatten().copied()).collect();
        let takes = |at: usize| matches!(steps[at].name, "recv" | "accept");
        let waits = |at: usize| matches!(steps[at].name, "poll" | "select" | "wait");
        let sleeps = sleepers.iter().any(|sleeper| sleeper.step == at);
        let both = |file: &File, one: &dyn Fn(usize) -> bool, other: &dyn Fn(usize) -> bool| {
            sleeps && one(at) && asleep(file, other)
        };
        // Or waits of one set.
        let in_set = |at: usize| steps[at].name == "wait";
        let shares = |file: &File| {
            both(file, &takes, &takes) || walk.watched.contains_key(file) && both(file, &in_set, &in_set)
        };
        let shared: Vec<File> = files.iter().copied().filter(shares).collect();
        let either = |file: &File, one: &dyn Fn(usize) -> bool, other: &dyn Fn(usize) -> bool| {
            both(file, one, other) || both(file, other, one)
        };
        let polls = |at: usize| waits(at) && !in_set(at);
        // A wait takes the edges of its set.
        let beside = |file: &File| {
            either(file, &takes, &waits) || walk.watched.contains_key(file) && either(file, &in_set, &polls)
        };
        let beside: Vec<File> = files.iter().copied().filter(beside).collect();
        let connects = |at: usize| steps[at].name == "connect";
        let looks = |at: usize| matches!(steps[at].name, "connect" | "recv") || waits(at);
        let connecting: Vec<File> =
            files.iter().copied().filter(|file| either(file, &connects, &looks)).collect();
        let reads = matches!(step.name, "recv" | "drain") && !is_peek(step);
        let raced: Vec<File> =
            files.iter().copied().filter(|file| reads && asleep(file, &|at| is_peek(&steps[at]))).collect();
        let is_short = |file: &File| {
            reads && sleeps && walk.marked.contains(file) || sets_mark(step) && asleep(file, &takes)
        };
        let short: Vec<File> = files.iter().copied().filter(is_short).collect();
        let sets_inq = step.name == "setopt" && (step.arg(1), step.arg(2)) == TCP_INQ;
        let counted: Vec<File> =
            files.iter().copied().filter(|file| sets_inq && asleep(file, &takes)).collect();
        // A call that sleeps for data takes it.
        let taken: Vec<File> =
            files.iter().copied().filter(|file| step.name == "psend" && asleep(file, &takes)).collect();
        walk.beside.extend(beside);
        walk.connecting.extend(connecting);
        walk.raced.extend(raced);
        walk.let_go.extend(let_go);
        walk.shared.extend(shared);
        walk.short.extend(short);
        walk.counted.extend(counted);
        let answer = format!("{at}:");
        let failed = |line: &String| line.contains(" -1 ") && !line.ends_with("EINPROGRESS");
        // These go on until an error.
        let ends = matches!(step.name, "stuff" | "pstuff" | "drain");
        let connects = step.name == "connect";
        match lines.iter().find(|line| !ends && line.starts_with(&answer) && failed(line)) {
            None => {
                walk.take(step);
                if connects {
                    walk.take_family(step);
                }
            }
            Some(line) if connects && line.ends_with("ECONNREFUSED") => {
                walk.ended.extend(&files);
                walk.take_family(step);
            }
            Some(_) => {}
        }
        for file in taken {
            walk.unread.remove(&file);
        }
        walk.of_step.push(files);
    }
    walk
}

/// Returns the circumstance of the step `at`, of which the kernel had answered `before`.
pub(super) fn circumstance(steps: &[Step], at: usize, before: &[String], is_crash: bool) -> &'static str {
    // A call that slept is told when later steps are done.
    let last = before.iter().filter_map(|line| step_of(line)).max().unwrap_or(0);
    let done = &steps[..steps.len().min(at.max(last) + 1)];
    // A read keeps its pointer while it sleeps, and what it takes is missed later.
    let is_bad = |step: &Step| {
        (step.name == "recv" && step.arg(4) != 0)
            || (is_crash && (step.kind().contains("unmapped") || step.kind().contains("over the edge")))
            || (is_crash && matches!(step.name, "accept" | "name") && step.arg(step.args.len() - 1) == 5)
    };
    let otherwise = if done.iter().any(is_bad) { ", bad pointers" } else { "" };
    if is_crash {
        return otherwise;
    }
    let name = steps.get(at).map_or("", |step| step.name);
    // Before the step: a send lets go what was held back, and a wait has looked at its set.
    let earlier = || walk(&done[..at.min(done.len())], before);
    let walk = walk(done, before);
    let concerns = |files: &BTreeSet<File>| walk.of_step.get(at).is_some_and(|of| !of.is_disjoint(files));
    match () {
        () if concerns(&walk.relayed) => ", after a child",
        () if steps.get(at).is_some_and(|step| walk.is_cut_off(at, step)) => ", behind IPV6_RTHDRDSTOPTS",
        () if concerns(&walk.unmapped) => ", over IPv6 behind IPv4",
        () if concerns(&walk.beside_queue) => ", beside a queue of the link",
        () if concerns(&walk.unordered) || name == "accept" && concerns(&walk.two_queues) => {
            ", of two queues"
        }
        () if concerns(&walk.let_go)
            || name == "kill" && !walk.let_go.is_empty()
            || name == "pconnect" && walk.was_let_go(steps[at].arg(2)) =>
        {
            ", closed while a call slept"
        }
        () if concerns(&walk.shared) => ", several reads asleep",
        () if (name.ends_with("etopt") || matches!(name, "recv" | "ioctl")) && concerns(&walk.multipath) => {
            ", of Multipath TCP"
        }
        () if name == "bind" && concerns(&walk.joined) => ", once connected",
        () if name == "bind" && walk.accepted.contains(&steps[at].arg(2)) && !concerns(&walk.reusing) => {
            ", where a connection was accepted"
        }
        // What the peer has, what is not sent yet, and how the peer's close ends the connection.
        () if (concerns(&walk.heard) || name == "send" && concerns(&earlier().heard))
            && (name == "precv"
                || asks_unsent(&steps[at])
                || concerns(&walk.hung_up)
                || name == "psend" && concerns(&walk.ended)) =>
        {
            ", data held back"
        }
        () if name == "ioctl" && concerns(&walk.ended) => ", one end closed",
        () if asks_data(name) && concerns(&walk.short) => ", short of SO_RCVLOWAT",
        () if name == "recv" && concerns(&walk.late_stamps) => ", stamps asked for late",
        () if steps.get(at).is_some_and(is_peek) && concerns(&walk.raced) => ", raced by a read",
        () if matches!(name, "poll" | "select" | "wait") && concerns(&walk.beside) => {
            ", beside a read asleep"
        }
        () if steps.get(at).is_some_and(|step| earlier().waits_for_both(step)) => ", of both kinds",
        () if matches!(name, "connect" | "recv" | "poll" | "select" | "wait")
            && concerns(&walk.connecting) =>
        {
            ", beside a connect asleep"
        }
        () if concerns(&walk.stalled) => ", filled behind a shut end",
        () if name == "psend" && concerns(&walk.full) || name == "send" && concerns(&walk.stuffed) => {
            ", of a full connection"
        }
        () if steps.get(at).is_some_and(reads_nothing) && concerns(&walk.stuffed) => {
            ", from a full connection"
        }
        () if (name == "recv" || steps.get(at).is_some_and(asks_stamps)) && concerns(&walk.stamped_anew) => {
            ", behind an option with _NEW"
        }
        () if name == "recv" && concerns(&walk.counted) => ", TCP_INQ set meanwhile",
        () if matches!(name, "poll" | "select" | "wait" | "union")
            && concerns(&walk.limited.intersection(&walk.apart).copied().collect()) =>
        {
            ", apart with TCP_NOTSENT_LOWAT"
        }
        () if name == "send" && concerns(&walk.faulty) => ", behind a recvmmsg of bad pointers",
        () => otherwise,
    }
}

#[cfg(test)]
mod tests;
