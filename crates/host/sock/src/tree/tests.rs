//! Goal: what is set is read back on every core and obeyed by connections, what is refused changes nothing and says
//! what would be right, and policies come and go under flows that live.

use super::*;
use crate::paired::{PairedConfig, StackThread};
use crate::{Limits, Paired, Runner, SystemClock, TcpListener, TcpStream};
use base::{Addr, Duration};
use pio::{PairConfig, pair};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{Read, Write};
use std::thread;

fn engine(port: impl pio::PacketIo + 'static, last: u8) -> Engine {
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 16 }];
    let core = Core::new(CoreConfig { seed: 7, addresses, ..CoreConfig::default() }, Box::new(port));
    Engine::new(core, Box::new(SystemClock::new()), Limits::default())
}

/// Two ends of a link, which here are two cores of one process: 10.0.0.1 and 10.0.0.2.
fn direct() -> [Stack; 2] {
    let (a, b) = pair(&PairConfig::default()).unwrap();
    [Runner::start(engine(a, 1)).unwrap(), Runner::start(engine(b, 2)).unwrap()]
}

fn paired() -> [Stack; 2] {
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let start = |engine| -> Stack {
        let config = PairedConfig { spin: Duration::ZERO, ..PairedConfig::default() };
        let thread = Arc::new(StackThread::start(engine, config).unwrap());
        Arc::new(Paired::over(&[thread], Limits::default()).unwrap())
    };
    [start(engine(a, 1)), start(engine(b, 2))]
}

fn set_congestion(stream: &TcpStream, name: &str) -> Result<(), Errno> {
    stream.stack().setsockopt(stream.fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
}

fn congestion(stack: &Stack, fd: i32) -> String {
    let mut name = [0; 16];
    stack.getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name).unwrap();
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_string()
}

/// A client of the second core and a server of the first, connected.
fn flow(stacks: &[Stack; 2], port: u16) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(&stacks[0], ("0.0.0.0", port)).unwrap();
    let server = stacks[1].clone();
    let client = thread::spawn(move || TcpStream::connect(&server, ("10.0.0.1", port)).unwrap());
    let (server, _) = listener.accept().unwrap();
    (client.join().unwrap(), server)
}

/// Bytes go from the client to the server while `meanwhile` is called again and again.
fn transfer(client: &TcpStream, server: &TcpStream, mut meanwhile: impl FnMut(usize)) {
    const ROUNDS: usize = 200;
    let data: Vec<u8> = (0..40_000u32).map(|i| ((i * 31) >> 4) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| (0..ROUNDS).for_each(|_| (&mut &*client).write_all(&data).unwrap()));
        let mut got = vec![0; data.len()];
        for round in 0..ROUNDS {
            (&mut &*server).read_exact(&mut got).unwrap();
            assert!(got == data, "round {round}");
            meanwhile(round);
        }
    });
}

fn text<T: std::fmt::Debug>(result: Result<T, TreeError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn every_name_reads_and_takes_back_what_it_says() {
    let tree = Tree::new(&direct());
    let all = tree.list("").unwrap();
    assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, and no name twice");
    assert!(all.len() > tcp::Config::ROWS.len() + 30);
    for node in all {
        assert!(!node.form.is_empty() && node.help.ends_with(['.', '?', ';', ')']), "{node:?}");
        match node.access {
            Access::Read => {
                tree.get(&node.name).unwrap();
                assert_eq!(tree.set(&node.name, "1").unwrap_err().errno(), Errno::EPERM);
            }
            Access::ReadWrite => {
                let value = tree.get(&node.name).unwrap();
                tree.set(&node.name, &value).unwrap();
                assert_eq!(tree.get(&node.name), Ok(value), "{}", node.name);
                assert_ne!(tree.set(&node.name, "magic").unwrap_err().errno(), Errno::EPERM);
            }
            Access::Write => assert_eq!(tree.get(&node.name).unwrap_err().errno(), Errno::EPERM),
        }
    }
}

#[test]
fn refusals_say_what_would_be_right_and_change_nothing() {
    let tree = Tree::new(&direct());
    for (name, value, errno, say) in [
        ("net.inet.tcp.colour", "red", Errno::ENOENT, "rto_min"),
        ("net.inet.tcp.cc.htcp.colour", "1", Errno::ENOENT, "rtt_scaling"),
        ("net.inet6", "1", Errno::ENOENT, "under net there are inet"),
        ("kern.ostype", "1", Errno::ENOENT, "names begin with net"),
        ("net.inet.tcp.rto_min", "fast", Errno::EINVAL, "1ms to 60s"),
        ("net.inet.tcp.rto_min", "61s", Errno::EINVAL, "out of bounds"),
        ("net.inet.tcp.cc.algorithm", "reno9", Errno::ENOENT, "cubic, newreno, htcp"),
        ("net.inet.tcp.cc.algorithm", "mulwin", Errno::EPERM, "allow_unfair"),
        ("net.inet.tcp.cc.allow_unfair", "2", Errno::EINVAL, "0 or 1"),
        ("net.inet.tcp.cc.available", "cubic", Errno::EPERM, "only be read"),
        ("net.inet.tcp.cc.cdg.beta_loss", "100", Errno::EINVAL, "1 to 99"),
        ("net.inet.tcp.cc.cdg.beta_loss", "half", Errno::EINVAL, "whole number"),
        ("net.inet.tcp.cc.cubic.quiesced", "1", Errno::EBUSY, "algorithm"),
        ("net.inet.tcp.cc.newreno.quiesced", "1", Errno::EPERM, "stays"),
        ("net.inet.tcp.cc.htcp.quiesced", "2", Errno::EINVAL, "0 to 1"),
        ("net.inet.tcp.cc.remove", "newreno", Errno::EPERM, "stays"),
        ("net.inet.tcp.cc.remove", "cubic", Errno::EBUSY, "default"),
        ("net.inet.tcp.cc.remove", "reno9", Errno::ENOENT, "there are cubic"),
        ("net.inet.tcp.cc.remove_force", "newreno", Errno::EPERM, "stays"),
        ("net.inet.tcp.cc.remove_force", "reno9", Errno::ENOENT, "there are cubic"),
    ] {
        let everything = |tree: &Tree| {
            let nodes = tree.list("").unwrap();
            nodes.into_iter().map(|node| (tree.get(&node.name).ok(), node)).collect::<Vec<_>>()
        };
        let before = everything(&tree);
        let error = tree.set(name, value).unwrap_err();
        assert_eq!(error.errno(), errno, "{name}={value}: {error}");
        assert!(error.to_string().contains(say), "{name}={value}: {error}");
        assert_eq!(everything(&tree), before, "{name}={value}");
    }
    assert!(text(tree.list("net.inet.tcp.cc.reno9")).contains("newreno"));
}

#[test]
fn who_wants_several_shares_must_allow_it_first() {
    for stacks in [direct(), paired()] {
        let tree = Tree::new(&stacks);
        let available = || tree.get("net.inet.tcp.cc.available").unwrap();
        let (client, _server) = flow(&stacks, 80);
        assert_eq!(set_congestion(&client, "mulwin"), Err(Errno::EPERM));
        assert!(!available().contains("mulwin"));
        tree.set("net.inet.tcp.cc.allow_unfair", "1").unwrap();
        tree.set("net.inet.tcp.cc.mulwin.n", "4").unwrap();
        assert!(available().contains("mulwin, multcp"));
        assert_eq!(set_congestion(&client, "mulwin"), Ok(()));
        tree.set("net.inet.tcp.cc.algorithm", "multcp").unwrap();
        let error = tree.set("net.inet.tcp.cc.allow_unfair", "0").unwrap_err();
        assert_eq!(error.errno(), Errno::EBUSY, "{error}");
        tree.set("net.inet.tcp.cc.algorithm", "cubic").unwrap();
        tree.set("net.inet.tcp.cc.allow_unfair", "0").unwrap();
        assert_eq!(congestion(client.stack(), client.fd()), "mulwin", "who has it keeps it");
        assert_eq!(tree.get("net.inet.tcp.cc.allow_unfair").unwrap(), "0");
    }
}

#[test]
fn what_is_set_holds_on_every_core() {
    for stacks in [direct(), paired()] {
        let tree = Tree::new(&stacks);
        tree.set("net.inet.tcp.cc.algorithm", "vegas").unwrap();
        tree.set("net.inet.tcp.cc.vegas.alpha", "9").unwrap();
        tree.set("net.inet.tcp.delayed_ack", "7ms").unwrap();
        for stack in &stacks {
            let socket = stack.socket(crate::Family::V4).unwrap();
            assert_eq!(congestion(stack, socket), "vegas");
            stack.inspect(Box::new(|engine| {
                assert_eq!(engine.core().config().delayed_ack, Duration::from_millis(7));
                let tunables = engine.core().controls().tunables("vegas").unwrap();
                assert!(tunables.iter().any(|(row, value)| (row.name, *value) == ("alpha", 9)));
            }));
        }
        let (client, server) = flow(&stacks, 80);
        assert_eq!(congestion(client.stack(), client.fd()), "vegas");
        assert_eq!(congestion(server.stack(), server.fd()), "vegas");
        assert_eq!(tree.get("net.inet.tcp.cc.vegas.connections").unwrap(), "2");
        assert!(tree.get("net.inet.tcp.cc.policies").unwrap().contains("vegas* 2, "));
    }
}

#[test]
fn a_policy_goes_when_nobody_has_it_or_by_force_from_under_flows() {
    for stacks in [direct(), paired()] {
        let tree = Tree::new(&stacks);
        let (client, server) = flow(&stacks, 80);
        set_congestion(&client, "htcp").unwrap();
        assert_eq!(set_congestion(&client, "magic"), Err(Errno::ENOENT));
        assert_eq!(congestion(client.stack(), client.fd()), "htcp");
        assert!(text(tree.set("net.inet.tcp.cc.remove", "htcp")).contains("1 connections"));
        assert_eq!(tree.get("net.inet.tcp.cc.htcp.quiesced").unwrap(), "0", "a refusal changes nothing");

        tree.set("net.inet.tcp.cc.htcp.quiesced", "1").unwrap();
        assert!(!tree.get("net.inet.tcp.cc.available").unwrap().contains("htcp"));
        assert_eq!(set_congestion(&server, "htcp"), Err(Errno::ENOENT), "no new connection");
        assert_eq!(set_congestion(&client, "htcp"), Ok(()), "who has it keeps it");
        tree.set("net.inet.tcp.cc.htcp.quiesced", "0").unwrap();

        transfer(&client, &server, |round| {
            if round == 20 {
                tree.set("net.inet.tcp.cc.remove_force", "htcp").unwrap();
                assert_eq!(congestion(client.stack(), client.fd()), "newreno");
            }
            if round == 40 {
                // The default goes, too: what asks for none gets the refuge from then on.
                tree.set("net.inet.tcp.cc.remove_force", "cubic").unwrap();
                assert_eq!(congestion(server.stack(), server.fd()), "newreno");
                assert_eq!(tree.get("net.inet.tcp.cc.algorithm").unwrap(), "newreno");
            }
        });
        assert!(text(tree.get("net.inet.tcp.cc.htcp.rtt_scaling")).contains("there is no"));
        assert_eq!(tree.get("net.inet.tcp.cc.newreno.connections").unwrap(), "2");
        tree.set("net.inet.tcp.cc.remove", "vegas").unwrap();
        assert_eq!(set_congestion(&client, "vegas"), Err(Errno::ENOENT));
    }
}

#[test]
fn a_listener_counts_as_a_user_and_goes_on_with_the_refuge() {
    let stacks = direct();
    let tree = Tree::new(&stacks);
    let listener = TcpListener::bind(&stacks[0], "0.0.0.0:80").unwrap();
    stacks[0].setsockopt(listener.fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"dctcp").unwrap();
    assert!(text(tree.set("net.inet.tcp.cc.remove", "dctcp")).contains("1 connections and listeners"));
    tree.set("net.inet.tcp.cc.remove_force", "dctcp").unwrap();
    let stack = stacks[1].clone();
    let client = thread::spawn(move || TcpStream::connect(&stack, "10.0.0.1:80").unwrap());
    let (accepted, _) = listener.accept().unwrap();
    assert_eq!(congestion(accepted.stack(), accepted.fd()), "newreno");
    drop(client.join().unwrap());
}

#[test]
fn any_row_may_change_under_a_transfer() {
    let stacks = direct();
    let tree = Tree::new(&stacks);
    let (client, server) = flow(&stacks, 80);
    let rows = tcp::Config::ROWS;
    transfer(&client, &server, |round| {
        let row = &rows[round / 2 % rows.len()];
        let (min, max) = (row.bounds)();
        let name = format!("net.inet.tcp.{}", row.name);
        let value = if round % 2 == 0 { min } else { max };
        tree.set(&name, &value).unwrap_or_else(|e| panic!("{e}"));
    });
}

#[test]
fn others_hang_in_branches_of_their_own() {
    struct Trial(Mutex<String>);

    impl Branch for Trial {
        fn prefix(&self) -> &str {
            "net.inet.trial"
        }
        fn nodes(&self, _: &Cores) -> Vec<Node> {
            let node = |name: &str| Node {
                name: format!("net.inet.trial.{name}"),
                access: Access::ReadWrite,
                form: "0 to 1".into(),
                help: "Is it on?".into(),
            };
            vec![node("enabled")]
        }
        fn get(&self, _: &Cores, _: &str) -> Result<String, TreeError> {
            Ok(self.0.lock().unwrap().clone())
        }
        fn set(&self, _: &Cores, _: &str, value: &str) -> Result<(), TreeError> {
            *self.0.lock().unwrap() = value.into();
            Ok(())
        }
    }

    let tree = Tree::new(&direct());
    let trial = || Arc::new(Trial(Mutex::new("0".into())));
    tree.add(trial()).unwrap();
    assert_eq!(tree.add(trial()).unwrap_err().errno(), Errno::EEXIST);
    tree.set("net.inet.trial.enabled", " 1 ").unwrap();
    assert_eq!(tree.get("net.inet.trial.enabled").unwrap(), "1");
    assert_eq!(tree.list("net.inet.trial").unwrap().len(), 1);
    assert!(text(tree.get("net.inet.trial.ppl")).contains("enabled"));
}

const CCALGOOPT: i32 = 65;

fn tune(stack: &Stack, fd: i32, text: &str) -> Result<(), Errno> {
    stack.setsockopt(fd, libc::IPPROTO_TCP, CCALGOOPT, text.as_bytes())
}

fn tuned(stack: &Stack, fd: i32, name: &str) -> Result<String, Errno> {
    let mut value = [0; 32];
    value[..name.len()].copy_from_slice(name.as_bytes());
    let len = stack.getsockopt(fd, libc::IPPROTO_TCP, CCALGOOPT, &mut value)?;
    assert_eq!(value[len], 0);
    Ok(String::from_utf8_lossy(&value[..len]).into_owned())
}

#[test]
fn one_socket_is_tuned_apart_from_the_others() {
    for stacks in [direct(), paired()] {
        let (client, server) = flow(&stacks, 80);
        let (stack, fd) = (client.stack(), client.fd());
        set_congestion(&client, "cdg").unwrap();
        assert_eq!(tuned(stack, fd, "beta_loss").unwrap(), "50");
        tune(stack, fd, "beta_loss=60").unwrap();
        tune(stack, fd, " abc_limit = 3\0").unwrap();
        assert_eq!(tuned(stack, fd, "beta_loss").unwrap(), "60");
        assert_eq!(tuned(stack, fd, "abc_limit").unwrap(), "3");
        for (text, errno) in [
            ("beta_loss=100", Errno::ERANGE),
            ("beta_loss=-1", Errno::ERANGE),
            ("magic=1", Errno::ENOENT),
            ("beta_loss", Errno::EINVAL),
            ("beta_loss=half", Errno::EINVAL),
            ("", Errno::EINVAL),
        ] {
            assert_eq!(tune(stack, fd, text), Err(errno), "{text}");
        }
        assert_eq!(tuned(stack, fd, "magic"), Err(Errno::ENOENT));
        assert_eq!(tuned(stack, fd, "beta_loss").unwrap(), "60", "what was refused changed nothing");
        let mut small = *b"g";
        assert_eq!(stack.getsockopt(fd, libc::IPPROTO_TCP, CCALGOOPT, &mut small), Err(Errno::ENOENT));

        let tree = Tree::new(&stacks);
        assert_eq!(tree.get("net.inet.tcp.cc.cdg.beta_loss").unwrap(), "50", "others are as they were");
        set_congestion(&server, "cdg").unwrap();
        assert_eq!(tuned(server.stack(), server.fd(), "beta_loss").unwrap(), "50");
        set_congestion(&client, "newreno").unwrap();
        assert_eq!(tuned(stack, fd, "beta_loss"), Err(Errno::ENOENT));
    }
}

#[test]
fn what_a_socket_is_told_before_it_connects_its_connections_begin_with() {
    for stacks in [direct(), paired()] {
        let listener = TcpListener::bind(&stacks[0], "0.0.0.0:80").unwrap();
        tune(&stacks[0], listener.fd(), "abc_limit=5").unwrap();
        assert_eq!(tuned(&stacks[0], listener.fd(), "abc_limit").unwrap(), "5");

        let fd = stacks[1].socket(crate::Family::V4).unwrap();
        stacks[1].setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"htcp").unwrap();
        assert_eq!(tune(&stacks[1], fd, "rtt_scaling=2"), Err(Errno::ERANGE));
        tune(&stacks[1], fd, "rtt_scaling=1").unwrap();
        tune(&stacks[1], fd, "abc_limit=7").unwrap();
        tune(&stacks[1], fd, "abc_limit=9").unwrap();
        assert_eq!(tuned(&stacks[1], fd, "adaptive_backoff").unwrap(), "0", "the default");
        assert_eq!(tuned(&stacks[1], fd, "abc_limit").unwrap(), "9");
        stacks[1].connect(fd, base::Endpoint::from(std::net::SocketAddr::from(([10, 0, 0, 1], 80)))).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(tuned(&stacks[1], fd, "rtt_scaling").unwrap(), "1");
        assert_eq!(tuned(&stacks[1], fd, "abc_limit").unwrap(), "9");
        assert_eq!(tuned(&stacks[0], server.fd(), "abc_limit").unwrap(), "5");
        stacks[1].close(fd).unwrap();

        let other = stacks[1].socket(crate::Family::V4).unwrap();
        tune(&stacks[1], other, "abc_limit=7").unwrap();
        stacks[1].setsockopt(other, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"vegas").unwrap();
        assert_eq!(tuned(&stacks[1], other, "abc_limit").unwrap(), "8", "another policy begins afresh");
    }
}

#[test]
fn abe_stands_beside_the_policies_and_is_newrenos() {
    for stacks in [direct(), paired()] {
        let tree = Tree::new(&stacks);
        assert_eq!(tree.get("net.inet.tcp.cc.abe").unwrap(), "0");
        assert_eq!(tree.get("net.inet.tcp.cc.newreno.beta_ecn").unwrap(), "80");
        tree.set("net.inet.tcp.cc.abe", "1").unwrap();
        assert_eq!(tree.get("net.inet.tcp.cc.newreno.abe").unwrap(), "1");
        assert_eq!(tree.get("net.inet.tcp.cc.abe").unwrap(), "1");
        assert!(text(tree.set("net.inet.tcp.cc.abe", "2")).contains("0 to 1"));
        assert_eq!(tree.get("net.inet.tcp.cc.abe_frlossreduce").unwrap(), "0");
        tree.set("net.inet.tcp.cc.abe_frlossreduce", "1").unwrap();
        assert_eq!(tree.get("net.inet.tcp.cc.newreno.abe_frlossreduce").unwrap(), "1");
        assert!(text(tree.set("net.inet.tcp.cc.abe_frlossreduce", "-1")).contains("0 to 1"));
        let (client, _server) = flow(&stacks, 80);
        set_congestion(&client, "newreno").unwrap();
        assert_eq!(tuned(client.stack(), client.fd(), "abe").unwrap(), "1");
        assert_eq!(tuned(client.stack(), client.fd(), "abe_frlossreduce").unwrap(), "1");
        tune(client.stack(), client.fd(), "abe=0").unwrap();
        assert_eq!(tree.get("net.inet.tcp.cc.abe").unwrap(), "1", "one connection apart");
    }
}

/// A number out of its range is refused with the range, which for a threshold ends at the other one.
#[test]
fn hystart_has_freebsds_numbers() {
    for stacks in [direct(), paired()] {
        let tree = Tree::new(&stacks);
        let name = |leaf: &str| format!("net.inet.tcp.cc.hystartplusplus.{leaf}");
        for (leaf, number) in [
            ("minrtt_thresh", "4000"),
            ("maxrtt_thresh", "16000"),
            ("n_rttsamples", "8"),
            ("css_growth_div", "4"),
            ("css_rounds", "5"),
        ] {
            assert_eq!(tree.get(&name(leaf)).unwrap(), number);
        }
        assert_eq!(tree.list("net.inet.tcp.cc.hystartplusplus").unwrap().len(), 5);
        for (leaf, number, told) in [
            ("minrtt_thresh", "16001", "it goes from 64 to 16000"),
            ("maxrtt_thresh", "3999", "it goes from 4000 to 1000000"),
            ("css_growth_div", "0", "it goes from 1 to 64"),
            ("css_rounds", "many", "not a whole number"),
        ] {
            let error = tree.set(&name(leaf), number).unwrap_err();
            assert_eq!(error.errno(), Errno::EINVAL);
            assert!(error.to_string().contains(told), "{error}");
        }
        assert_eq!(tree.get("net.inet.tcp.hystart_limits").unwrap(), "4000,16000,8,4,5");
        tree.set(&name("maxrtt_thresh"), "30000").unwrap();
        tree.set(&name("minrtt_thresh"), "20000").unwrap();
        assert_eq!(tree.get("net.inet.tcp.hystart_limits").unwrap(), "20000,30000,8,4,5");
        tree.set("net.inet.tcp.hystart_limits", "1000, 2000, 4, 2, 3").unwrap();
        assert_eq!(tree.get(&name("css_rounds")).unwrap(), "3");
        let crossed = tree.set("net.inet.tcp.hystart_limits", "2000,1000,4,2,3").unwrap_err();
        assert!(crossed.to_string().contains("it goes from"), "{crossed}");
    }
}
