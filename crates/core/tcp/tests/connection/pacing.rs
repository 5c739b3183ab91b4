//! Goal: a paced connection keeps to its rate in every interval, loses less where buffers are small, and still fills
//! the path; what must not wait does not.

use base::{Duration, Instant, Rate};
use tcp::{Config, SocketOptions};

use crate::host::ms;
use crate::net::{Link, Net};
use crate::rig::{OURS, Setup};

/// Result of a transfer.
struct Outcome {
    took: Duration,
    lost: u64,
    /// When how many bytes of data left host 0.
    sent: Vec<(Instant, u32)>,
}

fn transfer(seed: u64, link: Link, bytes: u64, change: impl Fn(&mut Net)) -> Outcome {
    let mut net = Net::new(seed, true, [bytes, 0]).link(link);
    for host in &mut net.hosts {
        host.config.sndbuf = (1 << 20, 8 << 20);
        host.config.rcvbuf = (1 << 20, 8 << 20);
        host.control = "cubic";
    }
    change(&mut net);
    let begun = net.now;
    net.run(Duration::from_secs(600));
    let sent = std::mem::take(&mut net.hosts[0].tx_times);
    // The rest is TIME-WAIT.
    let took = sent.last().map_or(Duration::ZERO, |&(at, _): &(Instant, u32)| at.since(begun));
    Outcome { took, lost: net.lost, sent }
}

/// 100 Mbit/s, 20 ms there and back.
fn path(queue: u64) -> Link {
    Link { delay: ms(10), rate: 12_500_000, queue, ..Link::default() }
}

/// The only loss is the overshoot of slow start, once: it is larger where the window was larger.
#[test]
fn a_small_buffer_is_enough_to_fill_the_path() {
    let bytes = 16_000_000;
    let ideal = Duration::from_millis(bytes * 1_000 / 12_500_000);
    for (queue, share) in [(20_000, 65), (60_000, 75)] {
        let burst = transfer(1, path(queue), bytes, |net| {
            let config = &mut net.hosts[0].config;
            (config.pace_slow_start, config.autosize) = (false, false);
        });
        let paced = transfer(1, path(queue), bytes, |net| net.hosts[0].config.pacing = true);
        let start = transfer(1, path(queue), bytes, |_| {});
        assert!(ideal * 100 > paced.took * share, "{queue}: {:?} where {ideal:?} is ideal", paced.took);
        assert!(paced.took * 107 < burst.took * 100, "{queue}: {:?} in bursts {:?}", paced.took, burst.took);
        assert!(start.took * 107 < burst.took * 100, "{queue}: {:?} in bursts {:?}", start.took, burst.took);
    }
}

/// The peer's window opens by tens of segments at a time.
#[test]
fn what_may_leave_at_once_is_lost_in_a_small_buffer_unless_it_is_spread() {
    let (mut paced, mut burst) = (0, 0);
    for seed in 0..4 {
        let jumps = |net: &mut Net| {
            net.hosts[1].options.rcvbuf = 200_000;
            (net.apps[1].read_max, net.apps[1].rest) = (65_000, ms(15));
        };
        burst += transfer(seed, path(20_000), 4_000_000, jumps).lost;
        let spread = |net: &mut Net| {
            jumps(net);
            net.hosts[0].config.pacing = true;
        };
        paced += transfer(seed, path(20_000), 4_000_000, spread).lost;
    }
    assert!(paced * 2 < burst, "{paced} lost where tx_times are paced, {burst} in bursts");
}

/// A cap with whatever losses: in no interval more than the cap lets go, but for the initial window, a quantum, and
/// the probe or the first segment after a timeout that never wait.
#[test]
fn no_interval_holds_more_than_the_cap() {
    for seed in 0..12 {
        let cap = [200_000, 1_000_000, 5_000_000][seed as usize % 3];
        let loss = [0.0, 0.01, 0.05][seed as usize / 3 % 3];
        let link = Link { delay: ms(15), jitter: ms(2), loss, ..Link::default() };
        let outcome = transfer(seed, link, cap * 3, |net| {
            net.hosts[0].options.max_pacing = Some(Rate::from_bytes_per_sec(cap));
        });
        let quantum = (cap / 1_000).max(2 * 1_460) * 3 / 2;
        let sent = &outcome.sent;
        let mut start = 0;
        // The greatest excess over the line, once around: an interval that holds too much shows at its end.
        let (mut total, mut least) = (0u64, i128::MAX);
        let mut urgent = 0;
        for &(at, bytes) in sent {
            let line = i128::from(cap) * i128::from(at.as_nanos()) / 1_000_000_000;
            least = least.min(i128::from(total) - line);
            total += u64::from(bytes);
            let excess = i128::from(total) - line - least;
            start += 1;
            urgent = urgent.max(excess);
        }
        let most = i128::from(10 * 1_460 + quantum) + if loss > 0.0 { 6 * 1_460 } else { 0 };
        assert!(urgent <= most, "seed {seed}: {urgent} beyond the line, {most} allowed, {start} tx_times");
        assert!(outcome.took >= Duration::from_millis(2_900), "{:?}", outcome.took);
        assert!(loss > 0.0 || outcome.took <= Duration::from_millis(3_400), "{:?}", outcome.took);
    }
}

fn paced() -> Setup {
    let config = Config { pacing: true, tail_loss_probe: false, ..Config::default() };
    Setup { config, ..Setup::sack() }
}

#[test]
fn the_initial_window_leaves_at_once_and_what_follows_is_spread() {
    let mut rig = paced().connected();
    rig.write(&[1; 60_000]).unwrap();
    assert_eq!(rig.sent().len(), 10, "RFC 6928");
    rig.pass(ms(20));
    rig.ack(OURS + 1 + 14_600, &[]);
    // Twice 12 segments in 20 ms or so: two in less than two milliseconds.
    let mut gaps = Vec::new();
    for _ in 0..6 {
        gaps.push(rig.until_sent(ms(50)));
        assert_eq!(rig.sent().len(), 2, "a quantum is two segments");
    }
    assert!(gaps[1..].iter().all(|gap| *gap >= Duration::from_micros(500) && *gap < ms(2)), "{gaps:?}");
}

#[test]
fn after_idleness_the_window_does_not_leave_in_a_burst() {
    let mut rig = paced().connected();
    rig.write(&[1; 14_600]).unwrap();
    rig.sent();
    rig.pass(ms(20));
    rig.ack(OURS + 1 + 14_600, &[]);
    rig.pass(Duration::from_secs(5));
    rig.write(&[1; 14_600]).unwrap();
    assert_eq!(rig.sent().len(), 2);
    rig.pass(ms(30));
    assert_eq!(rig.sent().len(), 8);
}

#[test]
fn acknowledgments_and_what_a_timeout_sends_first_do_not_wait() {
    let options =
        SocketOptions { max_pacing: Some(Rate::from_bytes_per_sec(1_000)), ..SocketOptions::default() };
    let mut rig = Setup { options, ..paced() }.connected();
    rig.write(&[1; 20_000]).unwrap();
    assert_eq!(rig.sent().len(), 10);
    rig.send(&[7; 1_000]);
    rig.pass(ms(50));
    let sent = rig.sent();
    assert!(sent.iter().all(|s| s.is_pure_ack()) && !sent.is_empty(), "{sent:?}");
    let took = rig.until_sent(Duration::from_secs(2));
    let again = rig.one();
    assert_eq!((again.seq, again.len()), (OURS + 1, 1_460), "the timeout, after {took:?}");
    assert!(took < Duration::from_secs(1));
    // 14,600 bytes and one segment at a kilobyte a second.
    rig.ack(OURS + 1 + 14_600, &[]);
    let took = rig.until_sent(Duration::from_secs(60));
    assert!((12..=17).contains(&took.as_secs()), "{took:?}");
    assert_eq!(rig.sent().len(), 2);
    assert_eq!(rig.host.conn().options().max_pacing, options.max_pacing);
    assert!(rig.host.counters.paced > 0);
}

/// No limit is no pacing, from now on.
#[test]
fn the_cap_can_be_lifted() {
    let options =
        SocketOptions { max_pacing: Some(Rate::from_bytes_per_sec(1_000)), ..SocketOptions::default() };
    let mut rig = Setup { options, ..Setup::sack() }.connected();
    rig.write(&[1; 40_000]).unwrap();
    rig.sent();
    rig.pass(ms(20));
    rig.ack(OURS + 1 + 14_600, &[]);
    rig.none();
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.set_options(cx, SocketOptions::default()));
    assert!(rig.sent().len() > 10);
}
