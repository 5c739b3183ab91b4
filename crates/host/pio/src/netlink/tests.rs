//! Goal: the events of a monitor, put together, are always what the kernel has, whatever happens in between
//! and however much of it is missed; no datagram makes the parser panic.

use super::*;
use crate::tests::testnet::{addr, cable, own_namespace, within};
use base::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A monitor and what its events add up to.
struct Follower {
    monitor: Monitor,
    up: bool,
    mtu: usize,
    mac: [u8; 6],
    addrs: BTreeMap<Addr, u8>,
    routes: BTreeSet<String>,
    neighbours: BTreeMap<Addr, [u8; 6]>,
    last: Vec<NetEvent>,
}

/// State on which two followers must agree.
type View = (bool, usize, [u8; 6], BTreeMap<Addr, u8>, BTreeSet<String>);

impl Follower {
    fn new(ifindex: u32) -> Follower {
        let mut follower = Follower {
            monitor: Monitor::open(ifindex, Scope::All).expect("a monitor"),
            up: false,
            mtu: 0,
            mac: [0; 6],
            addrs: BTreeMap::new(),
            routes: BTreeSet::new(),
            neighbours: BTreeMap::new(),
            last: Vec::new(),
        };
        follower.catch_up();
        follower
    }

    /// Take in what waits.
    fn catch_up(&mut self) {
        let mut events = Vec::new();
        for _ in 0..2 {
            self.monitor.expect_news();
            self.monitor.poll(&mut events);
        }
        for event in &events {
            self.learn(event);
        }
        self.last = events;
    }

    fn learn(&mut self, event: &NetEvent) {
        let text = |route: &Route| format!("{route:?}");
        let news = match *event {
            NetEvent::AddrAdded { addr, prefix } => self.addrs.insert(addr, prefix) != Some(prefix),
            NetEvent::AddrRemoved { addr } => self.addrs.remove(&addr).is_some(),
            NetEvent::RouteAdded(route) => {
                // The same route with another source or MTU replaces the old one.
                let same = |r: &Route| (r.dst, r.prefix, r.metric, r.gateway);
                let head = format!("{:?}", same(&route));
                self.routes.retain(|old| !old.starts_with(&head));
                self.routes.insert(head + &text(&route))
            }
            NetEvent::RouteRemoved(route) => {
                let before = self.routes.len();
                self.routes.retain(|old| !old.ends_with(&text(&route)));
                self.routes.len() < before
            }
            NetEvent::Neighbour { addr, mac } => {
                self.neighbours.insert(addr, mac);
                true
            }
            NetEvent::NeighbourGone { addr } => {
                self.neighbours.remove(&addr);
                true
            }
            NetEvent::Mtu(mtu) => std::mem::replace(&mut self.mtu, mtu) != mtu,
            NetEvent::Link { up } => std::mem::replace(&mut self.up, up) != up || !up,
            NetEvent::Mac(mac) => std::mem::replace(&mut self.mac, mac) != mac,
            NetEvent::Shared { .. } => panic!("the kernel knows nothing of that"),
        };
        assert!(news, "told twice: {event:?}");
    }

    fn view(&self) -> View {
        (self.up, self.mtu, self.mac, self.addrs.clone(), self.routes.clone())
    }

    /// Catch up until `done` holds, for two seconds at most.
    fn until(&mut self, done: impl Fn(&Follower) -> bool) -> bool {
        for _ in 0..200 {
            self.catch_up();
            if done(self) {
                return true;
            }
            let mut fds = [sys::interest(self.monitor.fd(), libc::POLLIN)];
            sys::poll(&mut fds, Some(base::Duration::from_millis(10))).expect("poll");
        }
        false
    }
}

#[test]
fn everything_at_first_then_changes() {
    if !own_namespace() {
        return;
    }
    let (index, _far) = cable("ms-n0", "ms-n1", 5);
    add_route(index, addr("0.0.0.0"), 0, Some(addr("10.5.0.2"))).unwrap();
    let mut follower = Follower::new(index);
    assert!(follower.until(|f| f.up));
    assert_eq!(follower.mtu, 1500);
    assert_eq!(follower.mac, interface("ms-n0").unwrap().unwrap().mac);
    assert_eq!(follower.addrs.get(&addr("10.5.0.1")), Some(&24));
    assert!(follower.routes.iter().any(|r| r.contains("gateway: Some(10.5.0.2)")), "{:?}", follower.routes);
    assert!(
        follower
            .routes
            .iter()
            .any(|r| r.contains("dst: 10.5.0.0, prefix: 24, gateway: None, src: Some(10.5.0.1)"))
    );

    // Addresses of other interfaces are of no concern here.
    add_address(1, addr("10.99.0.1"), 24).unwrap();
    set_link(index, true, Some(1400)).unwrap();
    follower.catch_up();
    assert_eq!(follower.last, [NetEvent::Mtu(1400)]);

    // The kernel drops routes with the link and says nothing of it for IPv4.
    set_link(index, false, None).unwrap();
    assert!(follower.until(|f| !f.up && f.routes.is_empty()), "{:?}", follower.routes);
    delete_link(index).unwrap();
    assert!(follower.until(|f| f.monitor.home().is_none()));
}

#[test]
fn neighbours_are_found_and_missed() {
    if !own_namespace() {
        return;
    }
    let (index, far) = cable("ms-n0", "ms-n1", 5);
    let mac = within(&far, || interface("ms-n1").unwrap().unwrap().mac);
    let mut follower = Follower::new(index);
    assert!(follower.until(|f| f.up));
    for there in ["10.5.0.2", "fd00:5::2"].map(addr) {
        // An IPv6 question is not even sent before the interface's own link-local address is known to be
        // unique; who asks must ask again.
        let found = (0..8).any(|_| {
            follower.monitor.resolve(there);
            follower.until(|f| f.neighbours.get(&there) == Some(&mac))
        });
        assert!(found, "{there}");
        // Asked again, it answers again, at once.
        follower.neighbours.clear();
        follower.monitor.resolve(there);
        follower.catch_up();
        assert_eq!(follower.neighbours.get(&there), Some(&mac));
    }
    // Without privilege a datagram serves as well.
    std::thread::scope(|scope| {
        let monitor = &follower.monitor;
        scope.spawn(move || monitor.prod(addr("10.5.0.2")).unwrap());
    });
    // Nothing is there: shorten the kernel's timeout, then hear of it.
    std::fs::write("/proc/sys/net/ipv4/neigh/ms-n0/retrans_time_ms", "50").unwrap();
    follower.monitor.resolve(addr("10.5.0.77"));
    let gone = NetEvent::NeighbourGone { addr: addr("10.5.0.77") };
    let heard = (0..200).any(|_| {
        std::thread::sleep(base::Duration::from_millis(10));
        follower.catch_up();
        follower.last.contains(&gone)
    });
    assert!(heard, "the owner must learn that no peer answers");
}

/// Random changes; after each few, what the follower put together is what a newcomer sees.
fn changes_model(index: u32, rng: &mut Rng, steps: u32, overrun: bool) {
    let mut follower = Follower::new(index);
    if overrun {
        // The smallest buffer the kernel gives: a few messages fill it.
        sys::set_option(follower.monitor.fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &1i32).unwrap();
    }
    for step in 0..steps {
        let n = rng.below(4) as u8;
        let (v4, v6) = (Addr::v4([10, 6, n, 1]), addr(&format!("fd06:{n}::1")));
        let gateway = Addr::v4([10, 6, rng.below(4) as u8, 9]);
        // Not all make sense all the time; the kernel refuses those.
        let _ = match rng.below(9) {
            0 => add_address(index, v4, 24),
            1 => remove_address(index, v4, 24),
            2 => add_address(index, v6, 64),
            3 => remove_address(index, v6, 64),
            4 => add_route(index, Addr::v4([10, 7, n, 0]), 24, rng.chance(0.5).then_some(gateway)),
            5 => remove_route(index, Addr::v4([10, 7, n, 0]), 24, None),
            6 => add_route(index, addr(&format!("fd07:{n}::")), 32, Some(addr("fe80::9"))),
            7 => set_link(index, rng.chance(0.7), Some(1280 + 10 * usize::from(n))),
            _ => set_link(index, true, None),
        };
        if !rng.chance(if overrun { 0.02 } else { 0.3 }) && step + 1 < steps {
            continue;
        }
        // Carrier comes in its own time.
        assert!(
            (0..50).any(|_| {
                follower.catch_up();
                let same = follower.view() == Follower::new(index).view();
                if !same {
                    std::thread::sleep(base::Duration::from_millis(5));
                }
                same
            }),
            "step {step}: {:#?}\nbut the kernel has {:#?}",
            follower.view(),
            Follower::new(index).view()
        );
    }
    if overrun {
        assert!(follower.monitor.resyncs > 1, "the test meant to overrun the buffer");
    }
}

#[test]
fn follows_any_change() {
    if !own_namespace() {
        return;
    }
    let (index, _far) = cable("ms-n0", "ms-n1", 5);
    for seed in 0..3 {
        eprintln!("seed {seed}");
        changes_model(index, &mut Rng::new(seed), 120, false);
    }
}

#[test]
fn makes_good_what_it_missed() {
    if !own_namespace() {
        return;
    }
    let (index, _far) = cable("ms-n0", "ms-n1", 5);
    for seed in 0..2 {
        eprintln!("seed {seed}");
        changes_model(index, &mut Rng::new(seed), 300, true);
    }
}

/// A link of the kernel's news.
fn link(index: u32, name: &str, gone: bool) -> Fact {
    let link = Interface {
        index,
        name: name.into(),
        mtu: 1500,
        super_max: 0,
        rx_queues: 1,
        master: None,
        mac: [2, 0, 0, 0, 0, index as u8],
        up: true,
        loopback: false,
    };
    Fact::Link { link, gone }
}

#[test]
fn the_successor_of_a_deleted_interface_has_its_name() {
    let mut known = Known::new(true);
    let mut home = |facts: &[(u32, &str, bool)]| {
        let mut events = Vec::new();
        facts.iter().for_each(|&(index, name, gone)| known.learn(5, link(index, name, gone), &mut events));
        (known.home(5), std::mem::take(&mut known.left))
    };
    assert_eq!(home(&[(4, "b", false), (5, "a", false)]), (Some(5), false));
    // It is called by its new name, and the old name is another interface's.
    assert_eq!(home(&[(5, "c", false), (6, "a", false)]), (Some(5), false));
    assert_eq!(home(&[(5, "c", true)]), (None, true));
    assert_eq!(home(&[(7, "eth0", false)]), (None, false));
    assert_eq!(home(&[(7, "c", false)]), (Some(7), false), "renamed after it came");
    assert_eq!(home(&[(7, "d", false)]), (None, false));
    assert_eq!(home(&[(8, "c", false), (8, "c", true)]), (None, false));
    // Gone and back between two looks.
    assert_eq!(home(&[(5, "c", false), (5, "c", true), (5, "c", false)]), (Some(5), true));
    // Overrun: only a sweep tells.
    let mut events = Vec::new();
    known.begin_sweep();
    known.learn(5, link(9, "c", false), &mut events);
    known.end_sweep(&mut events);
    assert_eq!((known.home(5), known.left), (Some(9), true));
}

#[test]
fn lists_interfaces() {
    if !own_namespace() {
        return;
    }
    add_veth("ms-n2", "ms-n3", 1).unwrap();
    let names: Vec<String> = interfaces().unwrap().into_iter().map(|i| i.name).collect();
    assert!(["lo", "ms-n2", "ms-n3"].iter().all(|name| names.iter().any(|n| n == name)), "{names:?}");
    assert!(interface("lo").unwrap().unwrap().loopback && interface("ms-n9").unwrap().is_none());
    let text = crate::OpenError::no_interface("ms-n9").to_string();
    assert!(text.contains("ms-n2") && !text.contains("lo,"), "{text}");
}

/// A carrier that is lost leaves one flag at once and the other when a worker of the kernel runs, with one that is
/// back it is the other way round: a link is up with both.
#[test]
fn a_link_is_up_with_its_carrier_and_its_operational_state() {
    let is_up = |flags: i32| {
        let body = [[0; 4], 5_u32.to_ne_bytes(), flags.to_ne_bytes(), [0; 4]].concat();
        match Fact::of(&message::Message { kind: libc::RTM_NEWLINK, flags: 0, seq: 0, body: &body }) {
            Some(Fact::Link { link, .. }) => link.up,
            other => panic!("{other:?}"),
        }
    };
    let all = [libc::IFF_UP, libc::IFF_RUNNING, libc::IFF_LOWER_UP];
    assert!(is_up(all.iter().sum()));
    for missing in all {
        assert!(!is_up(all.iter().sum::<i32>() - missing), "without {missing:#x}");
    }
}

#[test]
fn parser_survives_damage() {
    // Real datagrams first, then damaged ones.
    let seeds = [libc::RTM_GETLINK, libc::RTM_GETADDR, libc::RTM_GETROUTE].map(raw_dump);
    let mut rng = Rng::new(7);
    for round in 0..20_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u32() as u8;
        }
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        fuzz(&bytes);
    }
}

fn raw_dump(kind: u16) -> Vec<u8> {
    let mut socket = Socket::open(0).expect("a netlink socket");
    socket.raw_dump(Request::new(kind, libc::NLM_F_DUMP, &[0; 16])).expect("a datagram")
}
