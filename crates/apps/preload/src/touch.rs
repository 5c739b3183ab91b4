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
mod tests {
    //! Goal: memory that is there is told from memory that is not, and none of it changes.
    use crate::signals;
    use capi::memory::{can_read, can_write};
    use libc::{MAP_ANONYMOUS, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE};
    use std::ptr::null_mut;

    #[test]
    fn pages() {
        const PAGE: usize = 4_096;
        signals::heed_faults();
        // SAFETY: a mapping of this test's, whose third page cannot be used and whose fourth cannot be written.
        let all = unsafe {
            let all =
                libc::mmap(null_mut(), 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            assert_ne!(all, libc::MAP_FAILED);
            libc::memset(all, 7, 4 * PAGE);
            assert_eq!(libc::mprotect(all.byte_add(2 * PAGE), PAGE, PROT_NONE), 0);
            assert_eq!(libc::mprotect(all.byte_add(3 * PAGE), PAGE, PROT_READ), 0);
            all.cast::<u8>()
        };
        let at = |offset: usize| all.wrapping_add(offset);
        let both = |offset, len| (can_read(at(offset), len), can_write(at(offset), len));
        assert_eq!(both(0, 2 * PAGE), (true, true));
        assert_eq!(both(0, 2 * PAGE + 1), (false, false));
        assert_eq!(both(2 * PAGE - 1, 1), (true, true));
        assert_eq!(both(2 * PAGE - 1, 2), (false, false));
        assert_eq!(both(2 * PAGE, 0), (true, true));
        assert_eq!(both(3 * PAGE, PAGE), (true, false));
        assert_eq!(both(3 * PAGE + 100, 8), (true, false));
        // SAFETY: two pages that can be read; the mapping, which nothing uses any more.
        unsafe {
            assert!(std::slice::from_raw_parts(all, 2 * PAGE).iter().all(|byte| *byte == 7));
            libc::munmap(all.cast(), 4 * PAGE);
        }
    }
}
