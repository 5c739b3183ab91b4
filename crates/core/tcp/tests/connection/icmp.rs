//! Goal: ICMP is heard but not trusted (RFC 5927, RFC 1191, RFC 8201, RFC 9293 section 3.9.2.2).

use base::{Duration, Seq};
use tcp::{Config, Error, IcmpError, State};

use crate::rig::{OURS, Rig, Setup};

fn icmp(rig: &mut Rig, kind: IcmpError, seq: Seq) {
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.on_icmp(cx, kind, seq));
}

/// RFC 1191, 3-1 and 6.4-1; RFC 8201, 4-1; RFC 7323, 5.7-1; RFC 5681, 3.1-13.
#[test]
fn too_big_makes_segments_smaller_and_sends_them_again() {
    for (v4, headers) in [(true, 40), (false, 60)] {
        let mut rig = Setup { v4, ..Setup::default() }.connected();
        rig.write(&[1; 8000]).unwrap();
        assert!(rig.sent().iter().any(|s| s.len() > 1360));
        icmp(&mut rig, IcmpError::TooBig { mtu: 1400 }, OURS + 1);
        let again = rig.sent();
        assert_eq!(again[0].seq, OURS + 1, "without waiting for a timeout");
        assert!(again.iter().all(|s| s.len() <= 1400 - headers), "{again:?}");
        let info = rig.host.conn().info(rig.now);
        assert_eq!((info.path_mtu, u32::from(info.snd_mss)), (1400, 1400 - headers as u32));
        for _ in 0..20 {
            rig.until_sent(Duration::from_secs(2));
            assert!(rig.sent().iter().all(|s| s.len() <= 1400 - headers));
            let end = rig.host.conn().info(rig.now).snd_nxt;
            rig.ack(end, &[]);
        }
        assert_eq!(rig.host.conn().unacked(), 0);
    }
}

/// Segments in place of those that were too large have a whole timeout, as if they were the first.
#[test]
fn too_big_starts_the_timer_again() {
    let mut rig = Setup::default().connected();
    rig.write(&[1; 4000]).unwrap();
    rig.sent();
    let rto = rig.host.conn().info(rig.now).rto;
    rig.pass(rto / 2);
    icmp(&mut rig, IcmpError::TooBig { mtu: 1400 }, OURS + 1);
    assert_eq!(rig.sent()[0].seq, OURS + 1);
    assert_eq!(rig.until_sent(Duration::from_secs(5)), rto);
}

/// Messages that each take one byte off are believed, but what is in flight is sent again four times a second at most.
/// Messages that one router after another sends within a round trip take effect at once.
#[test]
fn a_storm_of_too_big_sends_little_again() {
    for (v4, least) in [(true, 552), (false, 1280)] {
        let mut rig = Setup { v4, ..Setup::modern() }.connected();
        rig.write(&[1; 10_000]).unwrap();
        let flight: usize = rig.sent().iter().map(|s| s.len()).sum();
        let mut again = Vec::new();
        for mtu in (least..1500).rev() {
            icmp(&mut rig, IcmpError::TooBig { mtu }, OURS + 1);
            again.push(rig.sent().iter().map(|s| s.len()).sum::<usize>());
        }
        assert_eq!(again[..4], [flight; 4]);
        assert_eq!(again[4..].iter().sum::<usize>(), 0);
        assert_eq!(rig.host.conn().info(rig.now).path_mtu, least);
        // The peer got nothing: the timer sends the rest.
        for _ in 0..20 {
            rig.until_sent(Duration::from_secs(2));
            let sent = rig.sent();
            assert!(sent.iter().all(|s| s.len() <= least.into()), "{sent:?}");
            let end = rig.host.conn().info(rig.now).snd_nxt;
            rig.ack(end, &[]);
        }
        assert_eq!(rig.host.conn().unacked(), 0);
    }
}

/// RFC 5927, 4.1-1; RFC 1191, 3-2; RFC 8201, 4-3 and 4-5.
#[test]
fn too_big_is_believed_only_about_what_is_in_flight_and_only_downwards() {
    let mut rig = Setup::default().connected();
    icmp(&mut rig, IcmpError::TooBig { mtu: 1000 }, OURS + 1);
    assert_eq!(rig.host.conn().info(rig.now).path_mtu, 1500, "nothing is in flight");
    rig.write(&[1; 3000]).unwrap();
    rig.sent();
    for seq in [OURS, OURS + 3001, OURS + 100_000, OURS - 5] {
        icmp(&mut rig, IcmpError::TooBig { mtu: 1000 }, seq);
        assert_eq!(rig.host.conn().info(rig.now).path_mtu, 1500, "{seq:?}");
    }
    icmp(&mut rig, IcmpError::TooBig { mtu: 9000 }, OURS + 1);
    assert_eq!(rig.host.conn().info(rig.now).path_mtu, 1500);
    rig.none();
}

/// A SYN-ACK has room on every path, so its option goes on telling what this end receives (RFC 9293, MUST-67).
#[test]
fn too_big_about_a_syn_ack_changes_nothing() {
    for (v4, mss) in [(true, 1460), (false, 1440)] {
        let mut rig = Setup { v4, ..Setup::default() }.syn_received();
        icmp(&mut rig, IcmpError::TooBig { mtu: 1280 }, OURS);
        rig.until_sent(Duration::from_secs(2));
        assert_eq!(rig.one().options.mss, Some(mss));
        rig.send(&[]);
        assert_eq!(rig.host.conn().info(rig.now).path_mtu, 1500);
    }
}

/// RFC 1191, 3-3 and 5-1; RFC 8201, 4-2.
#[test]
fn absurd_sizes_have_a_floor() {
    for v4 in [true, false] {
        for mtu in [0, 1, 60, 100, 296] {
            let mut rig = Setup { v4, ..Setup::modern() }.connected();
            rig.write(&[1; 3000]).unwrap();
            rig.sent();
            icmp(&mut rig, IcmpError::TooBig { mtu }, OURS + 1);
            let info = rig.host.conn().info(rig.now);
            assert!(info.path_mtu < 1500 && info.snd_mss >= 32, "{mtu}: {info:?}");
            if !v4 {
                assert!(info.path_mtu >= 1280, "RFC 8201: never below 1280");
            }
            rig.until_sent(Duration::from_secs(2));
            assert!(rig.sent().iter().all(|s| s.len() > 0));
        }
    }
}

/// RFC 9293, MUST-56; RFC 5927, 5.2-1.
#[test]
fn unreachable_is_soft_once_established() {
    for kind in [IcmpError::HostUnreachable, IcmpError::NetUnreachable, IcmpError::PortUnreachable] {
        let mut rig = Setup::default().connected();
        rig.write(&[1; 100]).unwrap();
        rig.sent();
        icmp(&mut rig, kind, OURS + 1);
        rig.assert_state(State::Established);
        rig.ack(OURS + 101, &[]);
        rig.assert_state(State::Established);
        assert_eq!(rig.host.conn().error(), None);
    }
}

/// RFC 9293, MUST-47, MUST-54 and SHLD-25.
#[test]
fn the_soft_error_explains_the_timeout() {
    let mut rig = Setup::default().connected();
    rig.write(&[1; 100]).unwrap();
    rig.sent();
    icmp(&mut rig, IcmpError::HostUnreachable, OURS + 1);
    rig.pass(Duration::from_secs(5000));
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::HostUnreachable));
}

#[test]
fn during_the_handshake() {
    let mut rig = Setup::default().syn_sent();
    icmp(&mut rig, IcmpError::PortUnreachable, OURS + 1);
    icmp(&mut rig, IcmpError::PortUnreachable, OURS - 1);
    rig.assert_state(State::SynSent);
    icmp(&mut rig, IcmpError::PortUnreachable, OURS);
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::Refused));

    let mut rig = Setup::default().syn_sent();
    icmp(&mut rig, IcmpError::NetUnreachable, OURS);
    rig.pass(Duration::from_secs(500));
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::NetUnreachable));
}

#[test]
fn an_error_ends_what_is_half_open_where_the_settings_say_so() {
    for ends in [false, true] {
        for (kind, seq, hits) in [
            (IcmpError::HostUnreachable, OURS, true),
            (IcmpError::NetUnreachable, OURS, true),
            (IcmpError::PortUnreachable, OURS, false),
            (IcmpError::HostUnreachable, OURS + 1, false),
        ] {
            let setup = Setup::default();
            let config = Config {
                quirks: tcp::Quirks { icmp_ends_half_open: ends, ..Default::default() },
                ..setup.config.clone()
            };
            let mut rig = Setup { config, ..setup }.syn_received();
            icmp(&mut rig, kind, seq);
            assert_eq!(rig.host.state() == State::Closed, ends && hits, "{kind:?}");
            assert_eq!(rig.host.conn().error(), None, "the application is not told");
        }
    }
}
