//! DPDK's environment (EAL): one for the process, started by the first link, kept to the end.

use super::ffi;
use crate::open_error::OpenError;
use std::collections::HashSet;
use std::ffi::{CString, c_char};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory for packets where there are no huge pages, MiB; used only as far as it is touched.
const MEMORY_MIB: &str = "512";
/// No device: what is opened is named one by one.
const NOTHING: &str = "0000:00:00.0";

/// State of this process's DPDK environment. The holder of its lock may open and close devices: DPDK's own
/// functions for that are not made for several threads.
pub(super) struct Eal {
    /// Arguments of its start, if this library started it.
    arguments: Option<Vec<String>>,
    running: bool,
    /// Names of devices that links of ours have open.
    pub(super) open: HashSet<String>,
}

static EAL: Mutex<Option<Eal>> = Mutex::new(None);

/// Held while devices are opened and closed.
pub(super) struct Held(MutexGuard<'static, Option<Eal>>);

impl Held {
    pub(super) fn now() -> Held {
        // Who panicked with it left nothing half done that a later user could not see.
        Held(EAL.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn eal(&mut self) -> &mut Eal {
        self.0.get_or_insert_with(|| Eal { arguments: None, running: false, open: HashSet::new() })
    }
}

impl Eal {
    /// Did a link of ours start it?
    pub(super) fn is_ours(&self) -> bool {
        self.arguments.is_some()
    }

    /// Starts it for the device `what`, with what the user added to its arguments, unless it runs.
    pub(super) fn start(&mut self, what: &str, more: &[String]) -> Result<(), OpenError> {
        if self.running {
            let known = self.arguments.as_deref().unwrap_or_default();
            return if more.iter().all(|word| known.contains(word)) { Ok(()) } else { Err(runs_already()) };
        }
        let arguments = arguments(what, more, has_huge_pages(), &cpus());
        let words: Result<Vec<CString>, _> =
            arguments.iter().map(|word| CString::new(word.as_str())).collect();
        let words = words.map_err(|_| OpenError::os("start DPDK", io::ErrorKind::InvalidInput.into()))?;
        // The library keeps what it was given.
        let words: &'static mut [*mut c_char] =
            words.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]).collect::<Vec<_>>().leak();
        let affinity = affinity();
        let ear = Ear::listen();
        // SAFETY: strings that end in NUL and stay, and a null pointer after them.
        let rc = unsafe { ffi::ms_dpdk_start(words.len() as i32 - 1, words.as_mut_ptr()) };
        // It pins the thread that starts it.
        if let Some(set) = affinity {
            // SAFETY: a set of CPUs of its own size, for the calling thread.
            unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
        }
        match rc {
            0 => self.arguments = Some(more.to_vec()),
            // The program uses DPDK by itself, and has chosen its arguments.
            libc::EALREADY if more.is_empty() => {}
            libc::EALREADY => return Err(runs_already()),
            error => return Err(failed(&ear.heard(), error, &arguments)),
        }
        self.running = true;
        Ok(())
    }
}

fn runs_already() -> OpenError {
    OpenError::Busy {
        what: "DPDK's environment".into(),
        help: "it runs in this process already and is started only once: give all eal= arguments with the first \
               dpdk: link, and none where the program itself calls rte_eal_init"
            .into(),
    }
}

fn failed(said: &str, error: i32, arguments: &[String]) -> OpenError {
    let arguments = arguments[1..].join(" ");
    let what = format!("DPDK with the arguments `{arguments}` ({})", last_line(said));
    if is_permission(error, said) {
        return privilege(what);
    }
    OpenError::Unusable {
        what,
        help: "its eal= arguments must be ones of this DPDK; where huge pages are reserved they must be free: see \
               /proc/meminfo, `sysctl vm.nr_hugepages=512`"
            .into(),
    }
}

pub(super) fn privilege(what: String) -> OpenError {
    OpenError::Privilege {
        what,
        help: "run as root; or give the user /dev/vfio/GROUP (network cards), CAP_NET_ADMIN (net_tap) or CAP_NET_RAW \
               (net_af_packet)"
            .into(),
    }
}

pub(super) fn is_permission(error: i32, said: &str) -> bool {
    // EPERM is -1, which drivers say for everything.
    error.abs() == libc::EACCES
        || ["ermission denied", "not permitted"].iter().any(|words| said.contains(words))
}

/// The last thing that was said, which mostly is the reason.
pub(super) fn last_line(said: &str) -> &str {
    said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing")
}

/// Returns the arguments for DPDK's start.
fn arguments(what: &str, more: &[String], huge: bool, cpus: &[usize]) -> Vec<String> {
    let says = |names: &[&str]| {
        more.iter().any(|word| {
            names
                .iter()
                .any(|name| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
        })
    };
    let mut all = vec!["millstream".to_owned(), "--no-telemetry".to_owned()];
    if !says(&["-l", "-c", "--lcores"]) && !cpus.is_empty() {
        // One thread of DPDK's own, free to run where this one may.
        let cpus = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        all.push(format!("--lcores=0@({cpus})"));
    }
    if !says(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        let device = if is_pci(what) { what.split(',').next().unwrap_or(what) } else { NOTHING };
        all.extend(["-a".to_owned(), device.to_owned()]);
    }
    if !says(&["--no-huge", "--in-memory", "--huge-dir", "--file-prefix"]) {
        if huge {
            // No files, so no other process, and nothing left behind.
            all.push("--in-memory".into());
        } else {
            all.extend(["--no-huge".to_owned(), "--no-shconf".to_owned()]);
        }
    }
    let no_huge = all.iter().chain(more).any(|word| word == "--no-huge");
    if no_huge && !says(&["-m", "--socket-mem"]) {
        all.extend(["-m".to_owned(), MEMORY_MIB.to_owned()]);
    }
    all.extend_from_slice(more);
    all
}

/// Is it written as a place on the PCI bus, `0000:03:00.0` or `03:00.0`?
pub(super) fn is_pci(what: &str) -> bool {
    let name = what.split(',').next().unwrap_or(what);
    let parts: Vec<_> = name.split([':', '.']).collect();
    let hex = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    (parts.len() == 3 || parts.len() == 4) && name.contains('.') && parts.iter().all(hex)
}

/// Are reserved huge pages free?
pub(super) fn has_huge_pages() -> bool {
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    sizes.map(|size| size.path().join("free_hugepages")).any(|path| number_in(&path) > 0)
}

fn number_in(path: &Path) -> u64 {
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn affinity() -> Option<libc::cpu_set_t> {
    // SAFETY: all zero is an empty set of CPUs.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable for its own size.
    let rc = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    (rc == 0).then_some(set)
}

/// The CPUs this thread may run on.
fn cpus() -> Vec<usize> {
    let Some(set) = affinity() else { return Vec::new() };
    // SAFETY: numbers below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Keeps what DPDK says, instead of the standard error stream, for the text of an error.
pub(super) struct Ear(());

impl Ear {
    pub(super) fn listen() -> Ear {
        // SAFETY: a switch.
        unsafe { ffi::ms_dpdk_listen(1) };
        Ear(())
    }

    pub(super) fn heard(&self) -> String {
        let mut text = [0u8; 2048];
        // SAFETY: `text` is writable for its length.
        let len = unsafe { ffi::ms_dpdk_said(text.as_mut_ptr().cast(), text.len()) };
        String::from_utf8_lossy(&text[..len]).into_owned()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        // SAFETY: a switch.
        unsafe { ffi::ms_dpdk_listen(0) };
    }
}

/// Registration of a thread that moves packets: a number, and a cache of buffers that belongs to it.
struct Entered(bool);

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this very thread entered.
            unsafe { ffi::ms_dpdk_leave_thread() };
        }
    }
}

/// The calling thread will move packets. Without a number left it does so without the cache.
#[inline]
pub(super) fn enter_thread() {
    thread_local! {
        // SAFETY: the environment runs, for there is a port.
        static ENTERED: Entered = Entered(unsafe { ffi::ms_dpdk_enter_thread() } == 0);
    }
    // A thread that ends has no use for it.
    let _ = ENTERED.try_with(|_| ());
}

#[cfg(test)]
mod tests;
