//! Goal: the local port of a connection cannot be told from those of connections to other destinations, and lent ports
//! are used again all the same.
use super::*;
use crate::fuzz::ports::Kernel;
use pio::Claims;

const RANGE: (u16, u16) = (32_768, 60_999);
const OWN: Addr = Addr::v4([10, 0, 0, 1]);
const OBSERVER: Endpoint = Endpoint::new(Addr::v4([192, 0, 2, 66]), 443);
const OTHER: Endpoint = Endpoint::new(Addr::v4([198, 51, 100, 7]), 443);

/// A host whose connections live for as long as the test.
struct Host {
    ports: Ports,
    kernel: Kernel,
    held: Vec<FlowKey>,
}

impl Host {
    fn new(lends: bool, seed: u64) -> Host {
        let ports = Ports::new(RANGE, (0, 1), lends, SipKey::new(seed, 99), seed);
        Host { ports, kernel: Kernel::new(), held: Vec::new() }
    }

    /// Connects and closes again: the local port.
    fn connect(&mut self, remote: Endpoint) -> u16 {
        let key = self.begin(remote);
        self.ports.let_go(&mut self.kernel, Instant::from_secs(1), &key);
        self.held.pop();
        key.local().port
    }

    /// Connects.
    fn begin(&mut self, remote: Endpoint) -> FlowKey {
        let held = &self.held;
        let chosen = self.ports.choose(&mut self.kernel, OWN, remote, false, |key| !held.contains(key));
        let key = chosen.expect("there is a port");
        self.ports.hold(&mut self.kernel, &key);
        self.held.push(key);
        key
    }
}

/// Returns an attacker's guesses for the next connection to another host: the ports that it has seen, and those
/// soon after and before.
fn guesses(seen: &[u16]) -> Vec<u16> {
    let near = |port: u16| (port.saturating_sub(8)..=port.saturating_add(8)).collect::<Vec<_>>();
    seen.iter().flat_map(|&port| near(port)).collect()
}

/// RFC 6056, 3.1-1, 3.3-1 and 3.4-1.
#[test]
fn what_one_destination_sees_says_nothing_about_the_port_to_another() {
    for lends in [false, true] {
        let (mut hits, mut chance) = (0, 0.0);
        for seed in 0..400 {
            let mut host = Host::new(lends, seed);
            let mut seen = vec![host.connect(OBSERVER)];
            host.connect(OTHER);
            seen.push(host.connect(OBSERVER));
            let guesses = guesses(&seen);
            chance += guesses.len() as f64 / f64::from(RANGE.1 - RANGE.0 + 1);
            hits += usize::from(guesses.contains(&host.connect(OTHER)));
        }
        assert!(chance < 1.0 && hits <= 3, "lends {lends}: {hits} hits, {chance:.2} by chance");
    }
}

/// RFC 6056's algorithm 4 with a small table lets an observer with many addresses count the connections to other
/// destinations (CVE-2022-1012): it looks for one of its own that shares a counter with them.
/// RFC 6056, 3.3-2 and 3.3-3.
#[test]
fn an_observer_with_many_addresses_cannot_count_connections_to_others() {
    for lends in [false, true] {
        let mut differ = 0;
        for seed in 0..20 {
            let (mut quiet, mut busy) = (Host::new(lends, seed), Host::new(lends, seed));
            let own = |n: u8| Endpoint::new(Addr::v4([192, 0, 2, n]), 443);
            for n in 0..=255 {
                assert_eq!(quiet.connect(own(n)), busy.connect(own(n)));
            }
            for _ in 0..5 {
                busy.connect(OTHER);
            }
            differ += (0..=255).filter(|&n| quiet.connect(own(n)) != busy.connect(own(n))).count();
        }
        // By chance 256 of 65,536 counters are the observer's, and few of the range's ports are near each other.
        assert!(differ <= 2, "lends {lends}: {differ} of 5,120 connections showed it");
    }
}

/// A bind asks for both families, and the listener is of IPv6 alone by then.
#[test]
fn a_listener_at_one_ipv6_address_that_ends_beside_a_connection_keeps_its_claim() {
    let mut host = Host::new(true, 1);
    let (now, own) = (Instant::from_secs(1), Endpoint::new(Addr::v6([0xfd; 16]), 80));
    let bind =
        |v6_only| Binding { local: own, reuse_addr: true, reuse_port: false, v6_only, listening: false };
    host.ports.bind(&mut host.kernel, bind(false)).expect("bind");
    host.ports.listen(own, false, true).expect("listen");
    let key = FlowKey::new(own, Endpoint::new(own.addr, 40_000));
    host.ports.hold(&mut host.kernel, &key);
    host.ports.unbind(&mut host.kernel, now, own, true);
    assert_eq!(host.ports.bind(&mut host.kernel, bind(true)), Ok(own));
    assert_eq!(host.kernel.granted.len(), 1);
    host.ports.let_go(&mut host.kernel, now, &key);
    host.ports.unbind(&mut host.kernel, now, own, false);
    assert!(host.kernel.granted.is_empty() && host.ports.claimed() == 0);
}

/// RFC 6056, 3.1-2.
#[test]
fn ports_of_one_destination_come_back_late_and_their_steps_vary() {
    let mut host = Host::new(false, 1);
    let seen: Vec<u16> = (0..500).map(|_| host.connect(OTHER)).collect();
    let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), 500);
    let steps: std::collections::BTreeSet<_> =
        seen.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert!(steps.len() >= 8, "{steps:?}");
}

#[test]
fn a_lent_port_serves_its_own_destination_again_without_asking_the_kernel() {
    let mut host = Host::new(true, 1);
    let first = host.connect(OTHER);
    assert!((0..100).all(|_| host.connect(OTHER) == first));
    assert_eq!(host.kernel.granted.len(), 1);
    // Two at once take two, and those two come again.
    let two = [host.begin(OTHER), host.begin(OTHER)].map(|key| key.local().port);
    assert_eq!(host.kernel.granted.len(), 2);
    host.held.clear();
    assert!((0..100).all(|_| two.contains(&host.connect(OTHER))));
    assert_eq!(host.kernel.granted.len(), 2);
}

#[test]
fn many_destinations_take_no_more_descriptors_than_enough() {
    let mut host = Host::new(true, 1);
    for n in 0..5_000u16 {
        let [a, b] = n.to_be_bytes();
        host.connect(Endpoint::new(Addr::v4([203, 0, a, b]), 443));
    }
    assert_eq!(host.kernel.granted.len(), LENT_ENOUGH);
    // More at once to one destination than there are lent get new ones.
    (0..600).for_each(|_| {
        let _ = host.begin(OTHER);
    });
    assert!((600..=LENT_ENOUGH + 600).contains(&host.kernel.granted.len()));
}

/// RFC 6056, 3.1-3 and 3.2-1.
#[test]
fn every_port_of_the_range_is_found_before_there_is_none() {
    for lends in [false, true] {
        let mut ports = Ports::new((40_000, 40_099), (0, 1), lends, SipKey::new(5, 6), 7);
        let mut kernel = Kernel::new();
        let mut held: Vec<FlowKey> = Vec::new();
        for _ in 0..100 {
            let key = ports
                .choose(&mut kernel, OWN, OTHER, false, |key| !held.contains(key))
                .expect("some are free");
            ports.hold(&mut kernel, &key);
            held.push(key);
        }
        let none = ports.choose(&mut kernel, OWN, OTHER, false, |key| !held.contains(key));
        assert_eq!(none, Err(OpError::AddrNotAvailable));
        // The same ports serve another destination, whether lent already or not.
        assert!(ports.choose(&mut kernel, OWN, OBSERVER, false, |_| true).is_ok());
        assert_eq!(kernel.granted.len(), if lends { 100 } else { 0 });
    }
}

/// A link whose card brings answers to a queue by a hash.
struct Hashing {
    kernel: Kernel,
    answers: fn(&FlowKey) -> bool,
}

impl pio::Layer for Hashing {
    type Below = Kernel;

    fn below(&self) -> &Kernel {
        &self.kernel
    }

    fn below_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        Some(self)
    }
}

impl Claims for Hashing {
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        self.kernel.claim(claim)
    }

    fn release(&mut self, claim: &PortClaim) {
        self.kernel.release(claim);
    }

    fn answers_here(&self, key: &FlowKey) -> bool {
        (self.answers)(key)
    }
}

#[test]
fn ports_whose_answers_arrive_at_this_core_come_first_and_the_others_then() {
    for lends in [false, true] {
        let mut ports = Ports::new((40_000, 40_099), (0, 1), lends, SipKey::new(5, 6), 7);
        let quarter = |key: &FlowKey| key.local().port.is_multiple_of(4);
        let mut link = Hashing { kernel: Kernel::new(), answers: quarter };
        let mut held: Vec<FlowKey> = Vec::new();
        for number in 0..100 {
            let key =
                ports.choose(&mut link, OWN, OTHER, false, |key| !held.contains(key)).expect("some are free");
            assert_eq!(quarter(&key), number < 25, "lends {lends}, connection {number}");
            ports.hold(&mut link, &key);
            held.push(key);
            // None is asked of the kernel that is not used.
            assert_eq!(link.kernel.granted.len(), if lends { held.len() } else { 0 });
        }
        let none = ports.choose(&mut link, OWN, OTHER, false, |key| !held.contains(key));
        assert_eq!(none, Err(OpError::AddrNotAvailable));
        // Looped connections have no answers on the link.
        let looped = (0..100).map(|_| {
            let key = ports.choose(&mut link, OWN, OBSERVER, true, |_| true).expect("all are free");
            quarter(&key)
        });
        assert!(looped.filter(|answers| !answers).count() > 50, "lends {lends}");
        // Of ports lent for others, too, those come first that answer here.
        let key = ports.choose(&mut link, OWN, OBSERVER, false, |_| true).expect("all are free");
        assert!(quarter(&key), "lends {lends}");
    }
}
