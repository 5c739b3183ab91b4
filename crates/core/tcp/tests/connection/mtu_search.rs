//! Goal: without a word of ICMP a connection finds what its path carries, loses no rate over the search, and gets out
//! of a black hole (RFC 4821, RFC 8899).

use base::{Duration, Seq};
use tcp::{Config, IcmpError};

use crate::host::ms;
use crate::net::{Link, Net};
use crate::rig::{OURS, Rig, Sent, Setup};

/// A transfer over a path that swallows what is longer than `mtu`.
fn transfer(seed: u64, v4: bool, mode: u8, mtu: u16, bytes: u64, loss: f64) -> Net {
    let link = Link { mtu, silent: true, loss, ..Link::default() };
    let mut net = Net::new(seed, v4, [bytes, 0]).link(link);
    for host in &mut net.hosts {
        host.config.mtu_probing = mode;
        host.mtu = 9000;
        // Dozens of round trips: a search takes some.
        host.config.rcvbuf = (131_072, 131_072);
    }
    net.run(Duration::from_secs(3_000));
    net
}

fn path_mtu(net: &Net) -> u16 {
    net.hosts[0].last_mtu
}

/// RFC 8899, 3-2, 3-7, 4.1-1 and 5.1.2-1; RFC 4821, 7.6.2-1; RFC 8899, 5.3.2-1.
#[test]
fn the_search_ends_just_below_what_passes() {
    for (seed, v4, mtu) in
        [(1, true, 1500), (2, true, 1380), (3, false, 1400), (4, true, 4000), (5, false, 8990)]
    {
        let net = transfer(seed, v4, 2, mtu, 8_000_000, 0.0);
        let found = path_mtu(&net);
        let counters = &net.hosts[0].counters;
        assert!(found <= mtu && found + 8 > mtu, "{found} of {mtu}: {counters:?}");
        assert!(counters.mtu_probes_lost > 0 && counters.mtu_raises > 2, "{counters:?}");
        assert_eq!((counters.timeouts, counters.fast_retransmits), (0, 0), "a probe's loss is no congestion");
        assert_eq!(counters.mtu_probes, counters.mtu_probes_lost + counters.mtu_raises);
    }
}

/// RFC 8899, 5.1.2-1; RFC 8899, 3-13.
#[test]
fn losses_of_other_kinds_do_not_end_the_search_for_good() {
    for seed in 0..6 {
        let net = transfer(seed, true, 2, 1400, 6_000_000, 0.01);
        let found = path_mtu(&net);
        assert!(found <= 1400 && found > 1300, "seed {seed}: {found}");
    }
}

/// RFC 8899, 4.3-1; RFC 4821, 7.7-1; RFC 8899, 4.3-2 and 4.6.2-3.
#[test]
fn a_black_hole_is_found_and_the_search_begins() {
    for (seed, v4) in [(1, true), (2, false)] {
        let net = transfer(seed, v4, 1, 1400, 4_000_000, 0.0);
        let counters = &net.hosts[0].counters;
        assert_eq!(counters.black_holes, 1);
        assert!(counters.timeouts <= 4, "{}", counters.timeouts);
        let found = path_mtu(&net);
        assert!(found <= 1400 && found + 8 > 1400, "{found}");
    }
}

/// RFC 8899, 4.3-1.
#[test]
fn even_the_base_size_may_be_too_large() {
    let net = transfer(3, true, 1, 600, 100_000, 0.0);
    assert!(net.hosts[0].counters.black_holes >= 2);
    assert!(path_mtu(&net) <= 600);
}

fn searching() -> Setup {
    let config = Config { mtu_probing: 2, initial_window: 20, tail_loss_probe: false, ..Config::default() };
    Setup { config, ..Setup::sack() }
}

const BASE: u32 = 1024;

/// A connection that has just sent its first probe and what follows; the probe.
fn probing() -> (Rig, Sent) {
    let mut rig = searching().connected();
    rig.write(&[1; 12_000]).unwrap();
    let sent = rig.sent();
    let probe = sent[0].clone();
    // In the middle of 1064 and 1500.
    assert_eq!((probe.seq, probe.len()), (OURS + 1, 1282 - 40));
    assert!(sent[1..].iter().all(|s| s.len() <= BASE as usize), "{sent:?}");
    (rig, probe)
}

fn end(rig: &Rig) -> Seq {
    rig.host.conn().info(rig.now).snd_nxt
}

/// RFC 4821, 7.4-1; RFC 8899, 3-9.
#[test]
fn a_probe_leaves_only_with_enough_behind_it_to_show_its_loss() {
    let enough = 1242 + 4 * BASE as usize;
    for (bytes, probes) in [(enough - 1, 0), (enough, 1)] {
        let mut rig = searching().connected();
        rig.write(&vec![1; bytes]).unwrap();
        let behind = rig.sent()[1..].iter().filter(|s| s.len() == BASE as usize).count();
        assert_eq!(rig.host.counters.mtu_probes, probes, "{bytes} bytes");
        assert!(probes == 0 || behind > 3, "{behind} segments");
    }
}

/// RFC 8899, 3-2 and 4.1-2; RFC 8899, 3-1, 3-3, 3-10 and 3-12.
#[test]
fn an_acknowledged_probe_makes_all_segments_larger() {
    let (mut rig, probe) = probing();
    rig.pass(ms(20));
    rig.ack(probe.end(), &[]);
    assert_eq!(rig.host.conn().info(rig.now).snd_mss, 1242);
    let all = end(&rig);
    rig.ack(all, &[]);
    // Too little follows for the next probe.
    rig.write(&[1; 3_000]).unwrap();
    assert_eq!(rig.sent().iter().map(Sent::len).collect::<Vec<_>>(), [1242, 1242, 516]);
}

/// RFC 8899, 3-7 and 3-8; RFC 4821, 7.6.2-1.
#[test]
fn a_lost_probe_is_sent_again_in_pieces_and_the_window_stays() {
    let (mut rig, probe) = probing();
    let (before, all) = (rig.host.conn().info(rig.now).window, end(&rig));
    rig.pass(ms(20));
    rig.ack(probe.seq, &[(probe.end(), all)]);
    let again = rig.sent();
    assert_eq!(
        again.iter().map(|s| (s.seq, s.len())).collect::<Vec<_>>(),
        [(probe.seq, 1024), (probe.seq + 1024, 218)]
    );
    rig.pass(ms(20));
    rig.ack(all, &[]);
    assert_eq!(
        rig.host.conn().info(rig.now).window.cwnd.max(before.cwnd),
        rig.host.conn().info(rig.now).window.cwnd
    );
    assert_eq!((rig.host.counters.mtu_probes_lost, rig.host.counters.fast_retransmits), (1, 0));
    assert_eq!(rig.host.conn().info(rig.now).snd_mss, 1024);
}

/// Without SACK too; and what else was missing is congestion.
/// RFC 8899, 3-7 and 3-8.
#[test]
fn without_sack_the_probe_is_sent_again_first() {
    let config = searching().config;
    for others in [false, true] {
        let mut rig = Setup { config: config.clone(), ..Setup::default() }.connected();
        rig.write(&[1; 12_000]).unwrap();
        let sent = rig.sent();
        let (probe, all) = (sent[0].clone(), end(&rig));
        rig.pass(ms(20));
        for _ in 0..3 {
            rig.ack(probe.seq, &[]);
        }
        assert_eq!(rig.sent().iter().map(Sent::len).collect::<Vec<_>>(), [1024, 218]);
        rig.pass(ms(20));
        rig.ack(if others { probe.end() } else { all }, &[]);
        assert_eq!((rig.host.counters.mtu_probes_lost, rig.host.counters.fast_retransmits), (1, 0));
        if others {
            for _ in 0..3 {
                rig.ack(probe.end(), &[]);
            }
            assert_eq!(rig.host.counters.fast_retransmits, 1);
        }
        assert_eq!(rig.host.conn().info(rig.now).snd_mss, 1024);
    }
}

/// A route whose small MTU is known is no place to look for a smaller one; when it grows, the search does.
/// RFC 8899, 4.1-1 and 5.1.2-2.
#[test]
fn probes_are_never_smaller_than_what_passes() {
    let mut setup = Setup { mtu: 900, ..searching() };
    setup.config.base_mss = 512;
    let mut rig = setup.connected();
    rig.write(&[1; 12_000]).unwrap();
    assert!(rig.sent().iter().all(|s| s.len() <= 860));
    assert_eq!((rig.host.counters.mtu_probes, rig.host.conn().info(rig.now).snd_mss), (0, 860));
    rig.pass(ms(20));
    let (all, now) = (end(&rig), rig.now);
    rig.ack(all, &[]);
    rig.host.with(now, |conn, cx| conn.on_route_mtu(cx, 1100));
    rig.write(&[1; 12_000]).unwrap();
    // The middle of 552 and 1100 is less than 900.
    assert_eq!(rig.sent()[0].len(), 960);
}

/// RFC 8899, 3-8.
#[test]
fn a_probe_lost_with_others_says_nothing() {
    let (mut rig, probe) = probing();
    let all = end(&rig);
    rig.pass(ms(20));
    rig.ack(probe.seq, &[(probe.end() + 1024, all)]);
    assert_eq!((rig.host.counters.mtu_probes_lost, rig.host.counters.fast_retransmits), (0, 1));
}

/// RFC 8899, 4.6.2-1 and 4.6.2-2; RFC 8899, 3-5, 3-6 and 4.6.1-1.
#[test]
fn a_router_may_name_the_size() {
    let (mut rig, probe) = probing();
    rig.pass(ms(5));
    let now = rig.now;
    // Of another segment it is no news.
    rig.host.with(now, |conn, cx| conn.on_icmp(cx, IcmpError::TooBig { mtu: 1200 }, probe.end()));
    rig.none();
    rig.host.with(now, |conn, cx| conn.on_icmp(cx, IcmpError::TooBig { mtu: 1200 }, probe.seq));
    assert_eq!(rig.sent().iter().map(Sent::len).collect::<Vec<_>>(), [1024, 218]);
    rig.pass(ms(20));
    let all = end(&rig);
    rig.ack(all, &[]);
    rig.write(&[1; 12_000]).unwrap();
    assert_eq!(rig.sent().iter().map(Sent::len).max(), Some(1160), "this is what is tried next");
}

/// RFC 8899, 5.1.1-1; RFC 4821, 7.3-1.
#[test]
fn after_ten_minutes_larger_sizes_are_tried_again() {
    let (mut rig, _) = probing();
    let mut largest = Vec::new();
    for round in 0..60 {
        rig.pass(ms(20));
        let all = end(&rig);
        rig.ack(all, &[]);
        if round == 30 {
            rig.pass(Duration::from_secs(601));
        }
        rig.write(&[1; 12_000]).unwrap();
        let sent = rig.sent();
        // The path carries 1300.
        let lost = sent.iter().find(|s| s.len() > 1260);
        largest.push(lost.map_or(0, Sent::len));
        if let Some(lost) = lost {
            rig.pass(ms(20));
            let all = end(&rig);
            rig.ack(lost.seq, &[(lost.end(), all)]);
            rig.sent();
        }
    }
    assert!(largest[..20].iter().any(|&len| len > 1260), "{largest:?}");
    assert!(largest[26..30].iter().all(|&len| len == 0), "{largest:?}");
    assert!(largest[30..].iter().any(|&len| len > 1340), "{largest:?}");
    let mss = rig.host.conn().info(rig.now).snd_mss;
    assert!((1253..=1260).contains(&mss), "{mss}");
}

/// RFC 1191, 6.3-2.
#[test]
fn a_route_that_allows_more_is_followed() {
    let mut rig = Setup::sack().connected();
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.on_route_mtu(cx, 1300));
    assert_eq!(rig.host.conn().info(now).snd_mss, 1260);
    rig.host.with(now, |conn, cx| conn.on_route_mtu(cx, 1500));
    assert_eq!(rig.host.conn().info(now).snd_mss, 1460);
    let (mut rig, _) = probing();
    rig.host.with(now, |conn, cx| conn.on_route_mtu(cx, 1040));
    assert_eq!(rig.host.conn().info(now).snd_mss, 1000, "never larger than the route allows");
}
