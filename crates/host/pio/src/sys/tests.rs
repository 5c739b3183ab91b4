//! Goal: CPU time of a process is there as long as the process is.
use super::*;

#[test]
fn cpu_time_of_ended_threads_counts() {
    let used = || process_cpu(std::process::id()).expect("this process");
    let before = used();
    let burnt = std::thread::spawn(move || {
        let begin = clock(libc::CLOCK_THREAD_CPUTIME_ID);
        while clock(libc::CLOCK_THREAD_CPUTIME_ID) - begin < Duration::from_millis(20) {}
    });
    burnt.join().expect("it ends");
    assert!(used() - before >= Duration::from_millis(20));
    process_cpu(1 << 23).expect_err("numbers end at 2^22");
}
