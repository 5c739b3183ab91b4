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
