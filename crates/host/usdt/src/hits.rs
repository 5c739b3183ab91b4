//! How often a program reaches a point: the kernel's uprobes, as `perf stat` uses them.

use crate::Note;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Arguments of perf_event_open(2) (`struct perf_event_attr`, its first version and what uprobes need of the next).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    /// The path of the program.
    config1: u64,
    /// The place in its file.
    config2: u64,
}

/// `PERF_ATTR_SIZE_VER1`.
const _: () = assert!(size_of::<Attributes>() == 72);
/// `inherit`: threads that begin later are counted, too.
const INHERIT: u64 = 1 << 1;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: u64 = 8;
/// Where the kernel says which kind of event a uprobe is.
const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Counts how often the threads of a process reach a point. While it lives the point's semaphore is up.
#[derive(Debug)]
pub struct Hits {
    /// A counter for each thread.
    counters: Vec<File>,
    /// The path that their attributes point to: the kernel reads it whenever a counted thread begins another, which
    /// fails where it is gone. Fields are dropped in this order.
    _path: CString,
}

impl Hits {
    /// Begins to count for the process `pid`, which runs `program`, where `note` was found. Threads that begin later
    /// are counted in this process only: for a child's event the kernel reads the program's path again, at an address
    /// of ours, and another process could begin no thread meanwhile (EFAULT).
    ///
    /// # Errors
    /// The kernel has no uprobes, or does not let us; ESRCH if no thread of the process is left. Threads that end
    /// meanwhile are passed over.
    pub fn count(program: &Path, note: &Note, pid: u32) -> io::Result<Hits> {
        let kind = std::fs::read_to_string(KIND)?;
        let kind = kind.trim().parse().map_err(io::Error::other)?;
        let path = CString::new(program.as_os_str().as_bytes())?;
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config: note.semaphore << 32,
            flags: if pid == std::process::id() { INHERIT } else { 0 },
            config1: path.as_ptr() as u64,
            config2: note.place,
            ..Attributes::default()
        };
        let mut counters = Vec::new();
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?.file_name();
            let thread: i32 = thread.to_string_lossy().parse().map_err(io::Error::other)?;
            match open(&attributes, thread) {
                Ok(counter) => counters.push(counter),
                // The thread ended since it was listed: what it did is past.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        match counters.is_empty() {
            true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            false => Ok(Hits { counters, _path: path }),
        }
    }

    /// How often until now.
    ///
    /// # Errors
    /// The kernel did not say.
    pub fn so_far(&mut self) -> io::Result<u64> {
        let mut all = 0;
        for counter in &mut self.counters {
            let mut number = [0; 8];
            counter.read_exact(&mut number)?;
            all += u64::from_ne_bytes(number);
        }
        Ok(all)
    }
}

/// A counter for one thread, whichever core it runs on.
fn open(attributes: &Attributes, thread: i32) -> io::Result<File> {
    let (any_core, no_group) = (-1, -1);
    // SAFETY: the attributes and the path that they lead to live until the call returns; the kernel copies them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread,
            any_core,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us, and nothing else knows it.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}
