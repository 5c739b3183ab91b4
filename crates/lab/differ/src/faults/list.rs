//! The faults, as edits of the source.

use crate::reasons::{CALLS, Kind};

/// A fault: an edit of a file.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Short name.
    pub name: &'static str,
    /// Kind of input that is to find it.
    pub kind: Kind,
    /// The file, from the root of the tree.
    pub file: &'static str,
    /// Text that occurs once in the file.
    pub old: &'static str,
    /// Text in its place.
    pub new: &'static str,
}

impl Fault {
    /// Returns the file's text with the fault.
    ///
    /// # Errors
    /// The old text does not occur exactly once.
    pub fn planted(&self, text: &str) -> Result<String, String> {
        match text.matches(self.old).count() {
            1 => Ok(text.replace(self.old, self.new)),
            n => Err(format!("{}: {n} times `{}`; adapt faults/list.rs", self.file, self.old)),
        }
    }
}

const fn calls(name: &'static str, file: &'static str, old: &'static str, new: &'static str) -> Fault {
    Fault { name, kind: CALLS, file, old, new }
}

const fn packets(name: &'static str, file: &'static str, old: &'static str, new: &'static str) -> Fault {
    Fault { name, kind: Kind::Packets, file, old, new }
}

/// All faults.
pub const FAULTS: &[Fault] = &[
    calls(
        "lost wake-up: a single byte",
        "crates/core/tcp/src/input/data.rs",
        "if taken > 0 && self.is_worth_reading() {",
        "if taken > 1 && self.is_worth_reading() {",
    ),
    calls(
        "event told twice: EPOLLET",
        "crates/host/sock/src/engine/epoll.rs",
        "} else if !interest.any(Ready::EDGE) {",
        "} else {",
    ),
    calls(
        "event told twice: EPOLLONESHOT",
        "crates/host/sock/src/engine/epoll.rs",
        "self.watches.disarm(index);",
        "self.watches.requeue(index);",
    ),
    calls(
        "error changed: reset",
        "crates/core/tcp/src/input/reset.rs",
        "_ => self.fail(cx, Error::Reset),",
        "_ => self.fail(cx, Error::TimedOut),",
    ),
    calls(
        "flag ignored: MSG_PEEK",
        "crates/apps/capi/src/calls/data.rs",
        "peek: flags & libc::MSG_PEEK != 0,",
        "peek: false,",
    ),
    calls(
        "flag ignored: MSG_WAITALL",
        "crates/apps/capi/src/calls/data.rs",
        "wait_all: flags & libc::MSG_WAITALL != 0,",
        "wait_all: false,",
    ),
    calls(
        "flag ignored: MSG_TRUNC",
        "crates/apps/capi/src/calls/data.rs",
        "discard: flags & libc::MSG_TRUNC != 0,",
        "discard: false,",
    ),
    calls(
        "flag ignored: SOCK_NONBLOCK of accept4",
        "crates/apps/preload/src/accept.rs",
        "        stack.runner.set_nonblocking(below, true)?;\n        connection.set_nonblocking(true);",
        "        connection.set_nonblocking(false);",
    ),
    calls(
        "reference count leaked: dup",
        "crates/apps/preload/src/description.rs",
        "    pub(crate) fn retain(&self) {\n        self.users.fetch_add(1, Ordering::Relaxed);",
        "    pub(crate) fn retain(&self) {\n        self.users.fetch_add(2, Ordering::Relaxed);",
    ),
    calls(
        "signal lost: SIGPIPE",
        "crates/apps/preload/src/data.rs",
        "outside(|| unsafe { libc::raise(libc::SIGPIPE) });",
        "",
    ),
    calls(
        "option ignored: SO_RCVLOWAT",
        "crates/host/sock/src/engine.rs",
        "core.readable(conn) >= core.options(conn).rcv_lowat.max(1)",
        "core.readable(conn) > 0",
    ),
    calls(
        "option ignored: SO_LINGER",
        "crates/core/tcp/src/options.rs",
        "        self.linger_ms == 0\n",
        "        self.linger_ms == 1\n",
    ),
    packets(
        "off by one: the window's right edge",
        "crates/core/tcp/src/input/data.rs",
        "let room = self.rcv.edge().distance_from(start).max(0) as usize;",
        "let room = (self.rcv.edge().distance_from(start).max(0) + 1) as usize;",
    ),
    packets(
        "off by one: an acknowledgment of what was not sent",
        "crates/core/tcp/src/input/ack.rs",
        "if seg.ack.after(self.snd.nxt()) || i64",
        "if seg.ack.after(self.snd.nxt() + 1) || i64",
    ),
    packets(
        "ACK not sent: FIN",
        "crates/core/tcp/src/input/data.rs",
        "        self.rcv.take_fin();\n        self.request(Due::ACK);",
        "        self.rcv.take_fin();",
    ),
    packets(
        "ACK not sent: data out of order",
        "crates/core/tcp/src/input/data.rs",
        "        self.request(Due::ACK);\n        self.rcv.set_quick(cx.config.quick_acks);",
        "        self.rcv.set_quick(cx.config.quick_acks);",
    ),
    packets(
        "ACK not sent: challenge of a SYN",
        "crates/core/tcp/src/input/sequence.rs",
        "        self.challenge(cx, Cause::Syn);\n",
        "",
    ),
    packets(
        "check left out: the number of a RST",
        "crates/core/tcp/src/input/reset.rs",
        "if seg.seq != self.rcv.nxt() && !cx.config.quirks.insecure_rst {",
        "if seg.seq.before(self.rcv.nxt()) && !cx.config.quirks.insecure_rst {",
    ),
    packets(
        "check left out: PAWS",
        "crates/core/tcp/src/input/sequence.rs",
        "if ts_before(ts.val, self.rcv.ts_recent()) && silent",
        "if ts_before(ts.val, self.rcv.ts_recent()) && silent == u32::MAX && silent",
    ),
    packets(
        "backoff left out",
        "crates/core/tcp/src/timers/rtt.rs",
        "rto.saturating_mul(1 << n.min(30))",
        "rto.saturating_mul(1 << n.min(0))",
    ),
];
