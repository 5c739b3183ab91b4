//! Goal: a policy of the user's own comes into a running stack from a shared library, carries a transfer, and goes from
//! under it; when the last connection has left, the library is unmapped. And it may be there from the beginning.

use base::Addr;
use pio::{PairConfig, pair};
use sock::tree::Tree;
use sock::{Engine, Errno, Limits, Runner, Settings, Stack, SystemClock, TcpListener, TcpStream};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::OnceLock;

/// The library, made once: tests run at the same time.
fn example() -> String {
    static MADE: OnceLock<String> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> String {
    let out = env!("CARGO_TARGET_TMPDIR");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/cc-c");
    let made = Command::new("make").args(["-s", "-C", folder, &format!("OUT={out}")]).output().expect("make");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    format!("{out}/libmimd.so")
}

fn stack(port: impl pio::PacketIo + 'static, last: u8) -> Stack {
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 16 }];
    let core = Core::new(CoreConfig { seed: 7, addresses, ..CoreConfig::default() }, Box::new(port));
    Runner::start(Engine::new(core, Box::new(SystemClock::new()), Limits::default())).unwrap()
}

fn congestion(stream: &TcpStream, stack: &Stack) -> String {
    let mut name = [0; 16];
    stack.getsockopt(stream.fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name).unwrap();
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_string()
}

#[test]
fn a_policy_is_offered_on_all_cores_or_on_none() {
    let library = policy::Library::open(example().as_ref()).unwrap();
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let stacks = [stack(a, 1), stack(b, 2)];
    let tree = Tree::new(&stacks);
    stacks[1].inspect(Box::new(|engine| library.register(engine.core().controls()).unwrap()));
    assert_eq!(tree.offer(&library).unwrap_err().errno(), Errno::EEXIST);
    assert!(
        !tree.get("net.inet.tcp.cc.available").unwrap().contains("mimd"),
        "the first core has it no more"
    );
    stacks[1].inspect(Box::new(|engine| engine.core().controls().remove("mimd").unwrap()));
    tree.offer(&library).unwrap();
    assert!(tree.get("net.inet.tcp.cc.available").unwrap().contains("mimd"));
    tree.set("net.inet.tcp.cc.remove", "mimd").unwrap();
}

#[test]
fn a_library_comes_carries_and_goes() {
    let library = example();
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let stacks = [stack(a, 1), stack(b, 2)];
    let tree = Tree::new(&stacks);
    let refused = tree.set("net.inet.tcp.cc.load", "/no/such.so").unwrap_err();
    assert_eq!(refused.errno(), Errno::ENOENT);
    tree.set("net.inet.tcp.cc.load", &library).unwrap();
    assert_eq!(tree.set("net.inet.tcp.cc.load", &library).unwrap_err().errno(), Errno::EEXIST);
    tree.set("net.inet.tcp.cc.mimd.keep", "80").unwrap();
    assert_eq!(tree.get("net.inet.tcp.cc.mimd.keep").unwrap(), "80");
    assert!(tree.set("net.inet.tcp.cc.mimd.keep", "100").unwrap_err().to_string().contains("10 to 99"));
    tree.set("net.inet.tcp.cc.algorithm", "mimd").unwrap();
    assert!(tree.get("net.inet.tcp.cc.libraries").unwrap().starts_with("mimd /"));

    let listener = TcpListener::bind(&stacks[0], "0.0.0.0:80").unwrap();
    let from = stacks[1].clone();
    let sender = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(&from, "10.0.0.1:80").unwrap();
        (0..100).for_each(|_| stream.write_all(&[7; 50_000]).unwrap());
        stream
    });
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(congestion(&stream, &stacks[0]), "mimd");
    let mut bytes = vec![0; 50_000];
    for round in 0..100 {
        stream.read_exact(&mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 7));
        if round == 50 {
            tree.set("net.inet.tcp.cc.remove_force", "mimd").unwrap();
            assert_eq!(tree.get("net.inet.tcp.cc.libraries").unwrap(), "", "nothing has it: it is unmapped");
        }
    }
    let sender = sender.join().unwrap();
    for (end, stack) in [(&stream, &stacks[0]), (&sender, &stacks[1])] {
        assert_eq!(congestion(end, stack), "newreno");
    }

    let mut settings = Settings::default();
    let path = format!("shm:{}/own-policy-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let keys =
        [("link", path.as_str()), ("address", "10.0.0.3/24"), ("cc_load", library.as_str()), ("cc", "mimd")];
    keys.iter().for_each(|(key, value)| settings.set(key, value).unwrap());
    settings.set("net.inet.tcp.cc.mimd.per_segment", "50").unwrap();
    let opened = sock::open(&settings).unwrap();
    assert_eq!(opened.tree.get("net.inet.tcp.cc.algorithm").unwrap(), "mimd");
    assert_eq!(opened.tree.get("net.inet.tcp.cc.mimd.per_segment").unwrap(), "50");
    settings.set("net.inet.tcp.cc.mimd.per_segment", "0").unwrap();
    let refused = sock::open(&settings).err().expect("out of bounds").to_string();
    assert!(refused.contains("mimd.per_segment") && refused.contains("1 to 10000"), "{refused}");
    settings.set("cc_load", "/no/such.so").unwrap();
    assert!(sock::open(&settings).err().expect("no library").to_string().contains("cc_load: /no/such.so"));
}
