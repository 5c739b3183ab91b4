//! Descriptors: close(2), dup(2), pipe(2), and what fcntl(2) and ioctl(2) do for sockets.

use crate::boundary::{Refused, refuse};
use crate::memory;
use libc::{c_int, c_ulong};

/// SIOCOUTQNSD of include/uapi/linux/sockios.h; SIOCINQ and SIOCOUTQ are FIONREAD and TIOCOUTQ.
const SIOCOUTQNSD: c_ulong = 0x894b;

fn to_int(bytes: usize) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

api! {
    /// close(2). What was written still leaves, unless SO_LINGER says otherwise: keep the context open until it has,
    /// or close it with ms_close_ctx, which waits.
    fn ms_close(ctx, fd: c_int) -> c_int {
        ctx.sockets()?.close(fd)?;
        Ok(0)
    }

    /// dup(2).
    fn ms_dup(ctx, fd: c_int) -> c_int {
        Ok(ctx.opened(ctx.sockets()?.dup(fd)?))
    }

    /// pipe2(2): a pipe between threads of this context, for epoll and poll beside sockets. O_NONBLOCK and O_CLOEXEC.
    fn ms_pipe2(ctx, ends: *mut c_int, flags: c_int) -> c_int {
        if flags & !(libc::O_NONBLOCK | libc::O_CLOEXEC) != 0 {
            return Err(Refused(libc::EINVAL));
        }
        // SAFETY: C's contract: two of them.
        let ends = unsafe { memory::rows(ends, 2) }?;
        let (read, write) = ctx.pipe()?;
        if flags & libc::O_NONBLOCK != 0 {
            ctx.sockets()?.set_nonblocking(read, true)?;
            ctx.sockets()?.set_nonblocking(write, true)?;
        }
        ends.copy_from_slice(&[read, write]);
        Ok(0)
    }

    /// pipe(2).
    fn ms_pipe(ctx, ends: *mut c_int) -> c_int {
        // SAFETY: C's contract: two of them.
        let ends = unsafe { memory::rows(ends, 2) }?;
        let (read, write) = ctx.pipe()?;
        ends.copy_from_slice(&[read, write]);
        Ok(0)
    }

    /// fcntl(2) with F_GETFL and F_SETFL (O_NONBLOCK), F_GETFD and F_SETFD (FD_CLOEXEC, which always holds), F_DUPFD
    /// and F_DUPFD_CLOEXEC (from 0 on); `arg` is an int and always given. EINVAL for others.
    fn ms_fcntl(ctx, fd: c_int, command: c_int, arg: c_int) -> c_int {
        let sockets = ctx.sockets()?;
        let nonblocking = sockets.nonblocking(fd)?;
        match command {
            libc::F_GETFL => Ok(libc::O_RDWR | if nonblocking { libc::O_NONBLOCK } else { 0 }),
            libc::F_SETFL if arg & (libc::O_ASYNC | libc::O_APPEND | libc::O_DIRECT) != 0 => {
                Err(refuse(libc::EINVAL, "only O_NONBLOCK can be set"))
            }
            libc::F_SETFL => {
                sockets.set_nonblocking(fd, arg & libc::O_NONBLOCK != 0)?;
                Ok(0)
            }
            libc::F_GETFD => Ok(libc::FD_CLOEXEC),
            libc::F_SETFD if arg & libc::FD_CLOEXEC != 0 => Ok(0),
            libc::F_SETFD => Err(refuse(libc::EINVAL, "descriptors of a context do not survive exec")),
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC if arg == 0 => Ok(ctx.opened(sockets.dup(fd)?)),
            _ => Err(Refused(libc::EINVAL)),
        }
    }

    /// ioctl(2) with FIONREAD (SIOCINQ), SIOCOUTQ, SIOCOUTQNSD and FIONBIO; ENOTTY for others.
    fn ms_ioctl(ctx, fd: c_int, request: c_ulong, value: *mut c_int) -> c_int {
        let sockets = ctx.sockets()?;
        sockets.nonblocking(fd)?;
        let told = match request {
            libc::FIONREAD => sockets.readable(fd)?,
            libc::TIOCOUTQ => sockets.unsent(fd)?.0,
            SIOCOUTQNSD => sockets.unsent(fd)?.1,
            libc::FIONBIO => {
                // SAFETY: C's contract.
                let on = unsafe { memory::value(value) }?;
                sockets.set_nonblocking(fd, on != 0)?;
                return Ok(0);
            }
            _ => return Err(Refused(libc::ENOTTY)),
        };
        // SAFETY: C's contract.
        unsafe { memory::put(to_int(told), value) }?;
        Ok(0)
    }
}
