//! execl and its kin take their arguments one by one, as many as there are, which Rust's own functions cannot: a few
//! instructions put those in registers beside those on the stack, for a function that reads them.

use crate::calls::List;
use crate::exec;
use libc::{c_char, c_int};
use std::arch::naked_asm;

/// Arguments after the first: five in registers, and the rest.
struct Arguments {
    first: List,
    rest: List,
    read: usize,
}

impl Arguments {
    /// The next.
    ///
    /// # Safety
    /// There is one.
    unsafe fn next(&mut self) -> *const c_char {
        let at = self.read;
        self.read += 1;
        // SAFETY: as the caller vouches.
        unsafe { if at < 5 { *self.first.add(at) } else { *self.rest.add(at - 5) } }
    }

    /// Those up to a NULL, and that.
    ///
    /// # Safety
    /// There is a NULL.
    unsafe fn list(&mut self) -> Vec<*const c_char> {
        let mut all = Vec::new();
        loop {
            // SAFETY: as the caller vouches.
            let next = unsafe { self.next() };
            all.push(next);
            if next.is_null() {
                return all;
            }
        }
    }
}

unsafe extern "C-unwind" fn execl_of(path: *const c_char, first: List, rest: List) -> c_int {
    // SAFETY: C's contract of execl(3).
    unsafe {
        let arguments = Arguments { first, rest, read: 0 }.list();
        exec::execv(path, arguments.as_ptr())
    }
}

unsafe extern "C-unwind" fn execlp_of(file: *const c_char, first: List, rest: List) -> c_int {
    // SAFETY: C's contract of execlp(3).
    unsafe {
        let arguments = Arguments { first, rest, read: 0 }.list();
        exec::execvp(file, arguments.as_ptr())
    }
}

unsafe extern "C-unwind" fn execle_of(path: *const c_char, first: List, rest: List) -> c_int {
    let mut arguments = Arguments { first, rest, read: 0 };
    // SAFETY: C's contract of execle(3): the environment follows the NULL.
    unsafe {
        let list = arguments.list();
        exec::execve(path, list.as_ptr(), arguments.next().cast())
    }
}

macro_rules! one_by_one {
    ($($name:ident => $body:ident;)+) => {$(
        #[doc = concat!("The C library's ", stringify!($name), ", whose arguments are where C puts them.")]
        ///
        /// # Safety
        /// The contract of the C library's function.
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            naked_asm!(
                // What is on the stack begins above the return address.
                "lea rax, [rsp + 8]",
                // Five words, and so many that the stack is aligned for the call.
                "sub rsp, 56",
                "mov [rsp], rsi",
                "mov [rsp + 8], rdx",
                "mov [rsp + 16], rcx",
                "mov [rsp + 24], r8",
                "mov [rsp + 32], r9",
                "mov rsi, rsp",
                "mov rdx, rax",
                "call {body}",
                "add rsp, 56",
                "ret",
                body = sym $body,
            )
        }
    )+};
}

one_by_one! {
    execl => execl_of;
    execlp => execlp_of;
    execle => execle_of;
}
