//! The memory of peers against a list.

use base::{Addr, Duration, Input, Instant, SipKey};
use tcp::{Config, HostHint, HostLesson, HostMemory};

use crate::tables::host_cache::{Hosts, NONE};

/// Peers; a set holds fewer.
const PEERS: u32 = 24;

fn peer(n: u32) -> Addr {
    Addr::v4([10, 0, 0, n as u8])
}

/// Model of `stack_hosts`.
pub fn hosts(data: &[u8]) {
    let mut input = Input::new(data);
    let config = Config {
        host_cache: 8 * (1 + input.below(4)),
        host_cache_age: Duration::from_secs(1 + u64::from(input.below(100))),
        host_ssthresh: input.below(2) == 0,
        ..Config::default()
    };
    let mut real = Hosts::new(SipKey::new(input.below(9).into(), 7));
    let mut known: Vec<(Addr, HostMemory, u32)> = Vec::new();
    let mut places = [NONE; PEERS as usize];
    let mut now = 10;
    while !input.is_empty() {
        now += input.below(20);
        let (at, n) = (Instant::from_secs(now.into()), input.below(PEERS));
        let remote = peer(n);
        // A place that was right once, or another host's by now: neither may matter.
        let place = &mut places[n as usize];
        let found = real.find(remote);
        if input.below(3) == 0 {
            let lesson = HostLesson {
                srtt_us: 1 + input.below(1 << 20),
                rttvar_us: input.below(1 << 18),
                ssthresh: input.below(3) * 20_000,
                cwnd: 1 + input.below(1 << 20),
            };
            *place = real.learn(&config, at, remote, &lesson);
            assert_eq!(*place, real.find(remote), "it is where it says");
            match known.iter_mut().find(|(other, ..)| *other == remote && found != NONE) {
                Some((_, memory, at)) if u64::from(now - *at) < config.host_cache_age.as_secs() => {
                    memory.learn(&config, &lesson);
                    *at = now;
                }
                _ => {
                    known.retain(|(other, ..)| *other != remote);
                    known.push((remote, HostMemory::new(&config, lesson), now));
                }
            }
        } else {
            let told = real.hint(&config, at, found, remote);
            let list = known.iter().find(|(other, ..)| *other == remote).filter(|_| found != NONE);
            let expected = list.map_or(HostHint::default(), |(_, memory, at)| memory.hint(&config, now - at));
            assert_eq!(told, expected);
            let stale = real.hint(&config, at, *place, remote);
            assert!(
                stale == told || stale == HostHint::default(),
                "a place that is not its own tells nothing"
            );
            if told.rto_us != 0 {
                assert!(told.rto_us >= config.rto_min.as_micros() as u32, "never below the floor");
            }
        }
        assert!(real.len() <= config.host_cache as usize);
    }
}
