//! Goal: bytes come out as they went in, around the end too; nothing outside is touched; two mappings see one
//! memory; and memory that could shrink is refused.
use super::*;
use base::Rng;

#[test]
fn a_plain_ring_of_bytes_does_the_same() {
    let memory = SharedMemory::private(8 * WORD);
    let mut rng = Rng::new(7);
    let mut oracle = [0; 6 * WORD];
    for _ in 0..if cfg!(miri) { 100 } else { 5000 } {
        let mut data = vec![0; rng.below(oracle.len() as u64 + 1) as usize];
        rng.fill(&mut data);
        let at = rng.below(6) as usize;
        let ring = memory.words(WORD, oracle.len());
        copy_in(ring, at, &data);
        data.resize(data.len().next_multiple_of(WORD), 0);
        for (i, &byte) in data.iter().enumerate() {
            oracle[(at * WORD + i) % (6 * WORD)] = byte;
        }
        let (from, len) = (rng.below(6) as usize, rng.below(oracle.len() as u64 + 1) as usize);
        let mut got = vec![0; len];
        copy_out(ring, from, &mut got);
        assert!(got.iter().eq(oracle.iter().cycle().skip(from * WORD).take(len)));
    }
    for outside in [0, 7 * WORD] {
        assert_eq!(memory.words(outside, WORD)[0].load(Ordering::Relaxed), 0);
    }
}

#[test]
#[should_panic]
fn nothing_lies_outside() {
    SharedMemory::private(4 * WORD).words(3 * WORD, 2 * WORD);
}

#[cfg(not(miri))]
#[test]
fn two_mappings_are_one_memory() {
    let (mine, fd) = SharedMemory::create(c"millstream-test", 8192).unwrap();
    let theirs = SharedMemory::adopt(fd.as_fd(), 8192).unwrap();
    drop(fd);
    mine.words(8000, WORD)[0].store(0x0102, Ordering::Relaxed);
    assert_eq!(theirs.words(8000, WORD)[0].load(Ordering::Relaxed), 0x0102);
    drop(mine);
    assert_eq!(theirs.words(8000, WORD)[0].load(Ordering::Relaxed), 0x0102);
}

#[cfg(not(miri))]
#[test]
fn memory_that_could_shrink_is_refused() {
    let refused = |fd: BorrowedFd<'_>| SharedMemory::adopt(fd, 4096).unwrap_err().kind();
    // SAFETY: a C string that lives through the call; the descriptor is ours.
    let unsealed = unsafe {
        OwnedFd::from_raw_fd(libc::memfd_create(c"millstream-test".as_ptr(), libc::MFD_ALLOW_SEALING))
    };
    let file = std::fs::File::from(unsealed);
    file.set_len(4096).unwrap();
    assert_eq!(refused(file.as_fd()), io::ErrorKind::InvalidData);
    let (_, other) = SharedMemory::create(c"millstream-test", 8192).unwrap();
    assert_eq!(refused(other.as_fd()), io::ErrorKind::InvalidData);
    assert!(SharedMemory::adopt(std::fs::File::open("/dev/null").unwrap().as_fd(), 4096).is_err());
    for len in [0, 4097] {
        let refused = SharedMemory::create(c"millstream-test", len).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
