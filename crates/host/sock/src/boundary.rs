//! The boundary between the kernel and the stack, as a table: options, calls, flags and requests of socket(7), tcp(7),
//! ip(7), ipv6(7) and epoll(7), each with a verdict on what an unmodified program sees of it under the launcher.
//!
//! `millstream boundary` prints the table, docs/BOUNDARY.md is what it prints, and a test of the `millstream` package
//! asks every row on the kernel and under the launcher: a verdict that is not true fails it.

mod calls;
mod options;

use std::fmt::Write as _;

/// The manual page that describes a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manual {
    /// socket(7) and the calls that it names.
    Socket,
    /// tcp(7).
    Tcp,
    /// ip(7).
    Ip,
    /// ipv6(7).
    Ipv6,
    /// epoll(7).
    Epoll,
}

impl Manual {
    /// Every page, in the order of the description.
    pub const ALL: [Manual; 5] = [Manual::Socket, Manual::Tcp, Manual::Ip, Manual::Ipv6, Manual::Epoll];

    /// Returns the page's name.
    pub fn name(self) -> &'static str {
        match self {
            Manual::Socket => "socket(7)",
            Manual::Tcp => "tcp(7)",
            Manual::Ip => "ip(7)",
            Manual::Ipv6 => "ipv6(7)",
            Manual::Epoll => "epoll(7)",
        }
    }

    /// Returns the level of the page's options; epoll has none.
    pub fn level(self) -> i32 {
        match self {
            Manual::Socket => libc::SOL_SOCKET,
            Manual::Tcp => libc::IPPROTO_TCP,
            Manual::Ip => libc::IPPROTO_IP,
            Manual::Ipv6 => libc::IPPROTO_IPV6,
            Manual::Epoll => -1,
        }
    }
}

/// A value that an option is set to: a text for people, and the bytes.
pub type Value = (&'static str, &'static [u8]);

/// The questions that the test puts about a row.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// The option is read, set to each of these numbers and read again.
    Ints(&'static [i32]),
    /// As `Ints`, for values that are no `int`.
    Bytes(&'static [Value]),
    /// As `Ints`, but of the value only the length is compared: the value depends on the machine or the moment.
    LengthAfter(&'static [i32]),
    /// The option is read into so many bytes, and set to 1.
    Read(u32),
    /// As `Read`, but of the value only the length is compared.
    ReadLength(u32),
    /// A part of the test's program, of the row's name.
    Part,
}

/// The state of a row.
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// Every answer is the kernel's.
    Same,
    /// Every answer is the kernel's, but for those to questions that begin so, in the way that the text tells.
    Differs(&'static [&'static str], &'static str),
    /// Setting it on a connection of the stack fails with this error, for this reason.
    Refused(&'static str, &'static str),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The page that describes it.
    pub manual: Manual,
    /// The name in C, or the call with its flag.
    pub name: &'static str,
    /// An option's number; `None` for everything else.
    pub number: Option<i32>,
    /// The questions.
    pub ask: Ask,
    /// The state.
    pub verdict: Verdict,
}

const fn option(manual: Manual, name: &'static str, number: i32, ask: Ask) -> Row {
    Row { manual, name, number: Some(number), ask, verdict: Verdict::Same }
}

const fn part(manual: Manual, name: &'static str) -> Row {
    Row { manual, name, number: None, ask: Ask::Part, verdict: Verdict::Same }
}

impl Row {
    const fn differs(self, at: &'static [&'static str], how: &'static str) -> Row {
        Row { verdict: Verdict::Differs(at, how), ..self }
    }

    /// Refused as an option that the stack does not know.
    const fn unknown(self, why: &'static str) -> Row {
        self.refused("ENOPROTOOPT", why)
    }

    const fn refused(self, errno: &'static str, why: &'static str) -> Row {
        Row { verdict: Verdict::Refused(errno, why), ..self }
    }

    /// Returns the row as a line of the page's table.
    fn line(&self) -> String {
        let (verdict, how) = match self.verdict {
            Verdict::Same => ("same".to_owned(), ""),
            Verdict::Differs(_, how) => ("differs".to_owned(), how),
            Verdict::Refused(errno, why) => (format!("refused, {errno}"), why),
        };
        format!("| `{}` | {verdict} | {how} |\n", self.name)
    }
}

/// Returns every row, by manual page.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    options::ROWS.iter().chain(calls::ROWS)
}

fn find(level: i32, number: i32) -> Option<&'static Row> {
    rows().find(|row| row.number == Some(number) && row.manual.level() == level)
}

/// Returns the name of an option in C, if it is in the table.
pub fn name_of(level: i32, number: i32) -> Option<&'static str> {
    find(level, number).map(|row| row.name)
}

/// Returns true for the number of an option of ip(7) that Linux sets on some socket: of others it reads no value.
pub fn is_set_of_ip(number: i32) -> bool {
    find(Manual::Ip.level(), number).is_some_and(|row| !matches!(row.ask, Ask::Read(_)))
}

const HEAD: &str = "\
# The boundary

What an unmodified program under `millstream run` sees of the calls and options of sockets, beside the kernel. This page
is printed by `millstream boundary`; `MILLSTREAM_BLESS=1 cargo test -p millstream boundary` writes it.

* **same**: every question of the test has the same answer on the kernel and under the launcher.
* **differs**: all answers are the same, but for what the row says.
* **refused**: setting it on a connection of the stack fails with the error that the row names.

The test ([boundary.rs](../crates/apps/cli/tests/boundary.rs)) asks each row twice over a veth link, with the kernel of
another namespace at the other end. An option is read on a new socket, a listener, a connection that connected and one
that was accepted; it is set there to the row's values and read again; and it is set before `connect` and before
`listen` and read on the connection. Answers are compared: return value, errno, length and value; of values that depend
on the machine only the length. The effect of an option on packets is not compared: that is the matter of the stack's
own tests.

A new socket and a listener are the kernel's as well as the stack's ([LAUNCHER.md](LAUNCHER.md)), so their answers are
the kernel's. An option that the stack refuses can be set there: it holds for the kernel's part of the socket alone, and
one line on standard error says so.

## Memory that is not there

A pointer that cannot be used is EFAULT, as on Linux: NULL, unmapped memory, the bytes behind the end of a mapping,
read-only memory for a result. Data that could not be put anywhere stays in the receive queue. A read or a send whose
memory is there in part moves nothing of that part.

The launcher looks at memory before it uses it: it touches each page that the call is about to use, and its handler of
SIGSEGV and SIGBUS goes on behind a touch that faults. Without a fault this costs an instruction or two a page, and no
system call. The program installs and sees its own handlers of these signals, and gets every other fault. Three
conditions end the program where the kernel says EFAULT: the thread blocks SIGSEGV or SIGBUS, the program has installed
its handler by the system call itself, or another thread unmaps the memory during the call.
";

/// Returns the page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    let count = |is: fn(&Verdict) -> bool| rows().filter(|row| is(&row.verdict)).count();
    let (same, differs, refused) = (
        count(|verdict| matches!(verdict, Verdict::Same)),
        count(|verdict| matches!(verdict, Verdict::Differs(..))),
        count(|verdict| matches!(verdict, Verdict::Refused(..))),
    );
    let _ = write!(
        page,
        "\nOf {} rows {same} are the same, {differs} differ and {refused} are refused.\n",
        rows().count()
    );
    for manual in Manual::ALL {
        let groups = [("Option", true), ("Call, flag or request", false)];
        let _ = write!(page, "\n## {}\n", manual.name());
        for (title, options) in groups {
            let of = |row: &&Row| row.manual == manual && row.number.is_some() == options;
            let lines: String = rows().filter(of).map(Row::line).collect();
            if !lines.is_empty() {
                let _ = write!(page, "\n| {title} | Verdict | How, and why |\n|---|---|---|\n{lines}");
            }
        }
    }
    page
}

#[cfg(test)]
mod tests;
