//! Goal: the best fitting listener gets a SYN, stale ids find nothing, chains survive removals.
use super::*;
use std::net::SocketAddr;

fn ep(text: &str) -> Endpoint {
    text.parse::<SocketAddr>().unwrap().into()
}

fn request(text: &str, v6_only: bool, owner: u32) -> Listen {
    Listen { v6_only, ..Listen::new(ep(text), 4, owner) }
}

fn owner(all: &Listeners, to: &str) -> Option<u32> {
    all.find(ep(to), 0).and_then(|id| all.get(id)).map(|l| l.request.owner)
}

#[test]
fn best_fit() {
    let mut all = Listeners::new();
    let dual = all.insert(request("[::]:80", false, 1), Unproven::default()).unwrap();
    assert_eq!(owner(&all, "10.0.0.1:80"), Some(1));
    all.insert(request("0.0.0.0:80", false, 2), Unproven::default()).unwrap();
    all.insert(request("10.0.0.1:80", false, 3), Unproven::default()).unwrap();
    // Another port in the same bucket.
    all.insert(request("0.0.0.0:336", false, 4), Unproven::default()).unwrap();
    all.insert(request("[::]:443", true, 5), Unproven::default()).unwrap();
    assert_eq!(owner(&all, "10.0.0.1:80"), Some(3));
    assert_eq!(owner(&all, "10.0.0.2:80"), Some(2));
    assert_eq!(owner(&all, "[2001:db8::1]:80"), Some(1));
    assert_eq!(owner(&all, "10.0.0.2:336"), Some(4));
    assert_eq!(owner(&all, "[2001:db8::1]:443"), Some(5));
    assert_eq!(owner(&all, "10.0.0.2:443"), None);
    all.remove(dual).unwrap();
    assert!(all.get(dual).is_none() && all.remove(dual).is_none());
    assert_eq!(owner(&all, "[2001:db8::1]:80"), None);
    assert_eq!(owner(&all, "10.0.0.1:80"), Some(3));
    let again = all.insert(request("[::]:80", false, 6), Unproven::default()).unwrap();
    assert_ne!(again, dual);
    assert_eq!(all.len(), 5);
}

#[test]
fn shared_ports_take_turns() {
    let mut all = Listeners::new();
    for owner in 0..4 {
        all.insert(Listen { reuse_port: true, ..request("0.0.0.0:80", false, owner) }, Unproven::default())
            .unwrap();
    }
    let mut rng = base::Rng::new(1);
    let mut counts = [0; 4];
    for _ in 0..4000 {
        let id = all.find(ep("10.0.0.1:80"), rng.next_u64()).unwrap();
        counts[all.get(id).unwrap().request.owner as usize] += 1;
    }
    assert!(counts.iter().all(|&n| (800..1200).contains(&n)), "{counts:?}");
}

#[test]
fn a_parked_listener_leaves_syns_to_its_equals() {
    let mut all = Listeners::new();
    let shared = |local, owner| Listen { reuse_port: true, ..request(local, false, owner) };
    let own = all.insert(shared("0.0.0.0:80", 0), Unproven::default()).unwrap();
    all.get_mut(own).unwrap().parked = true;
    all.insert(shared("[::]:80", 1), Unproven::default()).unwrap();
    assert_eq!(all.only(ep("10.0.0.1:80")), Some(own), "dual-stack fits less");
    let other = all.insert(shared("0.0.0.0:80", 2), Unproven::default()).unwrap();
    for hash in 0..16 {
        assert_eq!(all.find(ep("10.0.0.1:80"), hash << 60), Some(other));
    }
    assert_eq!(all.only(ep("10.0.0.1:80")), Some(other));
    all.remove(other).unwrap();
    assert_eq!(all.find(ep("10.0.0.1:80"), 0), Some(own));
}

#[test]
fn a_listener_for_this_cpu_is_preferred() {
    let mut all = Listeners::new();
    for (owner, incoming_cpu) in [None, Some(1), None, Some(1), Some(2)].into_iter().enumerate() {
        let options = SocketOptions { incoming_cpu, ..SocketOptions::default() };
        let shared = Listen { reuse_port: true, options, ..request("0.0.0.0:80", false, owner as u32) };
        all.insert(shared, Unproven::default()).unwrap();
    }
    // The chain has the youngest first.
    let turns = |cpu: Option<u32>| {
        let turn = |nth| all.turn_of(ep("10.0.0.1:80"), 4, nth, || cpu).unwrap();
        [0, 1, 2, 3, 4].map(|nth| 4 - turn(nth))
    };
    assert_eq!(turns(Some(1)), [1, 1, 3, 3, 1]);
    assert_eq!(turns(Some(2)), [0, 0, 0, 0, 0]);
    assert_eq!(turns(Some(3)), [0, 1, 2, 3, 4], "nothing is for it: they take turns");
    assert_eq!(turns(None), [0, 1, 2, 3, 4]);
}
