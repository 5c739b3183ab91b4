//! Which descriptors are ours: one slot for each number of the kernel's. Looking one up is a load and a branch, and
//! takes no lock.
//!
//! Descriptions are never unmapped, only used again, so that a look-up which is overtaken by a close finds memory of
//! the same kind: it takes a description only if a thread still uses it, and looks whether the slot still says so.

use crate::description::Description;
use crate::inside::is_apart;
use crate::real;
use crate::signals;
use libc::c_int;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Numbers that can be ours. Linux lets a process have no more unless an administrator says so; sockets with higher
/// numbers stay with the kernel.
pub(crate) const NUMBERS: usize = 1 << 20;

static SLOTS: [AtomicPtr<Description>; NUMBERS] = [const { AtomicPtr::new(null_mut()) }; NUMBERS];

/// Stands in the slots of descriptors of our own stack.
static HIDDEN: Description = Description::hidden();

/// One above the highest number that was ever ours.
static END: AtomicUsize = AtomicUsize::new(0);

/// Object behind a number.
pub(crate) enum Place {
    /// The kernel's, or nothing.
    Kernel,
    /// A descriptor of our own stack.
    Hidden,
    Ours(Held),
}

/// A description, for as long as this lives.
pub(crate) struct Held(&'static Description);

impl Deref for Held {
    type Target = Description;
    fn deref(&self) -> &Description {
        self.0
    }
}

impl Held {
    /// One that the caller has counted already.
    pub(crate) fn counted(description: &'static Description) -> Held {
        Held(description)
    }

    pub(crate) fn is(&self, other: &Held) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        self.0.retain();
        Held(self.0)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}

fn hidden() -> *mut Description {
    (&raw const HIDDEN).cast_mut()
}

fn slot(fd: c_int) -> Option<&'static AtomicPtr<Description>> {
    usize::try_from(fd).ok().and_then(|fd| SLOTS.get(fd))
}

/// Is the number the kernel's alone? This is all that a call on a kernel descriptor pays.
#[inline(always)]
pub(crate) fn is_kernels(fd: c_int) -> bool {
    match SLOTS.get(fd as u32 as usize) {
        Some(slot) => slot.load(Ordering::Acquire).is_null(),
        None => true,
    }
}

/// Returns the object behind the number.
pub(crate) fn look(fd: c_int) -> Place {
    let Some(slot) = slot(fd) else { return Place::Kernel };
    loop {
        let found = slot.load(Ordering::Acquire);
        if found.is_null() || is_apart() {
            return Place::Kernel;
        }
        if found == hidden() {
            return Place::Hidden;
        }
        // SAFETY: what stands in a slot came from a description that is never unmapped.
        let description: &'static Description = unsafe { &*found };
        if !description.retain_if_used() {
            continue;
        }
        let held = Held(description);
        if slot.load(Ordering::Acquire) == found {
            return Place::Ours(held);
        }
    }
}

/// Returns the present object behind the number, if it is the stack's, without counting a reference: it may be
/// another one at the next call.
#[inline]
pub(crate) fn glance(fd: c_int) -> Option<&'static Description> {
    let found = slot(fd)?.load(Ordering::Acquire);
    // SAFETY: what stands in a slot came from a description that is never unmapped, or is NULL.
    unsafe { found.as_ref() }.filter(|_| found != hidden())
}

/// Returns the stack's object behind the number.
pub(crate) fn ours(fd: c_int) -> Option<Held> {
    match look(fd) {
        Place::Ours(held) => Some(held),
        _ => None,
    }
}

/// Returns the object of this name, and a number of it: `hint`, if that is still one.
pub(crate) fn named(name: usize, hint: c_int) -> Option<(Held, c_int)> {
    let has = |fd: c_int| ours(fd).filter(|held| held.name() == name).map(|held| (held, fd));
    has(hint).or_else(|| all().0.into_iter().find_map(has))
}

/// The number stands for this from now on; false if it is too high to be ours.
pub(crate) fn put(fd: c_int, held: Held) -> bool {
    let Some(slot) = slot(fd) else { return false };
    // Memory of its calls may not be there.
    signals::heed_faults();
    held.opened();
    END.fetch_max(fd as usize + 1, Ordering::Relaxed);
    let description = std::ptr::from_ref(held.0).cast_mut();
    std::mem::forget(held);
    let before = slot.swap(description, Ordering::AcqRel);
    let_go(before);
    true
}

/// The number is the kernel's again; whether it was ours.
pub(crate) fn remove(fd: c_int) -> bool {
    let Some(slot) = slot(fd) else { return false };
    let before = slot.swap(null_mut(), Ordering::AcqRel);
    let_go(before)
}

/// A descriptor of our own stack is closed.
pub(crate) fn remove_hidden(fd: c_int) {
    if let Some(slot) = slot(fd) {
        // Only what is hidden: it can be nothing else.
        let _ = slot.compare_exchange(hidden(), null_mut(), Ordering::AcqRel, Ordering::Acquire);
    }
}

/// A descriptor of our own stack.
pub(crate) fn hide(fd: c_int) {
    if let Some(slot) = slot(fd) {
        END.fetch_max(fd as usize + 1, Ordering::Relaxed);
        let_go(slot.swap(hidden(), Ordering::AcqRel));
    }
}

fn let_go(before: *mut Description) -> bool {
    if before.is_null() || before == hidden() {
        return false;
    }
    // SAFETY: as in `look`; the slot's count is taken over.
    let held = Held(unsafe { &*before });
    held.closed();
    true
}

/// Puts another file of the kernel's under every number of `held`; returns the numbers.
pub(crate) fn put_under(held: &Held, file: c_int) -> Vec<c_int> {
    let mut numbers = all().0;
    numbers.retain(|fd| ours(*fd).is_some_and(|other| other.is(held)));
    for fd in &numbers {
        // SAFETY: numbers alone.
        unsafe {
            let cloexec = real::fcntl(*fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
            real::dup3(file, *fd, if cloexec { libc::O_CLOEXEC } else { 0 });
        }
    }
    numbers
}

/// Numbers that are ours, and those of our own stack.
pub(crate) fn all() -> (Vec<c_int>, Vec<c_int>) {
    let (mut ours, mut hidden_ones) = (Vec::new(), Vec::new());
    // No number above this one was ever put.
    for (fd, slot) in SLOTS.iter().enumerate().take(END.load(Ordering::Relaxed)) {
        let found = slot.load(Ordering::Acquire);
        match found {
            _ if found.is_null() => {}
            _ if found == hidden() => hidden_ones.push(fd as c_int),
            _ => ours.push(fd as c_int),
        }
    }
    (ours, hidden_ones)
}
