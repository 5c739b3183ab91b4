#[test]
fn a_thread_runs_somewhere() {
    assert!(super::current_cpu().is_some());
}
