//! Asking the cache for what will be read soon.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Whether what is asked for below is asked for, in all of this program; false if that cannot be chosen. Only a program
/// built with the feature `prefetch-switch` can choose, and pays for it at each: benchmarks measure what prefetching is
/// worth.
pub fn prefetching(on: bool) -> bool {
    switch::set(on)
}

#[cfg(feature = "prefetch-switch")]
mod switch {
    use core::sync::atomic::{AtomicBool, Ordering};

    static OFF: AtomicBool = AtomicBool::new(false);

    pub(super) fn set(on: bool) -> bool {
        OFF.store(!on, Ordering::Relaxed);
        true
    }

    #[inline(always)]
    pub(super) fn is_off() -> bool {
        OFF.load(Ordering::Relaxed)
    }
}

#[cfg(not(feature = "prefetch-switch"))]
mod switch {
    pub(super) fn set(on: bool) -> bool {
        on
    }

    #[inline(always)]
    pub(super) fn is_off() -> bool {
        false
    }
}

/// Ask for the first cache line of `value`. A hint: it changes nothing but time.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(value: &T) {
    if !switch::is_off() {
        line(core::ptr::from_ref(value).cast());
    }
}

/// Ask for every cache line of `value`, however large.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    if switch::is_off() {
        return;
    }
    let at = core::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        line(at.wrapping_add(offset));
    }
}

/// Ask for every cache line of `bytes`, at most four of them: what a header takes.
#[inline(always)]
pub fn prefetch_bytes(bytes: &[u8]) {
    if switch::is_off() {
        return;
    }
    if let Some(front) = bytes.first_chunk::<{ 4 * LINE }>() {
        return front.as_chunks::<LINE>().0.iter().for_each(|bytes| line(bytes.as_ptr()));
    }
    for bytes in bytes.chunks(LINE) {
        line(bytes.as_ptr());
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
mod tests;
