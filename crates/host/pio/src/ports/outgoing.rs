//! Which ports connections leave from that the owner of an interface's XDP program has, for other processes to see.
//!
//! Such a port has no socket in the kernel (`xdp::claims` says why), and the XDP program takes what comes for it:
//! another process that used it too would never get an answer. So the owner notes its ports in a file, a bit each, and
//! a process that is about to use a port looks there. The owner notes before it asks the kernel, the others ask the
//! kernel before they look: of two that want the same port at once, one at least sees the other. A note counts while
//! its author lives, which holds a lock on the file.

use crate::shared_dir;
use crate::sys::{self, Lock};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Bytes of the notes.
const LEN: usize = (1 << 16) / 8;
/// The byte that the author locks, behind the notes.
const AUTHOR: i64 = LEN as i64;
/// The byte locked by a process that decides whether the file has an author: one that begins it, one that sweeps.
const JUDGE: i64 = AUTHOR + 1;

/// The author's side.
pub(crate) struct OutgoingPorts {
    path: PathBuf,
    file: File,
    notes: Box<[u8; LEN]>,
}

/// How the names of all such files begin.
const NAME: &str = "xdp.";
/// How often one that another process judges, or took for a dead author's, is begun again.
const TRIES: u32 = 20;

/// How the names of the files of an interface of the caller's network begin. The rest is drawn: a name is never used
/// again, so who removes a dead author's file by its name removes no other.
fn name(ifindex: u32) -> io::Result<String> {
    Ok(format!("{NAME}{}.{ifindex}.", sys::network()?))
}

impl OutgoingPorts {
    /// Begins the notes on interface `ifindex` of the caller's network.
    pub(crate) fn new(ifindex: u32) -> io::Result<OutgoingPorts> {
        let (own, name) = (shared_dir::own()?, name(ifindex)?);
        sweep()?;
        for _ in 0..TRIES {
            let path = own.join(format!("{name}{:016x}", sys::random_words()?[0]));
            let file =
                shared_dir::open(File::options().read(true).write(true).create_new(true).mode(0o600), &path)?;
            file.set_len(LEN as u64)?;
            // A process that judges this one may be stopped: it is not waited for.
            if Lock::Take.of(file.as_fd(), JUDGE).is_err() {
                continue;
            }
            Lock::Take.of(file.as_fd(), AUTHOR)?;
            // Others may read it only now: a reader can lock the byte, too.
            file.set_permissions(Permissions::from_mode(0o644))?;
            Lock::Free.of(file.as_fd(), JUDGE)?;
            // Swept before it had an author, it is begun again.
            if file.metadata()?.nlink() > 0 {
                return Ok(OutgoingPorts { path, file, notes: Box::new([0; LEN]) });
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Notes that connections leave from `port`, or no more.
    pub(crate) fn note(&mut self, port: u16, ours: bool) -> io::Result<()> {
        let (at, bit) = (usize::from(port / 8), 1 << (port % 8));
        let byte = &mut self.notes[at];
        *byte = if ours { *byte | bit } else { *byte & !bit };
        self.file.write_all_at(&[*byte], at as u64)
    }
}

impl Drop for OutgoingPorts {
    fn drop(&mut self) {
        // Left behind it counts for nothing.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes files of dead authors from this user's directory.
///
/// # Errors
/// The directory is not to be had, or the kernel does not say which process holds a lock.
pub(crate) fn sweep() -> io::Result<()> {
    for entry in fs::read_dir(shared_dir::own()?)?.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME)) {
            continue;
        }
        // A file that goes away meanwhile is swept already.
        let mut options = File::options();
        let Ok(file) = shared_dir::open(options.read(true).write(true), &entry.path()) else { continue };
        if Lock::Take.of(file.as_fd(), JUDGE).is_err() {
            continue;
        }
        let is_dead = Lock::is_others(file.as_fd(), AUTHOR).map(|lives| !lives);
        if matches!(is_dead, Ok(true)) {
            let _ = fs::remove_file(entry.path());
        }
        // By hand: a child that another thread forks meanwhile would keep it.
        Lock::Free.of(file.as_fd(), JUDGE)?;
        is_dead?;
    }
    Ok(())
}

/// Does the owner of the XDP program on interface `ifindex`, if there is one, let connections leave from `port`?
pub(crate) fn is_taken(ifindex: u32, port: u16) -> io::Result<bool> {
    let name = name(ifindex)?;
    for entry in shared_dir::believed().into_iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten() {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(|file| file.starts_with(&name)) {
            continue;
        }
        let file = match shared_dir::open(File::options().read(true), &entry.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        // One that is just being begun has no notes yet.
        let is_whole = file.metadata()?.size() == LEN as u64;
        if !is_whole || !Lock::is_others(file.as_fd(), AUTHOR)? {
            continue;
        }
        let mut byte = [0];
        file.read_exact_at(&mut byte, u64::from(port / 8))?;
        if byte[0] >> (port % 8) & 1 == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
