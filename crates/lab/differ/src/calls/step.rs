//! Steps of a program, as lines for the interpreter and as C.

use std::fmt::Write as _;

/// The part of a program in C that all share.
pub(super) const RUNTIME: &str = include_str!("runtime.c");
/// Most steps in one program: the interpreter has room for 64.
pub(super) const STEPS_MAX: usize = 40;

/// A call of the program, or an act of its peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The name in runtime.c's table.
    pub(super) name: &'static str,
    /// Arguments, each as that table's function reads it.
    pub(super) args: Vec<i64>,
}

/// Names of the ways to make a call, by runtime.c's numbers.
const SENDS: [&str; 10] = [
    "send",
    "write",
    "writev",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "sendmsg with control",
    "writev of odd counts",
    "sendfile",
    "sendmsg of nothing",
];
const RECVS: [&str; 8] =
    ["recv", "read", "readv", "recvfrom", "recvmsg", "recvmmsg", "recvmsg of nothing", "readv of odd counts"];
const ADDRESSES: [&str; 16] = [
    "the peer",
    "any",
    "the own address",
    "the loopback",
    "the peer, IPv6",
    "any, IPv6",
    "the own address, IPv6",
    "the loopback, IPv6",
    "the peer, mapped",
    "any, mapped",
    "the own address, mapped",
    "the loopback, mapped",
    "AF_UNSPEC",
    "AF_UNIX",
    "NULL",
    "unmapped memory",
];
const POINTERS: [&str; 7] =
    ["", ", NULL", ", in the first page", ", not canonical", ", unmapped", ", over the edge", ", no length"];
const MSG: [(&str, i32); 12] = [
    ("MSG_OOB", libc::MSG_OOB),
    ("MSG_PEEK", libc::MSG_PEEK),
    ("MSG_DONTROUTE", libc::MSG_DONTROUTE),
    ("MSG_TRUNC", libc::MSG_TRUNC),
    ("MSG_DONTWAIT", libc::MSG_DONTWAIT),
    ("MSG_EOR", libc::MSG_EOR),
    ("MSG_WAITALL", libc::MSG_WAITALL),
    ("MSG_CONFIRM", libc::MSG_CONFIRM),
    ("MSG_ERRQUEUE", libc::MSG_ERRQUEUE),
    ("MSG_NOSIGNAL", libc::MSG_NOSIGNAL),
    ("MSG_MORE", libc::MSG_MORE),
    ("MSG_CMSG_CLOEXEC", libc::MSG_CMSG_CLOEXEC),
];

fn flags(value: i64) -> String {
    let (mut text, mut left) = (String::new(), value);
    for (name, bit) in MSG {
        if left & i64::from(bit) != 0 {
            left &= !i64::from(bit);
            let _ = write!(text, " {name}");
        }
    }
    if left != 0 {
        let _ = write!(text, " {left:#x}");
    }
    text
}

fn name_of<'a>(names: &[&'a str], at: i64) -> &'a str {
    usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or("?")
}

impl Step {
    /// Returns an argument; 0 where there is none.
    pub(super) fn arg(&self, at: usize) -> i64 {
        self.args.get(at).copied().unwrap_or(0)
    }

    /// Returns the line that the interpreter reads.
    pub(super) fn line(&self) -> String {
        let mut text = self.name.to_owned();
        for arg in &self.args {
            let _ = write!(text, " {arg}");
        }
        text + "\n"
    }

    /// Returns the call and its kind, without descriptors and amounts: differences of one cause have one such name.
    pub(super) fn kind(&self) -> String {
        let arg = |at| self.arg(at);
        let length = |at| match arg(at) {
            -1 => String::new(),
            _ => ", of an odd length".to_owned(),
        };
        match self.name {
            "send" => format!("{}{}{}", name_of(&SENDS, arg(3)), flags(arg(2)), name_of(&POINTERS, arg(4))),
            "recv" => {
                let empty = if arg(1) == 0 { ", of length 0" } else { "" };
                format!("{}{}{}{empty}", name_of(&RECVS, arg(3)), flags(arg(2)), name_of(&POINTERS, arg(4)))
            }
            "connect" | "bind" => format!("{} to {}{}", self.name, name_of(&ADDRESSES, arg(1)), length(3)),
            "getopt" | "setopt" => {
                let (level, number) = (arg(1) as i32, arg(2) as i32);
                let name = sock::boundary::name_of(level, number)
                    .map_or_else(|| format!("{level}:{number}"), str::to_owned);
                let pointer = name_of(&POINTERS, arg(if self.name == "getopt" { 5 } else { 6 }));
                format!("{}sockopt {name}{pointer}", &self.name[..3])
            }
            "name" => {
                let how = if arg(2) == 0 { "" } else { ", odd" };
                format!("{}{how}", if arg(1) == 0 { "getsockname" } else { "getpeername" })
            }
            "accept" => format!("accept{}", if arg(3) > 1 { ", odd" } else { "" }),
            "ioctl" => format!("ioctl {:#x}{}", arg(1), name_of(&POINTERS, arg(3))),
            "fcntl" => format!("fcntl {}", arg(1)),
            "wait" => format!("epoll_wait{}", name_of(&POINTERS, arg(4))),
            "union" => "epoll_wait, little room".to_owned(),
            "ctl" => format!("epoll_ctl {}", arg(1)),
            "child" => format!("child {}", arg(0)),
            other => other.to_owned(),
        }
    }

    /// Returns plainer forms of the step: a flag less, the usual pointer, the usual way.
    pub(super) fn plainer(&self) -> Vec<Step> {
        let mut all = Vec::new();
        let mut with = |at: usize, value: i64| {
            if self.args.get(at).is_some_and(|old| *old != value) {
                let mut step = self.clone();
                step.args[at] = value;
                all.push(step);
            }
        };
        if matches!(self.name, "send" | "recv") {
            with(4, 0);
            with(3, 0);
            for bit in 0..32 {
                with(2, self.arg(2) & !(1 << bit));
            }
            with(1, 100);
        }
        if self.name == "wait" {
            with(3, 0);
        }
        if self.name == "child" {
            with(0, 0);
        }
        if self.name == "socket" {
            with(3, 0);
        }
        all
    }

    /// Returns the row of the table of a program in C.
    fn row(&self) -> String {
        let args: Vec<_> = self.args.iter().map(i64::to_string).collect();
        format!("    {{ \"{}\", {{ {} }} }}, /* {} */\n", self.name, args.join(", "), self.kind())
    }
}

/// Returns a program that compiles and runs by itself and does these steps.
pub(super) fn program(steps: &[Step], head: &str) -> String {
    let rows: String = steps.iter().map(Step::row).collect();
    let runtime = RUNTIME;
    format!(
        "/*\n{head} */\n{runtime}\nstatic const struct step PROGRAM[] = {{\n{rows}}};\n\nint main(int argc, \
         char **argv)\n{{\n    begin(argc, argv);\n    run_program(PROGRAM, {});\n    fflush(stdout);\n    \
         RAW(exit_group, 0);\n}}\n",
        steps.len()
    )
}
