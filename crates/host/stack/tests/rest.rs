//! Goal: a core that takes back dates before it sleeps wakes for requests and for what is really due, and sends what
//! one that wakes for every date sends, when that sends it.

mod common;

use base::{Addr, Duration, Endpoint, Instant, Rng};
use common::*;
use pio::PairConfig;
use tcp::WriteError;

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);

/// Packets sent: the time, and the count by each end so far.
type Sent = Vec<(Instant, u64, u64)>;

/// Lets time pass until `end`; how often a peer woke for that.
fn pass(world: &mut World, end: Instant, rests: bool, sent: &mut Sent) -> u32 {
    let mut wakes = 0;
    loop {
        world.settle();
        let now = (world.now, stat(&world.client, "packets_out"), stat(&world.server, "packets_out"));
        if sent.last().is_none_or(|last| (last.1, last.2) != (now.1, now.2)) {
            sent.push(now);
        }
        let next = match rests {
            true => Instant::earliest(world.client.rest(world.now), world.server.rest(world.now)),
            false => world.next(),
        };
        match next {
            Some(at) if at < end => world.now = at.max(world.now + Duration::from_nanos(1)),
            _ => break,
        }
        wakes += 1;
    }
    world.now = end;
    wakes
}

/// Requests by chance over four connections for ten seconds, now and then one that is answered late or not at all.
fn requests(seed: u64, rests: bool) -> (Sent, u32) {
    let mut rng = Rng::new(seed);
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(Endpoint::new(Addr::UNSPECIFIED_V6, PORT), 16);
    let pairs: Vec<_> = (0..4).map(|owner| world.establish(listener, HTTP, owner)).collect();
    let (mut sent, mut wakes) = (Sent::new(), 0);
    let begun = world.now;
    while world.now < begun + Duration::from_secs(10) {
        let (client, server) = pairs[rng.below(4) as usize];
        world.client.write(world.now, client, b"how are you").unwrap();
        world.settle();
        let mut got = Vec::new();
        match rng.below(20) {
            0 => {}
            1 => {
                let late = world.now + Duration::from_millis(rng.below(300));
                wakes += pass(&mut world, late, rests, &mut sent);
                read_all(&mut world.server, world.now, server, &mut got);
                world.server.write(world.now, server, b"well, thank you").unwrap();
            }
            _ => {
                read_all(&mut world.server, world.now, server, &mut got);
                world.server.write(world.now, server, b"well, thank you").unwrap();
            }
        }
        world.settle();
        read_all(&mut world.client, world.now, client, &mut got);
        let next = world.now + Duration::from_micros(100 + rng.below(20_000));
        wakes += pass(&mut world, next, rests, &mut sent);
    }
    let end = world.now + Duration::from_secs(5);
    wakes += pass(&mut world, end, rests, &mut sent);
    (sent, wakes)
}

#[test]
fn the_same_is_sent_at_the_same_time() {
    for seed in 0..20 {
        let (sent, wakes) = requests(seed, false);
        let (rested, fewer) = requests(seed, true);
        assert_eq!(sent, rested, "seed {seed}");
        // A wake that sends nothing may have done something else, as to end a measurement; none did so for each packet.
        assert!(fewer < wakes, "seed {seed}: {fewer} instead of {wakes}");
    }
}

#[test]
fn who_found_no_memory_is_woken_to_look_again() {
    let mut world = World::with(&PairConfig::default(), |client, _| client.max_chunks = 4);
    let listener = world.listen(Endpoint::new(Addr::UNSPECIFIED_V6, PORT), 16);
    // One alone leaves the others their least.
    let greedy = [1, 2].map(|owner| world.establish(listener, HTTP, owner).0);
    let (modest, _) = world.establish(listener, HTTP, 3);
    world.pass(Duration::from_secs(1));
    // Nothing reads: in the end what is not sent holds the pool, and nothing happens by itself for long.
    for _ in 0..1_000 {
        for greedy in greedy {
            while world.client.write(world.now, greedy, &[1; 4_096]).is_ok() {}
        }
        world.settle();
    }
    assert!(world.client.rest(world.now).is_none_or(|at| at > world.now + Duration::from_millis(100)));
    assert_eq!(world.client.write(world.now, modest, b"a word"), Err(WriteError::NoMemory));
    let at = world.client.rest(world.now).expect("a date");
    assert!(at <= world.now + Duration::from_millis(10));
}
