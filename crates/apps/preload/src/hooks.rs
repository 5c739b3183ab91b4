//! The functions that programs find in place of the C library's: those of the table in `calls`, and a few by hand.
//!
//! A call on a descriptor that is not ours costs the load of its slot and goes on with the registers as they are.
//! The functions let foreign unwinding pass (`C-unwind`): a thread that is cancelled inside the C library's call
//! leaves through them.

use crate::boundary::{Refused, guard, inside, is_inside};
use crate::calls::{Destructor, Entry, List, Start, on_descriptors, others};
use crate::description::Kind;
use crate::real::{self, resolve};
use crate::table::{self, Held, Place};
use crate::{
    accept, data, descriptors, epoll, exec, fork, moves, names, options, poll, privileges, relay, rights,
    signals, sockets, space, spawn, streams, syscall, threads,
};
use libc::{FILE, uid_t};
use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t,
    off_t, pid_t, pollfd, pthread_attr_t, pthread_t, rlimit, sighandler_t, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, stat, timespec, timeval,
};
use libc::{posix_spawn_file_actions_t, posix_spawnattr_t};
use std::arch::naked_asm;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The function.
    pub name: &'static str,
    /// Treatment of the call.
    pub text: &'static str,
}

/// Does a call of this name use a connection, not only its number?
fn uses(name: &str, held: &Held) -> bool {
    match name {
        "close" | "dup" | "fcntl" | "fcntl64" | "fstat" | "fstat64" => false,
        "getsockname" | "getpeername" => held.more().names.is_none(),
        _ => true,
    }
}

/// Calls whose first argument is a descriptor: a handler sees those on ours alone.
macro_rules! hooks_on_descriptors {
    ($($text:literal $name:ident($fd:ident: c_int $(, $arg:ident: $ty:ty)*) -> $ret:ty => $handler:path;)+) => {
        const ON_DESCRIPTORS: &[Row] = &[$(Row { name: stringify!($name), text: $text }),+];
        $(
            #[doc = concat!("The C library's, or on descriptors of ours: ", $text)]
            ///
            /// # Safety
            /// The contract of the C library's function.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($fd: c_int $(, $arg: $ty)*) -> $ret {
                if table::is_kernels($fd) {
                    // SAFETY: the caller's arguments, handed on.
                    return unsafe { real::$name($fd $(, $arg)*) };
                }
                let ours_calls = is_inside();
                guard(|| match table::look($fd) {
                    Place::Hidden if !ours_calls => Err(Refused(libc::EBADF)),
                    // SAFETY: the caller's arguments, handed on.
                    Place::Kernel | Place::Hidden => Ok(unsafe { real::$name($fd $(, $arg)*) }),
                    Place::Ours(held) => {
                        if held.kind() == Kind::Inherited && uses(stringify!($name), &held) {
                            relay::settle(&held)?;
                        }
                        // SAFETY: the caller's arguments, handed on.
                        unsafe { $handler(&held, $fd $(, $arg)*) }
                    }
                })
            }
        )+
    };
}

/// Body of a function with any number of arguments: the registers of unnamed arguments are put where the function
/// `$with`, which takes a list of them in the register `$list`, looks for them (System V ABI for x86-64, 3.5.7).
/// `$named` bytes of registers have names.
macro_rules! list_of_arguments {
    ($list:literal, $named:literal, $with:path) => {
        naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset rbp, -16",
            "mov rbp, rsp",
            ".cfi_def_cfa_register rbp",
            "sub rsp, 208",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 48], xmm0",
            "movaps [rsp + 64], xmm1",
            "movaps [rsp + 80], xmm2",
            "movaps [rsp + 96], xmm3",
            "movaps [rsp + 112], xmm4",
            "movaps [rsp + 128], xmm5",
            "movaps [rsp + 144], xmm6",
            "movaps [rsp + 160], xmm7",
            "2:",
            concat!("mov dword ptr [rsp + 176], ", $named),
            "mov dword ptr [rsp + 180], 48",
            "lea rax, [rbp + 16]",
            "mov [rsp + 184], rax",
            "mov [rsp + 192], rsp",
            concat!("lea ", $list, ", [rsp + 176]"),
            "call {with}",
            "leave",
            ".cfi_def_cfa rsp, 8",
            "ret",
            ".cfi_endproc",
            with = sym $with,
        )
    };
}

/// Calls that a handler sees in any case.
macro_rules! other_hooks {
    ($($text:literal $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty => $handler:path;)+) => {
        const OTHERS: &[Row] = &[$(Row { name: stringify!($name), text: $text }),+];
        $(
            #[doc = concat!("The C library's, but: ", $text)]
            ///
            /// # Safety
            /// The contract of the C library's function.
            #[allow(non_snake_case, reason = "the C library's name")]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
                // SAFETY: the caller's arguments, handed on.
                unsafe { $handler($($arg),*) }
            }
        )+
    };
}

on_descriptors!(hooks_on_descriptors);
others!(other_hooks);

const VFORK: Row = Row {
    name: "vfork",
    text: "a fork: the child of a vfork shares the parent's memory, in which our table is.",
};

/// A fork, as POSIX allows.
///
/// # Safety
/// The contract of the C library's fork, which is wider.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn vfork() -> pid_t {
    // SAFETY: as the caller vouches.
    unsafe { libc::fork() }
}

const ONE_BY_ONE: [Row; 3] = [
    Row { name: "execl", text: "as execve." },
    Row { name: "execle", text: "as execve." },
    Row { name: "execlp", text: "as execve." },
];

const OLD_SIGNALS: [Row; 4] = [
    Row { name: "bsd_signal", text: "as sigaction." },
    Row { name: "sysv_signal", text: "as sigaction." },
    Row { name: "__sysv_signal", text: "as sigaction." },
    Row { name: "siginterrupt", text: "counts for what signal installs later, too; else nothing changes." },
];

/// The C library's `signal` under its other name.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn bsd_signal(signal: c_int, action: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's arguments, handed on.
    unsafe { signals::signal(signal, action) }
}

/// The C library's: handlers are called once.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sysv_signal(signal: c_int, action: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's arguments, handed on.
    unsafe { signals::sysv_signal(signal, action) }
}

/// `signal` for programs that were compiled for X/Open's rules.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __sysv_signal(signal: c_int, action: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's arguments, handed on.
    unsafe { signals::sysv_signal(signal, action) }
}

/// The C library's.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn siginterrupt(signal: c_int, flag: c_int) -> c_int {
    // SAFETY: the caller's arguments, handed on.
    unsafe { signals::siginterrupt(signal, flag) }
}

const DPRINTF: Row = Row { name: "dprintf", text: "the text goes the way of write." };

/// The C library's, by [`vdprintf`], so that it comes here.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    // Named: the descriptor and the format, two words.
    list_of_arguments!("rdx", 16, vdprintf)
}

const DPRINTF_CHK: Row = Row { name: "__dprintf_chk", text: "dprintf, checked by the compiler." };

/// The C library's, by [`__vdprintf_chk`], so that it comes here.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    // Named: the descriptor, the flag and the format, three words.
    list_of_arguments!("rcx", 24, __vdprintf_chk)
}

const DLOPEN: Row = Row {
    name: "dlopen",
    text: "RTLD_DEEPBIND is left out: calls of a library that is loaded with it, such as PHP's extensions, would not \
           come here.",
};

extern "C" fn no_library(_: *const c_char, _: c_int) -> *mut c_void {
    std::ptr::null_mut()
}

/// Returns the C library's `dlopen`.
extern "C" fn real_dlopen() -> *const c_void {
    static SLOT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut found = SLOT.load(Ordering::Acquire);
    if found.is_null() {
        found = resolve(c"dlopen", &SLOT);
    }
    if found.is_null() { no_library as *const c_void } else { found }
}

/// The C library's, without RTLD_DEEPBIND. A jump: it looks for the library as its caller's RUNPATH says, and takes
/// the return address for that.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_def_cfa_offset 16",
        "push rsi",
        ".cfi_def_cfa_offset 24",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 32",
        "call {real}",
        "add rsp, 8",
        ".cfi_def_cfa_offset 24",
        "pop rsi",
        ".cfi_def_cfa_offset 16",
        "pop rdi",
        ".cfi_def_cfa_offset 8",
        "and esi, {others}",
        "jmp rax",
        ".cfi_endproc",
        real = sym real_dlopen,
        others = const !libc::RTLD_DEEPBIND,
    )
}

const CLOSEFROM: Row =
    Row { name: "closefrom", text: "ours are closed as by close; those of the stack itself stay." };

const EXIT: Row = Row { name: "_exit", text: "what was written to connections is sent first." };

/// The end, without those that wait for an orderly one; but not without what the peers are owed.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    exec::drain();
    inside(crate::report::wait_until_told);
    loop {
        // SAFETY: numbers alone.
        unsafe { real::syscall(libc::SYS_exit_group, status.into(), 0, 0, 0, 0, 0) };
    }
}

/// The C library's, which is close_range in other words.
///
/// # Safety
/// The contract of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: numbers alone.
    unsafe { descriptors::close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// Every call that comes here, in alphabetical order.
pub fn rows() -> Vec<Row> {
    let mut rows = [
        ON_DESCRIPTORS,
        OTHERS,
        &ONE_BY_ONE,
        &OLD_SIGNALS,
        &[CLOSEFROM, DLOPEN, DPRINTF, DPRINTF_CHK, EXIT, VFORK],
    ]
    .concat();
    rows.sort_by_key(|row| row.name);
    rows
}

#[cfg(test)]
mod tests;
