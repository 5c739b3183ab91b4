//! Goal: behind workers on threads of their own, in every mode, what is written is read, and stacks end; what cannot be
//! is refused, and the refusal says what to do.

use sock::{Settings, TcpListener, TcpStream};
use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::Duration;

/// How long anything may take before it hangs.
const TIMEOUT: Duration = Duration::from_secs(90);

fn settings(name: &str, address: &str, more: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    let link = format!("shm:{}/ms-card-{}-{name}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let usual = [("link", link.as_str()), ("address", address), ("pin", "off")];
    for (key, value) in usual.iter().chain(more) {
        settings.set(key, value).unwrap();
    }
    settings
}

/// An echo of a million bytes between two stacks that are set so.
fn echo(name: &str, more: &[(&str, &str)]) {
    let open = |address| sock::open(&settings(name, address, more)).unwrap().stacks.remove(0);
    let (server, client) = (open("10.7.0.1/24"), open("10.7.0.2/24"));
    let listener = TcpListener::bind(&server, "10.7.0.1:7").unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 10_000];
        loop {
            match stream.read(&mut bytes).unwrap() {
                0 => break,
                n => stream.write_all(&bytes[..n]).unwrap(),
            }
        }
    });
    let sent: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut stream = TcpStream::connect(&client, "10.7.0.1:7").unwrap();
    let (mut writer, copy) = (stream.try_clone().unwrap(), sent.clone());
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == sent, "{more:?}");
    writing.join().unwrap();
    echo.join().unwrap();
}

/// Does it on another thread: a hang is told, and ends the test.
fn bounded(what: &'static str, act: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        act();
        done.send(()).unwrap();
    });
    match wait.recv_timeout(TIMEOUT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn an_echo_in_direct_mode() {
    bounded("an echo in direct mode", || echo("direct", &[("offload_workers", "2")]));
}

#[test]
fn an_echo_in_paired_mode() {
    bounded("an echo in paired mode", || echo("paired", &[("offload_workers", "1"), ("mode", "paired")]));
}

#[test]
fn an_echo_with_everything() {
    let more = [("offload_workers", "3"), ("offload", "hold"), ("workers", "2")];
    bounded("an echo with lanes and held data", move || echo("everything", &more));
    bounded("an echo without merging", || echo("off", &[("offload_workers", "2"), ("offload", "off")]));
}

#[test]
fn what_cannot_be_is_refused() {
    // The link would refuse `share`, too, so it is asked before.
    let mut settings = settings("shared", "10.7.0.1/24", &[("offload_workers", "2")]);
    settings.share = 7;
    let shared = sock::open(&settings).err().expect("it is refused").to_string();
    assert!(shared.contains("share") && shared.contains("offload_workers = 2"), "{shared}");
}
