//! Bytes between two descriptors: sendfile and splice with a connection at one end.
//!
//! The kernel's socket under a connection is one that was never connected. So the kernel itself looks at the arguments
//! and waits for the pipe: when it says at last that nothing is connected (ENOTCONN), everything else is right. What
//! cannot be taken at once must not be lost, so bytes pass through a pipe of the thread's own, the tray, in which
//! no other thread reads and writes: a copy of them goes there, and only what was taken is taken away.

use crate::bell;
use crate::boundary::{Outcome, Refused, answered, errno, guard, inside, is_inside, outside, set_errno};
use crate::data;
use crate::description::Kind;
use crate::real;
use crate::sleep::by_kernel;
use crate::table::{self, Held, Place};
use crate::{relay, stack, threads};
use capi::calls::data as c;
use capi::memory;
use libc::{c_int, c_uint, c_void, off_t, size_t, ssize_t};
use sock::Sockets;
use std::cell::{Cell, RefCell};
use std::ptr::null_mut;

/// Bytes of a file that sendfile has in hand at a time.
const PIECE: usize = 256 << 10;
/// Bytes that a pipe takes at a time, if it is empty and nothing has made it smaller.
const TRAY: usize = 64 << 10;

thread_local! {
    static IN_HAND: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static KEPT: Cell<Option<Tray>> = const { Cell::new(None) };
}

/// Runs `call` with a buffer of this thread's.
fn with_buffer<R>(len: usize, call: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut bytes = IN_HAND.take();
    bytes.resize(len.max(bytes.len()), 0);
    let result = call(&mut bytes[..len]);
    IN_HAND.set(bytes);
    result
}

/// The connection that a number stands for.
fn connection(fd: c_int, ours_calls: bool) -> Outcome<Option<Held>> {
    match table::look(fd) {
        Place::Hidden if !ours_calls => Err(Refused(libc::EBADF)),
        Place::Kernel | Place::Hidden => Ok(None),
        Place::Ours(held) => {
            relay::settle(&held)?;
            Ok(Some(held).filter(|held| held.kind() == Kind::Stream))
        }
    }
}

/// Is this a socket of ours with O_APPEND?
fn appends(fd: c_int) -> bool {
    matches!(table::look(fd), Place::Ours(held) if held.flags() & libc::O_APPEND != 0)
}

pub(crate) unsafe fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the caller's arguments.
    unsafe { sendfile_or(real::sendfile, to, from, offset, count) }
}

/// # Safety
/// C's contract of sendfile(2).
pub(crate) unsafe fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the caller's arguments.
    unsafe { sendfile_or(real::sendfile64, to, from, offset, count) }
}

type SendFile = unsafe fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;

#[inline(always)]
unsafe fn sendfile_or(
    kernels: SendFile,
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { kernels(to, from, offset, count) };
    if table::is_kernels(to) && table::is_kernels(from) {
        return kernels();
    }
    let ours_calls = is_inside();
    guard(|| match (connection(to, ours_calls)?, connection(from, ours_calls)?) {
        // SAFETY: C's contract for `offset`.
        (Some(held), None) => unsafe { send_file(&held, to, from, offset, count) },
        // Of what is no file only a pipe takes anything.
        (None, Some(held)) if offset.is_null() => into_pipe(&held, to, count, &kernels),
        // The kernel's socket under a listener does not know this flag.
        // SAFETY: the caller's arguments.
        (None, None) if appends(to) => match unsafe { real::sendfile(to, from, offset, 0) } {
            0.. => Err(Refused(libc::EINVAL)),
            failed => answered(failed),
        },
        _ => by_kernel([(from, libc::POLLIN), (to, libc::POLLOUT)], kernels),
    })
}

unsafe fn send_file(
    held: &Held,
    fd: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> Outcome<ssize_t> {
    // The kernel looks at the arguments: nothing is sent of nothing.
    // SAFETY: the caller's arguments.
    let said = unsafe { real::sendfile(fd, from, offset, 0) };
    if said >= 0 && held.flags() & libc::O_APPEND != 0 {
        return Err(Refused(libc::EINVAL));
    }
    if said < 0 || count == 0 {
        return answered(said);
    }
    // SAFETY: C's contract for `offset`, which the kernel has read; the rest is numbers.
    let begin = unsafe {
        if offset.is_null() { libc::lseek(from, 0, libc::SEEK_CUR) } else { offset.read_unaligned() }
    };
    if begin < 0 {
        // Not a file: what cannot be read again cannot be sent in part.
        return Err(Refused(if errno() == libc::ESPIPE { libc::EINVAL } else { errno() }));
    }
    let done = with_buffer(PIECE, |piece| send_pieces(held, fd, from, begin, count, piece))?;
    if done > 0 {
        // SAFETY: as above.
        unsafe {
            if offset.is_null() {
                libc::lseek(from, begin + done as off_t, libc::SEEK_SET);
            } else {
                memory::put(begin + done as off_t, offset)?;
            }
        }
    }
    answered(done)
}

fn send_pieces(
    held: &Held,
    fd: c_int,
    from: c_int,
    begin: off_t,
    count: size_t,
    piece: &mut [u8],
) -> Outcome<ssize_t> {
    let mut all = 0;
    while all < count {
        let wanted = piece.len().min(count - all);
        // SAFETY: as much room as is said.
        let got =
            unsafe { libc::pread64(from, piece.as_mut_ptr().cast::<c_void>(), wanted, begin + all as off_t) };
        if got <= 0 {
            return if got < 0 && all == 0 { Ok(-1) } else { Ok(all as ssize_t) };
        }
        let more = if all + (got as usize) < count && got as usize == wanted { libc::MSG_MORE } else { 0 };
        // SAFETY: as many bytes as were read.
        let done = unsafe { data::send(held, fd, piece.as_ptr().cast::<c_void>(), got as size_t, more)? };
        if done < 0 {
            return if all == 0 { Ok(-1) } else { Ok(all as ssize_t) };
        }
        all += done as usize;
        if done < got {
            break;
        }
    }
    Ok(all as ssize_t)
}

pub(crate) unsafe fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::splice(from, from_offset, to, to_offset, len, flags) };
    if table::is_kernels(from) && table::is_kernels(to) {
        return kernels();
    }
    let ours_calls = is_inside();
    guard(|| match (connection(from, ours_calls)?, connection(to, ours_calls)?) {
        (Some(held), None) => into_pipe(&held, to, len, &kernels),
        // With an offset there is always something wrong, and so with flags that there are not.
        (None, Some(held)) if from_offset.is_null() && to_offset.is_null() && flags & !KNOWN == 0 => {
            out_of_pipe(&held, from, to, len, flags)
        }
        _ => by_kernel([(from, libc::POLLIN), (to, libc::POLLOUT)], kernels),
    })
}

/// Flags of splice(2).
const KNOWN: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// From a connection into a pipe. `kernels` asks the kernel the same of the socket that it has.
fn into_pipe(held: &Held, to: c_int, len: size_t, kernels: &dyn Fn() -> ssize_t) -> Outcome<ssize_t> {
    // It waits for room in the pipe; the program's handlers may run.
    let is_right = || {
        let said = outside(kernels);
        if said < 0 && errno() == libc::ENOTCONN { Ok(()) } else { Err(said) }
    };
    if let Err(said) = is_right() {
        return answered(said);
    }
    let (stack, tray) = (stack::open()?, Tray::take()?);
    let done = with_buffer(TRAY, |piece| {
        let mut all = 0;
        // What has something asks no further: an end or an error is the next call's to tell.
        while all < len && (all == 0 || stack.runner.readable(held.below())? > 0) {
            let flags = libc::MSG_PEEK | if all > 0 { libc::MSG_DONTWAIT } else { 0 };
            let (room, most) = (piece.as_mut_ptr().cast::<c_void>(), TRAY.min(len - all));
            // SAFETY: as much room as is said.
            let got = unsafe { c::ms_recv(stack.context(), held.below(), room, most, flags) };
            let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else {
                return Ok(if all > 0 { all as ssize_t } else { got });
            };
            match usize::try_from(tray.pass(&mut piece[..got], to)) {
                Ok(moved) => {
                    stack.runner.consume(held.below(), moved)?;
                    all += moved;
                    if moved < got {
                        break;
                    }
                }
                Err(_) if all > 0 => break,
                // Another thread was faster.
                Err(_) if errno() == libc::EAGAIN => {
                    if let Err(said) = is_right() {
                        return Ok(said);
                    }
                }
                Err(_) => return Ok(-1),
            }
        }
        Ok(all as ssize_t)
    });
    tray.keep();
    done
}

/// From a pipe to a connection.
fn out_of_pipe(held: &Held, from: c_int, to: c_int, len: size_t, flags: c_uint) -> Outcome<ssize_t> {
    let tray = Tray::take()?;
    let done = with_buffer(TRAY, |piece| {
        let mut all = 0;
        while all < len {
            let wait = if all > 0 { libc::SPLICE_F_NONBLOCK } else { flags & libc::SPLICE_F_NONBLOCK };
            let got = tray.look_into(from, &mut piece[..TRAY.min(len - all)], wait);
            let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else {
                return Ok(if all > 0 { all as ssize_t } else { got });
            };
            let ends = got == len - all && flags & libc::SPLICE_F_MORE == 0;
            let more = if ends { 0 } else { libc::MSG_MORE };
            // SAFETY: as many bytes as are there.
            let sent = unsafe { data::send(held, to, piece.as_ptr().cast::<c_void>(), got, more)? };
            let Some(sent) = usize::try_from(sent).ok() else {
                return Ok(if all > 0 { all as ssize_t } else { -1 });
            };
            take_away(from, &mut piece[..sent]);
            all += sent;
            if sent < got {
                break;
            }
        }
        Ok(all as ssize_t)
    });
    tray.keep();
    done
}

/// Reads what is certainly there.
fn take_away(from: c_int, bytes: &mut [u8]) {
    let mut gone = 0;
    while gone < bytes.len() {
        let rest = &mut bytes[gone..];
        // SAFETY: as much room as is there.
        match unsafe { real::read(from, rest.as_mut_ptr().cast::<c_void>(), rest.len()) } {
            got if got > 0 => gone += got as usize,
            _ if errno() == libc::EINTR => {}
            // Another thread reads the same pipe: then nothing can say whose the bytes were.
            _ => break,
        }
    }
}

/// A pipe of the thread's own, empty between calls.
struct Tray {
    /// In which process it was made ([`bell::forks`]).
    of: u32,
    read: c_int,
    write: c_int,
}

impl Tray {
    /// The thread's. A handler of a signal that comes meanwhile gets another.
    fn take() -> Result<Tray, Refused> {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        if let Some(tray) = kept {
            if tray.of == bell::forks() {
                return Ok(tray);
            }
            // The parent's, whose numbers are others' here.
            std::mem::forget(tray);
        }
        let mut ends = [0; 2];
        // SAFETY: room for two.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(Refused(errno()));
        }
        let [read, write] = ends.map(threads::hidden);
        Ok(Tray { of: bell::forks(), read, write })
    }

    /// The thread needs it again.
    fn keep(self) {
        let errno = errno();
        let mut tray = Some(self);
        // A thread that is about to end keeps nothing.
        let before = KEPT.try_with(|kept| kept.replace(tray.take()));
        drop((tray, before));
        set_errno(errno);
    }

    /// Hands bytes to a pipe without waiting; how many it took.
    fn pass(&self, bytes: &mut [u8], to: c_int) -> ssize_t {
        // SAFETY: bytes that are there; numbers. The tray is empty and takes them all.
        let (put, moved) = unsafe {
            let put = real::write(self.write, bytes.as_ptr().cast::<c_void>(), bytes.len());
            let wanted = put.max(0) as usize;
            let flags = libc::SPLICE_F_NONBLOCK;
            (wanted, outside(|| real::splice(self.read, null_mut(), to, null_mut(), wanted, flags)))
        };
        let errno = errno();
        take_away(self.read, &mut bytes[..put - moved.max(0) as usize]);
        set_errno(errno);
        moved
    }

    /// Peeks at the content of a pipe; waits for something unless `flags` say otherwise.
    fn look_into(&self, from: c_int, bytes: &mut [u8], flags: c_uint) -> ssize_t {
        // SAFETY: numbers; the program's handlers may run.
        let got = outside(|| unsafe { libc::tee(from, self.write, bytes.len(), flags) });
        let errno = errno();
        take_away(self.read, &mut bytes[..got.max(0) as usize]);
        set_errno(errno);
        got
    }
}

impl Drop for Tray {
    fn drop(&mut self) {
        inside(|| {
            for fd in [self.read, self.write] {
                table::remove_hidden(fd);
                // SAFETY: numbers that no other thread knows.
                unsafe { real::close(fd) };
            }
        });
    }
}
