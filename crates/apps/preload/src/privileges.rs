//! Giving up root. Servers listen before they do and wait afterwards, or listen afterwards: so what listens does so on
//! the stack while the process may still have any port, and the process keeps what later claims take, and the opening
//! of a stack (`sock::give_up_root`). Not so helpers: a copy of a process that had sockets, which itself listens
//! nowhere, gives up everything.
//!
//! A program that drops capabilities by itself (capset) keeps none against its will: the stack is opened before.
//!
//! Some of what a stack opens lies outside a changed root directory, which is the second reason to listen at once.

use crate::boundary::{inside, is_inside, say};
use crate::description::{Kind, NONE};
use crate::real;
use crate::{listener, relay, report, stack, table, threads};
use capi::memory::is_nowhere;
use libc::{c_char, c_int, c_void, uid_t};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// This process, a copy without a stack, or one that it was copied from, has changed its root directory or dropped
/// capabilities.
static CUT_OFF: AtomicBool = AtomicBool::new(false);
/// As before, it has given up root.
static LEFT_ROOT: AtomicBool = AtomicBool::new(false);

/// Returns true if this process has given up what opening a stack takes, and another one may act for it.
pub(crate) fn is_cut_off() -> bool {
    // SAFETY: takes nothing.
    let is_root = || unsafe { libc::geteuid() } == 0;
    let is_cut_off = || CUT_OFF.load(Ordering::Relaxed) || LEFT_ROOT.load(Ordering::Relaxed) && !is_root();
    relay::channel() != NONE && stack::opened().is_none() && is_cut_off()
}

/// Notes the outcome of a call that cuts off a copy without a stack.
fn note(what: &AtomicBool, done: c_int) -> c_int {
    if done == 0 && stack::is_copy() && stack::opened().is_none() {
        what.store(true, Ordering::Relaxed);
    }
    done
}

/// A user that a call leaves as it is.
const SAME: uid_t = uid_t::MAX;

/// Whatever listens does so on the stack. Does anything?
fn listen_now() -> bool {
    inside(|| {
        let (ours, _) = table::all();
        let mut any = false;
        for fd in ours {
            let Some(held) = table::ours(fd).filter(|held| held.kind() == Kind::Listener) else { continue };
            any = true;
            // What goes wrong is said; the call that waits for the listener fails by it.
            let Ok(stack) = stack::open() else { break };
            if listener::claim_below(stack, &held, fd).is_err() {
                break;
            }
        }
        any
    })
}

/// Opens the log that may begin later.
fn keep_log(settings: &sock::Settings) {
    if let Err(why) = inside(|| sock::tree::keep_log(settings)) {
        say(&why);
    }
}

/// Returns true if a socket of the process listens that may be on the stack.
fn any_listens() -> bool {
    inside(|| table::all().0.into_iter().filter_map(table::ours).any(|held| held.kind() == Kind::Listener))
}

/// Signal that the kernel sends to this process when `millstream run` ends, 0 for none: it clears that with the user.
static AT_RUNS_END: AtomicI32 = AtomicI32::new(0);

/// As the program is loaded.
pub(crate) fn note_launch() {
    let mut signal = 0;
    // SAFETY: room for a number.
    if unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) } == 0 {
        AT_RUNS_END.store(signal, Ordering::Relaxed);
    }
}

/// Changes the effective user to `user`.
fn change(user: uid_t, call: impl FnOnce() -> c_int) -> c_int {
    let done = change_with_link(user, call);
    let (signal, run) = (AT_RUNS_END.load(Ordering::Relaxed), std::os::unix::process::parent_id());
    if done == 0 && signal != 0 && report::launcher() == Some(run) {
        // SAFETY: numbers alone.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) };
    }
    done
}

fn change_with_link(user: uid_t, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: takes nothing.
    let leaves = user != 0 && user != SAME && unsafe { libc::geteuid() } == 0;
    let Some(settings) = stack::settings().filter(|_| leaves) else { return call() };
    // Later they may not be opened any more.
    report::open();
    keep_log(settings);
    let listens = listen_now();
    let done = if listens || !stack::is_copy() {
        sock::give_up_root(&settings.link, call)
    } else {
        note(&LEFT_ROOT, call())
    };
    if done == 0 {
        listener::LISTENED_AS_ROOT.fetch_or(listens, Ordering::Relaxed);
        stack::tell_of_errors(settings);
    }
    done
}

pub(crate) unsafe fn setuid(user: uid_t) -> c_int {
    // SAFETY: numbers alone.
    change(user, || unsafe { real::setuid(user) })
}

pub(crate) unsafe fn seteuid(user: uid_t) -> c_int {
    // SAFETY: numbers alone.
    change(user, || unsafe { real::seteuid(user) })
}

pub(crate) unsafe fn setreuid(own: uid_t, effective: uid_t) -> c_int {
    // SAFETY: numbers alone.
    change(effective, || unsafe { real::setreuid(own, effective) })
}

pub(crate) unsafe fn setresuid(own: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    // SAFETY: numbers alone.
    change(effective, || unsafe { real::setresuid(own, effective, saved) })
}

/// Versions of capset(2)'s head whose sets have one word and two.
const ONE_WORD: u32 = 0x1998_0330;
const TWO_WORDS: [u32; 2] = [0x2007_1026, 0x2008_0522];

/// Returns the sets that capset(2) is asked for. `None` where the kernel refuses the call by its arguments alone.
///
/// # Safety
/// C's contract of capset(2).
unsafe fn asked(header: *const c_void, data: *const c_void) -> Option<threads::Sets> {
    if is_nowhere(header) || is_nowhere(data) {
        return None;
    }
    // SAFETY: a head that begins with a version; and as many sets as the version has words.
    unsafe {
        match header.cast::<u32>().read_unaligned() {
            ONE_WORD => Some([data.cast::<[u32; 3]>().read_unaligned(), [0; 3]]),
            version if TWO_WORDS.contains(&version) => Some(data.cast::<threads::Sets>().read_unaligned()),
            _ => None,
        }
    }
}

pub(crate) unsafe fn capset(header: *mut c_void, data: *const c_void) -> c_int {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::capset(header, data) };
    if !is_inside()
        && let Some(settings) = stack::settings()
        // SAFETY: the caller's arguments.
        && let Some(left) = unsafe { asked(header, data) }
        && sock::loses_link(&settings.link, u64::from(left[1][0]) << 32 | u64::from(left[0][0]))
    {
        if !any_listens() && stack::is_copy() {
            return note(&CUT_OFF, kernels());
        }
        report::open();
        stack::open_before_loss(left);
        if stack::opened().is_some() {
            listen_now();
        }
    }
    kernels()
}

pub(crate) unsafe fn chroot(path: *const c_char) -> c_int {
    if let Some(settings) = stack::settings() {
        keep_log(settings);
        listen_now();
    }
    // SAFETY: the caller's argument.
    let done = unsafe { real::chroot(path) };
    if stack::settings().is_some() { note(&CUT_OFF, done) } else { done }
}
