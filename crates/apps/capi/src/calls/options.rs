//! Socket options.

use crate::boundary::Refused;
use crate::memory;
use libc::{c_int, c_void, socklen_t};

/// No option takes more (`struct tcp_ao_add`, with room for what a program hands over too much).
const VALUE_MAX: usize = 65_536;

doors! {
    /// setsockopt(2), with Linux's numbers and structures; docs/C.md lists them. ENOPROTOOPT for what this stack does
    /// not know: nothing succeeds without an effect.
    fn ms_setsockopt(ctx, fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        if len > i32::MAX as u32 {
            return ctx.unless_no_socket(fd, Err(Refused(libc::EINVAL)));
        }
        // SAFETY: C's contract.
        let octets = unsafe { memory::octets(value, (len as usize).min(VALUE_MAX)) };
        let octets = ctx.unless_no_socket(fd, octets)?;
        ctx.sockets()?.setsockopt(fd, level, name, octets)?;
        Ok(0)
    }

    /// getsockopt(2), with Linux's numbers and structures.
    fn ms_getsockopt(ctx, fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        ctx.is_v6(fd)?;
        // SAFETY: C's contract.
        let into = unsafe { memory::room(value, memory::length(len)?) }?;
        let told = ctx.sockets()?.getsockopt(fd, level, name, into)?;
        // SAFETY: C's contract.
        unsafe { memory::put(told as socklen_t, len) }?;
        Ok(0)
    }
}
