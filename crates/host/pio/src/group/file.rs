//! The file in which a group's memory lies: found by its name, locked byte by byte, watched by inotify.

use super::table::Table;
use super::{flows, handovers, table};
use crate::ports::Place;
use crate::shared_dir;
use crate::sys::{self, Lock, check};
use base::{Duration, Instant};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A word of the header that nothing reads: writing it is what watchers hear.
const BELL: u64 = 63 * 8;
/// Bytes of the file that are locked, not read: one for changes of the group, then one for each member. The first is
/// another one after each holder that was passed over.
const CHANGING: i64 = 0;
const FIRST: i64 = 1;
const CHANGING_AGAIN: i64 = 1 << 32;
/// How long the lock of a process that may be stopped is waited for. Holders that run need it for milliseconds.
const HELD_MAX: Duration = Duration::from_secs(1);
/// How often it is tried meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(1);
/// How often a file that was removed under our hands is looked for again.
const TRIES: u32 = 20;

/// The open file.
pub(super) struct GroupFile {
    path: PathBuf,
    file: Arc<File>,
}

/// A group's file, opened and locked.
pub(super) struct Find {
    pub(super) file: GroupFile,
    pub(super) table: Table,
    pub(super) lock: Held,
}

/// Right to change a group: the number of the lock.
#[derive(Clone, Copy)]
pub(super) struct Held(u64);

impl Held {
    fn byte(self) -> i64 {
        if self.0 == 0 { CHANGING } else { CHANGING_AGAIN + (self.0 & 0xffff_ffff) as i64 }
    }

    /// Is it still the group's lock? If not, other members have changed the group meanwhile.
    pub(super) fn counts(self, table: &Table) -> bool {
        table.turn() == self.0
    }
}

/// How the names of groups begin.
const NAME: &str = "group.";

/// The network, the interface, the port; then the address.
fn prefix(ifindex: u32, port: u16) -> io::Result<String> {
    Ok(format!("{NAME}{}.{ifindex}.{port}.", sys::network()?))
}

fn suffix(place: &Place) -> String {
    let bytes: String = place.addr.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    bytes + if place.dual { "d" } else { "" }
}

fn place_of(port: u16, suffix: &str) -> Option<Place> {
    let bytes = suffix.as_bytes();
    let pair =
        |at: usize| u8::from_str_radix(std::str::from_utf8(bytes.get(2 * at..2 * at + 2)?).ok()?, 16).ok();
    let mut addr = [0; 16];
    for (at, byte) in addr.iter_mut().enumerate() {
        *byte = pair(at)?;
    }
    Some(Place { addr: base::Addr::v6(addr), port, dual: bytes.get(32) == Some(&b'd') })
}

impl GroupFile {
    /// Opens the file of the group of `place` on interface `ifindex` of the caller's network, made if it is not there.
    /// The right to change the group is held from here: a file without members that nothing holds is swept.
    pub(super) fn open(ifindex: u32, place: &Place) -> io::Result<Find> {
        let path = shared_dir::own()?.join(prefix(ifindex, place.port)? + &suffix(place));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        for _ in 0..TRIES {
            let file = GroupFile { path: path.clone(), file: shared_dir::open(&mut options, &path)?.into() };
            let (len, table_len) = (file.file.metadata()?.len(), table::LEN as u64);
            // Whoever comes first gives it its size, and another one that comes at once gives it the same.
            if len == 0 || len != table_len && !file.has_members() {
                file.file.set_len(table_len)?;
            } else if len != table_len {
                return Err(io::ErrorKind::InvalidData.into());
            }
            file.allocate(0, table::HEADER)?;
            let table = Table::of_file(&file.file)?;
            let lock = file.lock(&table)?;
            if file.file.metadata()?.nlink() == 0 {
                // The last member removed it before we had the lock.
                file.unlock(lock)?;
                continue;
            }
            sweep(Some(&path))?;
            return Ok(Find { file, table, lock });
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    pub(super) fn has_members(&self) -> bool {
        (0..table::MEMBERS).any(|member| self.lives(member))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Has the memory of a part there, so that touching it cannot fail.
    fn allocate(&self, at: usize, len: usize) -> io::Result<()> {
        // SAFETY: takes numbers only.
        check(unsafe { libc::fallocate(self.file.as_raw_fd(), 0, at as i64, len as i64) }).map(drop)
    }

    /// Waits for the right to change the group; a holder that is stopped is passed over after [`HELD_MAX`].
    ///
    /// # Errors
    /// A stopped process holds it in a group that has no members, which it may be about to begin or to remove.
    pub(super) fn lock(&self, table: &Table) -> io::Result<Held> {
        let since = sys::monotonic();
        loop {
            if let Some(held) = self.try_lock(table, since)? {
                return Ok(held);
            }
            std::thread::sleep(TRY_EVERY);
        }
    }

    /// Takes the right if it is free, for a member that has tried since `since`; [`GroupFile::lock`] otherwise.
    ///
    /// # Errors
    /// See [`GroupFile::lock`].
    pub(super) fn try_lock(&self, table: &Table, since: Instant) -> io::Result<Option<Held>> {
        let held = Held(table.turn());
        match Lock::Take.of(self.file.as_fd(), held.byte()) {
            Ok(()) if held.counts(table) => Ok(Some(held)),
            Ok(()) => self.unlock(held).map(|()| None),
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Err(error),
            Err(_) if sys::monotonic().since(since) < HELD_MAX => Ok(None),
            Err(_) if self.has_members() => {
                table.pass_over(held.0);
                Ok(None)
            }
            Err(_) => {
                let path = self.path.display();
                let help = "end or continue it (`fuser` names it)";
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("{path} is locked by a process that does not run; {help}"),
                ))
            }
        }
    }

    /// Has the memory there by which connections are handed over.
    pub(super) fn allocate_handovers(&self) -> io::Result<()> {
        self.allocate(table::HANDOVERS_AT, handovers::LEN)
    }

    pub(super) fn unlock(&self, held: Held) -> io::Result<()> {
        Lock::Free.of(self.file.as_fd(), held.byte())
    }

    /// Takes a member's byte, and the memory of its flows.
    pub(super) fn take(&self, member: usize) -> io::Result<()> {
        self.allocate(table::flows_at(member), flows::LEN)?;
        Lock::Take.of(self.file.as_fd(), FIRST + member as i64)
    }

    /// Gives a member's byte and the right to change the group back.
    pub(super) fn give_up(&self, member: usize, held: Held) {
        // What fails here ends with the descriptor.
        let _ = Lock::Free.of(self.file.as_fd(), FIRST + member as i64);
        let _ = self.unlock(held);
        self.notify();
    }

    /// Does another open file than ours hold the member's byte?
    pub(super) fn lives(&self, member: usize) -> bool {
        // What cannot be asked is believed to live.
        Lock::is_others(self.file.as_fd(), FIRST + member as i64).unwrap_or(true)
    }

    /// Wakes every process that watches the file.
    pub(super) fn notify(&self) {
        // Who hears nothing looks by itself a little later.
        let _ = self.file.write_all_at(&[1], BELL);
    }

    /// The last one is going. (Under the lock.)
    pub(super) fn remove(&self) {
        // Left behind, it is found empty by the next.
        let _ = fs::remove_file(&self.path);
    }

    /// Does a group with living members have a place of the same port that overlaps this one?
    pub(super) fn others_overlap(&self, ifindex: u32, place: &Place) -> io::Result<bool> {
        let prefix = prefix(ifindex, place.port)?;
        for entry in fs::read_dir(shared_dir::own()?)?.flatten() {
            let name = entry.file_name();
            let other =
                name.to_str().and_then(|n| n.strip_prefix(&prefix)).and_then(|s| place_of(place.port, s));
            let Some(other) = other.filter(|other| other != place && other.overlaps(place)) else { continue };
            debug_assert_eq!(other.port, place.port);
            // One that goes away meanwhile has no members.
            let mut options = File::options();
            let Ok(file) = shared_dir::open(options.read(true).write(true), &entry.path()) else { continue };
            let group = GroupFile { path: entry.path(), file: file.into() };
            if group.has_members() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Removes files of groups whose last members were killed: no process may ever come to their ports again. The file at
/// `but` stays.
///
/// # Errors
/// The directory is not to be had.
pub(crate) fn sweep(but: Option<&Path>) -> io::Result<()> {
    for entry in fs::read_dir(shared_dir::own()?)?.flatten() {
        let path = entry.path();
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME));
        if !named || Some(&*path) == but {
            continue;
        }
        // One that goes away meanwhile is what we want, and one that changes lives.
        let mut options = File::options();
        let Ok(file) = shared_dir::open(options.read(true).write(true), &path) else { continue };
        let group = GroupFile { path, file: file.into() };
        let mut word = [0; 8];
        let held = match group.file.read_exact_at(&mut word, table::TURN_AT) {
            Ok(()) => Held(u64::from_ne_bytes(word)),
            // It was just made.
            Err(_) => Held(0),
        };
        if Lock::Take.of(group.file.as_fd(), held.byte()).is_ok() {
            // Another lock counts only where there are members.
            if !group.has_members() {
                group.remove();
            }
            // By hand: a child that another thread forks meanwhile would keep it.
            group.unlock(held)?;
        }
    }
    Ok(())
}

/// This process, and the namespace in which that number means anything.
pub(super) fn this_process() -> u64 {
    u64::from(std::process::id()) | namespace() << 32
}

fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino() & 0xffff_ffff)
}

/// May the process live? Of one in another namespace nothing can be said.
pub(super) fn may_live(process: u64) -> bool {
    let number = process as u32 as i32;
    // SAFETY: no signal is sent, it is only asked whether one could be.
    let gone = || unsafe { libc::kill(number, 0) } != 0
        && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    process >> 32 != namespace() || number <= 0 || !gone()
}

/// Hears of news in the files of groups, and of the time to look at them.
pub(crate) struct Watcher {
    news: OwnedFd,
    timer: OwnedFd,
}

impl Watcher {
    pub(crate) fn new() -> io::Result<Watcher> {
        let (news, timer) = (sys::inotify()?, sys::timer()?);
        Ok(Watcher { news, timer })
    }

    /// Becomes readable at `at` and not before, or not at all.
    pub(crate) fn wake_at(&self, at: Option<Instant>) -> io::Result<()> {
        // SAFETY: all zero is a timer that does not run.
        let mut timer: libc::itimerspec = unsafe { std::mem::zeroed() };
        let at = at.map_or(0, |at| at.as_nanos().max(1));
        timer.it_value.tv_sec = (at / 1_000_000_000) as libc::time_t;
        timer.it_value.tv_nsec = (at % 1_000_000_000) as libc::c_long;
        let (fd, absolute) = (self.timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME);
        // SAFETY: reads `timer`, and writes no old value.
        check(unsafe { libc::timerfd_settime(fd, absolute, &raw const timer, std::ptr::null_mut()) })
            .map(drop)
    }

    /// A group more.
    pub(crate) fn watch(&self, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let news = libc::IN_MODIFY | libc::IN_CLOSE_WRITE;
        // SAFETY: a string that ends in NUL.
        check(unsafe { libc::inotify_add_watch(self.news.as_raw_fd(), path.as_ptr(), news) }).map(drop)
    }

    /// Returns the descriptors that become readable.
    pub(crate) fn fds(&self) -> [RawFd; 2] {
        [self.news.as_raw_fd(), self.timer.as_raw_fd()]
    }

    /// Was there news since the last call?
    pub(crate) fn take(&self) -> bool {
        let mut events = [0_u64; 64];
        let mut any = false;
        loop {
            // SAFETY: the array is writable for its size.
            let got = unsafe {
                libc::read(self.news.as_raw_fd(), events.as_mut_ptr().cast(), size_of_val(&events))
            };
            if got <= 0 {
                return any;
            }
            any = true;
        }
    }
}
