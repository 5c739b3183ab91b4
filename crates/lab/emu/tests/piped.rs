//! Goal: a path under a stack that lives by the real clock takes the time that it says, and little more.

use base::{Addr, Duration, Rate};
use emu::{PipeConfig, Piped};
use pio::{PacketIo, PairConfig, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::{Clock, Engine, Limits, Paired, Runner, Stack, SystemClock, TcpListener, TcpStream};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{Read, Write};
use std::sync::Arc;

const BYTES: usize = 500_000;

fn engine(port: Box<dyn PacketIo>, last: u8) -> Engine {
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 16 }];
    let core = Core::new(CoreConfig { seed: 7, addresses, ..CoreConfig::default() }, port);
    Engine::new(core, Box::new(SystemClock::new()), Limits::default())
}

fn direct(engine: Engine) -> Stack {
    Runner::start(engine).unwrap()
}

fn paired(engine: Engine) -> Stack {
    let config = PairedConfig { spin: Duration::ZERO, ..PairedConfig::default() };
    let thread = Arc::new(StackThread::start(engine, config).unwrap());
    Arc::new(Paired::over(&[thread], Limits::default()).unwrap())
}

/// How long connecting takes, and half a megabyte to the server, over 20 ms and 8 Mbit/s there and 30 ms back.
fn timed(start: fn(Engine) -> Stack) -> [Duration; 2] {
    let (near, far) = pair(&PairConfig::default()).unwrap();
    let way = |ms, rate| PipeConfig { delay: Duration::from_millis(ms), rate, ..PipeConfig::default() };
    let pipes = [way(30, None), way(20, Some(Rate::from_bits_per_sec(8_000_000)))];
    let clock = SystemClock::new();
    let now = || SystemClock::new().now();
    let near = Piped::new(Box::new(near), pipes, 1, move || clock.now()).unwrap();
    let (client, server) = (start(engine(Box::new(near), 1)), start(engine(Box::new(far), 2)));
    let listener = TcpListener::bind(&server, "0.0.0.0:80").unwrap();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; BYTES];
        stream.read_exact(&mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 7));
        stream.write_all(b"thanks").unwrap();
        // The end comes from the other side.
        assert_eq!(stream.read(&mut bytes).unwrap(), 0);
    });
    let begun = now();
    let mut stream = TcpStream::connect(&client, "10.0.0.2:80").unwrap();
    let connected = now().since(begun);
    let begun = now();
    stream.write_all(&[7; BYTES]).unwrap();
    stream.read_exact(&mut [0; 6]).unwrap();
    let moved = now().since(begun);
    drop(stream);
    serve.join().unwrap();
    [connected, moved]
}

#[test]
fn the_clock_on_the_wall_sees_the_path() {
    for start in [direct, paired] {
        let [connected, moved] = timed(start);
        eprintln!("connected in {connected:?}, {BYTES} bytes in {moved:?}");
        // ARP and the handshake, each there and back.
        assert!(
            connected >= Duration::from_millis(100) && connected < Duration::from_millis(400),
            "{connected:?}"
        );
        // Half a second on the line and one round trip; slow start, and a machine with other work, take theirs.
        assert!(moved >= Duration::from_millis(550) && moved < Duration::from_millis(2_500), "{moved:?}");
    }
}
