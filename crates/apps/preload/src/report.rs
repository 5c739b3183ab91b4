//! Report at the end of a launch: every process writes lines to a file that `millstream run` has made, and
//! a process of the launcher sums them up. A message that was written there is not said a second time in the launch.
//!
//! A line is a word, the process's number and what there is to tell, with tabs between.

use crate::inside::inside;
use crate::real;
use crate::threads;
use libc::{c_int, c_void};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Variable by which `millstream run` names the file.
const VARIABLE: &str = "MILLSTREAM_REPORT";
/// Variable that is set where a program must not run on the kernel by accident.
const REQUIRE: &str = "MILLSTREAM_REQUIRE";
/// Most bytes of the file that are looked through for a message.
const FILE_MAX: usize = 256 << 10;
/// Most messages of a process that are kept where there is no file.
const SAID_MAX: usize = 64;

/// The file of this launch; -1 before it is opened, -2 if there is none.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// Which file that is: a program may have closed the number behind our back, and have another file there.
static INODE: AtomicU64 = AtomicU64::new(0);
/// Connections of sockets that listen on the link too, and of the program's own making, that were the kernel's.
static KERNELS: AtomicU64 = AtomicU64::new(0);

/// Messages of the launch.
struct Said {
    path: Option<CString>,
    required: bool,
}

static NAMED: OnceLock<Said> = OnceLock::new();

/// Returns what the environment said before the program could change it.
fn named() -> &'static Said {
    NAMED.get_or_init(|| Said {
        path: std::env::var(VARIABLE).ok().and_then(|path| CString::new(path).ok()),
        required: std::env::var_os(REQUIRE).is_some(),
    })
}

/// Returns true if what cannot be on the stack shall fail.
pub(crate) fn is_required() -> bool {
    named().required
}

/// The descriptor of the file, which a fork keeps.
pub(crate) fn file() -> c_int {
    FILE.load(Ordering::Acquire)
}

fn about(fd: c_int) -> Option<libc::stat> {
    let mut about = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: room for what is asked; zeroes are a `stat`.
    unsafe { (real::fstat(fd, about.as_mut_ptr()) == 0).then(|| about.assume_init()) }
}

/// Opens the file, while the process may: later it may have given up root.
pub(crate) fn open() -> Option<c_int> {
    let known = file();
    if known >= 0 {
        return about(known).filter(|about| about.st_ino == INODE.load(Ordering::Acquire)).map(|_| known);
    }
    if known == -2 {
        return None;
    }
    let opened = named().path.as_ref().and_then(|path| {
        let flags = libc::O_RDWR | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: a string.
        let fd = inside(|| threads::hidden(unsafe { libc::open(path.as_ptr(), flags) }));
        let about = about(fd)?;
        INODE.store(about.st_ino, Ordering::Release);
        Some(fd)
    });
    FILE.store(opened.unwrap_or(-2), Ordering::Release);
    opened
}

/// Returns the number that `millstream run` has, which is the program's own where it became the program.
pub(crate) fn launcher() -> Option<u32> {
    named().path.as_ref()?.to_str().ok()?.rsplit_once("launch-")?.1.parse().ok()
}

/// The first process of the launch is about to end: the process that tells does so before.
pub(crate) fn wait_until_told() {
    if launcher() != Some(std::process::id()) {
        return;
    }
    if let (Some(()), Some(fd)) = (write("over", ""), open()) {
        // It holds the file's lock for as long as it lives.
        // SAFETY: numbers alone.
        unsafe { libc::flock(fd, libc::LOCK_SH) };
    }
}

/// Adds a line.
fn write(word: &str, text: &str) -> Option<()> {
    let fd = open()?;
    let line = format!("{word}\t{}\t{}\n", std::process::id(), text.replace(['\n'], " "));
    // SAFETY: a line that is there for as long as the call takes. The file is at its end by itself.
    let done = unsafe { real::write(fd, line.as_ptr().cast::<c_void>(), line.len()) };
    (done == line.len() as isize).then_some(())
}

/// Is this the first time that the launch says so? Where there is no file, that the process does.
pub(crate) fn is_new(text: &str) -> bool {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.iter().any(|known| known == text) {
        return false;
    }
    if said.len() < SAID_MAX {
        said.push(text.to_owned());
    }
    drop(said);
    // A thread that wrote first says it.
    let Some(()) = write("said", text) else { return true };
    let (Some(fd), line) = (open(), format!("\t{text}")) else { return true };
    let mut all = vec![0; FILE_MAX];
    // SAFETY: as much room as is said.
    let got = unsafe { libc::pread64(fd, all.as_mut_ptr().cast::<c_void>(), all.len(), 0) };
    all.truncate(usize::try_from(got).unwrap_or(0));
    let all = String::from_utf8_lossy(&all);
    let first = all.lines().find(|known| known.starts_with("said\t") && known.ends_with(&line));
    first.is_none_or(|first| first == format!("said\t{}{line}", std::process::id()))
}

/// Something that could have been on the stack is on the kernel. What, and why.
pub(crate) fn fell_back(what: &str, why: &str) {
    write("kernel", &format!("{what}\t{why}"));
}

/// The stack of this process is open.
pub(crate) fn opened() {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    write("open", name.trim_end());
}

/// A socket listens on the stack.
pub(crate) fn listens(name: &str) {
    write("listen", name);
}

/// A connection of the kernel's was made or taken.
pub(crate) fn count_kernels() {
    KERNELS.fetch_add(1, Ordering::Relaxed);
}

/// This process is a child, which counts for itself.
pub(crate) fn forked() {
    KERNELS.store(0, Ordering::Relaxed);
}

/// The process ends: how much was on the stack.
/// `tcp` has TCP's counters, by name.
pub(crate) fn ends(tcp: &[(&'static str, u64)]) {
    let of = |name: &str| tcp.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
    let kernels = KERNELS.load(Ordering::Relaxed);
    write(
        "end",
        &format!(
            "{}\t{}\t{}\t{}\t{kernels}",
            of("passive_opens"),
            of("active_opens"),
            of("bytes_in"),
            of("bytes_out")
        ),
    );
}
