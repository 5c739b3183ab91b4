//! Goal: whatever the link does, the bytes arrive, in order, once, and the connection ends; nothing stalls.
//! Seeded: a failure names the seed, and `Net::new(seed, ...)` with the same link replays it.

use base::{Duration, Rng};

use crate::host::ms;
use crate::net::{Link, Net};

/// The seeds of a test: `0..most`, or those that `SEEDS=from..to` names.
fn seeds(most: u64) -> core::ops::Range<u64> {
    let Ok(text) = std::env::var("SEEDS") else { return 0..most };
    let (from, to) = text.split_once("..").expect("SEEDS=from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

#[test]
fn a_clean_link() {
    for v4 in [true, false] {
        let mut net = Net::new(1, v4, [1_000_000, 300_000]);
        net.run(minutes(3));
        assert_eq!(net.lost, 0);
        for host in &net.hosts {
            assert_eq!((host.counters.retransmits, host.counters.timeouts), (0, 0), "nothing was lost");
        }
        assert!(net.police.iter().all(|p| p.resets == 0));
    }
}

#[test]
fn nothing_to_say() {
    for totals in [[0, 0], [1, 0], [0, 1], [1, 1]] {
        Net::new(7, true, totals).run(minutes(3));
    }
}

fn bad(rng: &mut Rng) -> Link {
    Link {
        delay: ms(1 + rng.below(60)),
        jitter: ms(rng.below(20)),
        loss: rng.below(8) as f64 / 100.0,
        duplicate: rng.below(5) as f64 / 100.0,
        reorder: rng.below(10) as f64 / 100.0,
        ..Link::default()
    }
}

#[test]
fn bad_links() {
    for seed in seeds(60) {
        let mut rng = Rng::new(seed);
        let totals = [rng.below(200_000), rng.below(200_000)];
        let mut net = Net::new(seed, seed % 2 == 0, totals);
        net.links = [bad(&mut rng), bad(&mut rng)];
        vary(&mut net, &mut rng);
        net.run(minutes(60));
    }
}

/// Switches features on and off, so that each meets the others.
fn vary(net: &mut Net, rng: &mut Rng) {
    for i in 0..2 {
        let (host, app) = (&mut net.hosts[i], &mut net.apps[i]);
        host.config.timestamps = rng.chance(0.7);
        host.config.sack = rng.chance(0.7);
        host.config.window_scaling = rng.chance(0.7);
        let policies: Vec<_> = cc::Registry::built_in().collect();
        host.control = policies[rng.below(policies.len() as u64) as usize];
        host.options.nodelay = rng.chance(0.3);
        host.mtu = [1500, 1500, 1280, 9000][rng.below(4) as usize];
        if rng.chance(0.4) {
            let size = 2048 + rng.below(30_000) as u32;
            host.config.rcvbuf = (size, size.max(60_000));
        }
        if rng.chance(0.3) {
            host.limits.max_payload = u32::from(host.mtu);
        }
        if rng.chance(0.2) {
            host.late = ms(rng.below(30));
        }
        if rng.chance(0.2) {
            host.options.rcvbuf = 3000 + rng.below(100_000) as u32;
            host.options.sndbuf = 3000 + rng.below(100_000) as u32;
        }
        if rng.chance(0.3) {
            app.rest = ms(rng.below(80));
            app.read_max = 500 + rng.below(20_000) as usize;
        }
    }
    net.merge = ms(rng.below(4));
    // Clocks of 32 bits wrap: microseconds after 71 minutes, milliseconds after 49 days.
    let wraps = [10_000_000, u64::from(u32::MAX), 1_000 * u64::from(u32::MAX)];
    net.now = base::Instant::from_micros(wraps[rng.below(3) as usize] - rng.below(5_000_000));
    if rng.chance(0.2) {
        net.links[rng.below(2) as usize].mtu = 1300;
    }
    let mtu = net.hosts[0].mtu.min(net.hosts[1].mtu);
    net.hosts.iter_mut().for_each(|host| host.mtu = mtu);
}

#[test]
fn a_terrible_link() {
    for seed in seeds(10) {
        let link = Link {
            delay: ms(30),
            jitter: ms(50),
            loss: 0.25,
            duplicate: 0.1,
            reorder: 0.2,
            ..Link::default()
        };
        Net::new(seed, true, [30_000, 30_000]).link(link).run(minutes(600));
    }
}

#[test]
fn a_starved_pool() {
    for seed in seeds(10) {
        let mut net = Net::new(seed, true, [200_000, 200_000]).link(Link { loss: 0.02, ..Link::default() });
        for host in &mut net.hosts {
            host.pool = tcp::Pool::new(12);
        }
        net.run(minutes(120));
    }
}

#[test]
fn a_thin_pipe_with_a_short_queue() {
    for seed in seeds(5) {
        let link = Link { delay: ms(20), rate: 250_000, queue: 20_000, ..Link::default() };
        let mut net = Net::new(seed, true, [1_000_000, 0]).link(link);
        net.run(minutes(5));
        let took = net.now.since(base::Instant::from_secs(10));
        // 60 s of TIME-WAIT at the end are not transfer.
        let transfer = took.saturating_sub(Duration::from_secs(60));
        assert!(transfer < Duration::from_millis(6500), "1 MB at 250 kB/s took {transfer:?}, seed {seed}");
        // A retransmission that the queue drops again may need the timer; nothing else does.
        let counters = &net.hosts[0].counters;
        assert!(counters.timeouts <= 1 && counters.retransmits < 100, "seed {seed}: {counters:?}");
    }
}

#[test]
fn buffers_grow_to_fill_a_long_fat_pipe() {
    let link = Link { delay: ms(50), rate: 125_000_000 / 4, queue: 16_000_000, ..Link::default() };
    let mut net = Net::new(3, true, [60_000_000, 0]).link(link);
    net.apps[1].read_max = 65_536;
    net.run(minutes(5));
    let transfer = net.now.since(base::Instant::from_secs(10)).saturating_sub(Duration::from_secs(60));
    let rate = 60_000_000.0 / transfer.as_secs_f64();
    assert!(rate > 0.6 * 31_250_000.0, "{:.1} of 31.25 MB/s, {transfer:?}", rate / 1e6);
}

#[test]
fn a_reader_slower_than_the_link() {
    let mut net = Net::new(5, true, [400_000, 0]);
    net.apps[1].read_max = 4_000;
    net.apps[1].rest = ms(15);
    net.hosts[1].config.rcvbuf = (16_384, 32_768);
    net.run(minutes(10));
    assert_eq!(net.hosts[0].counters.timeouts, 0, "a closed window is no loss");
}

#[test]
fn both_open_at_once() {
    for seed in seeds(20) {
        let mut rng = Rng::new(seed);
        let mut net = Net::new(seed, true, [rng.below(50_000), rng.below(50_000)]);
        net.links = [bad(&mut rng), bad(&mut rng)];
        vary(&mut net, &mut rng);
        net.hosts[1].listens = false;
        net.cross = true;
        net.run(minutes(60));
    }
}

#[test]
fn opened_by_a_cookie() {
    for seed in seeds(30) {
        let mut rng = Rng::new(seed);
        let mut net = Net::new(seed, seed % 2 == 0, [1 + rng.below(50_000), rng.below(50_000)]);
        net.links = [bad(&mut rng), bad(&mut rng)];
        vary(&mut net, &mut rng);
        net.hosts[1].jar = Some(tcp::CookieJar::new(base::SipKey::new(seed, 1)));
        net.run(minutes(60));
    }
}

#[test]
fn the_application_is_killed_at_any_moment() {
    for seed in seeds(60) {
        let mut rng = Rng::new(seed);
        let mut net = Net::new(seed, seed % 2 == 0, [rng.below(200_000), rng.below(200_000)]);
        net.links = [bad(&mut rng), bad(&mut rng)];
        vary(&mut net, &mut rng);
        for host in &mut net.hosts {
            // The dead end's RST may be lost, and a reader that says nothing would wait for ever.
            host.options.keepalive = true;
            host.options.keep_idle = minutes(1);
        }
        net.kill = Some((rng.below(2) as usize, net.now + ms(rng.below(3000))));
        net.run(minutes(60));
    }
}

/// RFC 7323, 5.4-1.
#[test]
fn the_timestamp_clock_wraps() {
    for (seed, usec_timestamps) in seeds(10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let link = Link { jitter: ms(5), loss: 0.03, ..Link::default() };
        let mut net = Net::new(seed, true, [200_000, 200_000]).link(link);
        let (ticks, soon) =
            if usec_timestamps { (net.now.as_micros(), 200_000) } else { (net.now.as_millis(), 200) };
        for host in &mut net.hosts {
            host.config.usec_timestamps = usec_timestamps;
            host.ts_offset = 0u32.wrapping_sub(ticks as u32 + soon + seed as u32);
        }
        net.run(minutes(10));
    }
}

/// Runs until `at` after now, then changes the links.
fn run_then(net: &mut Net, at: Duration, change: impl Fn(&mut Link)) {
    net.hosts[0].connect(net.now);
    let at = net.now + at;
    while net.now < at {
        net.step(at + minutes(10));
    }
    net.links.iter_mut().for_each(change);
}

#[test]
fn an_outage_is_survived() {
    for seed in seeds(10) {
        let mut net = Net::new(seed, true, [3_000_000, 300_000]).link(Link {
            rate: 200_000,
            queue: 50_000,
            ..Link::default()
        });
        run_then(&mut net, ms(2000 + 37 * (seed % 100)), |link| link.loss = 1.0);
        let down = net.now;
        while net.now < down + Duration::from_secs(20) {
            net.step(down + minutes(10));
        }
        net.links.iter_mut().for_each(|link| link.loss = 0.0);
        net.resume(minutes(10));
        let took = net.now.since(down).saturating_sub(Duration::from_secs(60));
        assert!(
            took < Duration::from_secs(20 + 26 + 20),
            "seed {seed}: {took:?}, backoff doubles at most the outage"
        );
    }
}

#[test]
fn a_path_that_vanishes_is_given_up() {
    let mut net = Net::new(1, true, [3_000_000, 3_000_000]).link(Link {
        rate: 200_000,
        queue: 50_000,
        ..Link::default()
    });
    run_then(&mut net, ms(2000), |link| link.loss = 1.0);
    net.kill = Some((0, net.now + minutes(60)));
    net.resume(minutes(120));
    assert_eq!(net.hosts[0].conn.as_ref().map(|conn| conn.state()), None, "finished");
    assert!(net.hosts.iter().all(|host| host.counters.timeouts >= 15), "R2");
}

#[test]
fn a_round_trip_that_grows_suddenly_is_no_loss() {
    // Timestamps, reports of duplicates or F-RTO tell that nothing was lost; without any of them it is unknown.
    for told_by in ["timestamps", "sack", "frto", "nothing"] {
        let mut net = Net::new(1, true, [2_000_000, 0]).link(Link {
            rate: 500_000,
            queue: 1_000_000,
            ..Link::default()
        });
        // Small enough for the queue never to fill.
        net.hosts[0].options.sndbuf = 20_000;
        let config = &mut net.hosts[0].config;
        (config.timestamps, config.sack) = (told_by == "timestamps", told_by == "sack");
        config.frto = told_by == "frto";
        run_then(&mut net, ms(1500), |link| link.delay = ms(400));
        net.resume(minutes(10));
        let counters = &net.hosts[0].counters;
        assert!(counters.timeouts <= 4, "{counters:?}");
        let undone = counters.spurious_recoveries > 0;
        assert_eq!(undone, told_by != "nothing", "RFC 3522, 3708, 5682: {told_by} {counters:?}");
    }
}

#[test]
fn acknowledgments_lost_by_half() {
    for seed in seeds(5) {
        let mut net = Net::new(seed, true, [1_000_000, 0]);
        net.links[1].loss = 0.5;
        net.run(minutes(60));
        let counters = &net.hosts[0].counters;
        assert!(counters.retransmits < 60, "seed {seed}: {counters:?}");
    }
}

#[test]
fn losses_cost_what_they_must() {
    for (sack, timestamps) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut lost, mut retransmits, mut timeouts, mut spurious) = (0, 0, 0, 0);
        for seed in seeds(30) {
            let mut net = Net::new(seed, true, [500_000, 0]);
            net.links[0].loss = 0.03;
            for host in &mut net.hosts {
                (host.config.sack, host.config.timestamps) = (sack, timestamps);
                host.control = if seed % 2 == 0 { "cubic" } else { "newreno" };
            }
            net.run(minutes(5));
            let took = net.now.since(base::Instant::from_secs(10)).saturating_sub(Duration::from_secs(60));
            // Timeouts make up most of it: each is 200 ms and a round trip.
            assert!(took < ms(2750), "seed {seed}: 500 kB with 3 % loss over 20 ms took {took:?}");
            let counters = &net.hosts[0].counters;
            (lost, retransmits) = (lost + net.lost, retransmits + counters.retransmits);
            (timeouts, spurious) = (timeouts + counters.timeouts, spurious + counters.spurious_recoveries);
        }
        let what = format!("sack {sack}, timestamps {timestamps}: {lost} lost");
        // Without SACK a timeout sends again what had arrived; with it hardly anything is sent twice in vain.
        assert!(
            10 * retransmits < (if sack { 12 } else { 15 }) * lost,
            "{what}, {retransmits} retransmitted"
        );
        assert!(timeouts < lost / (if sack { 40 } else { 10 }), "{what}, {timeouts} timeouts");
        assert_eq!(spurious, 0, "{what}: nothing was reordered, so no repair was needless");
    }
}
