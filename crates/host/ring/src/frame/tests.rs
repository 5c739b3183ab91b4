//! Goal: one owner per slot whatever the kernel, a peer or a careless caller says.
use super::*;
use base::Rng;

#[test]
#[cfg(not(miri))]
fn a_child_finds_the_slots_empty() {
    let mut pool = FramePool::new(16, 2048).unwrap();
    pool.empty_in_children();
    let mut frame = pool.take().unwrap();
    frame.slot_mut().fill(7);
    // SAFETY: the child only looks at memory, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let empty = frame.slot().iter().all(|&b| b == 0);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if empty { 3 } else { 4 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 3);
    assert!(frame.slot().iter().all(|&b| b == 7));
    pool.retire(frame);
}

/// Operations against a plain list of who owns what.
pub(crate) fn model(rng: &mut Rng, steps: usize) {
    let slots = 1 + rng.below(9) as u32;
    let mut pool = FramePool::new(slots, 64 << rng.below(3)).unwrap();
    let size = pool.slot_size();
    let (mut owned, mut lent) = (Vec::new(), Vec::new());
    let (mut strays, mut refused) = (0, 0);
    for _ in 0..steps {
        match rng.below(6) {
            0 | 1 => match pool.take() {
                Some(mut frame) => {
                    let mark = rng.next_u32() as u8;
                    assert!(frame.is_empty() && frame.headroom() == 0 && frame.capacity() == size);
                    frame.slot_mut().fill(mark);
                    owned.push((frame, mark));
                }
                None => {
                    refused += 1;
                    assert_eq!(owned.len() + lent.len() + strays, slots as usize);
                }
            },
            2 if !owned.is_empty() => {
                let (frame, mark) = owned.swap_remove(rng.below(owned.len() as u64) as usize);
                assert!(frame.slot().iter().all(|&b| b == mark));
                pool.retire(frame);
            }
            3 if !owned.is_empty() => {
                let (frame, mark) = owned.swap_remove(rng.below(owned.len() as u64) as usize);
                lent.push((pool.lend(frame), mark));
            }
            4 => {
                let (start, len) = (rng.below(size as u64 + 2) as usize, rng.below(size as u64 + 2) as usize);
                let index = rng.below(u64::from(slots) + 70) as u32;
                let place = lent.iter().position(|&(i, _)| i == index);
                match pool.reclaim(index, start, len) {
                    Some(frame) => {
                        let (_, mark) = lent.swap_remove(place.expect("only lent slots come back"));
                        assert_eq!((frame.headroom(), frame.len()), (start, len));
                        assert!(frame.data().iter().all(|&b| b == mark));
                        assert_eq!(pool.locate(frame.offset()), (start < size).then_some((index, start)));
                        owned.push((frame, mark));
                    }
                    None => assert!(place.is_none() || start + len > size),
                }
            }
            5 if rng.chance(0.1) && !owned.is_empty() => {
                drop(owned.pop());
                strays += 1;
            }
            _ => {}
        }
        assert_eq!((pool.strays(), pool.refused()), (strays as u64, refused));
        assert_eq!(pool.lent() as usize, lent.len());
        assert_eq!(pool.available() as usize, slots as usize - owned.len() - lent.len() - strays);
    }
    // Frames may outlive the pool.
    drop(pool);
    for (mut frame, mark) in owned {
        assert!(frame.slot_mut().iter().all(|&b| b == mark));
    }
}

#[test]
fn owners_model() {
    let (seeds, steps) = if cfg!(miri) { (6, 60) } else { (200, 300) };
    for seed in 0..seeds {
        eprintln!("seed {seed}");
        model(&mut Rng::new(seed), steps);
    }
}

#[test]
fn memory_of_others_goes_back_to_them() {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    let returned = Arc::new(AtomicU32::new(0));
    let lend = || {
        let memory = Mapping::anonymous(PAGE + 4 * 64, Pages::Normal).unwrap();
        let (ptr, len, count) = (memory.ptr(), memory.len(), returned.clone());
        let give_back = Box::new(move || {
            drop(memory);
            count.fetch_add(1, Ordering::Relaxed);
        });
        // SAFETY: zeroed, a page, and kept by whom gives it back.
        unsafe { Mapping::lent(ptr, len, Pages::Normal, give_back) }
    };
    assert!(FramePool::over(lend(), 65, 64).is_err(), "does not fit");
    assert_eq!(returned.load(Ordering::Relaxed), 1);
    let mut pool = FramePool::over(lend(), 4, 64).unwrap();
    let mut frame = pool.take().unwrap();
    drop(pool);
    frame.slot_mut().fill(9);
    assert_eq!(returned.load(Ordering::Relaxed), 1, "a frame is out");
    drop(frame);
    assert_eq!(returned.load(Ordering::Relaxed), 2);
}

#[test]
fn refuses_nonsense() {
    for (slots, size) in [(0, 2048), (1, 0), (1, 100), (1, 32), (1, 1 << 31)] {
        assert!(FramePool::new(slots, size).is_err(), "{slots} {size}");
    }
    // Miri's allocator refuses by ending the program.
    assert!(cfg!(miri) || FramePool::new(u32::MAX, 1 << 30).is_err());
}

#[test]
#[should_panic(expected = "another pool")]
fn strangers_are_refused() {
    let (mut a, mut b) = (FramePool::new(2, 64).unwrap(), FramePool::new(2, 64).unwrap());
    let frame = a.take().unwrap();
    b.retire(frame);
}

#[test]
#[should_panic(expected = "outside a slot")]
fn ranges_are_checked() {
    FramePool::new(1, 64).unwrap().take().unwrap().set_range(60, 5);
}

#[test]
fn frames_travel() {
    let mut pool = FramePool::new(4, 2048).unwrap();
    let mut frame = pool.take().unwrap();
    frame.set_range(100, 4);
    frame.data_mut().copy_from_slice(b"mill");
    let frame = std::thread::spawn(move || {
        frame.data_mut()[0] = b'M';
        frame
    })
    .join()
    .unwrap();
    assert_eq!((frame.data(), &frame.slot()[99..101]), (&b"Mill"[..], &b"\0M"[..]));
    pool.retire(frame);
    assert_eq!(pool.available(), 4);
}
