//! The program's handlers of signals do not run inside our own stack: what they would interrupt holds locks, and they
//! may use connections, fork, or jump out of it for ever. A handler that the program installs is ours for the kernel;
//! while the thread is inside, it puts the signal back, blocked until the thread leaves or falls asleep, when the
//! kernel delivers it with all that it knows of it. What a thread does to itself (SIGSEGV and its like) waits for
//! nothing. Of SIGSEGV and SIGBUS our handler stands before the program's as well, for calls on memory that is not
//! there ([`touch`]); the program sees its own.

use crate::bell::forks;
use crate::inside::{bit, change, comes_late, is_inside, late, outside};
use crate::real::{self, errno, set_errno};
use crate::touch;
use capi::host::signals_end_calls;
use libc::{c_int, c_void, sighandler_t, siginfo_t, sigset_t, ucontext_t};
use sock::runner::Nap;
use std::os::fd::RawFd;
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Those whose handlers end calls although signal(2) installs them: siginterrupt(3) has said so.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// Signals are 1 to this, as the kernel counts them.
const SIGNALS: usize = 64;

/// Those that the thread's own instructions cause: it cannot go on before they are handled.
const SYNCHRONOUS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];

/// Those of [`SYNCHRONOUS`] that memory causes which is not there.
const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Flags that [`arrives`] implements itself, because the kernel would do it at the first of two deliveries.
const OURS: c_int = libc::SA_RESETHAND | libc::SA_NODEFER;

/// A handler of the program's, and the flags that it was installed with.
struct Handler {
    function: AtomicUsize,
    flags: AtomicI32,
}

static HANDLERS: [Handler; SIGNALS + 1] =
    [const { Handler { function: AtomicUsize::new(0), flags: AtomicI32::new(0) } }; SIGNALS + 1];

thread_local! {
    /// The thread's sleep, and the handlers that ran on it.
    static NAP: Nap = const { Nap::new() };
    /// Those of them that end calls (no SA_RESTART).
    static ENDING: AtomicU32 = const { AtomicU32::new(0) };
}

type Plain = extern "C-unwind" fn(c_int);
type Informed = extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// Stands for all of the program's handlers.
extern "C-unwind" fn arrives(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's, for as long as the handler runs.
    let blocked = unsafe { &mut (*context.cast::<ucontext_t>()).uc_sigmask };
    if is_inside() {
        // SAFETY: the set is one; the calls take numbers and what the kernel has told. The mask is as it says when the
        // handler is over, and until then the kernel blocks the signal.
        unsafe {
            libc::sigaddset(blocked, signal);
            let (process, thread) = (libc::getpid(), real::syscall(libc::SYS_gettid, 0, 0, 0, 0, 0, 0));
            let call = libc::SYS_rt_tgsigqueueinfo;
            real::syscall(call, process.into(), thread, signal.into(), info as i64, 0, 0);
        }
        comes_late(signal);
        return;
    }
    let handler = &HANDLERS[signal as usize];
    let flags = handler.flags.load(Ordering::Acquire);
    let function = handler.function.load(Ordering::Acquire);
    ENDING.with(|ending| ending.fetch_add((flags & libc::SA_RESTART == 0).into(), Ordering::Relaxed));
    NAP.with(|nap| nap.on_handler(ring));
    // SAFETY: what the program has installed, with flags that say which of the two it is.
    unsafe {
        if flags & libc::SA_RESETHAND != 0 {
            real::signal(signal, libc::SIG_DFL);
        }
        if flags & libc::SA_NODEFER != 0 && libc::sigismember(blocked, signal) == 0 {
            change(libc::SIG_UNBLOCK, bit(signal));
        }
        if flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, Informed>(function)(signal, info, context);
        } else {
            std::mem::transmute::<usize, Plain>(function)(signal);
        }
    }
}

/// Stands for the program's handlers of [`FAULTS`], and for the default action.
extern "C-unwind" fn faults(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel has given.
    if unsafe { touch::recover(context) } {
        return;
    }
    let handler = &HANDLERS[signal as usize];
    let flags = handler.flags.load(Ordering::Acquire);
    let function = handler.function.load(Ordering::Acquire);
    // SAFETY: the kernel's, for as long as the handler runs.
    let was_sent = unsafe { (*info).si_code } <= 0;
    if function == libc::SIG_IGN && was_sent {
        return;
    }
    // SAFETY: as in `arrives`. At the default action the instruction faults again, and a signal that was sent comes
    // again, when the handler is over.
    unsafe {
        if !is_function(function) {
            real::signal(signal, libc::SIG_DFL);
            if was_sent {
                let (process, thread) = (libc::getpid(), real::syscall(libc::SYS_gettid, 0, 0, 0, 0, 0, 0));
                let call = libc::SYS_rt_tgsigqueueinfo;
                real::syscall(call, process.into(), thread, signal.into(), info as i64, 0, 0);
            }
            return;
        }
        if flags & libc::SA_RESETHAND != 0 {
            handler.function.store(libc::SIG_DFL, Ordering::Release);
        }
        if flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, Informed>(function)(signal, info, context);
        } else {
            std::mem::transmute::<usize, Plain>(function)(signal);
        }
    }
}

/// From now on a call on memory that is not there fails. A program that has installed a handler before has it still.
pub(crate) fn heed_faults() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in FAULTS {
            // SAFETY: zeroes are an action; it is this frame's.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                if real::sigaction(signal, null(), &raw mut action) == 0 {
                    STANDS.store(true, Ordering::Release);
                    sigaction(signal, &raw const action, null_mut());
                }
            }
        }
        touch::begin();
    });
}

/// Our handler of [`FAULTS`] is installed.
static STANDS: AtomicBool = AtomicBool::new(false);

/// The eventfd can be read.
fn ring(bell: RawFd) {
    let (one, before) = (1_u64, errno());
    // SAFETY: eight bytes.
    unsafe { real::write(bell, (&raw const one).cast::<c_void>(), 8) };
    set_errno(before);
}

/// Nothing is to be read from it any more.
fn silence(bell: RawFd) {
    let mut rings = 0_u64;
    // SAFETY: room for eight bytes.
    unsafe { real::read(bell, (&raw mut rings).cast::<c_void>(), 8) };
}

/// Sleeps by `sleep`, which `bell` ends, unless a handler has run since `ran`: then `None`. The program's handlers may
/// run meanwhile, and end it.
pub(crate) fn sleep<R>(bell: RawFd, ran: Ran, sleep: impl FnOnce() -> R) -> Option<R> {
    let process = forks();
    let slept = outside(|| NAP.with(|nap| nap.sleep(bell, ran.0[0], sleep)));
    // In a child, which a handler has made, the bell is the parent's.
    if ran != Ran::so_far() && bell >= 0 && process == forks() {
        silence(bell);
    }
    slept
}

/// Returns true if a signal that is not in `mask` (NULL for none) waits for the thread to leave.
pub(crate) fn are_late(mask: *const sigset_t) -> bool {
    let late = late();
    // SAFETY: NULL or the caller's set.
    let is_masked = |signal| !mask.is_null() && unsafe { libc::sigismember(mask, signal) } == 1;
    (1..=SIGNALS as c_int).any(|signal| late & bit(signal) != 0 && !is_masked(signal))
}

/// Returns true if a signal waits for the thread to leave whose handler ends calls (no SA_RESTART).
pub(crate) fn late_ends_calls() -> bool {
    let late = late();
    let ends = |signal: usize| HANDLERS[signal].flags.load(Ordering::Relaxed) & libc::SA_RESTART == 0;
    (1..=SIGNALS).any(|signal| late & bit(signal as c_int) != 0 && ends(signal))
}

/// Count of handlers that have run on this thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ran([u32; 2]);

impl Ran {
    pub(crate) fn so_far() -> Ran {
        Ran([NAP.with(Nap::ran), ENDING.with(|ending| ending.load(Ordering::Relaxed))])
    }

    /// A call that sleeps since then was interrupted: does that end one which Linux restarts?
    pub(crate) fn ends_calls(self) -> bool {
        let Ran([all, ending]) = Ran::so_far();
        // A handler that was installed past us may have been any.
        if all == self.0[0] { signals_end_calls() } else { ending != self.0[1] }
    }
}

pub(crate) unsafe fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let is_fault = FAULTS.contains(&signal) && STANDS.load(Ordering::Acquire);
    let is_ours = is_fault || (1..=SIGNALS as c_int).contains(&signal) && !SYNCHRONOUS.contains(&signal);
    if !is_ours || capi::memory::is_nowhere(new) && !new.is_null() {
        // SAFETY: the caller's arguments.
        return unsafe { real::sigaction(signal, new, old) };
    }
    let handler = &HANDLERS[signal as usize];
    let before = (handler.function.load(Ordering::Acquire), handler.flags.load(Ordering::Acquire));
    // SAFETY: NULL or the caller's, who vouches for it.
    let wanted = unsafe { new.as_ref() }.filter(|new| is_fault || is_function(new.sa_sigaction));
    let ours = if is_fault { faults as *const () } else { arrives as *const () } as sighandler_t;
    let told = wanted.map(|wanted| {
        handler.flags.store(wanted.sa_flags, Ordering::Release);
        handler.function.store(wanted.sa_sigaction, Ordering::Release);
        let kernels = if is_fault { !libc::SA_RESETHAND } else { !OURS };
        // An overflow of the stack leaves no room for a handler on it.
        let on_stack = if is_function(wanted.sa_sigaction) { 0 } else { libc::SA_ONSTACK };
        let sa_flags = wanted.sa_flags & kernels | libc::SA_SIGINFO | on_stack;
        libc::sigaction { sa_sigaction: ours, sa_flags, ..*wanted }
    });
    let given = told.as_ref().map_or(new, std::ptr::from_ref);
    // SAFETY: an action of this frame's or the caller's.
    let done = unsafe { real::sigaction(signal, given, old) };
    if done != 0 {
        if told.is_some() {
            handler.flags.store(before.1, Ordering::Release);
            handler.function.store(before.0, Ordering::Release);
        }
        return done;
    }
    // SAFETY: the kernel has just filled it in, or it is NULL.
    if let Some(old) = unsafe { old.as_mut() }
        && old.sa_sigaction == ours
    {
        (old.sa_sigaction, old.sa_flags) = before;
    }
    done
}

fn is_function(action: sighandler_t) -> bool {
    ![libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR].contains(&action)
}

/// [`sigaction`] as the older functions put it; what was there before, or SIG_ERR.
fn install(signal: c_int, action: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: zeroes are an action; both are this frame's.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        (new.sa_sigaction, new.sa_flags) = (action, flags);
        if flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut new.sa_mask, signal);
        }
        let mut old: libc::sigaction = std::mem::zeroed();
        if sigaction(signal, &raw const new, &raw mut old) == 0 { old.sa_sigaction } else { libc::SIG_ERR }
    }
}

/// BSD's: calls go on after the handler, unless siginterrupt(3) has said otherwise, now or before.
pub(crate) unsafe fn signal(signal: c_int, action: sighandler_t) -> sighandler_t {
    let is_known = (1..=SIGNALS as c_int).contains(&signal);
    let interrupts = is_known && INTERRUPTING.load(Ordering::Relaxed) & bit(signal) != 0;
    install(signal, action, if interrupts { 0 } else { libc::SA_RESTART })
}

/// System V's.
///
/// # Safety
/// C's contract of signal(3).
pub(crate) unsafe fn sysv_signal(signal: c_int, action: sighandler_t) -> sighandler_t {
    install(signal, action, libc::SA_RESETHAND | libc::SA_NODEFER)
}

pub(crate) unsafe fn siginterrupt(signal: c_int, flag: c_int) -> c_int {
    // SAFETY: zeroes are an action; it is this frame's.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if sigaction(signal, null(), &raw mut action) != 0 {
            return -1;
        }
        let restarts = if flag == 0 {
            INTERRUPTING.fetch_and(!bit(signal), Ordering::Relaxed);
            libc::SA_RESTART
        } else {
            INTERRUPTING.fetch_or(bit(signal), Ordering::Relaxed);
            0
        };
        action.sa_flags = action.sa_flags & !libc::SA_RESTART | restarts;
        sigaction(signal, &raw const action, null_mut())
    }
}
