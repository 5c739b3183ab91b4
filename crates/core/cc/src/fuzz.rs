//! Invariants that every policy holds for any input: driven from arbitrary bytes, by the tests below, by
//! `cargo xtask fuzz cc` and by the fuzz target alike.

use base::{Duration, Instant};

use crate::reno::WINDOW_MAX;
use crate::{
    AckSample, Bbr, Cdg, Control, Controller, Cubic, Dctcp, EcnFeedback, HTcp, HyStartLimits, MulTcp, MulWin,
    PathInfo, RateSample, Registry, Signal, SignalInfo, Vegas,
};

/// Drives each built-in policy through the life that `data` spells, checking its promises at every step. On the way
/// others take over, as a live connection's policy is replaced: what they promise holds from then on.
///
/// # Panics
/// When a window leaves its bounds, grows without leave, or a threshold falls below two segments; when a policy that
/// takes over does not take the window; and when a registry loses count.
pub fn fuzz(data: &[u8]) {
    let mut registry = Registry::new();
    let allowed = registry.allow_unfair(true);
    assert_eq!(allowed, Ok(()), "to allow is always possible");
    // Flows in one, of who can be several.
    let flows = 1 + i64::from(data.last().copied().unwrap_or(0) % 16);
    for name in [MulWin::NAME, MulTcp::NAME] {
        assert_eq!(registry.set_tunable(name, "n", flows), Ok(()));
    }
    for name in Registry::built_in() {
        if let Ok(policy) = registry.create(name) {
            let mut life = Life { policy, promises: Promises::of(name), registry };
            drive(&mut life, data);
            registry = life.registry;
            registry.retire(life.policy.name());
        }
    }
}

/// A policy, what it promises, and where the next comes from.
struct Life {
    policy: Control,
    promises: Promises,
    registry: Registry,
}

impl Life {
    /// Another policy takes over, or the same one anew (TCP_CONGESTION on a live connection): the window and the
    /// threshold carry over, whatever else either knew.
    fn switch(&mut self, world: &World, choice: u32) {
        let before = self.policy.window();
        let nth = choice as usize % Registry::built_in().count();
        let Some(name) = Registry::built_in().nth(nth) else { return };
        let Ok(next) = self.registry.create(name) else { return };
        self.registry.retire(self.policy.name());
        (self.policy, self.promises) = (next, Promises::of(name));
        let ssthresh = Some(before.ssthresh).filter(|&ssthresh| ssthresh != u32::MAX);
        self.policy.on_established(&world.path(before.cwnd, ssthresh));
        let after = self.policy.window();
        let window = before.cwnd.max(flows(&self.policy) * world.mss);
        assert_eq!(after.cwnd, window, "{:?}: took over another window", self.policy);
        let threshold = if self.promises.classical { before.ssthresh } else { u32::MAX };
        assert_eq!(after.ssthresh, threshold, "{:?}: took over another threshold", self.policy);
        let living: u32 = self.registry.available().map(|row| row.connections).sum();
        let own = self.registry.find(name).map(|row| row.connections);
        assert_eq!((living, own), (1, Some(1)), "{name}: the registry lost count");
    }
}

/// The operation by which another policy takes over.
const SWITCH: u32 = 0xff;

/// Where policies may differ.
struct Promises {
    /// May an acknowledgment that shows delay take from the window?
    yields_to_delay: bool,
    /// Most that a loss or a mark leaves of what was in flight, tenths.
    keeps: u64,
    /// Does it keep a window as RFC 5681 does? A policy with a model of the path answers losses by what it measures,
    /// has no threshold, and gives back what a repair took when that is over.
    classical: bool,
}

impl Promises {
    fn of(name: &str) -> Promises {
        let keeps = match name {
            // As little as nothing is taken where nearly nothing was marked; and CDG may find a loss no congestion.
            // And the loss of one of several flows is half of that one's share.
            Cdg::NAME | Dctcp::NAME | MulTcp::NAME => 10,
            HTcp::NAME | Cubic::NAME_OF_2009 => 8,
            _ => 7,
        };
        let classical = name != Bbr::NAME;
        Promises { yields_to_delay: matches!(name, Cdg::NAME | Vegas::NAME), keeps, classical }
    }
}

/// Flows that each have a segment in any case.
fn flows(policy: &Control) -> u32 {
    let n = policy.tunable("n").filter(|_| policy.name() == MulWin::NAME);
    n.map_or(1, |n| n as u32)
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u32> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(u32::from(first))
    }

    /// A number whose size is as arbitrary as its digits; 0 once the bytes are used up.
    fn number(&mut self) -> u32 {
        let shift = self.next().unwrap_or(0) % 25;
        let digits = self.next().unwrap_or(0) << 8 | self.next().unwrap_or(0);
        (digits << 16 | digits) >> (31 - shift)
    }
}

struct World {
    now: Instant,
    mss: u32,
    srtt: Duration,
    delivered: u64,
    /// The greatest window so far.
    peak: u32,
    hystart: &'static HyStartLimits,
}

impl World {
    fn path(&self, initial_window: u32, ssthresh: Option<u32>) -> PathInfo {
        PathInfo { mss: self.mss, srtt: Some(self.srtt), initial_window, ssthresh }
    }

    /// Returns the delivery sample of the acknowledgment, with the losses that `op` says.
    fn deliver(&mut self, ack: &AckSample, op: u32) -> RateSample {
        let prior = self.delivered.saturating_sub(u64::from(ack.in_flight) >> (op % 4));
        self.delivered += u64::from(ack.bytes);
        let lost = if op & 16 == 0 { 0 } else { ack.in_flight >> (op / 64 * 3) };
        RateSample {
            delivered: (self.delivered - prior).min(u64::from(u32::MAX)) as u32,
            interval: self.srtt.max(Duration::from_nanos(1)),
            total: self.delivered,
            prior,
            app_limited: op & 12 == 12,
            in_flight: ack.in_flight,
            lost,
            newly_lost: lost / 2,
        }
    }

    fn info(&self, flight_size: u32) -> SignalInfo {
        SignalInfo {
            now: self.now,
            flight_size,
            mss: self.mss,
            metered: flight_size & 1 == 0,
            after_mark: false,
        }
    }
}

fn drive(life: &mut Life, data: &[u8]) {
    let Life { policy, promises, .. } = life;
    let mut bytes = Bytes(data);
    let mut world = World {
        now: Instant::from_secs(1),
        mss: 1 + bytes.number() % 65_535,
        srtt: Duration::from_millis(40),
        delivered: 0,
        peak: 0,
        hystart: &HyStartLimits::STANDARD,
    };
    let remembered = bytes.number();
    let path = world.path(bytes.number(), (remembered > 0).then_some(remembered));
    let told = bytes.next().unwrap_or(2);
    let abc_limit = told % 4;
    world.hystart =
        [&HyStartLimits::STANDARD, &HyStartLimits::LEAST, &HyStartLimits::MOST][(told / 4 % 3) as usize];
    assert_eq!(policy.set_tunable("abc_limit", i64::from(abc_limit)).is_ok(), promises.classical);
    // Policies that have no such switches have nothing to do with them.
    for (bit, name) in [(64, "abe"), (128, "abe_frlossreduce")] {
        let _ = policy.set_tunable(name, i64::from(told & bit != 0));
    }
    policy.on_established(&path);
    check(policy, &world);
    while let Some(op) = bytes.next() {
        world.peak = world.peak.max(life.policy.window().cwnd);
        match op {
            SWITCH => life.switch(&world, bytes.next().unwrap_or(0)),
            _ => step(&mut life.policy, &life.promises, &mut world, op, &mut bytes),
        }
        check(&life.policy, &world);
    }
}

fn step(policy: &mut Control, promises: &Promises, world: &mut World, op: u32, bytes: &mut Bytes<'_>) {
    let before = policy.window();
    match op % 16 {
        0..8 => acknowledge(policy, promises, world, op, bytes),
        8 => congest(policy, promises, world, Signal::Loss, bytes),
        9 => {
            congest(policy, promises, world, Signal::Ecn, bytes);
            if op & 16 != 0 && policy.needs().losses_after_marks {
                lose_after_mark(policy, world, bytes);
            }
        }
        10 => congest(policy, promises, world, Signal::Timeout { nth: 1 + op / 16 % 4 }, bytes),
        11 => {
            policy.on_recovery_end(&world.info(bytes.number()));
            let same = policy.window().cwnd <= before.cwnd || !promises.classical;
            assert!(same, "{policy:?}: recovery's end is no reason to grow");
        }
        12 => {
            policy.on_spurious(Signal::Loss, world.now);
            assert!(policy.window().cwnd >= before.cwnd, "{policy:?}: an undo never takes");
        }
        13 => {
            let idle = Duration::from_millis(u64::from(bytes.number()));
            world.now += idle;
            policy.on_idle_restart(world.now, idle, &world.path(bytes.number(), None));
            assert!(policy.window().cwnd <= before.cwnd, "{policy:?}: idling is no reason to grow");
        }
        _ => {
            let mss = 1 + bytes.number() % 65_535;
            // As many segments as before, or as many bytes.
            let segments = u64::from(before.cwnd) * u64::from(mss.min(world.mss)) / u64::from(world.mss);
            world.mss = mss;
            policy.on_mss_change(mss);
            let allowed = (segments as u32).max(mss)..=before.cwnd.max(mss);
            assert!(allowed.contains(&policy.window().cwnd), "{policy:?}");
        }
    }
}

fn acknowledge(policy: &mut Control, promises: &Promises, world: &mut World, op: u32, bytes: &mut Bytes<'_>) {
    let before = policy.window();
    world.now += Duration::from_micros(u64::from(bytes.number()));
    world.srtt = Duration::from_micros(u64::from(bytes.number()));
    let ack = AckSample {
        now: world.now,
        bytes: bytes.number(),
        sacked: 0,
        segments: (op / 16) as u16 * 3,
        in_flight: before.cwnd,
        rtt: (op & 8 == 0).then_some(world.srtt),
        srtt: world.srtt,
        min_rtt: world.srtt,
        rate: None,
        window_limited: op & 1 == 0,
        in_recovery: op & 6 == 6,
        paced: op & 16 != 0,
        hystart: world.hystart,
    };
    if op & 32 != 0 {
        policy.on_ecn(&EcnFeedback {
            now: world.now,
            segments: ack.bytes / world.mss,
            marked_segments: ack.bytes / world.mss / 2,
            bytes: ack.bytes,
            marked_bytes: if op & 64 == 0 { ack.bytes / 2 } else { u32::MAX },
        });
    }
    let sample = world.deliver(&ack, op);
    policy.on_ack(&AckSample { rate: Some(&sample).filter(|_| op & 128 == 0), ..ack });
    if !promises.classical {
        // By what arrived, or back to what it was before it looked for the round trip; and four segments keep
        // acknowledgments coming, whatever is known (draft-ietf-ccwg-bbr, sections 5.3.4.4, 5.6.4.3 and 5.6.4.6).
        let grown = u64::from(before.cwnd.max(world.peak)) + u64::from(ack.bytes);
        let most = grown.max(4 * u64::from(world.mss));
        assert!(u64::from(policy.window().cwnd) <= most, "{policy:?}: {ack:?} is worth less than that");
        return assert_eq!(policy.window().ssthresh, u32::MAX);
    }
    let grown = i64::from(policy.window().cwnd) - i64::from(before.cwnd);
    assert!(grown >= 0 || promises.yields_to_delay, "{policy:?}: {ack:?} shrank the window by {}", -grown);
    // A mark, unlike a loss, does not end a scalable flow's growth.
    let leave = !ack.in_recovery || policy.wants_ect1() || policy.tunable("n").is_some_and(|n| n > 1);
    assert!(grown <= 0 || (ack.window_limited && leave), "{policy:?}: grew without leave");
    // Slow start may end and a whole window complete with the same acknowledgment.
    assert!(grown <= i64::from(ack.bytes + world.mss), "{policy:?}: {ack:?} is worth less than {grown}");
    // Only the first slow start may find by itself that it is over (RFC 9406).
    let threshold = policy.window().ssthresh;
    let found = before.ssthresh == u32::MAX && threshold == policy.window().cwnd.max(2 * world.mss);
    let yielded = promises.yields_to_delay && threshold <= before.cwnd.max(2 * world.mss);
    assert!(threshold == before.ssthresh || found || yielded, "{policy:?}: success moved the threshold");
}

fn congest(policy: &mut Control, promises: &Promises, world: &World, signal: Signal, bytes: &mut Bytes<'_>) {
    let before = policy.window();
    let flight = bytes.number();
    policy.on_congestion(signal, &world.info(flight));
    let after = policy.window();
    assert!(after.cwnd <= before.cwnd, "{policy:?}: {signal:?} widened the window");
    assert!(after.ssthresh >= 2 * world.mss, "{policy:?}: threshold below two segments");
    match signal {
        Signal::Timeout { nth } => {
            let left = before.cwnd.min(flows(policy) * world.mss);
            assert_eq!(after.cwnd, left, "{policy:?}: the loss window is one segment, of each flow");
            assert!(nth > 1 || !promises.classical || after.ssthresh >= 2 * flows(policy) * world.mss);
            assert!(
                nth == 1 || after.ssthresh == before.ssthresh,
                "{policy:?}: backing off moved the threshold"
            );
        }
        Signal::Loss | Signal::Ecn if !promises.classical => {}
        Signal::Loss | Signal::Ecn => {
            // RFC 8511: 0.8, and 0.85 of CUBIC's, where a mark counts for less.
            let lenient = signal == Signal::Ecn && policy.tunable("abe") == Some(1);
            let leaves = if matches!(policy.name(), Cubic::NAME | Cubic::NAME_OF_2009) { 85 } else { 80 };
            let percent = 10 * promises.keeps;
            let percent = if lenient { percent.max(leaves) } else { percent };
            // What answers in proportion to marks gives way from its window, and may give way by nothing.
            let scalable = signal == Signal::Ecn && policy.wants_ect1();
            let most = if scalable { before.cwnd.into() } else { u64::from(flight) * percent / 100 };
            let most = most.max(2 * u64::from(world.mss));
            assert!(u64::from(after.ssthresh) <= most, "{policy:?}: kept more than its part of {flight}");
            assert!(after.cwnd <= after.ssthresh, "{policy:?}: slow start right after {signal:?}");
        }
    }
}

/// A loss of the window that a mark has just reduced takes from what that left.
fn lose_after_mark(policy: &mut Control, world: &World, bytes: &mut Bytes<'_>) {
    let before = policy.window();
    let info = SignalInfo { after_mark: true, ..world.info(bytes.number()) };
    policy.on_congestion(Signal::Loss, &info);
    let after = policy.window();
    assert!(after.cwnd <= before.cwnd && after.ssthresh <= before.ssthresh, "{policy:?}: a loss widened it");
}

fn check(policy: &Control, world: &World) {
    let window = policy.window();
    assert!(window.cwnd >= world.mss, "{policy:?}: less than a segment of {}", world.mss);
    assert!(window.cwnd <= WINDOW_MAX, "{policy:?}: beyond any receive window");
    assert!(window.ssthresh >= 2 * world.mss, "{policy:?}: threshold below two segments");
}

#[cfg(test)]
mod tests;
