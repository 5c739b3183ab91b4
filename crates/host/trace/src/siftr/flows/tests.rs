//! Goal: a map with a bound.
use super::*;
use base::{Addr, Endpoint, Rng};
use std::collections::{HashMap, HashSet};

#[test]
fn is_a_bounded_map() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let most = rng.below(60) as usize;
        let mut flows = Flows::new(most, SipKey::new(seed, 1));
        let mut oracle: HashMap<u16, u32> = HashMap::new();
        let mut told = HashSet::new();
        for _ in 0..2_000 {
            let port = rng.below(100) as u16;
            let key = FlowKey::new(
                Endpoint::new(Addr::v4([10, 0, 0, 1]), 80),
                Endpoint::new(Addr::v4([10, 0, 0, 2]), port),
            );
            let expected = oracle.contains_key(&port);
            assert_eq!(flows.known(&key).is_some(), expected);
            match flows.get(&key) {
                Some((number, flow)) => {
                    assert_eq!(flow.pass, *oracle.entry(port).or_default());
                    flow.pass += 1;
                    *oracle.get_mut(&port).unwrap() += 1;
                    if rng.below(3) == 0 {
                        flows.announce(number);
                        told.insert(number);
                    }
                    assert_eq!(flows.unannounced(number), (!told.contains(&number)).then_some(key));
                    assert_eq!(flows.all_announced(), told.len() == oracle.len());
                }
                None => assert!(!expected && oracle.len() == most),
            }
        }
        let mut keys: Vec<u16> = flows.keys().map(|key| key.remote().port).collect();
        keys.sort_unstable();
        let mut ports: Vec<u16> = oracle.into_keys().collect();
        ports.sort_unstable();
        assert_eq!(keys, ports);
    }
}
