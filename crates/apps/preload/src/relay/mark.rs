//! Names of the sockets that stand for relayed connections. Our end of each pair is bound to an abstract name that
//! tells both ends of the connection, so a process that receives the other end over a UNIX socket knows what it is.

use super::{NAME, both_names, pair};
use crate::boundary::{errno, inside};
use crate::description::{Lent, Relayed};
use crate::real;
use crate::stack::{self, Stack};
use crate::table::Held;
use crate::threads;
use libc::{c_int, c_void, sockaddr, sockaddr_un, socklen_t};
use sock::Sockets;
use std::mem::{MaybeUninit, offset_of};

const PREFIX: &str = "millstream";
/// Hexadecimal digits of a handle, and of a number that makes the name unique.
const HANDLE: usize = 16;
const UNIQUE: usize = 8;
/// Names that are tried before there is none.
const TRIES: u32 = 16;
/// Bytes of `sun_path` before the name: abstract names begin with NUL.
const BEGIN: usize = offset_of!(sockaddr_un, sun_path) + 1;

const _: () = assert!(PREFIX.len() + 1 + HANDLE + 2 * 36 + UNIQUE < size_of::<sockaddr_un>() - 2);

/// The content of a socket's name: which connection it stands for.
#[derive(Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) v6: bool,
    pub(crate) handle: usize,
    pub(crate) names: (Vec<u8>, Vec<u8>),
}

/// The parts of a socket address that are told: port and address.
fn told(name: &[u8], v6: bool) -> Vec<u8> {
    if v6 { [&name[2..4], &name[8..24]].concat() } else { name[2..8].to_vec() }
}

fn address(told: &[u8], v6: bool) -> Vec<u8> {
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u16;
    let mut name = family.to_ne_bytes().to_vec();
    name.extend(&told[..2]);
    name.resize(if v6 { 8 } else { 4 }, 0);
    name.extend(&told[2..]);
    name.resize(if v6 { NAME } else { 16 }, 0);
    name
}

impl Mark {
    fn write(&self, unique: u32) -> String {
        let end = |name: &[u8]| super::wire::hex(&told(name, self.v6));
        let (family, handle) = (if self.v6 { '6' } else { '4' }, self.handle);
        format!(
            "{PREFIX}{family}{handle:0HANDLE$x}{}{}{unique:0UNIQUE$x}",
            end(&self.names.0),
            end(&self.names.1)
        )
    }

    /// Reads a name; `None` for one that this library did not write.
    fn read(text: &str) -> Option<Mark> {
        let rest = text.strip_prefix(PREFIX)?;
        let v6 = match rest.get(..1)? {
            "4" => false,
            "6" => true,
            _ => return None,
        };
        let end = if v6 { 36 } else { 12 };
        if rest.len() != 1 + HANDLE + 2 * end + UNIQUE {
            return None;
        }
        let (handle, ends) = rest[1..].split_at_checked(HANDLE)?;
        let of = |at: usize| super::wire::bytes(ends.get(at..at + end)?).map(|told| address(&told, v6));
        let handle = usize::from_str_radix(handle, 16).ok()?;
        Some(Mark { v6, handle, names: (of(0)?, of(end)?) })
    }

    /// Reads what stands for a connection under `fd`, if root or this user has made it.
    pub(crate) fn of(fd: c_int) -> Option<Mark> {
        let mut name = MaybeUninit::<sockaddr_un>::zeroed();
        let mut len = size_of::<sockaddr_un>() as socklen_t;
        let mut maker = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut room = size_of::<libc::ucred>() as socklen_t;
        // SAFETY: room for what is asked; zeroes are a `sockaddr_un`.
        let (name, user) = unsafe {
            if real::getpeername(fd, name.as_mut_ptr().cast::<sockaddr>(), &raw mut len) != 0 {
                return None;
            }
            let name = name.assume_init();
            if c_int::from(name.sun_family) != libc::AF_UNIX {
                return None;
            }
            let to = (&raw mut maker).cast::<c_void>();
            if real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut room) != 0 {
                return None;
            }
            (name, libc::geteuid())
        };
        let text = name.sun_path.get(1..(len as usize).checked_sub(BEGIN - 1)?)?;
        let text: Vec<u8> = text.iter().map(|byte| *byte as u8).collect();
        let trusted = name.sun_path[0] == 0 && [0, user].contains(&maker.uid);
        Mark::read(std::str::from_utf8(&text).ok().filter(|_| trusted)?)
    }

    /// Returns the note of a process that has received the socket; options are asked for over `channel`.
    pub(crate) fn relayed(&self, channel: c_int) -> Relayed {
        Relayed { handle: self.handle, channel }
    }
}

/// Both ends of a connection, one after the other, as a child is told them.
pub(super) fn raw_names(stack: &Stack, held: &Held) -> [u8; 2 * NAME] {
    let mut names = [0; 2 * NAME];
    let ends = [stack.runner.local_addr(held.below()), stack.runner.peer_addr(held.below())];
    for (at, end) in ends.into_iter().enumerate() {
        let bytes = end.map(|end| sock::address::write(end, held.is_v6())).unwrap_or_default();
        names[at * NAME..at * NAME + bytes.len()].copy_from_slice(&bytes);
    }
    names
}

/// Returns both ends of a connection as socket addresses.
pub(crate) fn names_of(stack: &Stack, held: &Held) -> (Vec<u8>, Vec<u8>) {
    both_names(&raw_names(stack, held), held.is_v6())
}

/// Returns the socket that is to stand for a connection in other processes, so that its inode is the same in each.
/// `None` of what is not connected, and if there are no descriptors.
pub(crate) fn stand_in(held: &Held) -> Option<c_int> {
    let known = || held.more().pair.as_ref().map(|[_, childs]| childs.0);
    known().or_else(|| {
        let stack = stack::opened().filter(|stack| stack.runner.peer_addr(held.below()).is_ok())?;
        let pair = inside(|| Some(named_pair(stack, held)?.map(|fd| Lent(threads::hidden(fd)))))?;
        held.more().pair.get_or_insert(pair);
        known()
    })
}

/// A pair of sockets for a connection: our end, which tells its name, and the other one, which stands for it.
pub(crate) fn named_pair(stack: &Stack, held: &Held) -> Option<[c_int; 2]> {
    if let Some(pair) = held.more().pair.take() {
        return Some(pair.map(Lent::take));
    }
    let [mine, childs] = pair(libc::SOCK_STREAM)?;
    let mark = Mark { v6: held.is_v6(), handle: held.name(), names: names_of(stack, held) };
    // A process that receives one without a name has it as a UNIX socket.
    let _ = (0..TRIES).any(|_| {
        let mut unique = 0_u32;
        // SAFETY: room for four bytes.
        let got = unsafe { libc::getrandom((&raw mut unique).cast::<c_void>(), size_of::<u32>(), 0) };
        got < 0 || bind(mine, &mark.write(unique)) || errno() != libc::EADDRINUSE
    });
    Some([mine, childs])
}

fn bind(fd: c_int, name: &str) -> bool {
    let mut to = MaybeUninit::<sockaddr_un>::zeroed();
    // SAFETY: zeroes are a `sockaddr_un`, and the name is shorter than its room, as is checked above.
    unsafe {
        let to = to.assume_init_mut();
        to.sun_family = libc::AF_UNIX as libc::sa_family_t;
        to.sun_path[1..].iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
        let addr = std::ptr::from_ref(to).cast::<sockaddr>();
        real::bind(fd, addr, (BEGIN + name.len()) as socklen_t) == 0
    }
}

#[cfg(test)]
mod tests;
