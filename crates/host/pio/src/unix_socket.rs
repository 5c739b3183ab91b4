//! UNIX sockets that are their user's alone, and the user at the other end of a connection.

use crate::sys;
use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Room for a user's names and paths.
pub(crate) const ROOM: usize = 16 << 10;
/// Connections that wait to be accepted.
const BACKLOG: libc::c_int = 64;
/// The mode of a private socket: its user may connect, and root.
const PRIVATE: libc::mode_t = 0o600;

/// Returns a listener at `path` that only its user and root may connect to.
///
/// The socket has its mode before it has a name, so there is no moment at which others could connect, whatever the
/// umask is.
///
/// # Errors
/// The path is too long or taken, or its directory may not be written.
pub fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let (address, len) = address_of(path)?;
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)?;
    // SAFETY: numbers, and an address that is readable for its length.
    unsafe {
        sys::check(libc::fchmod(socket.as_raw_fd(), PRIVATE))?;
        sys::check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len))?;
    }
    // Nothing can connect before listen.
    let mode = std::fs::symlink_metadata(path)?.mode();
    if mode & 0o777 & !PRIVATE != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(PRIVATE))?;
    }
    // SAFETY: takes numbers only.
    sys::check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    Ok(UnixListener::from(socket))
}

/// Connects to a socket that may be another user's. Never waits, also where the listener does not accept.
///
/// # Errors
/// None listens there, or it may not be asked. `WouldBlock`: as many as it lets wait do so already.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (address, len) = address_of(path)?;
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    // SAFETY: an address that is readable for its length.
    sys::check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Returns the address of a socket at `path`, and its length.
///
/// # Errors
/// `InvalidInput`: no socket has this path.
pub(crate) fn address_of(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all zero is a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let name = path.as_os_str().as_bytes();
    if name.is_empty() || name.len() >= address.sun_path.len() || name.contains(&0) {
        let most = address.sun_path.len() - 1;
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{}: a socket's path has one byte and at most {most}, none of them 0", path.display()),
        ));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(name) {
        *place = *byte as libc::c_char;
    }
    let len = offset_of!(libc::sockaddr_un, sun_path) + name.len() + 1;
    Ok((address, len as libc::socklen_t))
}

/// Returns the number of the user who connected, or who listens, at the other end (SO_PEERCRED).
///
/// # Errors
/// The kernel does not say.
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    peer(stream.as_raw_fd())
}

/// As [`peer_user`], for a socket of any type.
pub(crate) fn peer(socket: RawFd) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    sys::get_option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut peer).map(|()| peer.uid)
}

/// Returns the number of the user whose rights this process has (its effective user).
pub fn own_user() -> u32 {
    sys::user()
}

/// Returns the name of the user with this number, as `user NAME`, or the number where it has no name.
pub fn user_name(user: u32) -> String {
    name_of(user).map_or_else(|| format!("user {user}"), |name| format!("user {name}"))
}

/// Returns the name of the user with the number `uid`, if the machine's list of users has one.
fn name_of(uid: u32) -> Option<String> {
    let mut text = [0; ROOM];
    let mut row = MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: room for a row, for its text and for the pointer to it.
    unsafe { libc::getpwuid_r(uid, row.as_mut_ptr(), text.as_mut_ptr(), text.len(), &raw mut found) };
    // SAFETY: NULL, or `row`, which is filled in then.
    let row = unsafe { found.as_ref() }?;
    // SAFETY: a string in `text`.
    let name = unsafe { CStr::from_ptr(row.pw_name) };
    name.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests;
