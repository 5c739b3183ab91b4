//! How two processes find each other: at a path in the file system, a program that comes first listens, and the
//! other connects. The listener makes the memory and hands it over; the connection stays as bell and as sign
//! of life.
//!
//! The first process holds a lock on `PATH.lock`, so a socket left behind by a process that was killed is not in the
//! way.
//!
//! Other users may write to the directory, as to /tmp: no user but root and this one is met, and what others put there
//! is refused. A directory without the sticky bit, in which they could replace files, is refused, too.

use super::lane;
use crate::sys::{self, check, check_len};
use crate::{regular, shared_dir, unix_socket};
use ring::shared::SharedMemory;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Greeting before memory is handed over: a magic number, the version of the
/// memory's layout, and its size.
static GREETING: [u32; 4] = [0x4d53_6d65, 1, MEMORY as u32, 0];
/// A lane each way.
const MEMORY: usize = 2 * lane::LEN;

/// Where two processes meet, and what this one is there.
pub(super) struct Meeting {
    path: PathBuf,
    role: Option<Role>,
}

enum Role {
    /// The side that came first.
    Listener {
        socket: OwnedFd,
        /// Held as long as we listen.
        _lock: OwnedFd,
    },
    /// Connected; the listener has not got to us yet.
    Guest(OwnedFd),
}

/// A partner found.
pub(super) struct Partner {
    /// Bell and sign of life.
    pub(super) connection: OwnedFd,
    pub(super) region: Arc<SharedMemory>,
    /// Where the lane begins that we write to, and the one we read from.
    pub(super) lanes: (usize, usize),
}

impl Meeting {
    pub(super) fn new(path: PathBuf) -> Meeting {
        Meeting { path, role: None }
    }

    /// The partner, if one is there. Never waits for one to come.
    pub(super) fn find(&mut self) -> io::Result<Option<Partner>> {
        if self.role.is_none() {
            self.role = match listen(&self.path)? {
                Some(listener) => Some(listener),
                None => connect(&self.path)?.map(Role::Guest),
            };
        }
        match self.role.take() {
            Some(Role::Guest(connection)) => self.be_received(connection),
            Some(listener) => {
                let guest = accept(listener.socket());
                self.role = Some(listener);
                guest
            }
            None => Ok(None),
        }
    }

    /// The memory, if the listener has handed it over.
    fn be_received(&mut self, connection: OwnedFd) -> io::Result<Option<Partner>> {
        let memory = match take_over(connection.as_raw_fd()) {
            Ok(Some(memory)) => memory,
            // It went; what becomes of us is decided anew.
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.role = Some(Role::Guest(connection));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let region = SharedMemory::adopt(memory.as_fd(), MEMORY)?;
        Ok(Some(Partner { connection, region: Arc::new(region), lanes: (lane::LEN, 0) }))
    }

    /// Becomes readable when there is news of a partner.
    pub(super) fn fd(&self) -> Option<RawFd> {
        self.role.as_ref().map(|role| role.socket().as_raw_fd())
    }
}

impl Role {
    fn socket(&self) -> &OwnedFd {
        match self {
            Role::Listener { socket, .. } | Role::Guest(socket) => socket,
        }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if let Some(Role::Listener { .. }) = self.role {
            // Under the lock, so that no other's are removed.
            let _ = std::fs::remove_file(&self.path);
            let _ = std::fs::remove_file(lock_path(&self.path));
        }
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// The mode of the socket and of the lock's file: a user who can open the lock's file can hold the lock.
const PRIVATE: libc::mode_t = 0o600;

/// Listen at `path`, or `None` if another process does.
fn listen(path: &Path) -> io::Result<Option<Role>> {
    let (addr, len) = unix_socket::address_of(path)?;
    check_directory(path)?;
    let Some(lock) = lock(&lock_path(path))? else { return Ok(None) };
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(refused(path, &format!("it is no socket but {}", regular::kind(meta.file_type()))));
        }
        Ok(meta) if !is_trusted(meta.uid()) => return Err(shared_dir::foreign(path, meta.uid())),
        Ok(_) => std::fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, 0)?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::fchmod(socket.as_raw_fd(), PRIVATE) })?;
    // SAFETY: `addr` is a socket address of `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), len) })?;
    // SAFETY: takes two numbers.
    check(unsafe { libc::listen(socket.as_raw_fd(), 1) })?;
    Ok(Some(Role::Listener { socket, _lock: lock }))
}

/// Is it root, or the user of this process?
fn is_trusted(user: u32) -> bool {
    [0, sys::user()].contains(&user)
}

/// Refuses a directory in which other users could replace what is there.
fn check_directory(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let meta = std::fs::metadata(dir)?;
    let name = dir.display();
    let why = if !is_trusted(meta.uid()) {
        format!("{name}: the directory belongs to {}; choose another", unix_socket::user_name(meta.uid()))
    } else if meta.mode() & 0o022 != 0 && meta.mode() & libc::S_ISVTX == 0 {
        format!("{name}: other users may replace files there; take that away (`chmod go-w {name}`)")
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

fn refused(path: &Path, why: &str) -> io::Error {
    let text = format!("{}: {why}; choose another path", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// The lock, or `None` if another process has it.
fn lock(path: &Path) -> io::Result<Option<OwnedFd>> {
    loop {
        let options = &mut std::fs::OpenOptions::new();
        // Read, too: a FIFO that is opened for both does not wait.
        let file = shared_dir::open(
            options.create(true).truncate(false).read(true).write(true).mode(PRIVATE),
            path,
        )?;
        if file.metadata()?.mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(PRIVATE))?;
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        // A holder removes the file before it lets go: what we locked may be a file that nothing finds any
        // more.
        let same = std::fs::symlink_metadata(path)
            .is_ok_and(|there| file.metadata().is_ok_and(|ours| ours.ino() == there.ino()));
        if same {
            return Ok(Some(file.into()));
        }
    }
}

/// Returns true if the process at the other end is root's or this user's.
fn is_friend(connection: &OwnedFd) -> io::Result<bool> {
    unix_socket::peer(connection.as_raw_fd()).map(is_trusted)
}

fn accept(listener: &OwnedFd) -> io::Result<Option<Partner>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let (addr, len) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: returns a new descriptor; the address is not asked for.
    let connection = match unsafe { sys::owned(libc::accept4(listener.as_raw_fd(), addr, len, flags)) } {
        Ok(connection) => connection,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    if !is_friend(&connection)? {
        return Ok(None);
    }
    let (region, memory) = SharedMemory::create(c"millstream-shm", MEMORY)?;
    match hand_over(connection.as_raw_fd(), memory.as_raw_fd()) {
        Ok(()) => Ok(Some(Partner { connection, region: Arc::new(region), lanes: (0, lane::LEN) })),
        // It went as it came.
        Err(_) => Ok(None),
    }
}

/// A connection to the program that listens at `path`, if there is one.
fn connect(path: &Path) -> io::Result<Option<OwnedFd>> {
    let connection = sys::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, 0)?;
    let (addr, len) = unix_socket::address_of(path)?;
    // SAFETY: `addr` is a socket address of `len` bytes.
    match check(unsafe { libc::connect(connection.as_raw_fd(), (&raw const addr).cast(), len) }) {
        Ok(_) if is_friend(&connection)? => Ok(Some(connection)),
        Ok(_) => Err(refused(path, "another user listens there")),
        // Between its lock and its listening, or ending, or with a queue of guests already.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ECONNREFUSED | libc::EAGAIN)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Room for the control message that carries one descriptor.
type Control = [u64; 8];

/// Say the greeting and hand a descriptor over.
fn hand_over(fd: RawFd, memory: RawFd) -> io::Result<()> {
    let mut place =
        libc::iovec { iov_base: (&raw const GREETING).cast_mut().cast(), iov_len: size_of_val(&GREETING) };
    let mut control: Control = [0; _];
    // SAFETY: all zero is a valid msghdr; its pointers lead to locals that outlive the call, and `control`
    // has room for the one header with the one descriptor that is written to it.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut place, 1);
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(memory);
        libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    check_len(sent).map(drop)
}

/// Hear the greeting and take the descriptor that comes with it; `None` if the listener went away instead.
fn take_over(fd: RawFd) -> io::Result<Option<OwnedFd>> {
    let mut greeting = [0_u32; GREETING.len()];
    let mut place = libc::iovec { iov_base: greeting.as_mut_ptr().cast(), iov_len: size_of_val(&greeting) };
    let mut control: Control = [0; _];
    // SAFETY: as in `hand_over`; the kernel writes no more than `msg_controllen` bytes, room for one
    // descriptor, and a descriptor it writes there is ours.
    let (got, memory) = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut place, 1);
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let got = check_len(libc::recvmsg(fd, &raw mut message, libc::MSG_CMSG_CLOEXEC))?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let carries = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
            && (*header).cmsg_len as usize == libc::CMSG_LEN(4) as usize;
        let memory =
            carries.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()));
        (got, memory)
    };
    match memory {
        Some(memory) if got == size_of_val(&GREETING) && greeting == GREETING => Ok(Some(memory)),
        None if got == 0 => Ok(None),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
