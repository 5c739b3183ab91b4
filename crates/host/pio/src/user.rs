//! Users who are not root and may open links all the same.
//!
//! That takes *rights* (capabilities(7)), as do the ports that are claimed later; which depends on the link's kind. A
//! process that gives up root keeps those and no others: for itself alone ([`give_up_root`]), or for the programs that
//! it becomes, too ([`User::enter`]).

use crate::open::kind::{NO_RIGHTS, Rights};
use crate::open_error::OpenError;
use crate::sys::check;
use crate::unix_socket::ROOM;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;

/// _LINUX_CAPABILITY_VERSION_3 of linux/capability.h: two words for each set.
const VERSION: u32 = 0x2008_0522;

/// A user of the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The name.
    pub name: CString,
    /// Where the user is at home.
    pub home: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

/// The head of capget(2) and capset(2).
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// Half of their sets.
#[derive(Default)]
#[repr(C)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl User {
    /// The user's number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.uid
    }

    /// The user called `name`.
    ///
    /// # Errors
    /// There is none, or the machine's list of users cannot be read.
    pub fn called(name: &str) -> Result<User, OpenError> {
        let unknown = || OpenError::Missing {
            what: format!("user '{name}'"),
            help: "name one that `getent passwd` lists".into(),
        };
        let asked = CString::new(name).map_err(|_| unknown())?;
        let mut text = [0; ROOM];
        let mut row = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: a string that ends in NUL, and room for a row, for its text and for the pointer to it.
        let failed = unsafe {
            libc::getpwnam_r(asked.as_ptr(), row.as_mut_ptr(), text.as_mut_ptr(), text.len(), &raw mut found)
        };
        if failed != 0 {
            return Err(OpenError::os("look for a user", io::Error::from_raw_os_error(failed)));
        }
        // SAFETY: NULL, or `row`, which is filled in then.
        let row = unsafe { found.as_ref() }.ok_or_else(unknown)?;
        // SAFETY: a string in `text`.
        let home = unsafe { CStr::from_ptr(row.pw_dir) }.to_owned();
        Ok(User { name: asked, home, uid: row.pw_uid, gid: row.pw_gid })
    }

    /// Makes the calling process this user's, with the user's groups. Of root's rights it keeps, for itself and for
    /// the programs that it becomes, those alone that opening `link` takes, as far as it has them; none without a link.
    ///
    /// # Errors
    /// The caller may not do that, or `link` is of no known kind.
    pub fn enter(&self, link: Option<&str>) -> Result<(), OpenError> {
        let rights = link.map_or(Ok(NO_RIGHTS), crate::open::rights)?;
        // The memory for packets is locked, and who is not root may have little of that.
        crate::xdp::raise_memory_limit();
        self.change(rights).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => OpenError::Privilege {
                what: format!("being user '{}'", self.name.to_string_lossy()),
                help: "run with sudo".into(),
            },
            _ => OpenError::os("become another user", error),
        })
    }

    fn change(&self, rights: Rights) -> io::Result<()> {
        // SAFETY: numbers, and a string that ends in NUL.
        unsafe {
            check(libc::initgroups(self.name.as_ptr(), self.gid))?;
            check(libc::setgid(self.gid))?;
            // Until the next exec.
            check(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0))?;
            check(libc::setuid(self.uid))?;
        }
        let rights = keep(rights, true)?;
        for right in (0..64).filter(|right| rights >> right & 1 == 1) {
            // SAFETY: numbers alone.
            check(unsafe {
                libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, right as libc::c_ulong, 0, 0)
            })?;
        }
        Ok(())
    }
}

/// Has `call`, one of setuid(2)'s kind, give up root, but not what `link` takes of root's rights: the calling thread
/// and those that it makes keep that, and its children, until they run another program. What `call` gave, and -1 with
/// errno set if the rest could not be given up.
///
/// A process that says by itself what it keeps (PR_SET_KEEPCAPS) is left alone.
pub fn give_up_root(link: &str, call: impl FnOnce() -> libc::c_int) -> libc::c_int {
    // SAFETY: asks for a number.
    let by_itself = unsafe { libc::prctl(libc::PR_GET_KEEPCAPS, 0, 0, 0, 0) } != 0;
    let Ok(rights) = crate::open::rights(link) else { return call() };
    if by_itself || !is_root() {
        return call();
    }
    // SAFETY: numbers alone; it fails for who has said that it be never changed again, and then nothing is kept.
    unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) };
    let done = call();
    let error = io::Error::last_os_error();
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 0, 0, 0, 0) };
    if done == 0 && is_root() {
        // The effective user alone was given up, and with it what the thread may do, not what it is permitted. If that
        // cannot be, who opens the link is told.
        let _ = use_permitted(rights);
        return done;
    }
    if done != 0 {
        // Nothing was given up, and errno is the call's.
        set_errno(error.raw_os_error().unwrap_or(0));
        return done;
    }
    match keep(rights, false).or_else(|_| keep(NO_RIGHTS, false)) {
        Ok(_) => done,
        Err(_) => -1,
    }
}

/// Is any of the process's users root?
fn is_root() -> bool {
    let mut users = [0; 3];
    let [real, effective, saved] = &mut users;
    // SAFETY: room for three numbers.
    unsafe { libc::getresuid(real, effective, saved) };
    users.contains(&0)
}

fn set_errno(errno: i32) {
    // SAFETY: the C library gives every thread an errno of its own.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns true if the calling thread is permitted what `link` takes, and could not use all of it with `effective`
/// alone: a bit for each capability, as capset(2) takes them.
#[must_use]
pub fn loses_link(link: &str, effective: u64) -> bool {
    let Ok(rights) = crate::open::rights(link) else { return false };
    sets().is_ok_and(|sets| rights & word(&sets, |half| half.permitted) & !effective != 0)
}

/// Makes effective what the calling thread is permitted.
///
/// # Errors
/// The kernel's, if it refuses capget(2) or capset(2).
pub fn use_all_permitted() -> io::Result<()> {
    use_permitted(Rights::MAX)
}

/// The calling thread uses these of the rights that it is permitted, too.
fn use_permitted(rights: Rights) -> io::Result<()> {
    let [low, high] = sets()?;
    let raised =
        |half: Half, rights: u32| Half { effective: half.effective | half.permitted & rights, ..half };
    set(&[raised(low, rights as u32), raised(high, (rights >> 32) as u32)])
}

/// Gives the calling thread these sets of capabilities: of the lower half and of the higher the effective, permitted
/// and inheritable ones.
///
/// # Errors
/// The kernel's, if it refuses capset(2): the thread is not permitted so much.
pub fn set_capabilities(halves: [[u32; 3]; 2]) -> io::Result<()> {
    set(&halves.map(|[effective, permitted, inheritable]| Half { effective, permitted, inheritable }))
}

fn done(rc: libc::c_long) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the calling thread's sets, in halves.
fn sets() -> io::Result<[Half; 2]> {
    let header = Header { version: VERSION, pid: 0 };
    let mut sets = [Half::default(), Half::default()];
    // SAFETY: the head, and room for the two halves that this version of the call writes.
    done(unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) })?;
    Ok(sets)
}

/// Returns what the calling thread may do now.
pub(crate) fn effective() -> io::Result<Rights> {
    Ok(word(&sets()?, |half| half.effective))
}

fn set(sets: &[Half; 2]) -> io::Result<()> {
    let header = Header { version: VERSION, pid: 0 };
    // SAFETY: the head and the two halves that this version of the call reads.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) })
}

/// One of the sets, as one word.
fn word([low, high]: &[Half; 2], of: impl Fn(&Half) -> u32) -> Rights {
    u64::from(of(high)) << 32 | u64::from(of(low))
}

/// The calling thread has no rights but these from now on, as far as it has them; programs may inherit them, or not.
/// Which it has.
fn keep(rights: Rights, for_programs: bool) -> io::Result<Rights> {
    let kept = rights & word(&sets()?, |half| half.permitted);
    let half = |bits: u32| Half {
        effective: bits,
        permitted: bits,
        inheritable: if for_programs { bits } else { 0 },
    };
    set(&[half(kept as u32), half((kept >> 32) as u32)])?;
    Ok(kept)
}

#[cfg(test)]
mod tests;
