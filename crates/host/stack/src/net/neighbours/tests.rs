//! Goal: ask, repeat, give up, hold down, verify; and the table stays bounded.
use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn addr(n: u16) -> Addr {
    let [a, b] = n.to_be_bytes();
    Addr::v4([10, 0, a, b])
}

fn find(all: &mut Neighbours, addr: Addr) -> u32 {
    all.find(Instant::ZERO, addr, false).expect("there is room")
}

/// A question for it is answered.
fn answer(all: &mut Neighbours, now: Instant, addr: Addr) -> u32 {
    let n = all.find(now, addr, false).expect("there is room");
    all.ready(now, n, &mut Vec::new());
    all.learn(now, addr, MAC, false, true);
    n
}

#[test]
fn asks_repeats_and_gives_up() {
    let (mut all, mut questions, mut failed) = (Neighbours::new(false), Vec::new(), Vec::new());
    let n = find(&mut all, addr(1));
    let mut now = Instant::from_secs(5);
    assert_eq!(all.ready(now, n, &mut questions), Ready::Wait);
    assert_eq!(all.ready(now, n, &mut questions), Ready::Wait);
    assert_eq!(questions, [Question { addr: addr(1), unicast: None }]);
    for asked in 2..=3 {
        now += RETRY;
        assert_eq!(all.next(), Some(now));
        all.expire(now, &mut questions, &mut failed);
        assert_eq!(questions.len(), asked);
    }
    now += RETRY;
    all.expire(now, &mut questions, &mut failed);
    assert_eq!((questions.len(), failed.as_slice()), (3, &[n][..]));
    assert_eq!(all.ready(now, n, &mut questions), Ready::Fail);
    assert_eq!(all.next(), None);
    now += HOLD_DOWN;
    assert_eq!(all.ready(now, n, &mut questions), Ready::Wait);
    all.learn(now, addr(1), MAC, false, true);
    assert_eq!((all.ready(now, n, &mut questions), *all.mac(n)), (Ready::Go, MAC));
}

#[test]
fn verifies_what_grew_old() {
    let (mut all, mut questions, mut failed) = (Neighbours::new(false), Vec::new(), Vec::new());
    let mut now = Instant::from_secs(5);
    assert_eq!(all.learn(now, addr(1), MAC, false, true), None);
    assert_eq!(all.len(), 0, "gossip makes no entry");
    all.learn(now, addr(1), MAC, true, true);
    let n = find(&mut all, addr(1));
    now += REACHABLE;
    assert_eq!((all.ready(now, n, &mut questions), *all.mac(n)), (Ready::Go, MAC));
    assert_eq!(questions, [Question { addr: addr(1), unicast: Some(MAC) }]);
    for _ in 0..3 {
        now += RETRY;
        all.expire(now, &mut questions, &mut failed);
    }
    assert_eq!(failed, [n]);
    assert_eq!(all.ready(now, n, &mut questions), Ready::Fail);
}

#[test]
fn what_the_kernel_said_does_not_age() {
    let (mut all, mut questions) = (Neighbours::new(true), Vec::new());
    all.learn(Instant::ZERO, addr(1), MAC, true, true);
    let n = find(&mut all, addr(1));
    assert_eq!(all.ready(Instant::from_secs(1 << 30), n, &mut questions), Ready::Go);
    assert_eq!(*all.mac(n), MAC);
    all.forget(addr(1));
    assert_eq!(all.ready(Instant::ZERO, n, &mut questions), Ready::Wait);
    assert_eq!(questions.len(), 1);
}

/// RFC 6583, section 7.
#[test]
fn what_has_answered_makes_no_room_for_what_has_not() {
    let (mut all, mut questions) = (Neighbours::new(false), Vec::new());
    let start = Instant::from_secs(5);
    let router = all.find(start, addr(1), true).expect("there is room");
    let host = answer(&mut all, start, addr(2));
    assert!(!all.take_voided());
    let mut voided = 0;
    for n in 0..50_000u64 {
        let now = start + Duration::from_micros(100) * n as u32;
        let [.., a, b] = n.to_be_bytes();
        let found = all.find(now, Addr::v4([10, 1, a, b]), false);
        if let Ok(found) = found {
            assert!(found != router && found != host);
            all.ready(now, found, &mut questions);
        }
        voided += usize::from(all.take_voided());
        assert!(all.len() <= UNPROVEN_MAX[0] + 2);
    }
    assert_eq!((find(&mut all, addr(1)), find(&mut all, addr(2))), (router, host));
    assert!((1..=50).contains(&voided), "{voided} times in 5 s");
    assert!(questions.len() <= 500 + 5 * 500, "{}", questions.len());
}

/// A flood of packets in many names takes no place, and no question, of a host that has told its address.
#[test]
fn what_has_told_its_address_makes_no_room_for_what_packets_speak_of() {
    let (mut all, mut questions, mut failed) = (Neighbours::new(false), Vec::new(), Vec::new());
    let start = Instant::from_secs(5);
    let flood = |all: &mut Neighbours, now: Instant, from: u64| {
        for n in from..from + 10_000 {
            let [.., a, b, c] = n.to_be_bytes();
            if let Ok(found) = all.find(now, Addr::v4([10, 1 + a, b, c]), false) {
                all.ready(now, found, &mut Vec::new());
            }
        }
    };
    flood(&mut all, start, 0);
    all.learn(start, addr(2), MAC, true, true);
    let host = find(&mut all, addr(2));
    for nth in 1..40u32 {
        flood(&mut all, start + Duration::from_secs(1) * nth, 10_000 * u64::from(nth));
    }
    let now = start + Duration::from_secs(40);
    assert_eq!((find(&mut all, addr(2)), all.ready(now, host, &mut questions)), (host, Ready::Go));
    assert_eq!(questions, [Question { addr: addr(2), unicast: Some(MAC) }]);
    all.learn(now, addr(2), MAC, false, true);
    all.expire(now, &mut questions, &mut failed);
    assert_eq!(all.entries[host as usize].doubt(), None);
    // Hosts that tell of themselves in many names are bounded, too.
    for n in 0..50_000u64 {
        let [.., a, b] = n.to_be_bytes();
        all.learn(now, Addr::v4([10, 200, a, b]), MAC, true, true);
        assert!(all.unproven[1] <= UNPROVEN_MAX[1]);
    }
    assert_eq!(find(&mut all, addr(2)), host);
}

#[test]
fn the_table_is_bounded_and_gateways_stay() {
    let mut all = Neighbours::new(false);
    let start = Instant::from_secs(5);
    let router = all.find(start, Addr::v4([10, 9, 9, 9]), true);
    for n in 0..3 * NEIGHBOURS_MAX as u16 {
        answer(&mut all, start, addr(n));
    }
    assert!(all.take_voided());
    assert_eq!((all.len(), all.entries.len(), all.unproven), (NEIGHBOURS_MAX, NEIGHBOURS_MAX, [0, 0]));
    assert_eq!(all.find(start, Addr::v4([10, 9, 9, 9]), true), router);
}

#[test]
fn a_port_without_link_layer_addresses_has_one_entry() {
    let mut all = Neighbours::flat();
    assert_eq!((find(&mut all, addr(1)), find(&mut all, addr(2)), all.len()), (0, 0, 1));
}
