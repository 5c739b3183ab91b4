//! Regular files at paths that a person or another user names. An open that waits, as that of a FIFO does until
//! another process writes, would hang a stack.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file. Never waits.
///
/// # Errors
/// There is none, or it may not be opened. `InvalidInput`: it is something else, which the text names.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    with(options, path, 0)
}

/// As [`open`], for a directory that others may write to: a symbolic link is refused, too.
///
/// # Errors
/// As [`open`].
pub fn open_unfollowed(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    with(options, path, libc::O_NOFOLLOW)
}

/// Has an open of whatever it may be neither wait nor follow a link at the end of the path.
pub fn unwaiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW)
}

fn with(options: &mut OpenOptions, path: &Path, more: i32) -> io::Result<File> {
    let refused = |kind| io::Error::new(io::ErrorKind::InvalidInput, format!("it is no file but {kind}"));
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY | more;
    let file = options.custom_flags(flags).open(path).map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP) if more != 0 => refused("a link"),
        // A FIFO that nothing reads, or a socket.
        Some(libc::ENXIO) => refused("a FIFO, a socket or a device"),
        _ => e,
    })?;
    let kind_of_file = file.metadata()?.file_type();
    if kind_of_file.is_file() { Ok(file) } else { Err(refused(kind(kind_of_file))) }
}

/// The name of what a path leads to.
pub(crate) fn kind(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_file() => "a file",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a link",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}
