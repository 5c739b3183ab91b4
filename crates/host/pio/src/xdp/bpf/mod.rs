//! eBPF without a compiler or a library: an assembler, the program that steers packets, and the system call.

mod asm;
mod insn;
pub(crate) mod program;
pub(crate) mod sys;

use base::Addr;

/// Key of the map of what is local: an address of the interface (port 0), or an exact claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct LocalKey {
    addr: [u8; 16],
    zero: u16,
    /// In network order.
    port: u16,
}

const _: () = assert!(size_of::<LocalKey>() == 20);

impl LocalKey {
    /// The interface has this address.
    pub(crate) fn addr(addr: Addr) -> LocalKey {
        LocalKey::exact(addr, 0)
    }

    /// This address and port are ours.
    pub(crate) fn exact(addr: Addr, port: u16) -> LocalKey {
        LocalKey { addr: addr.bytes(), zero: 0, port: port.to_be() }
    }
}
