//! Goal: after a panic in the stack a real interface is the kernel's again: no XDP program is left on it, its ports
//! can be bound, and the kernel answers on them.
//!
//! Needs root for network namespaces; without it the test says that it was skipped.

use base::Duration;
use bench::bed::{Bed, SERVER_ADDR, sh};
use pio::{IoError, Layer, PacketIo, RxBatch};
use sock::{Engine, Errno, Limits, Runner, Stack, SystemClock, TcpListener};
use stack::{Core, CoreConfig};
use std::io::{Error, Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A port that panics with the next packet once it is told to.
struct Faulty(Box<dyn PacketIo>, Arc<AtomicBool>);

impl Layer for Faulty {
    type Below = dyn PacketIo;

    fn below(&self) -> &(dyn PacketIo + 'static) {
        &*self.0
    }

    fn below_mut(&mut self) -> &mut (dyn PacketIo + 'static) {
        &mut *self.0
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = self.0.rx(batch)?;
        assert!(received == 0 || !self.1.load(Ordering::SeqCst), "the fault of this test");
        Ok(received)
    }
}

#[test]
fn the_kernel_has_its_ports_back_after_a_panic() {
    let Some(bed) = Bed::if_root(true) else { return };
    for link in ["xdp:ms0", "packet:ms0"] {
        let inner = std::env::current_exe().expect("a test has a file");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &bed.server]).arg(inner);
        command.args(["--ignored", "--exact", "inside_the_servers_namespace", "--nocapture"]);
        let output =
            command.env("OVER_LINK", link).env("OVER_CLIENT", &bed.client).output().expect("ip runs");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{link}: {said}");
        assert!(said.contains("a panic has ended the stack on"), "{link}: {said}");
    }
}

/// Connects from the clients' namespace, sends a line, and gives what the server says.
fn client(namespace: &str) -> std::process::Child {
    let script = format!("exec 3<>/dev/tcp/{SERVER_ADDR}/80; echo hello >&3; head -c 5 <&3");
    let args = ["netns", "exec", namespace, "timeout", "20", "bash", "-c", &script];
    Command::new("ip").args(args).stdout(std::process::Stdio::piped()).spawn().expect("ip runs")
}

#[test]
#[ignore = "the other test runs it in a namespace of its own"]
fn inside_the_servers_namespace() {
    let of = |name: &str| std::env::var(name).expect("the other test sets it");
    let (link, namespace) = (of("OVER_LINK"), of("OVER_CLIENT"));
    let armed = Arc::new(AtomicBool::new(false));
    let port = pio::open(&link, 1).expect("the link opens").remove(0);
    let core =
        Core::new(CoreConfig { seed: 5, ..CoreConfig::default() }, Box::new(Faulty(port, armed.clone())));
    let engine = Engine::new(core, Box::new(SystemClock::new()), Limits::default());
    let stack: Stack = Runner::start(engine).expect("it starts");
    let address = format!("{SERVER_ADDR}:80");
    let listener = TcpListener::bind(&stack, &address).expect("it listens");
    let taken = std::net::TcpListener::bind(&address).expect_err("the port is ours");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);

    let mut first = client(&namespace);
    let (mut stream, _) = listener.accept().expect("a client comes");
    let mut hello = [0; 6];
    stream.read_exact(&mut hello).expect("it says hello");
    armed.store(true, Ordering::SeqCst);
    // Its acknowledgment sets off the fault, in this thread or in the watchdog's.
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.write_all(b"world").expect("there is room");
        stream.read(&mut hello)
    }));
    let down = |error: &Error| error.raw_os_error() == Error::from(Errno::ENETDOWN).raw_os_error();
    assert!(ended.is_err() || ended.is_ok_and(|read| read.is_err_and(|error| down(&error))));
    assert!(listener.accept().is_err_and(|error| down(&error)));
    drop(first.kill());
    drop(first.wait());

    let shown = sh("ip", &["link", "show", "ms0"]).expect("ip runs");
    assert!(!shown.contains("xdp"), "{shown}");
    let kernels = std::net::TcpListener::bind(&address).expect("the port is the kernel's again");
    let second = client(&namespace);
    let (mut stream, _) = kernels.accept().expect("the kernel accepts");
    let mut hello = [0; 6];
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    stream.read_exact(&mut hello).expect("the kernel has the packets");
    stream.write_all(b"earth").expect("there is room");
    let said = second.wait_with_output().expect("it ends");
    assert_eq!(said.stdout, b"earth");
}
