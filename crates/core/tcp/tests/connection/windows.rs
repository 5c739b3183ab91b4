//! Goal: neither side outruns the other's window, deadlocks on a closed one, or lets it get silly
//! (RFC 9293 sections 3.8.6, RFC 7323 section 2).

use base::Duration;
use tcp::{Config, ReadError, SocketOptions, State, Times};
use wire::tcp::{Flags, Segment};

use crate::host::ms;
use crate::net::{Link, Net};
use crate::rig::{OURS, Rig, Setup};

const NODELAY: SocketOptions = SocketOptions {
    nodelay: true,
    cork: false,
    quickack: None,
    keepalive: false,
    keep_idle: ms(7_200_000),
    keep_interval: ms(75_000),
    keep_count: 9,
    user_timeout: Duration::ZERO,
    linger: None,
    max_seg: 0,
    rcvbuf: 0,
    sndbuf: 0,
    notsent_lowat: 0,
    window_clamp: 0,
    rcv_lowat: 1,
    syn_count: 0,
    tos: 0,
    ttl: None,
    dated: false,
    max_pacing: None,
    black_holes: false,
    defer_accept: 0,
    incoming_cpu: None,
    times: Times { rto_min: Duration::ZERO, delayed_ack: Duration::ZERO, fin_wait2: None },
};

#[test]
fn the_peers_window_is_the_limit() {
    let mut rig = Setup { window: 3000, options: NODELAY, ..Setup::default() }.connected();
    rig.write(&[1; 20_000]).unwrap();
    let sent = rig.sent();
    let end = sent.last().unwrap().end();
    let total = end.offset_from(OURS + 1);
    assert!((2920..=3000).contains(&total), "{total}");
    rig.ack(end, &[]);
    let more = rig.sent();
    assert!(more.last().unwrap().end().at_or_before(end + 3000));
}

/// Fills a window of 1460 bytes and closes it.
fn closed_window() -> Rig {
    let mut rig = Setup { window: 1460, ..Setup::default() }.connected();
    rig.write(&[1; 20_000]).unwrap();
    assert_eq!(rig.one().len(), 1460);
    rig.window = 0;
    rig.ack(OURS + 1461, &[]);
    rig.none();
    rig
}

/// RFC 9293, MUST-36, MUST-37 and SHLD-30; RFC 6298, 2-5.
#[test]
fn a_closed_window_is_probed_for_ever_with_backoff() {
    let mut rig = closed_window();
    let mut last = Duration::ZERO;
    for n in 0..40 {
        let waited = rig.until_sent(Duration::from_secs(500));
        let probe = rig.one();
        assert!(probe.len() <= 1, "{probe:?}");
        assert!(probe.seq.at_or_before(OURS + 1461));
        assert!(
            waited >= last || waited >= Duration::from_secs(60),
            "probe {n} after {waited:?}, then {last:?}"
        );
        assert!(waited <= Duration::from_secs(120));
        last = waited;
        rig.ack(OURS + 1461, &[]);
        rig.assert_state(State::Established);
    }
    assert!(last >= Duration::from_secs(60));
    rig.window = 5000;
    rig.ack(OURS + 1461, &[]);
    let sent = rig.sent();
    assert_eq!(sent[0].seq, OURS + 1461);
    assert!(sent.iter().map(|s| s.len()).sum::<usize>() >= 2920);
}

#[test]
fn a_probe_that_is_taken_counts() {
    let mut rig = closed_window();
    rig.until_sent(Duration::from_secs(500));
    let probe = rig.one();
    rig.window = 10_000;
    rig.ack(probe.end().later(OURS + 1461), &[]);
    let sent = rig.sent();
    assert_eq!(sent[0].seq, probe.end().later(OURS + 1461), "no byte is skipped or repeated");
}

#[test]
fn a_peer_that_does_not_even_answer_probes_is_given_up() {
    let mut rig = closed_window();
    rig.pass(Duration::from_secs(5000));
    rig.assert_state(State::Closed);
}

#[test]
fn an_fin_waits_behind_a_closed_window() {
    let mut rig = closed_window();
    rig.shutdown();
    rig.until_sent(Duration::from_secs(100));
    rig.sent();
    rig.window = 65_535;
    rig.ack(OURS + 1461, &[]);
    let mut end = OURS;
    for _ in 0..20 {
        let sent = rig.sent();
        let Some(last) = sent.last() else { break };
        end = last.end();
        rig.ack(end, &[]);
    }
    assert_eq!(end, OURS + 20_002);
    rig.assert_state(State::FinWait2);
}

/// The peer takes back a part of the window that was filled, and drops whatever lies beyond it. RFC 9293, MUST-34.
#[test]
fn what_carries_no_data_stays_within_a_window_that_shrank() {
    for (setup, unit) in [(Setup::default(), 1), (Setup::modern(), 128)] {
        let filled = |window| {
            let mut rig = setup.connected();
            rig.write(&[1; 5_000]).unwrap();
            assert_eq!(rig.sent().last().unwrap().end(), OURS + 5_001);
            rig.window = window;
            rig.ack(OURS + 1_001, &[]);
            rig
        };
        for window in [8, 0] {
            let (mut rig, edge) = (filled(window), OURS + 1_001 + u32::from(window) * unit);
            rig.send(b"data");
            rig.send(b"more");
            assert!(rig.sent().iter().any(|ack| ack.is_pure_ack() && ack.seq == edge), "an acknowledgment");
            rig.inject(Segment { seq: rig.next + 5, ..rig.segment(Flags::RST, &[]) });
            assert_eq!(rig.one().seq, edge, "a challenge");
            let now = rig.now;
            rig.host.with(now, |conn, cx| conn.abort(cx));
            let reset = rig.one();
            assert_eq!((reset.flags, reset.seq), (Flags::RST | Flags::ACK, edge));
        }
        // 4,000 bytes are in flight. A window field of 31 units that are 128 bytes tells of no less than 3,968.
        let (mut rig, fits) = (filled((4_000 / unit) as u16), OURS + 5_001);
        rig.inject(Segment { seq: rig.next + 5, ..rig.segment(Flags::RST, &[]) });
        assert_eq!(rig.one().seq, fits, "rounded down, not taken back");
    }
}

/// RFC 9293, MUST-34, SHLD-15 and SHLD-16; RFC 7323, 2.4-1.
#[test]
fn a_shrinking_window_does_not_confuse_the_sender() {
    let mut rig = Setup { window: 20_000, ..Setup::default() }.connected();
    rig.write(&[1; 30_000]).unwrap();
    let sent = rig.sent();
    assert!(sent.len() > 5);
    rig.window = 2000;
    rig.ack(sent[0].end(), &[]);
    rig.none();
    // Everything beyond was dropped by the peer; it comes again, within the window or as a probe.
    for _ in 0..200 {
        rig.until_sent(Duration::from_secs(200));
        for s in rig.sent() {
            if s.seq == rig.ack && s.len() > 0 && s.len() <= 2000 {
                rig.ack = s.end();
            }
        }
        let ack = rig.ack;
        rig.ack(ack, &[]);
        if ack == OURS + 30_001 {
            return;
        }
    }
    panic!("stuck at {:?}: {:#?}", rig.ack, rig.host.conn().info(rig.now));
}

#[test]
fn old_segments_do_not_update_the_window() {
    let mut rig = Setup::default().connected();
    rig.send(&[1; 100]);
    rig.send(&[1; 100]);
    let old = Segment { seq: rig.next - 100, window: 1, ..rig.segment(Flags::ACK, &[]) };
    rig.inject(old);
    assert_eq!(rig.host.conn().info(rig.now).snd_wnd, 65_535, "SND.WL1 and SND.WL2");
}

/// Sends full segments until the window is closed; what was sent.
fn fill(rig: &mut Rig, shift: u8) -> u64 {
    let mut total = 0;
    let mut edge = rig.next + rig.host.conn().info(rig.now).rcv_wnd;
    loop {
        for ack in rig.sent() {
            let new = ack.ack + (u32::from(ack.window) << shift);
            assert!(edge.distance_from(new) < 1 << shift, "the right edge moved left");
            edge = new;
        }
        let room = edge.distance_from(rig.next);
        if room <= 0 {
            return total;
        }
        let n = room.min(1460) as usize;
        rig.send(&vec![(total / 1460) as u8; n]);
        total += n as u64;
        rig.pass(ms(50));
    }
}

/// RFC 9293, SHLD-14, MUST-39 and MAY-8; RFC 7323, 2.4-2.
#[test]
fn our_window_closes_and_reopens_without_getting_silly() {
    for (setup, shift) in [(Setup::default(), 0), (Setup::modern(), 9)] {
        let config = Config { rcvbuf: (16_384, 16 << 20), ..Config::default() };
        let mut rig = Setup { config, ..setup }.accepted();
        fill(&mut rig, shift);
        // Closed: nothing is taken (but what the scale rounded off), everything is answered.
        let step = (1 << shift) - 1;
        rig.send(&vec![7; step]);
        rig.sent();
        rig.next = rig.host.conn().info(rig.now).rcv_nxt;
        let held = rig.host.conn().readable();
        rig.inject(rig.segment(Flags::ACK, &vec![b'!'; step + 1]));
        let answer = rig.one();
        assert_eq!((answer.ack, answer.window), (rig.next, 0));
        assert_eq!(rig.host.conn().readable(), held);
        // A few bytes read open nothing.
        for _ in 0..100 {
            rig.read(10).unwrap();
        }
        let updates = rig.sent();
        assert!(updates.is_empty(), "silly window: {updates:?}");
        while rig.read(1 << 20).is_ok() {}
        let update = rig.sent().pop().expect("a window update");
        assert!(u32::from(update.window) << shift >= 1460);
        rig.send(b"welcome");
        assert_eq!(rig.read(10).unwrap(), b"welcome");
    }
}

/// RFC 9293, MUST-66.
#[test]
fn an_ack_counts_at_our_zero_window() {
    let config = Config { rcvbuf: (8192, 8192), ..Config::default() };
    let mut rig = Setup { config, ..Setup::default() }.accepted();
    fill(&mut rig, 0);
    rig.write(&[1; 100]).unwrap();
    let end = rig.sent().last().unwrap().end();
    rig.ack(end, &[]);
    assert_eq!(rig.host.conn().unacked(), 0);
    rig.inject(rig.segment(Flags::RST, &[]));
    rig.assert_state(State::Closed);
}

#[test]
fn data_beyond_our_window_is_cut() {
    let config = Config { rcvbuf: (4096, 4096), ..Config::default() };
    let mut rig = Setup { config, ..Setup::default() }.accepted();
    let window = rig.host.conn().info(rig.now).rcv_wnd;
    rig.inject(rig.segment(Flags::ACK, &vec![1; window as usize + 1000]));
    assert!(rig.host.conn().readable() <= window);
    rig.inject(Segment { seq: rig.next + window - 10, ..rig.segment(Flags::ACK | Flags::FIN, &[2; 100]) });
    rig.assert_state(State::Established);
}

#[test]
fn a_fixed_buffer_bounds_the_window() {
    let options = SocketOptions { rcvbuf: 10_000, ..SocketOptions::default() };
    let mut rig = Setup { options, ..Setup::modern() }.accepted();
    let shift = rig.host.conn().info(rig.now).scale.1;
    let total = fill(&mut rig, shift);
    assert!((5_000..=40_000).contains(&total), "{total}");
}

/// RFC 9293, MUST-38.
#[test]
fn the_sender_is_never_silly() {
    let mut rig = Setup { window: 10_000, ..Setup::default() }.connected();
    rig.write(&[1; 60_000]).unwrap();
    let mut acked = OURS + 1;
    // The peer opens its window by a few bytes at a time: no crumbs are sent.
    let mut small = 0;
    for _ in 0..50 {
        let sent = rig.sent();
        small += sent.iter().filter(|s| s.len() < 1460).count();
        let Some(first) = sent.first() else {
            rig.window += 100;
            rig.ack(acked, &[]);
            continue;
        };
        acked = sent.last().unwrap_or(first).end();
        rig.window = 100;
        rig.ack(acked, &[]);
    }
    assert!(small <= 4, "{small} small segments");
    assert_eq!(rig.read(1), Err(ReadError::Empty));
}

#[test]
fn a_fin_at_the_edge_of_a_full_window() {
    let config = Config { rcvbuf: (8192, 8192), ..Config::default() };
    let mut rig = Setup { config, ..Setup::default() }.accepted();
    fill(&mut rig, 0);
    rig.sent();
    rig.send_fin();
    rig.pass(ms(500));
    for answer in rig.sent() {
        assert_eq!(answer.window, 0, "{answer:?}");
    }
    assert!(rig.host.conn().info(rig.now).rcv_wnd <= 8192);
    while rig.read(1 << 20).is_ok() {}
    rig.sent();
    rig.inject(Segment { seq: rig.next - 1, ..rig.segment(Flags::FIN | Flags::ACK, &[]) });
    rig.pass(ms(500));
    assert_eq!(rig.read(1), Err(ReadError::Finished));
}

#[test]
fn a_low_water_mark_above_the_buffer_does_not_lock() {
    let config = Config { rcvbuf: (8192, 8192), ..Config::default() };
    let options = SocketOptions { rcv_lowat: 1 << 20, ..SocketOptions::default() };
    let mut rig = Setup { config, options, ..Setup::default() }.accepted();
    rig.send(&[1; 1000]);
    assert!(!rig.events().any(tcp::Events::READABLE), "below the mark");
    fill(&mut rig, 0);
    assert!(rig.events().any(tcp::Events::READABLE), "no more can come");
}

/// RFC 9293, SHLD-29.
#[test]
fn the_first_probe_waits_for_the_retransmission_timeout() {
    let mut rig = closed_window();
    let rto = rig.host.conn().info(rig.now).rto;
    assert_eq!(rig.until_sent(Duration::from_secs(10)), rto);
    assert!(rig.one().len() <= 1);
}

/// It tells the window, as the answer to a probe would.
#[test]
fn an_acknowledgment_at_a_closed_window_puts_the_probe_off() {
    let mut rig = closed_window();
    let rto = rig.host.conn().info(rig.now).rto;
    rig.pass(rto / 2);
    rig.none();
    rig.ack(OURS + 1461, &[]);
    assert_eq!(rig.until_sent(Duration::from_secs(10)), rto);
    assert!(rig.one().len() <= 1);
}

/// RFC 9293, MUST-35, MUST-37 and SHLD-17.
#[test]
fn a_window_that_shrank_to_zero_is_probed_for_ever() {
    for setup in [Setup::default(), Setup::sack(), Setup::modern()] {
        let mut rig = setup.connected();
        rig.write(&[1; 8_000]).unwrap();
        let sent = rig.sent();
        rig.window = 0;
        rig.ack(sent[0].end(), &[]);
        for n in 0..40 {
            rig.until_sent(Duration::from_secs(500));
            let probe = rig.one();
            assert!(probe.len() <= 1, "probe {n}: {probe:?}");
            let ack = rig.ack;
            rig.ack(ack, &[]);
            rig.none();
            rig.assert_state(State::Established);
        }
        rig.window = 65_535;
        for _ in 0..20 {
            let ack = rig.ack;
            rig.ack(ack, &[]);
            rig.until_sent(Duration::from_secs(500));
            for s in rig.sent() {
                rig.ack = if s.seq == rig.ack { s.end() } else { rig.ack };
            }
        }
        assert_eq!(rig.ack, OURS + 8_001, "everything arrives");
    }
}

/// The window offered grows with what came, where the profile says so.
#[test]
fn the_window_ramp() {
    let config = Config {
        quirks: tcp::Quirks { window_ramp: true, ..Default::default() },
        rcvbuf: (540_000, 1 << 24),
        ..Config::default()
    };
    let mut rig = Setup { config, ..Setup::modern() }.accepted();
    let offered = |rig: &Rig| rig.host.conn().info(rig.now).rcv_wnd;
    for nth in 1..=100u32 {
        rig.send(&[7; 1_000]);
        rig.pass(ms(50));
        rig.sent();
        rig.read(1_000).unwrap();
        assert!(offered(&rig) <= 65_535 + 2_000 * nth + 512, "{nth}");
    }
    rig.send(&[7; 1_000]);
    rig.pass(ms(50));
    assert!(offered(&rig) > 250_000, "it follows what comes: {}", offered(&rig));
}

/// A window below one unit of its scale would be told as shut for ever.
#[test]
fn a_small_clamp_is_no_shut_window() {
    let mut setup = Setup::modern();
    setup.options.window_clamp = 300;
    let mut rig = setup.listening();
    rig.peer_syn(&setup, Flags::SYN);
    let syn_ack = rig.one();
    assert_eq!((syn_ack.window, syn_ack.options.window_scale), (300, Some(0)));
    rig.send(&[]);
    for _ in 0..5 {
        rig.send(&[1; 300]);
        assert_eq!(rig.read(300).map(|got| got.len()), Ok(300));
        assert!(rig.sent().last().is_some_and(|ack| ack.window > 0));
    }
    // With a scale agreed on, a clamp that comes later counts as one unit of it.
    let mut rig = Setup::modern().accepted();
    let now = rig.now;
    let options = SocketOptions { window_clamp: 300, ..SocketOptions::default() };
    rig.host.with(now, |conn, cx| conn.set_options(cx, options));
    let shift = rig.host.conn().info(now).scale.1;
    assert!(1 << shift > 300);
    for _ in 0..300 {
        rig.send(&[1; 1000]);
        let _ = rig.read(1000);
    }
    assert!(rig.sent().last().is_some_and(|ack| ack.window == 1), "one unit of {} bytes", 1 << shift);
}

/// The peer has sent all that the window takes, and one byte of it was lost: its bare acknowledgments carry the number
/// behind the window, and count.
#[test]
fn an_acknowledgment_behind_the_window_counts_while_a_hole_is_open() {
    let mut rig = Setup::sack().connected();
    rig.write(&[1; 1000]).unwrap();
    let sent = rig.one();
    let window = rig.host.conn().info(rig.now).rcv_wnd;
    let data = [2; 1000];
    let mut at = 1;
    while at < window {
        let len = (window - at).min(1000);
        rig.send_at(at, &data[..len as usize]);
        at += len;
    }
    rig.sent();
    let edge = Segment { seq: rig.next + window, ack: sent.end(), ..rig.segment(Flags::ACK, &[]) };
    rig.inject(edge);
    assert_eq!((rig.host.conn().unacked(), rig.host.counters.out_of_window), (0, 0));
    // Beyond it nothing counts, and neither does a RST there.
    rig.inject(Segment { seq: edge.seq + 1, ..edge });
    rig.inject(Segment { flags: Flags::RST, ..edge });
    assert_eq!(rig.host.counters.out_of_window, 2);
}

/// A receiver whose window alone bounds the sender over a link with room for everything: how large its buffer became,
/// and how long the transfer took.
fn queue_made_by_the_window(merge: Duration) -> (u32, Duration) {
    // 100 Mbit/s and 10 ms: 125 KB fill the path, whatever the queue holds.
    let link = Link { delay: ms(5), rate: 12_500_000, queue: 1 << 30, ..Link::default() };
    let bytes = 60_000_000;
    let mut net = Net::new(7, true, [bytes, 0]).link(link);
    net.merge = merge;
    // Slow start that no delay ends: only the window offered bounds what is in flight.
    net.hosts[0].config.hystart = 0;
    let (began, end) = (net.now, net.now + Duration::from_secs(60));
    net.hosts[0].connect(net.now);
    let mut most = 0;
    while net.apps[1].read < bytes {
        net.step(end);
        if let Some(conn) = &net.hosts[1].conn {
            most = most.max(conn.info(net.now).rcvbuf.0);
        }
    }
    assert_eq!(net.lost, 0);
    (most, net.now.since(began))
}

#[test]
fn the_buffer_does_not_feed_on_the_queue_that_it_makes() {
    for merge in [Duration::ZERO, ms(1)] {
        let (most, took) = queue_made_by_the_window(merge);
        assert!(most <= 1 << 20, "{most} for a path of 125,000 bytes");
        let ideal = Duration::from_millis(60_000_000 / 12_500);
        // Headers take 5 %.
        assert!(took < ideal * 110 / 100, "{took:?} where {ideal:?} is ideal");
    }
}

#[test]
fn a_handshake_that_waited_in_a_queue_does_not_make_the_path_longer() {
    // The SYN-ACK waits for 40 ms; from then on the path takes 1 ms, as echoes of timestamps tell: 125 KB fill it.
    let link = Link { delay: ms(40), rate: 125_000_000, queue: 1 << 30, ..Link::default() };
    let bytes = 300_000_000;
    let mut net = Net::new(7, true, [bytes, 0]).link(link);
    net.merge = Duration::from_micros(100);
    net.hosts[0].config.hystart = 0;
    let end = net.now + Duration::from_secs(60);
    net.hosts[0].connect(net.now);
    let mut most = 0;
    while net.apps[1].read < bytes {
        if net.hosts[0].conn.as_ref().is_some_and(|conn| conn.state() == State::Established) {
            net.links.iter_mut().for_each(|link| link.delay = Duration::from_micros(500));
        }
        net.step(end);
        most = most.max(net.hosts[1].conn.as_ref().map_or(0, |conn| conn.info(net.now).rcvbuf.0));
    }
    assert!((1..2 << 20).contains(&most), "{most} for a path of 125,000 bytes");
}
