//! Goal: a point is watched while an observer looks and not otherwise, the file says where each is and what it tells,
//! and a tracer of the kernel's finds it there.

use super::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Serializes the tests: an attached tracer is seen by all tests of this process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const FLOW: Flow = Flow { local: [1; 16], remote: [2; 16], local_port: 80, remote_port: 4711 };

/// Reaches every point, so that none is left out of the program.
fn reach_all() {
    let (flow, (why, length)) = (FLOW.place(), text("because"));
    let (seq, ack, flags, window, bytes, segments) = (1, 2, 16, 3, 4, 1);
    SegmentReceived { flow, seq, ack, flags, window, bytes, segments }.reach();
    SegmentSent { flow, seq, ack, flags, window, bytes, segments, in_flight: 4, again: 0 }.reach();
    StateChanged { flow, from: 2, to: 1 }.reach();
    Connected { flow }.reach();
    Accepted { flow }.reach();
    Closed { flow }.reach();
    Failed { flow, why, length }.reach();
    RecoveryEntered { flow }.reach();
    RecoveryLeft { flow, needless: 0 }.reach();
    Timeout { flow, nth: 1 }.reach();
    Congestion { flow, signal: 1 }.reach();
    WindowChanged { flow, cwnd: 10_000, before: 5_000, ssthresh: u32::MAX.into() }.reach();
    RttMeasured { flow, sample: 1_000 }.reach();
    SegmentDropped { flow, why, length }.reach();
    PacketDropped { why, length, packets: 1 }.reach();
}

/// How a register is named after its size.
const PLACE: &str = if cfg!(target_arch = "x86_64") { "8@%r" } else { "8@x" };

fn own_notes() -> Vec<Note> {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    notes(&program).unwrap()
}

#[test]
fn watched_while_somebody_looks() {
    let _turn = alone();
    assert!(!watched());
    for &point in Id::ALL {
        let first = look(point);
        let second = look(point);
        assert!(watched());
        for &other in Id::ALL {
            assert_eq!(is_watched(other), other == point);
        }
        drop(second);
        assert!(is_watched(point), "one of two still looks");
        drop(first);
        assert!(!watched());
    }
}

#[test]
fn the_file_names_every_point_once_with_its_arguments() {
    reach_all();
    let notes = own_notes();
    assert_eq!(notes.len(), POINTS.len());
    for (index, point) in POINTS.iter().enumerate() {
        let note = notes.iter().find(|note| note.name == point.name).expect(point.name);
        assert_eq!(note.provider, PROVIDER);
        assert_eq!(note.place_by_base, note.place, "perf finds it");
        let args: Vec<_> = note.args.split(' ').collect();
        assert_eq!(args.len(), point.args.len(), "{}: {}", point.name, note.args);
        assert!(args.iter().all(|arg| arg.starts_with(PLACE)), "{}", note.args);
        let first = notes.iter().map(|note| note.semaphore).min().unwrap();
        assert_eq!(note.semaphore, first + 2 * index as u64, "a semaphore of its own");
        assert_eq!(Id::ALL[index] as usize, index);
    }
}

#[test]
fn what_is_no_program_is_refused() {
    assert_eq!(notes(b""), Err(ElfError::Kind));
    assert_eq!(notes(b"\x7fELF\x02\x02"), Err(ElfError::Kind));
    assert_eq!(notes(b"\x7fELF\x02\x01"), Err(ElfError::Bounds));
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    for cut in [64, 1_000, program.len() / 2] {
        assert_eq!(notes(&program[..cut]), Err(ElfError::Bounds), "its sections are listed at its end");
    }
}

/// Hits that the kernel counts in this very process. Where it lets no process, the test says so and ends.
#[test]
fn the_kernel_counts_hits_and_raises_the_semaphore() {
    let _turn = alone();
    reach_all();
    let program = std::env::current_exe().unwrap();
    let notes = own_notes();
    let note = notes.iter().find(|note| note.name == "connected").unwrap();
    let mut hits = match Hits::count(&program, note, std::process::id()) {
        Ok(hits) => hits,
        Err(error) => return eprintln!("skipped: no uprobes here: {error}"),
    };
    assert!(watched() && is_watched(Id::Connected) && !is_watched(Id::Accepted));
    for _ in 0..5 {
        Connected { flow: FLOW.place() }.reach();
        Accepted { flow: FLOW.place() }.reach();
    }
    assert_eq!(hits.so_far().unwrap(), 5);
    drop(hits);
    // The kernel takes its uprobes away a little later than their last user.
    let gone = (0..5_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        !watched()
    });
    assert!(gone);
}

/// A thread that ends between the list of threads and its counter is passed over, and no reason to count none.
#[test]
fn threads_may_end_while_counters_are_opened() {
    let _turn = alone();
    reach_all();
    let program = std::env::current_exe().unwrap();
    let notes = own_notes();
    let note = notes.iter().find(|note| note.name == "connected").unwrap();
    if let Err(error) = Hits::count(&program, note, std::process::id()) {
        return eprintln!("skipped: no uprobes here: {error}");
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let short = || std::thread::spawn(|| {});
                for thread in [short(), short(), short(), short()] {
                    thread.join().unwrap();
                }
            }
        });
        let counts: Vec<_> =
            (0..3).map(|_| Hits::count(&program, note, std::process::id()).map(drop)).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(counts.iter().all(Result::is_ok), "{counts:?}");
    });
    let error = Hits::count(&program, note, u32::MAX).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "no such process");
}

/// docs/OBSERVING.md has a row for each point, with its arguments in order.
#[test]
fn the_page_has_every_point() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/OBSERVING.md");
    let page = std::fs::read_to_string(path).unwrap();
    for point in POINTS {
        let args: Vec<_> = point.args.iter().map(|(name, _)| format!("`{name}`")).collect();
        let row = format!("| `{}` | {} |", point.name, args.join(", "));
        assert!(page.contains(&row), "docs/OBSERVING.md lacks the row {row}");
        let probe = format!(":{PROVIDER}:{} ", point.name);
        assert!(page.contains(&probe), "docs/OBSERVING.md lacks a line for {}", point.name);
    }
}
