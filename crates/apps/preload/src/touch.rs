//! Memory of the program's that may not be there. A call looks at it before it uses it: a few instructions touch each
//! page, and where they fault, a handler of SIGSEGV and SIGBUS goes on behind them. No fault costs no system call.
//! Faults of every other instruction go to the program's own handler, or have the default action.

use capi::memory::{self, Probe};
use libc::{c_void, ucontext_t};
use std::arch::global_asm;

global_asm!(
    ".pushsection .text.millstream_touch, \"ax\", @progbits",
    // bool millstream_touch_to_read(first, last): rdi and rsi. It uses no stack.
    ".hidden millstream_touch_to_read",
    ".globl millstream_touch_to_read",
    "millstream_touch_to_read:",
    "mov al, byte ptr [rdi]",
    "or rdi, 4095",
    "inc rdi",
    "cmp rdi, rsi",
    "jbe millstream_touch_to_read",
    "mov eax, 1",
    "ret",
    // As above. It changes nothing, and nothing that another thread writes is lost.
    ".hidden millstream_touch_to_write",
    ".globl millstream_touch_to_write",
    "millstream_touch_to_write:",
    "lock or byte ptr [rdi], 0",
    "or rdi, 4095",
    "inc rdi",
    "cmp rdi, rsi",
    "jbe millstream_touch_to_write",
    "mov eax, 1",
    "ret",
    ".hidden millstream_touch_failed",
    ".globl millstream_touch_failed",
    "millstream_touch_failed:",
    "xor eax, eax",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn millstream_touch_to_read(first: *const u8, last: *const u8) -> bool;
    fn millstream_touch_to_write(first: *mut u8, last: *mut u8) -> bool;
    fn millstream_touch_failed() -> bool;
}

/// Calls of the C API look at memory from now on: the handler of faults is there.
pub(crate) fn begin() {
    memory::look_by(Probe { read: millstream_touch_to_read, write: millstream_touch_to_write });
}

/// Goes on behind a touch that faulted; false if something else did.
///
/// # Safety
/// The context is what the kernel has given a handler.
pub(crate) unsafe fn recover(context: *mut c_void) -> bool {
    // SAFETY: the kernel's, for as long as the handler runs.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let at = &mut registers[libc::REG_RIP as usize];
    let failed = millstream_touch_failed as *const () as usize;
    let touches = millstream_touch_to_read as *const () as usize..failed;
    if !touches.contains(&(*at as usize)) {
        return false;
    }
    *at = failed as i64;
    true
}

#[cfg(test)]
mod tests;
