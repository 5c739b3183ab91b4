//! The directory of files that a user's processes share: the notes of [`outgoing`](crate::ports::outgoing), the memory
//! of [`group`](crate::group).
//!
//! No other user can put anything into it, so nothing in it is a trap: a FIFO that blocks the open, a lock that is
//! never given back. Root has `/run/millstream/shared`. Other users, and root where `/run` cannot be written, have
//! `/dev/shm/millstream-NUMBER` (the user's number, and that of its user namespace unless it is the machine's).

use crate::{regular, sys, unix_socket};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Root's directory, and the one above it.
const SYSTEM: [&str; 2] = ["/run/millstream", "/run/millstream/shared"];
/// The directory of other users is this and their number.
const TEMPORARY: &str = "/dev/shm/millstream-";
/// The number of the machine's own user namespace (PROC_USER_INIT_INO).
const FIRST_USER_NAMESPACE: u64 = 0xeffffffd;

/// Returns this user's directory, made if it is missing.
///
/// # Errors
/// It cannot be made, or another user could write to it; the text names it and says what to do.
pub(crate) fn own() -> io::Result<PathBuf> {
    let (user, namespace) = (sys::user(), user_namespace());
    if user == 0 && namespace.is_none() {
        match SYSTEM.iter().try_for_each(|dir| make(dir.as_ref(), 0o755)) {
            Err(e) if is_not_for_us(&e) => {}
            made => {
                SYSTEM.iter().try_for_each(|dir| check(dir.as_ref(), user))?;
                return made.map(|()| SYSTEM[1].into());
            }
        }
    }
    let dir = temporary(user);
    // Root's is for others to look into.
    make(&dir, if user == 0 { 0o755 } else { 0o700 })?;
    check(&dir, user)?;
    Ok(dir)
}

/// Returns the directories whose files this process believes: root's and its user's own, as far as they exist.
pub(crate) fn believed() -> Vec<PathBuf> {
    let user = sys::user();
    let mut all = vec![(PathBuf::from(SYSTEM[1]), 0), (temporary(0), 0), (temporary(user), user)];
    all.dedup();
    all.retain(|(dir, owner)| check(dir, *owner).is_ok());
    all.into_iter().map(|(dir, _)| dir).collect()
}

/// Removes from this user's directory the files of processes that were killed. A stack that starts does so.
///
/// # Errors
/// The directory is not to be had, and it is `needed`.
pub(crate) fn sweep(needed: bool) -> io::Result<()> {
    match own() {
        Ok(_) => crate::ports::outgoing::sweep().and_then(|()| crate::group::sweep(None)),
        Err(e) if needed => Err(e),
        // A stack that shares nothing does without.
        Err(_) => Ok(()),
    }
}

/// Opens a file of such a directory. It never waits, follows no link, and gives regular files of root and of this user
/// alone.
///
/// # Errors
/// There is none, or it is something else; the text names it and says what to do.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = match regular::open_unfollowed(options, path) {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => return Err(refused(path, &e.to_string())),
        file => file.map_err(|e| told(path, &e))?,
    };
    let meta = file.metadata()?;
    if ![0, sys::user()].contains(&meta.uid()) {
        return Err(foreign(path, meta.uid()));
    }
    Ok(file)
}

/// Another user's.
pub(crate) fn foreign(path: &Path, user: u32) -> io::Error {
    refused(path, &format!("it belongs to {}", unix_socket::user_name(user)))
}

/// Adds the path to the error's text; its kind stays.
fn told(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn refused(path: &Path, why: &str) -> io::Error {
    let path = path.display();
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{path}: {why}; another user may have put it there: remove it (`sudo rm -r {path}`) and start again"
        ),
    )
}

/// May the directory not be made here at all, as for root in a container that cannot write there?
fn is_not_for_us(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem)
}

fn make(dir: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(told(dir, &e)),
        _ => Ok(()),
    }
}

/// Is `dir` a directory of `owner`, in which no other user can put or replace anything?
fn check(dir: &Path, owner: u32) -> io::Result<()> {
    let meta = fs::symlink_metadata(dir).map_err(|e| told(dir, &e))?;
    if !meta.is_dir() {
        return Err(refused(dir, &format!("it is no directory but {}", regular::kind(meta.file_type()))));
    }
    if meta.uid() != owner {
        return Err(foreign(dir, meta.uid()));
    }
    if meta.mode() & 0o022 != 0 {
        let dir = dir.display();
        let why = format!("{dir}: other users may write to it; take that away (`chmod go-w {dir}`)");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

fn temporary(user: u32) -> PathBuf {
    let namespace = user_namespace().map_or_else(String::new, |number| format!(".{number}"));
    format!("{TEMPORARY}{user}{namespace}").into()
}

/// The number of the user namespace, unless it is the machine's: the same number is another user there.
fn user_namespace() -> Option<u64> {
    let number = fs::metadata("/proc/self/ns/user").ok()?.ino();
    (number != FIRST_USER_NAMESPACE).then_some(number)
}

#[cfg(test)]
mod tests;
