//! Goal: stacks whose timestamps count microseconds are as robust as others, and the clock is what the setting says.

use crate::harness::{Family, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Instant, Rate};
use emu::{PipeConfig, Queue};
use std::cell::RefCell;
use std::rc::Rc;
use wire::packet::{Content, parse_frame};
use wire::tcp::Flags;

const TIMEOUT: Duration = Duration::from_secs(120);

fn path() -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        delay: Duration::from_millis(5),
        jitter: Duration::from_millis(1),
        queue: Queue::Strict(128 << 10),
        loss: 0.03,
        duplicate: 0.01,
        reorder: 0.03,
        reorder_by: Duration::from_millis(8),
        spares_neighbours: true,
        ..PipeConfig::default()
    }
}

fn setup(seed: u64) -> Setup {
    let mut setup = Setup::new(seed, Family::of(seed), path());
    (setup.client.tcp.usec_timestamps, setup.server.tcp.usec_timestamps) = (true, true);
    setup
}

/// RFC 7323, 5.4-1.
#[test]
fn bytes_arrive_and_the_clock_counts_microseconds() {
    seeded(0..12, |seed| {
        let mut pair = setup(seed).build();
        // When the client sent, and with which timestamp.
        let seen: Rc<RefCell<Vec<(Instant, u32)>>> = Rc::default();
        let (to, there) = (seen.clone(), pair.there);
        pair.net.watch(move |sight| {
            let read = parse_frame(sight.packet, sight.packet.len()).expect("a sound frame");
            if sight.pipe == there
                && let Content::Ip(ip) = read.content
                && ip.protocol == wire::protocol::TCP
            {
                let (_, _, segment) = ip.tcp(sight.packet).expect("a sound segment");
                if segment.flags == Flags::RST {
                    // An acknowledgment came when the connection was over: its answer has none (RFC 7323, section 3.2).
                    return;
                }
                let stamps = segment.options.timestamps.expect("they were agreed on");
                to.borrow_mut().push((sight.at, stamps.val));
            }
        });
        let (client, server) = Plan::both(400_000, 400_000);
        pair.serve(Plan { lazy: 0.01, ..server });
        pair.connect(client);
        pair.finish(TIMEOUT);
        for host in [pair.client(), pair.server()] {
            assert_eq!(
                (host.app.tally.complete, host.app.tally.received),
                (1, 400_000),
                "{}",
                pair.describe()
            );
        }
        // More may pass until all is clean.
        let seen = seen.take();
        let (Some(&(from, first)), Some(&(to, last))) = (seen.first(), seen.last()) else {
            panic!("packets")
        };
        let (passed, counted) = (to.since(from).as_micros() as u64, last.wrapping_sub(first));
        assert!(passed > 100_000 && u64::from(counted).abs_diff(passed) < 1_000, "{counted} of {passed} us");
        pair.assert_clean();
    });
}
