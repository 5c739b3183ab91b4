//! Goal: blocks have the size and the alignment that was asked for, share no byte, keep their bytes when they grow, and
//! are used again; threads and forks leave the heap whole.
use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers that look like chance.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn blocks_share_nothing_and_keep_their_bytes() {
    let mut seed = 7;
    let mut all: BTreeMap<usize, (Layout, u8)> = BTreeMap::new();
    let check = |at: usize, layout: Layout, byte: u8| {
        // SAFETY: a block of this test's.
        let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, layout.size()) };
        assert!(bytes.iter().all(|it| *it == byte), "{layout:?}");
    };
    for turn in 0..8_000_u32 {
        let byte = turn as u8 | 1;
        let size = 1 + random(&mut seed) % (1 << (random(&mut seed) % 19));
        let victim = all.keys().nth(random(&mut seed) % all.len().max(1)).copied();
        match (random(&mut seed) % 4, victim) {
            (0, Some(at)) => {
                let (layout, byte) = all.remove(&at).unwrap();
                check(at, layout, byte);
                // SAFETY: a block of this test's.
                unsafe { HEAP.dealloc(at as *mut u8, layout) };
            }
            (1, Some(at)) => {
                let (layout, byte) = all.remove(&at).unwrap();
                // SAFETY: a block of this test's.
                let new = unsafe { HEAP.realloc(at as *mut u8, layout, size) };
                let kept = Layout::from_size_align(layout.size().min(size), layout.align()).unwrap();
                check(new as usize, kept, byte);
                let layout = Layout::from_size_align(size, layout.align()).unwrap();
                // SAFETY: a block of this test's.
                unsafe { new.write_bytes(byte, size) };
                all.insert(new as usize, (layout, byte));
            }
            (zeroed, _) => {
                let layout = Layout::from_size_align(size, 1 << (random(&mut seed) % 14)).unwrap();
                // SAFETY: the size is not zero.
                let new = unsafe { if zeroed == 2 { HEAP.alloc_zeroed(layout) } else { HEAP.alloc(layout) } };
                assert!((new as usize).is_multiple_of(layout.align()), "{layout:?}");
                if zeroed == 2 {
                    check(new as usize, layout, 0);
                }
                // SAFETY: a block of this test's.
                unsafe { new.write_bytes(byte, size) };
                all.insert(new as usize, (layout, byte));
            }
        }
    }
    let mut end = 0;
    for (at, (layout, byte)) in all {
        assert!(at >= end, "two blocks have a byte");
        end = at + layout.size();
        check(at, layout, byte);
        // SAFETY: a block of this test's.
        unsafe { HEAP.dealloc(at as *mut u8, layout) };
    }
}

#[test]
fn a_child_allocates_whatever_other_threads_did() {
    watch();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(std::hint::black_box(Box::new([0_u8; 40])));
                }
            });
        }
        for _ in 0..300 {
            // SAFETY: the child allocates, and ends.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(10);
                    (0..64).for_each(|_| drop(std::hint::black_box(vec![1_u8; 40])));
                    libc::syscall(libc::SYS_exit_group, 0);
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                assert_eq!(status, 0, "the child ended by itself");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
