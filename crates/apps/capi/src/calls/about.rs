//! Information about a running stack.

use crate::boundary::{Outcome, Refused, refuse};
use crate::memory;
use libc::{c_char, c_int, size_t, timespec};
use serde_json::Value;
use sock::tree::{Node, TreeError};
use sock::{Engine, control};

/// Puts a text and a NUL there, as snprintf(3) does: the length it has, and as much of it as fits.
///
/// # Safety
/// C's contract for `into` and `room`.
unsafe fn put_text(text: &str, into: *mut c_char, room: size_t) -> Outcome<c_int> {
    // SAFETY: C's contract.
    let there = unsafe { memory::room(into.cast(), room) }?;
    if let Some(most) = there.len().checked_sub(1) {
        let fits = most.min(text.len());
        there[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        there[fits] = 0;
    }
    Ok(text.len() as c_int)
}

fn ask(ctx: &crate::Context, look: fn(&mut Engine) -> Value) -> Outcome<String> {
    let mut found = Value::Null;
    ctx.sockets()?.inspect(Box::new(|engine| found = look(engine)));
    Ok(found.to_string())
}

pub(super) fn untold(error: TreeError) -> Refused {
    refuse(error.errno().raw(), &error.to_string())
}

api! {
    /// Counters, table sizes and memory of the core as JSON, what `millstream stat --json` shows. Like snprintf(3): at
    /// most `room` bytes with the NUL; returns the length of the whole text.
    fn ms_stats(ctx, into: *mut c_char, room: size_t) -> c_int {
        let text = ask(ctx, control::stats)?;
        // SAFETY: C's contract.
        unsafe { put_text(&text, into, room) }
    }

    /// Every listener, connection and TIME-WAIT entry of the core as a JSON array, what `millstream ss` shows. Like
    /// snprintf(3).
    fn ms_connections(ctx, into: *mut c_char, room: size_t) -> c_int {
        let text = ask(ctx, |engine| Value::from(control::rows(engine)))?;
        // SAFETY: C's contract.
        unsafe { put_text(&text, into, room) }
    }

    /// The value of a name of the run-time tree (docs/OBSERVING.md): "net.inet.tcp.cc.algorithm". Like snprintf(3).
    /// ENOENT for a name that does not exist, EPERM for one that can only be written; ms_error() says more.
    fn ms_sysctl_get(ctx, name: *const c_char, into: *mut c_char, room: size_t) -> c_int {
        // SAFETY: C's contract.
        let name = unsafe { memory::text(name) }?;
        let value = ctx.tree()?.get(name).map_err(untold)?;
        // SAFETY: C's contract.
        unsafe { put_text(&value, into, room) }
    }

    /// Sets it, on all cores that were opened together. EINVAL for a value that cannot be, EPERM for a name that can
    /// only be read, EBUSY for what is in use.
    fn ms_sysctl_set(ctx, name: *const c_char, value: *const c_char) -> c_int {
        // SAFETY: C's contract.
        let (name, value) = unsafe { (memory::text(name)?, memory::text(value)?) };
        ctx.tree()?.set(name, value).map_err(untold)?;
        Ok(0)
    }

    /// The names below `prefix` ("" for all) as a JSON array: name, access ("r", "rw" or "w"), form, help. Like
    /// snprintf(3).
    fn ms_sysctl_list(ctx, prefix: *const c_char, into: *mut c_char, room: size_t) -> c_int {
        // SAFETY: C's contract.
        let prefix = unsafe { memory::text(prefix) }?;
        let nodes = ctx.tree()?.list(prefix).map_err(untold)?;
        let text = Value::from(nodes.iter().map(Node::json).collect::<Vec<_>>()).to_string();
        // SAFETY: C's contract.
        unsafe { put_text(&text, into, room) }
    }

    /// The time on the clock of the stamps that ms_recvmsg() tells; all contexts of a process share it.
    fn ms_clock(ctx, now: *mut timespec) -> c_int {
        let nanos = ctx.sockets()?.time().as_nanos();
        let (secs, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        // SAFETY: C's contract.
        unsafe { memory::put(timespec { tv_sec: secs as i64, tv_nsec: rest as i64 }, now) }?;
        Ok(0)
    }
}
