//! The program's stack: opened when the first call needs it, in the process that needs it.

use crate::boundary::{Refused, errno, inside, say};
use crate::inside::stay_inside;
use crate::{bell, limit, report, sleep, threads};
use base::Duration;
use capi::Context;
use libc::c_int;
use sock::control::{self, Control, Places};
use sock::runner::{Park, Runner, Sleeper, Woken};
use sock::{Mode, Settings, Sockets};
use std::ffi::{CString, OsString};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The stack of this process.
pub(crate) struct Stack {
    pub(crate) runner: Arc<Runner>,
    context: Context,
    control: Mutex<Option<Control>>,
}

/// Bytes of memory for the calls that make a stack.
const OPENING_STACK: usize = 1 << 20;

/// Where `millstream ss` looks, as the environment said at first: programs tidy up there.
static PLACES: OnceLock<Places> = OnceLock::new();

/// Variables of the launch, as the environment had them at first.
static LAUNCH: OnceLock<Vec<CString>> = OnceLock::new();

/// The environment named a link.
static LAUNCHED: AtomicBool = AtomicBool::new(false);

/// Runs before a stack opens: forks and the end of the process are noticed from then on.
static WATCH: OnceLock<fn()> = OnceLock::new();

static STACK: AtomicPtr<Stack> = AtomicPtr::new(null_mut());
/// The process that read the settings.
static READER: AtomicU32 = AtomicU32::new(0);
/// The reason why it could not be opened before capabilities were dropped.
static TOO_EARLY: OnceLock<String> = OnceLock::new();
/// Lock of the thread that opens it.
static OPENING: Mutex<()> = Mutex::new(());
static NEVER: AtomicBool = AtomicBool::new(false);

/// Returns the settings of `millstream run`, or nothing.
pub(crate) fn settings() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    SETTINGS.get_or_init(|| inside(read_settings)).as_ref()
}

/// Is this process a copy of one that had a TCP socket, or was about to run a program?
pub(crate) fn is_copy() -> bool {
    ![0, std::process::id()].contains(&READER.load(Ordering::Relaxed))
}

fn read_settings() -> Option<Settings> {
    READER.store(std::process::id(), Ordering::Relaxed);
    PLACES.get_or_init(Places::from_environment);
    let mut settings = Settings::default();
    // The dynamic linker of a program with borrowed rights still maps libraries from the system's folders.
    let elevated = sock::elevated();
    let named = said().find(|(name, _)| name == "MILLSTREAM_CONFIG").filter(|_| !elevated);
    let read = named.map_or(Ok(()), |(_, file)| settings.from_file(file.as_ref()));
    let all = |settings: &mut Settings| {
        if elevated { settings.from_environment() } else { settings.from_env(said()) }
    };
    if let Err(e) = read.and_then(|()| all(&mut settings)) {
        say(&format!("{e}; this program runs on the kernel"));
        return None;
    }
    if settings.link.is_empty() {
        return None;
    }
    Some(settings)
}

/// Notes what the launch has said, before the program can change it: variables of which `is_launch` holds, for programs
/// that this one starts. `watch` runs before a stack opens. Returns true if the environment named a link.
pub(crate) fn note_launch(is_launch: fn(&[u8]) -> bool, watch: fn()) -> bool {
    let said = std::env::vars_os()
        .filter(|(name, _)| name.as_bytes().starts_with(b"MILLSTREAM_") || name == "LD_PRELOAD");
    // The environment holds no NUL.
    let entry = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    };
    WATCH.get_or_init(|| watch);
    LAUNCH.get_or_init(|| said.filter_map(entry).filter(|entry| is_launch(entry.to_bytes())).collect());
    let launched = std::env::var_os("MILLSTREAM_LINK").is_some();
    if launched {
        LAUNCHED.store(true, Ordering::Relaxed);
        PLACES.get_or_init(Places::from_environment);
    }
    launched
}

/// Returns the initial environment: a program may have cleared it since.
fn said() -> Box<dyn Iterator<Item = (String, String)>> {
    let Some(launch) = LAUNCH.get() else { return Box::new(std::env::vars()) };
    Box::new(launch.iter().filter_map(|entry| {
        let (name, value) = entry.to_str().ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    }))
}

/// Returns the launch's variables, for programs that this one starts.
pub(crate) fn launch() -> &'static [CString] {
    if settings().is_some() { LAUNCH.get().map_or(&[], Vec::as_slice) } else { &[] }
}

/// Will the program have a stack once it needs one?
pub(crate) fn is_launched() -> bool {
    LAUNCHED.load(Ordering::Relaxed)
}

impl Stack {
    /// Returns TCP's counters, by name.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.runner.tcp_counters()
    }

    /// The process ends: nothing looks at it any more.
    pub(crate) fn hide(&self) {
        self.control.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns the first argument of the C library's functions.
    pub(crate) fn context(&self) -> *mut Context {
        std::ptr::from_ref(&self.context).cast_mut()
    }
}

/// This process opens none: a lock that it takes is held for ever by a thread of its parent.
pub(crate) fn never() {
    NEVER.store(true, Ordering::Release);
}

/// Nothing opens one meanwhile. `None` if a thread does, and that is not to be waited for.
pub(crate) fn opening(wait: bool) -> Option<MutexGuard<'static, ()>> {
    if wait { Some(OPENING.lock().unwrap_or_else(PoisonError::into_inner)) } else { OPENING.try_lock().ok() }
}

/// In a child: the stack is the parent's. Nothing of it may be run or dropped here. Was there one?
pub(crate) fn forget() -> bool {
    !STACK.swap(null_mut(), Ordering::AcqRel).is_null()
}

/// The stack, if this process has opened one.
pub(crate) fn opened() -> Option<&'static Stack> {
    // SAFETY: NULL, or a stack that lives as long as the process.
    unsafe { STACK.load(Ordering::Acquire).as_ref() }
}

/// The stack, opened if need be; ENETDOWN, with a line that says why, if that cannot be, or EMFILE if the process has
/// no numbers left below its hard limit.
pub(crate) fn open() -> Result<&'static Stack, Refused> {
    if let Some(stack) = opened() {
        return Ok(stack);
    }
    if NEVER.load(Ordering::Acquire) {
        say(
            "a child made by the system call clone itself found its parent busy: it gets no sockets (ENETDOWN)",
        );
        return Err(Refused(libc::ENETDOWN));
    }
    threads::undisturbed(open_alone)
}

fn open_alone() -> Result<&'static Stack, Refused> {
    let _one = opening(true);
    if let Some(stack) = opened() {
        return Ok(stack);
    }
    let settings = settings().ok_or(Refused(libc::ENETDOWN))?;
    watch();
    let stack = inside(|| limit::beyond(|| make_aside(settings))).map_err(|why| {
        // What went wrong while the process was permitted more is the cause.
        let why = TOO_EARLY.get().cloned().unwrap_or(why);
        say(&why);
        if limit::is_reached() {
            // The next call that needs it tries again.
            return Refused(libc::EMFILE);
        }
        inside(|| report::fell_back("sockets of a process are refused (ENETDOWN)", &why));
        Refused(libc::ENETDOWN)
    })?;
    keep(stack);
    opened().ok_or(Refused(libc::ENETDOWN))
}

fn watch() {
    if let Some(watch) = WATCH.get() {
        watch();
    }
}

fn keep(stack: Stack) {
    STACK.store(Box::into_raw(Box::new(stack)), Ordering::Release);
    inside(report::opened);
}

/// Opens the stack, if it is not open yet, before the calling thread gives up capabilities that this takes. They need
/// not be effective. The stack's threads have what is `left`. A process may never use the stack, so a failure is told
/// when it does.
pub(crate) fn open_before_loss(left: threads::Sets) {
    if opened().is_some() {
        return;
    }
    threads::undisturbed(|| {
        let _one = opening(true);
        let Some(settings) = settings().filter(|_| opened().is_none()) else { return };
        watch();
        match inside(|| limit::beyond(|| make_permitted(settings, left))) {
            Ok(stack) => keep(stack),
            // The first failure is told.
            Err(why) => drop(TOO_EARLY.set(why)),
        }
    });
}

/// Makes the stack on a thread of its own that uses all it is permitted: the program's threads do not.
fn make_permitted(settings: &Settings, left: threads::Sets) -> Result<Stack, String> {
    let permitted = || {
        sock::use_all_permitted()
            .map_err(|e| format!("cannot use the capabilities to open the link: {e}"))?;
        threads::make_threads_with(left);
        make(settings)
    };
    std::thread::scope(|scope| match opener().spawn_scoped(scope, permitted) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(e) => {
            Err(format!("no thread to open the link, before capabilities are dropped that this takes: {e}"))
        }
    })
}

fn opener() -> std::thread::Builder {
    std::thread::Builder::new().name("millstream-open".into()).stack_size(OPENING_STACK)
}

/// Returns how many bytes of memory the calling thread has for its calls; 0 if it is not known.
fn left_for_calls() -> usize {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut size) = (null_mut(), 0);
    // SAFETY: attributes and results of this frame's; the attributes are there if the call says so.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    let here = (&raw const attributes).addr();
    // A program may have switched to memory of its own.
    if (low.addr()..low.addr() + size).contains(&here) { here - low.addr() } else { 0 }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs what no cancellation of the thread ends.
fn uncancelled<R>(run: impl FnOnce() -> R) -> R {
    const DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: a number of this frame's.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let result = run();
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(before, null_mut()) };
    result
}

/// Makes the stack, on a thread of its own where the caller has too little memory for its calls: a program's thread may
/// have 16 KiB (PTHREAD_STACK_MIN). Credentials and namespaces are the caller's.
fn make_aside(settings: &Settings) -> Result<Stack, String> {
    if left_for_calls() >= 2 * OPENING_STACK {
        // Another thread would get 64 MiB of addresses as soon as the C library's readdir allocates for it.
        return uncancelled(|| make(settings));
    }
    std::thread::scope(|scope| {
        match opener().spawn_scoped(scope, || make(settings)) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The program may have no more threads (RLIMIT_NPROC): then as far as the caller's memory goes.
            Err(_) => make(settings),
        }
    })
}

fn make(settings: &Settings) -> Result<Stack, String> {
    let (opened, runner) = sock::open_beside(settings, Box::new(Program)).map_err(|e| e.0)?;
    if settings.mode == Mode::Paired {
        runner
            .start_stack_thread()
            .map_err(|e| format!("mode = paired: no thread to turn the stack: {e}"))?;
    }
    tell_of_errors(settings);
    // Without it the program runs as well; `millstream ss` only does not see it.
    let control = control::serve_in(&opened, PLACES.get_or_init(Places::from_environment));
    let control =
        control.inspect_err(|e| say(&format!("millstream ss does not show this process: {e}"))).ok();
    let context = Context::of(opened.stacks[0].clone(), opened.tree.clone());
    // A thread that serves metrics does as long as the process lives.
    std::mem::forget(opened.metrics);
    Ok(Stack { runner, context, control: Mutex::new(control) })
}

/// Tells of a directory for connections that end by an error (`blackbox_on_error`) where the process's user may not
/// write: no file would come, without a word.
pub(crate) fn tell_of_errors(settings: &Settings) {
    let directory = &settings.blackbox_on_error;
    let Ok(path) = CString::new(directory.as_bytes()) else { return };
    if directory.is_empty() {
        return;
    }
    // SAFETY: a string.
    let may = unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) == 0
    };
    // One that is missing is made, or the stack says why not.
    if !may && errno() != libc::ENOENT {
        // SAFETY: takes nothing.
        let user = unsafe { libc::geteuid() };
        say(&format!(
            "blackbox_on_error = \"{directory}\": user {user} may not write there, so connections that end by an \
             error leave no file: chown {user} {directory}"
        ));
    }
}

/// Closes a descriptor of the stack's.
pub(crate) fn close(below: c_int) {
    if let Some(stack) = opened() {
        // As on Linux, SO_LINGER waits where calls do not, too. It may have waited in vain; the kernel's close does not
        // say so either.
        let _ = stack.runner.set_nonblocking(below, false);
        let _ = stack.runner.close(below);
    }
}

/// How threads of the program sleep.
struct Program;

impl Park for Program {
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, restarts: bool) -> Woken {
        sleep::on_stack(fds, timeout, restarts)
    }

    fn shield_thread(&self) {
        stay_inside();
    }

    fn bell(&self) -> Option<Sleeper> {
        bell::take()
    }

    fn keep(&self, bell: Sleeper) {
        bell::keep(bell);
    }
}
