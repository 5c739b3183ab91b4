//! The bpf(2) system call: maps, programs, links.

use super::insn::Insn;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands, by their number in `enum bpf_cmd`.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Command {
    MapCreate = 0,
    MapUpdate = 2,
    MapDelete = 3,
    ProgLoad = 5,
    #[cfg(test)]
    ProgTestRun = 10,
    LinkCreate = 28,
    LinkUpdate = 29,
}

/// Kinds of map, by their number in `enum bpf_map_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    Sockets = 17,
}

/// The values can be mapped into this process.
pub(crate) const F_MMAPABLE: u32 = 1 << 10;
/// Entries are allocated when they are inserted.
pub(crate) const F_NO_PREALLOC: u32 = 1;

const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program copes with packets of several buffers (Linux 5.18).
const F_XDP_HAS_FRAGS: u32 = 1 << 5;

/// Where on the interface the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Hook {
    /// In the network stack, on any interface.
    Generic = 1 << 1,
    /// In the driver.
    Native = 1 << 2,
}

const VERIFIER_LOG: usize = 256 << 10;

/// The kernel refused the program.
#[derive(Debug)]
pub(crate) struct LoadError {
    pub(crate) error: io::Error,
    /// Log of the verifier; empty if it was not asked (no privilege, no memory).
    pub(crate) log: String,
}

/// # Safety
/// `attr` is what the command expects, with pointers that are valid for what the command does with them.
unsafe fn bpf<A>(command: Command, attr: &mut A) -> io::Result<i32> {
    // SAFETY: the caller's promise; `attr` is valid for its own size.
    let rc =
        unsafe { libc::syscall(libc::SYS_bpf, command as i32, core::ptr::from_mut(attr), size_of::<A>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel just made this descriptor for us, and nothing else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Names are for `bpftool`: at most 15 bytes, cut.
fn name(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    let len = text.len().min(15);
    out[..len].copy_from_slice(&text.as_bytes()[..len]);
    out
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
    numa_node: u32,
    name: [u8; 16],
}

/// A map with room for `max_entries`; sizes in bytes.
pub(crate) fn create_map(
    kind: MapKind,
    text: &str,
    key_size: usize,
    value_size: usize,
    max_entries: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        kind: kind as u32,
        key_size: key_size as u32,
        value_size: value_size as u32,
        max_entries,
        flags,
        inner: 0,
        numa_node: 0,
        name: name(text),
    };
    // SAFETY: the attribute has no pointers.
    unsafe { bpf(Command::MapCreate, &mut attr) }.map(owned)
}

#[repr(C)]
struct MapElement {
    fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element<K, V>(map: &OwnedFd, key: &K, value: Option<&V>) -> MapElement {
    MapElement {
        fd: map.as_raw_fd() as u32,
        pad: 0,
        key: core::ptr::from_ref(key) as u64,
        value: value.map_or(0, |v| core::ptr::from_ref(v) as u64),
        flags: 0,
    }
}

/// Inserts or replaces. `K` and `V` are plain bytes of exactly the sizes the map was made with.
pub(crate) fn update<K: Copy, V: Copy>(map: &OwnedFd, key: &K, value: &V) -> io::Result<()> {
    let mut attr = element(map, key, Some(value));
    // SAFETY: the kernel reads a key and a value of the map's sizes, which the callers of this room keep
    // equal.
    unsafe { bpf(Command::MapUpdate, &mut attr) }.map(|_| ())
}

/// Deletes; an entry that is not there counts as deleted.
pub(crate) fn delete<K: Copy>(map: &OwnedFd, key: &K) -> io::Result<()> {
    let mut attr = element::<K, ()>(map, key, None);
    // SAFETY: the kernel reads a key of the map's size.
    match unsafe { bpf(Command::MapDelete, &mut attr) } {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    insn_count: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    expected_attach: u32,
}

/// Loads an XDP program, if need be one that only copes with single-buffer packets: the second answer says
/// whether it copes with more.
pub(crate) fn load_xdp(text: &str, insns: &[Insn]) -> Result<(OwnedFd, bool), LoadError> {
    match load(text, insns, F_XDP_HAS_FRAGS, &mut []) {
        Ok(fd) => return Ok((fd, true)),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            return Err(LoadError { error, log: String::new() });
        }
        Err(_) => {}
    }
    if let Ok(fd) = load(text, insns, 0, &mut []) {
        return Ok((fd, false));
    }
    let mut log = vec![0; VERIFIER_LOG];
    match load(text, insns, 0, &mut log) {
        Ok(fd) => Ok((fd, false)),
        Err(error) => {
            let log =
                CStr::from_bytes_until_nul(&log).map_or(String::new(), |s| s.to_string_lossy().into_owned());
            Err(LoadError { error, log })
        }
    }
}

fn load(text: &str, insns: &[Insn], flags: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    let license = c"MIT OR Apache-2.0";
    let mut attr = ProgLoad {
        kind: PROG_TYPE_XDP,
        insn_count: insns.len() as u32,
        insns: insns.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags,
        name: name(text),
        ifindex: 0,
        expected_attach: ATTACH_XDP,
    };
    // SAFETY: instructions and licence are read, the log is written within its size; all live through the
    // call.
    unsafe { bpf(Command::ProgLoad, &mut attr) }.map(owned)
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    ifindex: u32,
    attach: u32,
    flags: u32,
}

/// Attaches a program to an interface for as long as the returned descriptor lives (Linux 5.9): when the
/// process dies, however it dies, the kernel closes the descriptor and the program is off the interface.
pub(crate) fn attach_xdp(program: &OwnedFd, ifindex: u32, hook: Hook) -> io::Result<OwnedFd> {
    let mut attr =
        LinkCreate { program: program.as_raw_fd() as u32, ifindex, attach: ATTACH_XDP, flags: hook as u32 };
    // SAFETY: the attribute has no pointers.
    unsafe { bpf(Command::LinkCreate, &mut attr) }.map(owned)
}

#[repr(C)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old: u32,
}

/// Puts another program in the place of the one that `link` has attached. The driver gets none that is there already.
pub(crate) fn update_link(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let (link, program) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let mut attr = LinkUpdate { link, program, flags: 0, old: 0 };
    // SAFETY: the attribute has no pointers.
    unsafe { bpf(Command::LinkUpdate, &mut attr) }.map(drop)
}

#[cfg(test)]
pub(crate) mod test_run {
    //! Running a program on bytes, without an interface.
    use super::*;

    #[repr(C)]
    struct ProgTestRun {
        program: u32,
        retval: u32,
        size_in: u32,
        size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
    }

    /// The action for `packet`, and the mean nanoseconds of `repeat` runs.
    pub(crate) fn run(program: &OwnedFd, packet: &[u8], repeat: u32) -> io::Result<(u32, u32)> {
        let mut attr = ProgTestRun {
            program: program.as_raw_fd() as u32,
            retval: 0,
            size_in: packet.len() as u32,
            size_out: 0,
            data_in: packet.as_ptr() as u64,
            data_out: 0,
            repeat,
            duration: 0,
        };
        // SAFETY: the packet is read within its size; nothing is written but the attribute.
        unsafe { bpf(Command::ProgTestRun, &mut attr) }?;
        Ok((attr.retval, attr.duration))
    }
}
