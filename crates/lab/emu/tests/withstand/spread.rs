//! Goal: a client of several cores behind a card that spreads packets by a hash opens its connections from every core,
//! whether the card's rule is known, unknown, or told wrongly.

use crate::harness::{Family, PORT, assert_clean, core_config, seeded};
use crate::peer::{Peer, Plan};
use base::{Duration, Endpoint, Instant, Rng};
use emu::{CoreHost, Host, HostId, Network, PipeConfig, PortConfig, RssCard};
use pio::{Rss, steer};
use stack::{Core, CoreConfig};

const CORES: u16 = 4;
const EACH: u64 = 12;
const TIMEOUT: Duration = Duration::from_secs(300);

/// Any machine of this network.
enum Machine {
    Card(Box<RssCard>),
    Client(Vec<CoreHost<Peer>>),
    Server(Box<CoreHost<Peer>>),
}

impl Host for Machine {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Machine::Card(card) => card.step(now),
            Machine::Server(host) => host.step(now),
            // Cores hand packets to each other until none is left.
            Machine::Client(cores) => loop {
                let next = cores.iter_mut().map(|core| core.step(now)).fold(None, Instant::earliest);
                let ready = |core: &mut CoreHost<Peer>| {
                    !core.core.io().arm(&mut Vec::new()).expect("a simulated port")
                };
                if !cores.iter_mut().any(ready) {
                    return next;
                }
            },
        }
    }
}

/// Knowledge of the card that the client is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Truth,
    Nothing,
    /// Another key.
    Wrong,
    /// A table by which all packets go to the first core, as they do.
    OneQueue,
}

struct World {
    net: Network<Machine>,
    client: HostId,
    server: HostId,
    card: HostId,
    family: Family,
}

fn world(seed: u64, told: Told) -> World {
    let mut rng = Rng::new(seed);
    let family = Family::of(seed);
    let (mut key, mut other) = (vec![0; 40], vec![0; 40]);
    rng.fill(&mut key);
    rng.fill(&mut other);
    let table: Vec<u16> = (0..128).map(|at| if told == Told::OneQueue { 0 } else { at % CORES }).collect();
    let rule = Rss { key: if told == Told::Wrong { other } else { key.clone() }, table, v4: true, v6: true };

    let mut net = Network::new(seed);
    let plain = PortConfig::default();
    let (wire, far) = (net.port(&plain), net.port(&plain));
    let queues: Vec<_> = (0..CORES).map(|_| net.port(&plain)).collect();
    // One card has one address.
    let one = PortConfig { mac: Some([2, 7, 7, 7, 7, 7]), ..plain };
    let ports: Vec<_> = (0..CORES).map(|_| net.port(&one)).collect();
    let (wire_id, far_id) = (wire.id(), far.id());
    let lines: Vec<_> = queues.iter().zip(&ports).map(|(queue, port)| (queue.id(), port.id())).collect();

    let card = RssCard::new(wire, queues, &key, rule.table.clone());
    let card_ports = card.ports();
    let card = net.add_host(Machine::Card(Box::new(card)), &card_ports);
    let ids: Vec<_> = ports.iter().map(emu::SimPort::id).collect();
    let cores = (0..).zip(steer(ports, (told != Told::Nothing).then_some(&rule)).expect("descriptors"));
    let cores = cores.map(|(number, port)| {
        let config = CoreConfig { core: (number, CORES), ..core_config(seed, family, 1) };
        CoreHost::new(Core::new(config, Box::new(port)), Peer::new(seed + u64::from(number)))
    });
    let client = net.add_host(Machine::Client(cores.collect()), &ids);
    let server = Core::new(core_config(seed, family, 2), Box::new(far));
    let server = net.add_host(Machine::Server(Box::new(CoreHost::new(server, Peer::new(!seed)))), &[far_id]);
    let path = PipeConfig {
        delay: Duration::from_millis(1 + rng.below(20)),
        loss: if rng.chance(0.5) { 0.01 } else { 0.0 },
        reorder: if rng.chance(0.3) { 0.02 } else { 0.0 },
        reorder_by: Duration::from_millis(1),
        ..PipeConfig::default()
    };
    net.link(wire_id, far_id, &path, &path);
    for (queue, port) in lines {
        net.link(queue, port, &PipeConfig::default(), &PipeConfig::default());
    }
    World { net, client, server, card, family }
}

impl World {
    fn cores(&mut self) -> &mut Vec<CoreHost<Peer>> {
        match self.net.host_mut(self.client) {
            Machine::Client(cores) => cores,
            _ => panic!("the client"),
        }
    }

    fn server(&mut self) -> &mut CoreHost<Peer> {
        match self.net.host_mut(self.server) {
            Machine::Server(host) => host,
            _ => panic!("the server"),
        }
    }

    /// A counter of the client's ports, all cores together.
    fn sum(&mut self, name: &str) -> u64 {
        let stats = self.cores().iter_mut().flat_map(|core| core.core.io().stats());
        stats.filter(|row| row.0 == name).map(|row| row.1).sum()
    }

    /// Every core opens connections, which move bytes both ways and end.
    fn play(&mut self) {
        let (up, down) = Plan::both(3_000, 20_000);
        let (now, local) = (self.net.now(), Endpoint::new(self.family.addr(2), PORT));
        let server = self.server();
        server.app.listen(&mut server.core, now, local, down);
        for core in self.cores() {
            for _ in 0..EACH {
                core.app.connect(&mut core.core, now, local, up).expect("a port to spare");
            }
        }
        let idle = |net: &Network<Machine>, id| match net.host(id) {
            Machine::Client(cores) => cores.iter().all(|core| core.app.is_idle()),
            Machine::Server(host) => host.app.is_idle(),
            Machine::Card(_) => true,
        };
        let ids = [self.client, self.server];
        let done = self.net.run(now + TIMEOUT, |net| ids.iter().all(|&id| idle(net, id)));
        for (number, core) in self.cores().iter().enumerate() {
            assert!(done && core.app.tally.complete == EACH, "core {number}: {:?}", core.app.tally);
        }
        let rest = self.net.now() + Duration::from_secs(600);
        self.net.run_until(rest);
        for core in self.cores() {
            assert_clean(&mut core.core);
        }
    }
}

#[test]
fn with_a_rule_that_holds_no_packet_is_steered() {
    seeded(0..12, |seed| {
        let mut world = world(seed, Told::Truth);
        world.play();
        assert_eq!((world.sum("steered_out"), world.sum("rss_wrong")), (0, 0));
        assert_eq!(world.sum("rss_predicts"), u64::from(CORES));
        let Machine::Card(card) = world.net.host(world.card) else { panic!("the card") };
        assert!(card.received().iter().all(|&count| count > 100), "{:?}", card.received());
    });
}

#[test]
fn without_a_rule_packets_are_steered() {
    seeded(0..12, |seed| {
        let mut world = world(seed, Told::Nothing);
        world.play();
        let (out, here) = (world.sum("steered_out"), world.sum("steered_in"));
        // By chance three packets of four arrive at another core; news of neighbours are not counted as sent.
        assert!(out > 300 && here >= out, "{out} sent, {here} taken");
        assert_eq!((world.sum("steered_lost"), world.sum("rss_predicts")), (0, 0));
    });
}

#[test]
fn a_rule_that_is_not_the_cards_ends_at_once() {
    seeded(0..12, |seed| {
        let mut world = world(seed, Told::Wrong);
        world.play();
        assert!(world.sum("rss_wrong") >= u64::from(CORES) && world.sum("rss_predicts") == 0);
        assert!(world.sum("steered_out") > 300);
    });
}

#[test]
fn a_card_that_uses_one_queue_serves_all_cores() {
    seeded(0..12, |seed| {
        let mut world = world(seed, Told::OneQueue);
        world.play();
        assert_eq!(world.sum("rss_wrong"), 0);
        assert!(world.sum("steered_out") > 300);
        let Machine::Card(card) = world.net.host(world.card) else { panic!("the card") };
        assert!(card.received()[1..].iter().all(|&count| count == 0), "{:?}", card.received());
    });
}
