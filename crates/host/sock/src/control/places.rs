//! Directories of control sockets.
//!
//! Each user has a directory that no other user may write: `/run/millstream` for root, `$XDG_RUNTIME_DIR/millstream` in
//! a session, else `/tmp/millstream-NUMBER`. Names in it are public, the sockets are not.

use pio::unix_socket;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Root's directory.
const SYSTEM: &str = "/run/millstream";
/// Where sessions of users have their directories, each named after the user's number.
const SESSIONS: &str = "/run/user";
/// The last part of a directory's name in a session.
const NAME: &str = "millstream";
/// The directory of users without a session is this and their number.
const TEMPORARY: &str = "/tmp/millstream-";

/// The directories of control sockets, as the environment names them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// `MILLSTREAM_RUN`: the one directory to use.
    named: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    session: Option<PathBuf>,
}

impl Places {
    /// Reads the environment, unless the process has rights that its caller lacks.
    pub fn from_environment() -> Places {
        let from = |name: &str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty() && !crate::elevated());
            value.map(PathBuf::from)
        };
        Places { named: from("MILLSTREAM_RUN"), session: from("XDG_RUNTIME_DIR") }
    }

    /// Returns the directory of the calling process's user.
    pub fn directory(&self) -> PathBuf {
        let user = unix_socket::own_user();
        // A session that is another user's is not this process's, though a program such as `su` left its name.
        let own = |dir: &&PathBuf| fs::metadata(dir).is_ok_and(|meta| meta.uid() == user);
        match (&self.named, self.session.as_ref().filter(own)) {
            (Some(named), _) => named.clone(),
            (None, Some(session)) => session.join(NAME),
            (None, None) if user == 0 && Path::new("/run").is_dir() => SYSTEM.into(),
            (None, None) => format!("{TEMPORARY}{user}").into(),
        }
    }

    /// Returns that directory, made if it is missing, in which no other user can put or replace a socket.
    ///
    /// # Errors
    /// It cannot be made, or another user could write to it.
    pub(super) fn prepare(&self) -> io::Result<PathBuf> {
        let dir = self.directory();
        let told = |kind, why: String| io::Error::new(kind, format!("{}: {why}", dir.display()));
        let made = DirBuilder::new().recursive(true).mode(0o755).create(&dir);
        made.map_err(|e| told(e.kind(), format!("{e}; name another directory in MILLSTREAM_RUN")))?;
        // A directory that the user names may be reached through a link.
        let meta = if self.named.is_some() { fs::metadata(&dir) } else { fs::symlink_metadata(&dir) };
        let meta = meta.map_err(|e| told(e.kind(), e.to_string()))?;
        let refused = |why: String| Err(told(io::ErrorKind::PermissionDenied, why));
        let help = "remove it, or name another directory in MILLSTREAM_RUN";
        if !meta.is_dir() {
            return refused(format!("this is no directory; {help}"));
        }
        if ![0, unix_socket::own_user()].contains(&meta.uid()) {
            return refused(format!("it belongs to {}; {help}", unix_socket::user_name(meta.uid())));
        }
        if meta.mode() & 0o022 != 0 && meta.mode() & 0o1000 == 0 {
            return refused("other users may write to it; take that away (chmod go-w)".into());
        }
        Ok(dir)
    }

    /// Returns the control sockets that there are, of every user whose directory can be read: process number and path.
    /// Those that processes left behind when they were killed are not among them.
    pub fn sockets(&self) -> Vec<(u32, PathBuf)> {
        let mut found: Vec<_> = self.directories().iter().flat_map(|dir| within(dir)).collect();
        if self.named.is_none() {
            found.extend(of_this_network());
        }
        found.sort();
        found.dedup();
        found.retain(|(process, path)| !is_left_over(*process, path));
        found
    }

    fn directories(&self) -> Vec<PathBuf> {
        if let Some(named) = &self.named {
            return vec![named.clone()];
        }
        let sessions = entries(Path::new(SESSIONS)).map(|session| session.join(NAME));
        let temporary = entries(Path::new("/tmp"))
            .filter(|path| path.as_os_str().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()));
        let mut all: Vec<_> =
            [self.directory(), SYSTEM.into()].into_iter().chain(sessions).chain(temporary).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Returns the paths in a directory; none where it cannot be read.
fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the process number that a socket's name says.
fn number(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok()
}

/// Is the process gone, and does nothing listen? One in another PID namespace may have any number.
fn is_left_over(process: u32, path: &Path) -> bool {
    !Path::new(&format!("/proc/{process}")).exists() && UnixStream::connect(path).is_err()
}

/// Removes what killed processes have left in a directory.
pub(super) fn sweep(dir: &Path) {
    for (process, path) in within(dir) {
        if is_left_over(process, &path) {
            // Another user's is not this one's to remove, and another process may be faster.
            let _ = fs::remove_file(path);
        }
    }
}

fn within(dir: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    entries(dir).filter_map(|path| Some((number(&path)?, path)))
}

/// Returns control sockets in directories that cannot be read, as the kernel lists them for this network namespace.
fn of_this_network() -> Vec<(u32, PathBuf)> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let path = |line: &str| line.split_whitespace().nth(7).map(PathBuf::from);
    let ours = |path: &PathBuf| {
        let dir = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        dir == Some(NAME) && path.starts_with(SESSIONS)
    };
    text.lines().filter_map(path).filter(ours).filter_map(|path| Some((number(&path)?, path))).collect()
}

#[cfg(test)]
mod tests;
