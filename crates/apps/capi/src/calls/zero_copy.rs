//! Without a copy: received bytes where they lie, and memory that a connection refers to until the peer has it.

use super::data::send_flags;
use crate::boundary::{Refused, refuse};
use libc::{c_int, c_void, size_t, ssize_t};
use std::sync::Arc;

/// Memory to lend. Opaque in C: `struct ms_buffer`.
pub struct Buffer {
    bytes: Arc<[u8]>,
}

/// Callback to which `ms_borrow` shows bytes; a nonzero result ends the call. In C: `ms_look *`.
pub type Look = unsafe extern "C" fn(arg: *mut c_void, bytes: *const c_void, len: size_t) -> c_int;

/// Most bytes of a buffer.
const BUFFER_MAX: usize = 1 << 30;

api! {
    /// Shows `look` at most `max` received bytes where they lie, piece by piece, until there are no more or it returns
    /// nonzero; how many were shown. They stay until ms_consume() drops them, their place only until `look` returns.
    /// Never waits: -1 with EAGAIN if there is nothing, 0 at the end. `look` must not call this library (EDEADLK).
    fn ms_borrow(ctx, fd: c_int, max: size_t, look: Option<Look>, arg: *mut c_void) -> ssize_t {
        let look = ctx.unless_no_socket(fd, look.ok_or(Refused(libc::EFAULT)))?;
        let mut shown: usize = 0;
        ctx.sockets()?.borrow(fd, max.min(isize::MAX as usize), &mut |piece| {
            shown += piece.len();
            // SAFETY: the program's function, with its argument and bytes that live as long as it runs.
            unsafe { look(arg, piece.as_ptr().cast(), piece.len()) == 0 }
        })?;
        Ok(shown as ssize_t)
    }

    /// Drops `len` bytes that ms_borrow() has shown.
    fn ms_consume(ctx, fd: c_int, len: size_t) -> c_int {
        ctx.sockets()?.consume(fd, len)?;
        Ok(0)
    }

    /// send(2) of `len` bytes of a buffer from `offset` on, without a copy where the link can (docs/C.md): the
    /// connection refers to the buffer until the peer has acknowledged them, and so long it stays busy.
    fn ms_lend(ctx, fd: c_int, buffer: *const Buffer, offset: size_t, len: size_t, flags: c_int) -> ssize_t {
        let flags = ctx.unless_no_socket(fd, send_flags(flags))?;
        // SAFETY: NULL, or what ms_buffer_new gave.
        let buffer = ctx.unless_no_socket(fd, unsafe { buffer.as_ref() }.ok_or(Refused(libc::EFAULT)))?;
        let end = offset.checked_add(len).filter(|end| *end <= buffer.bytes.len());
        let end = end.ok_or_else(|| refuse(libc::EINVAL, "the bytes to lend do not lie in the buffer"))?;
        Ok(ctx.sockets()?.lend(fd, &buffer.bytes, offset..end, flags)? as ssize_t)
    }
}

free_api! {
    /// A buffer of `len` bytes, all zero, for ms_lend(). Any number of connections and contexts may be lent it.
    fn ms_buffer_new(len: size_t) -> *mut Buffer {
        if len > BUFFER_MAX {
            return Err(refuse(libc::ENOMEM, "a buffer has at most 2^30 bytes"));
        }
        Ok(Box::into_raw(Box::new(Buffer { bytes: vec![0; len].into() })))
    }

    /// The bytes of a buffer, to be written to; ask again after each ms_lend(). NULL with EBUSY while a connection
    /// refers to them.
    fn ms_buffer_bytes(buffer: *mut Buffer) -> *mut c_void {
        // SAFETY: NULL, or what ms_buffer_new gave, and one thread at a time prepares a buffer.
        let buffer = unsafe { buffer.as_mut() }.ok_or(Refused(libc::EFAULT))?;
        let bytes = Arc::get_mut(&mut buffer.bytes).ok_or(Refused(libc::EBUSY))?;
        Ok(bytes.as_mut_ptr().cast())
    }

    /// 1 while a connection refers to the buffer, else 0.
    fn ms_buffer_busy(buffer: *const Buffer) -> c_int {
        // SAFETY: NULL, or what ms_buffer_new gave.
        let buffer = unsafe { buffer.as_ref() }.ok_or(Refused(libc::EFAULT))?;
        Ok(c_int::from(Arc::strong_count(&buffer.bytes) > 1))
    }

    /// Gives a buffer up; connections that refer to it still finish.
    fn ms_buffer_free(buffer: *mut Buffer) -> c_int {
        if !buffer.is_null() {
            // SAFETY: it came from Box::into_raw, and the program gives it up.
            drop(unsafe { Box::from_raw(buffer) });
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
