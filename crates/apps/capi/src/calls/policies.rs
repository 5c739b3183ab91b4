//! Congestion control of the program's own.

use super::about::untold;
use crate::boundary::{Refused, refuse};
use crate::memory;
use libc::{c_char, c_int};
use policy::abi::Table;
use policy::{Library, LoadError};

api! {
    /// Offers a policy of the program's own, as millstream_cc.h describes it, on all cores that were opened together:
    /// sockets choose it with TCP_CONGESTION, and "net.inet.tcp.cc.NAME" in the tree of names tunes it, withdraws it
    /// ("quiesced") and counts its users. No shared library, and no millstream_cc_policy(), is needed.
    ///
    /// The table is copied. Its hooks are called until the policy has been unregistered from every context and the last
    /// connection that has it is closed, from whichever thread turns the stack; they must not call this library.
    /// EINVAL for a table that is not what the header says (ms_error() tells why), EEXIST where there is a policy of
    /// that name, EBUSY where there are too many or init() refuses.
    fn ms_cc_register(ctx, policy: *const Table) -> c_int {
        let tree = ctx.tree()?;
        if policy.is_null() {
            return Err(Refused(libc::EFAULT));
        }
        // SAFETY: not NULL, so the program vouches that it is what the header says.
        let library = unsafe { Library::from_table(policy) }.map_err(|error| match error {
            LoadError::Version(text) => refuse(libc::EINVAL, &format!("a policy {text}")),
            other => refuse(libc::EINVAL, &other.to_string()),
        })?;
        tree.offer(&library).map_err(untold)?;
        Ok(0)
    }

    /// Takes a policy away on all cores: no new connection gets it. One that is the default, or that connections or
    /// listeners use, stays (EBUSY), unless `force` is not 0: then these go on with "newreno" and the window that they
    /// have. EPERM for newreno itself, ENOENT where there is no such policy.
    fn ms_cc_unregister(ctx, name: *const c_char, force: c_int) -> c_int {
        // SAFETY: C's contract.
        let name = unsafe { memory::text(name) }?;
        let how = if force == 0 { "net.inet.tcp.cc.remove" } else { "net.inet.tcp.cc.remove_force" };
        ctx.tree()?.set(how, name).map_err(untold)?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
