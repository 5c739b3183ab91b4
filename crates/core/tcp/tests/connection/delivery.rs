//! Goal: a policy that asks for delivery rates gets the path's, never more, whatever is lost, and knows when it was the
//! application that sent too little.

use std::sync::{Arc, Mutex};

use base::{Duration, Instant};
use cc::{AckSample, Control, Controller, Needs, PathInfo, RateSample, Signal, SignalInfo, Window};
use tcp::State;

use crate::host::ms;
use crate::net::{Link, Net};
use crate::rig::Setup;

/// A window that never changes, and what was told.
struct Recorder {
    cwnd: u32,
    unmetered: bool,
    told: Arc<Mutex<Vec<RateSample>>>,
}

impl Controller for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }
    fn needs(&self) -> Needs {
        Needs { rates: true, unmetered: self.unmetered, ..Needs::default() }
    }
    fn on_ack(&mut self, ack: &AckSample) {
        self.told.lock().unwrap().extend(ack.rate.copied());
    }
    fn on_congestion(&mut self, _: Signal, _: &SignalInfo) {}
    fn on_recovery_end(&mut self, _: &SignalInfo) {}
    fn on_idle_restart(&mut self, _: Instant, _: Duration, _: &PathInfo) {}
    fn on_mss_change(&mut self, _: u32) {}
    fn window(&self) -> Window {
        Window { cwnd: self.cwnd, ssthresh: u32::MAX, pacing: None }
    }
}

const RATE: u64 = 2_000_000;

/// `bytes` with this window over 20 ms; what the policy was told.
fn samples(seed: u64, cwnd: u32, loss: f64, bytes: u64) -> Vec<RateSample> {
    let link = Link { delay: ms(10), rate: RATE, queue: 1_000_000, loss, ..Link::default() };
    let mut net = Net::new(seed, true, [bytes, 0]).link(link);
    let told = Arc::new(Mutex::new(Vec::new()));
    net.hosts[0].connect(net.now);
    let end = net.now + Duration::from_secs(300);
    while net.hosts[0].state() == State::SynSent {
        net.step(end);
    }
    let recorder = Recorder { cwnd, unmetered: false, told: told.clone() };
    let now = net.now;
    net.hosts[0].with(now, |conn, cx| conn.set_control(cx, Control::Boxed(Box::new(recorder))));
    net.resume(Duration::from_secs(300));
    let samples = told.lock().unwrap();
    samples.clone()
}

#[test]
fn the_rate_is_the_paths_and_never_more() {
    for (seed, loss) in [(1, 0.0), (2, 0.0), (3, 0.01), (4, 0.05), (5, 0.05)] {
        let told = samples(seed, 120_000, loss, 4_000_000);
        assert!(told.len() > 100, "seed {seed}: {} samples", told.len());
        let best = told.iter().map(|sample| sample.rate().bytes_per_sec()).max().unwrap();
        assert!(best <= RATE, "seed {seed}: {best}");
        assert!(best * 100 >= RATE * 93, "seed {seed}: {best}: headers take the rest");
        let mut last = 0;
        for sample in &told {
            assert!(sample.total >= last && sample.prior <= sample.total, "seed {seed}: {sample:?}");
            assert!(
                sample.interval >= ms(20) && sample.in_flight <= 120_000 + 1_460,
                "seed {seed}: {sample:?}"
            );
            last = sample.total;
        }
        let lost: u64 = told.iter().map(|sample| u64::from(sample.newly_lost)).sum();
        assert_eq!(lost > 0, loss > 0.0, "seed {seed}");
    }
}

#[test]
fn a_window_below_what_the_path_holds_shows() {
    let told = samples(7, 20_000, 0.0, 1_000_000);
    let best = told.iter().map(|sample| sample.rate().bytes_per_sec()).max().unwrap();
    assert!((800_000..=1_000_000).contains(&best), "{best}: 20,000 bytes in 20 ms and a little");
    // Only the end of the stream is the application's doing.
    let limited = told.iter().filter(|sample| sample.app_limited).count();
    assert!(limited * 10 < told.len(), "{limited} of {}", told.len());
}

#[test]
fn an_application_that_sends_little_is_known_as_such() {
    let told = samples(9, 1_000_000, 0.0, 10_000);
    assert!(told.iter().skip(1).all(|sample| sample.app_limited), "{told:?}");
}

/// Segments that leave when SACK tells that the first four of ten are lost, with a window of ten.
fn sent_into_a_recovery(unmetered: bool) -> usize {
    let mut rig = Setup::sack().connected();
    let recorder = Recorder { cwnd: 14_600, unmetered, told: Arc::default() };
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.set_control(cx, Control::Boxed(Box::new(recorder))));
    rig.write(&[1; 60_000]).unwrap();
    let sent = rig.sent();
    assert_eq!(sent.len(), 10);
    rig.pass(ms(20));
    rig.ack(sent[0].seq, &[(sent[4].seq, sent[9].end())]);
    assert!(rig.host.conn().info(rig.now).recovery);
    rig.sent().len()
}

#[test]
fn whoever_is_not_metered_fills_the_window_in_a_recovery() {
    assert_eq!(sent_into_a_recovery(true), 10, "nothing is left in the network");
    let metered = sent_into_a_recovery(false);
    assert!((1..=7).contains(&metered), "what arrived, and a segment: {metered}");
}
