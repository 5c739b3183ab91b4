//! Goal: the table is bounded, and no network fills it.
use super::*;
use base::Duration;

fn lesson(srtt_us: u32) -> HostLesson {
    HostLesson { srtt_us, rttvar_us: srtt_us / 2, ssthresh: 0, cwnd: 14_600 }
}

fn learn(hosts: &mut Hosts, config: &Config, secs: u64, remote: Addr, srtt_us: u32) {
    hosts.learn(config, Instant::from_secs(secs), remote, &lesson(srtt_us));
}

#[test]
fn it_is_bounded_and_keeps_the_latest() {
    let (mut hosts, config) = (Hosts::new(SipKey::new(1, 2)), Config { host_cache: 64, ..Config::default() });
    for n in 0..10_000u32 {
        let [_, b, c, d] = n.to_be_bytes();
        let remote = Addr::v4([10, b, c, d]);
        learn(&mut hosts, &config, 100 + u64::from(n), remote, 1_000 + n);
        assert_ne!(hosts.find(remote), NONE);
    }
    assert!(hosts.len() <= 64 && hosts.len() > 48, "{}", hosts.len());
}

#[test]
fn the_addresses_of_one_network_share_a_set() {
    let (mut hosts, config) = (Hosts::new(SipKey::new(1, 2)), Config::default());
    let addr = |network: u8, host: u16| {
        let [a, b] = host.to_be_bytes();
        Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, network, 0, 0, 0, 0, 0, 0, a, b])
    };
    (0..10_000).for_each(|host| learn(&mut hosts, &config, 100 + u64::from(host), addr(1, host), 5_000));
    assert_eq!(hosts.len(), WAYS);
    (2..200).for_each(|network| learn(&mut hosts, &config, 20_000, addr(network, 1), 5_000));
    assert!(hosts.len() > 150);
}

#[test]
fn what_is_too_old_is_replaced() {
    let (mut hosts, config) = (Hosts::new(SipKey::new(1, 2)), Config::default());
    let peer = Addr::v4([10, 0, 0, 9]);
    let age = config.host_cache_age;
    learn(&mut hosts, &config, 100, peer, 500_000);
    learn(&mut hosts, &config, 100 + age.as_secs(), peer, 1_000);
    let rows: Vec<HostRow> = hosts.rows(&config, Instant::from_secs(200) + age).collect();
    assert_eq!((rows.len(), rows[0].memory.lesson.srtt_us, rows[0].memory.connections), (1, 1_000, 1));
    let late = Instant::from_secs(100) + age + age + Duration::from_secs(1);
    assert_eq!(hosts.hint(&config, late, hosts.find(peer), peer), HostHint::default());
}
