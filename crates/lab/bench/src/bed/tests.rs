//! Goal: a server's CPU time is known whatever its threads do.
use super::*;

#[test]
fn threads_that_come_and_go_disturb_no_measurement() {
    let mut command = Command::new("python3");
    let comes_and_goes = "import threading\nprint('ready', flush=True)\n\
                              while True:\n t = threading.Thread(target=int); t.start(); t.join()";
    command.args(["-c", comes_and_goes]);
    let server = serving(command).expect("python3 runs");
    let mut last = 0;
    for _ in 0..20_000 {
        let used = server.cpu_ns().expect("it lives");
        assert!(used >= last);
        last = used;
    }
    server.kill().expect("it ends");
}
