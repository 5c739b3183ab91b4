//! Opening and closing.

use crate::boundary::{Outcome, refuse, with_why};
use crate::context::{self, Context};
use crate::{VERSION, memory, settings};
use base::Duration;
use libc::{c_char, c_int};
use sock::Settings;
use std::ptr::null_mut;

/// The contexts that a list of settings asks for.
///
/// # Safety
/// `list` is NULL or an array of strings that ends in NULL.
unsafe fn opened(list: *const *const c_char, wanted: Option<usize>) -> Outcome<Vec<Context>> {
    // SAFETY: as the caller vouches.
    let pairs = unsafe { settings::pairs(list) }?;
    let mut settings =
        settings::settings(&pairs, Settings::from_environment).map_err(|e| refuse(libc::EINVAL, &e.0))?;
    if let Some(cores) = wanted {
        settings.cores = cores as u16;
    }
    context::open(&settings)
}

free_api! {
    /// Opens a stack of one core.
    ///
    /// `settings` holds names and values in turn and a NULL at the end:
    /// `{"link", "tap:mst0", "address", "10.0.0.1/24", NULL}`. `millstream settings` lists the names; "config" names a
    /// TOML file with more of them. The file comes first, then the environment (`MILLSTREAM_LINK`, ...), then the
    /// list: the later wins. NULL takes the environment alone.
    ///
    /// NULL with EINVAL for a setting that cannot be, EPERM or EACCES for a missing privilege, ENODEV for a link that
    /// cannot be opened otherwise; ms_error() says what to do.
    fn ms_open(settings: *const *const c_char) -> *mut Context {
        // SAFETY: C's contract.
        let mut contexts = unsafe { opened(settings, Some(1)) }?;
        Ok(contexts.pop().map_or(null_mut(), |context| Box::into_raw(Box::new(context))))
    }

    /// Opens a stack of `cores` cores, each with its own queue of the link, connections and ports, and puts a context
    /// for each into `into`. Give each to its own thread. Listeners of several cores share a port with SO_REUSEPORT.
    fn ms_open_cores(settings: *const *const c_char, into: *mut *mut Context, cores: c_int) -> c_int {
        let wanted = u16::try_from(cores).ok().filter(|cores| *cores > 0);
        let wanted = wanted.ok_or_else(|| refuse(libc::EINVAL, "the number of cores goes from 1 to 65535"))?;
        // SAFETY: C's contract.
        let slots = unsafe { memory::rows(into, usize::from(wanted)) }?;
        // SAFETY: C's contract.
        let contexts = unsafe { opened(settings, Some(slots.len())) }?;
        for (slot, context) in slots.iter_mut().zip(contexts) {
            *slot = Box::into_raw(Box::new(context));
        }
        Ok(cores)
    }

    /// Closes all descriptors of a context, waits `timeout_ms` at most until the peers have what was sent, and frees
    /// it: nothing may use it afterwards, or be inside a call at the time. -1 with EAGAIN if there was something left.
    fn ms_close_ctx(ctx: *mut Context, timeout_ms: c_int) -> c_int {
        // SAFETY: NULL, or what ms_open gave.
        let context = unsafe { ctx.as_ref() }.ok_or(crate::boundary::Refused(libc::EFAULT))?;
        context.sockets()?;
        let ended = context.end(Duration::from_millis(timeout_ms.max(0) as u64));
        // SAFETY: it came from Box::into_raw, and the program gives it up.
        drop(unsafe { Box::from_raw(ctx) });
        ended.map(|()| 0)
    }

    /// One sentence on this thread's last failure that had one to say; never NULL. Valid until the next one.
    fn ms_error() -> *const c_char {
        Ok(with_why(|why| why.as_ptr()))
    }

    /// The library's version.
    fn ms_version() -> *const c_char {
        Ok(VERSION.as_ptr())
    }
}
