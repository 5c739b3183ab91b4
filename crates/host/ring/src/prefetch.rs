//! Asking the cache for what will be read soon.

use core::sync::atomic::{AtomicBool, Ordering};

/// Nobody asks for anything.
static OFF: AtomicBool = AtomicBool::new(false);

/// Whether what is asked for below is asked for, in all of this program: benchmarks measure what that is worth.
pub fn prefetching(on: bool) {
    OFF.store(!on, Ordering::Relaxed);
}

/// Ask for the first cache line of `value`. A hint: it changes nothing but time.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(value: &T) {
    if !OFF.load(Ordering::Relaxed) {
        line(core::ptr::from_ref(value).cast());
    }
}

/// Ask for every cache line of `value`, however large.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    let at = core::ptr::from_ref(value).cast::<u8>();
    if OFF.load(Ordering::Relaxed) {
        return;
    }
    for offset in (0..size_of::<T>()).step_by(64) {
        line(at.wrapping_add(offset));
    }
}

/// Ask for every cache line of `octets`, at most four of them: what a header takes.
#[inline(always)]
pub fn prefetch_octets(octets: &[u8]) {
    if OFF.load(Ordering::Relaxed) {
        return;
    }
    for chunk in octets.chunks(64).take(4) {
        line(chunk.as_ptr());
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn line(at: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program could see, and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
fn line(at: *const u8) {
    // SAFETY: a prefetch reads nothing that the program could see, and never faults.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
fn line(_at: *const u8) {}

#[cfg(all(test, not(loom)))]
mod tests {
    //! Goal: any reference will do, even to nothing.
    use super::*;

    #[test]
    fn any_reference_will_do() {
        prefetch_read(&());
        prefetch_read("");
        prefetch_read(&[0u64; 99]);
        prefetch_all(&());
        prefetch_all(&[0u64; 99]);
        prefetch_octets(&[]);
        prefetch_octets(&[7; 1000]);
    }
}
