//! Goal: a panic in the stack ends its port and says so to every thread that waits or comes later; no thread waits for
//! ever and no packet is taken from the kernel any more. Direct and paired mode here; a real interface in the
//! tests of `bench`.

use base::{Addr, Duration};
use pio::{IoError, Layer, Pair, PairConfig, RxBatch, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::{Engine, Errno, Limits, Paired, Runner, Stack, SystemClock, TcpListener, TcpStream};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{Error, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Long for a machine that is busy with something else.
const LONG: Duration = Duration::from_secs(30);

/// State shared by a test and the port.
#[derive(Default)]
struct Switch {
    /// The next packet that is received makes the stack's thread panic.
    armed: AtomicBool,
    dropped: AtomicBool,
}

/// A port with a fault in it.
struct Faulty(Pair, Arc<Switch>);

impl Layer for Faulty {
    type Below = Pair;

    fn below(&self) -> &Pair {
        &self.0
    }

    fn below_mut(&mut self) -> &mut Pair {
        &mut self.0
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = pio::PacketIo::rx(&mut self.0, batch)?;
        assert!(received == 0 || !self.1.armed.load(Ordering::SeqCst), "the fault of this test");
        Ok(received)
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.1.dropped.store(true, Ordering::SeqCst);
    }
}

fn engine(port: impl pio::PacketIo + 'static, last: u8) -> Engine {
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 24 }];
    let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
    Engine::new(core, Box::new(SystemClock::new()), Limits::default())
}

fn client(port: Pair) -> Stack {
    Runner::start(engine(port, 2)).unwrap()
}

fn is_down<T>(result: Result<T, Error>) -> bool {
    let error = result.err().expect("the stack is over");
    assert_eq!(error.raw_os_error(), Error::from(Errno::ENETDOWN).raw_os_error(), "{error}");
    true
}

/// A server, a connection to it, and the fault, armed: the next packet sets it off.
struct Scene {
    switch: Arc<Switch>,
    server: Stack,
    listener: Arc<TcpListener>,
    here: TcpStream,
    there: TcpStream,
    _client: Stack,
}

fn scene(start: impl FnOnce(Engine) -> Stack) -> Scene {
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let switch = Arc::new(Switch::default());
    let (client, server) = (client(a), start(engine(Faulty(b, switch.clone()), 1)));
    let listener = Arc::new(TcpListener::bind(&server, "10.0.0.1:7").unwrap());
    let there = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    let (here, _) = listener.accept().unwrap();
    Scene { switch, server, listener, here, there, _client: client }
}

impl Scene {
    /// All that comes later fails at once, and the port is gone.
    fn ends(mut self, told: bool) {
        let pause = Duration::from_millis(1);
        let mut left = LONG;
        while !self.switch.dropped.load(Ordering::SeqCst) {
            left = left.checked_sub(pause).expect("the port is kept");
            std::thread::sleep(pause);
        }
        let read = self.here.read(&mut [0; 1]);
        // An error is told once.
        assert!(if told { matches!(read, Ok(0)) } else { is_down(read) });
        assert!(self.here.write(b"x").is_err());
        assert!(is_down(self.listener.accept()));
        self.listener.set_nonblocking(true).unwrap();
        assert!(is_down(self.listener.accept()));
        assert!(is_down(TcpStream::connect(&self.server, "10.0.0.2:9")));
    }
}

#[test]
fn threads_that_wait_in_direct_mode_hear_of_a_panic() {
    let mut scene = scene(|engine| Runner::start(engine).unwrap());
    let (listener, mut reader) = (scene.listener.clone(), scene.here.try_clone().unwrap());
    // One of the two turns the core when the fault strikes, and panics.
    let accepts = std::thread::spawn(move || is_down(listener.accept()));
    let reads = std::thread::spawn(move || is_down(reader.read(&mut [0; 1])));
    std::thread::sleep(Duration::from_millis(50));
    scene.switch.armed.store(true, Ordering::SeqCst);
    scene.there.write_all(b"x").unwrap();
    let ended = [accepts.join(), reads.join()];
    let told = ended[1].is_ok();
    let panicked = ended.iter().filter(|ended| ended.is_err()).count();
    assert!(panicked <= 1, "the panic of one thread is not that of another");
    assert!(ended.into_iter().flatten().all(|down| down));
    scene.ends(told);
}

/// No thread is inside a call: the watchdog's thread meets the fault.
#[test]
fn a_panic_of_the_watchdog_ends_the_port() {
    let mut scene = scene(|engine| Runner::start(engine).unwrap());
    scene.switch.armed.store(true, Ordering::SeqCst);
    scene.there.write_all(b"x").unwrap();
    scene.ends(false);
}

#[test]
fn applications_of_a_stack_thread_hear_of_its_panic() {
    let mut threads = None;
    let mut scene = scene(|engine| {
        let thread = Arc::new(StackThread::start(engine, PairedConfig::default()).unwrap());
        threads = Some(thread.clone());
        Arc::new(Paired::over(&[thread], Limits::default()).unwrap())
    });
    let (listener, mut reader) = (scene.listener.clone(), scene.here.try_clone().unwrap());
    let accepts = std::thread::spawn(move || is_down(listener.accept()));
    let reads = std::thread::spawn(move || is_down(reader.read(&mut [0; 1])));
    std::thread::sleep(Duration::from_millis(50));
    scene.switch.armed.store(true, Ordering::SeqCst);
    scene.there.write_all(b"x").unwrap();
    assert!(accepts.join().unwrap() && reads.join().unwrap());
    // One that comes after the end is told as well.
    let late: Stack = Arc::new(Paired::over(&[threads.expect("it was started")], Limits::default()).unwrap());
    assert!(is_down(TcpStream::connect(&late, "10.0.0.2:9")));
    scene.ends(true);
}
