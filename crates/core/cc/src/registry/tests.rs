//! Goal: every refusal is honest, counts follow connections, and an unknown name is never a default.
use super::*;
use crate::{AckSample, PathInfo, Signal, SignalInfo, Window};
use base::{Duration, Instant};

struct Fixed(&'static str);

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        self.0
    }
    fn on_ack(&mut self, _: &AckSample) {}
    fn on_congestion(&mut self, _: Signal, _: &SignalInfo) {}
    fn on_recovery_end(&mut self, _: &SignalInfo) {}
    fn on_idle_restart(&mut self, _: Instant, _: Duration, _: &PathInfo) {}
    fn on_mss_change(&mut self, _: u32) {}
    fn window(&self) -> Window {
        Window { cwnd: 4242, ssthresh: u32::MAX, pacing: None }
    }
}

fn fixed(name: &'static str) -> Factory {
    Arc::new(move || Some(Box::new(Fixed(name))))
}

/// RFC 9293, MAY-18.
#[test]
fn a_registered_policy_is_made_counted_and_removed() {
    let mut registry = Registry::new();
    registry.register("fixed", fixed("fixed")).unwrap();
    assert_eq!(registry.register("fixed", fixed("fixed")), Err(RegisterError::Exists));
    assert_eq!(registry.register("cubic", fixed("cubic")), Err(RegisterError::Exists));
    assert_eq!(registry.register("other", fixed("fixed")), Err(RegisterError::Misnamed));

    let control = registry.create("fixed").unwrap();
    assert_eq!((control.name(), control.window().cwnd), ("fixed", 4242));
    assert!(matches!(control, Control::Boxed(_)));
    let _second = registry.create("fixed").unwrap();
    assert_eq!(registry.remove("fixed"), Err(RemoveError::InUse { connections: 2 }));
    registry.retire("fixed");
    registry.retire(control.name());
    assert_eq!(registry.remove("fixed"), Ok(()));
    assert_eq!(registry.remove("fixed"), Err(RemoveError::Unknown));
    assert!(registry.create("fixed").is_err());
}

#[test]
fn the_default_is_cubic_until_changed_and_cannot_be_removed() {
    let mut registry = Registry::new();
    assert_eq!(registry.default_name(), "cubic");
    assert_eq!(registry.remove("cubic"), Err(RemoveError::IsDefault));
    assert_eq!(registry.set_default("bbr9"), Err(Withheld::Unknown));
    assert_eq!(registry.default_name(), "cubic");
    registry.set_default("newreno").unwrap();
    assert!(matches!(registry.create(registry.default_name()), Ok(Control::NewReno(_))));
    assert_eq!(registry.remove("cubic"), Ok(()));
    assert_eq!(registry.create("cubic").err(), Some(CreateError::Withheld(Withheld::Unknown)));
}

#[test]
fn a_withdrawn_policy_is_kept_by_those_who_have_it_and_given_to_nobody() {
    let mut registry = Registry::new();
    assert_eq!(registry.quiesce("magic"), Err(RemoveError::Unknown));
    assert_eq!(registry.quiesce("cubic"), Err(RemoveError::IsDefault));
    for refused in [Registry::quiesce, Registry::remove] {
        assert_eq!(refused(&mut registry, "newreno"), Err(RemoveError::Refuge));
    }
    let _flow = registry.create("htcp").unwrap();
    registry.quiesce("htcp").unwrap();
    assert_eq!(registry.create("htcp").err(), Some(CreateError::Withheld(Withheld::Unknown)));
    assert_eq!(registry.create_or_default(Some("htcp")).name(), "cubic");
    registry.retire("cubic");
    assert_eq!(registry.set_default("htcp"), Err(Withheld::Unknown));
    assert_eq!(registry.register("htcp", fixed("htcp")), Err(RegisterError::Exists));
    assert_eq!(registry.remove("htcp"), Err(RemoveError::InUse { connections: 1 }));
    assert_eq!(registry.find("htcp").map(|row| (row.quiesced, row.connections)), Some((true, 1)));
    assert!(registry.for_another_core().find("htcp").is_some_and(|row| row.quiesced));
    registry.resume("htcp").unwrap();
    assert!(registry.create("htcp").is_ok());
    assert_eq!(registry.resume("magic"), Err(Unknown));
}

#[test]
fn an_unfair_policy_is_for_those_who_allow_it() {
    let mut registry = Registry::new();
    for name in UNFAIR {
        assert_eq!(registry.create(name).err(), Some(CreateError::Withheld(Withheld::Unfair)));
        assert_eq!(registry.set_default(name), Err(Withheld::Unfair));
        assert_eq!(registry.create_or_default(Some(name)).name(), "cubic");
        assert_eq!(registry.find(name).map(|row| (row.unfair, row.offered)), Some((true, false)));
        registry.set_tunable(name, "n", 4).expect("to tune it is not to use it");
    }
    assert!(registry.available().all(|row| row.unfair || row.offered), "the others are for all");
    registry.allow_unfair(true).unwrap();
    assert!(registry.for_another_core().allows_unfair());
    let flow = registry.create("mulwin").unwrap();
    assert_eq!((flow.name(), flow.tunable("n")), ("mulwin", Some(4)));
    registry.set_default("multcp").unwrap();
    assert_eq!(registry.allow_unfair(false), Err(RemoveError::IsDefault));
    registry.set_default("newreno").unwrap();
    registry.allow_unfair(false).unwrap();
    assert_eq!(registry.find("mulwin").map(|row| (row.connections, row.offered)), Some((1, false)));
    assert!(registry.create("mulwin").is_err());
    registry.remove("multcp").unwrap();
    registry.register("multcp", fixed("multcp")).unwrap();
    assert!(registry.create("multcp").is_ok(), "a user's own policy of that name is that user's choice");
}

#[test]
fn a_policy_that_cannot_be_made_is_nobody_s() {
    use core::sync::atomic::{AtomicBool, Ordering};
    static WORKS: AtomicBool = AtomicBool::new(false);
    let make: Factory = Arc::new(|| {
        let made: Box<dyn Controller> = Box::new(Fixed("moody"));
        WORKS.load(Ordering::Relaxed).then_some(made)
    });
    let mut registry = Registry::new();
    assert_eq!(registry.register("moody", make.clone()), Err(RegisterError::Failed));
    WORKS.store(true, Ordering::Relaxed);
    registry.register("moody", make).unwrap();
    registry.set_default("moody").unwrap();
    WORKS.store(false, Ordering::Relaxed);
    assert_eq!(registry.create("moody").err(), Some(CreateError::Failed));
    assert_eq!(registry.set_tunable("moody", "magic", 1), Err(SetError::Failed));
    assert_eq!(registry.create_or_default(None).name(), REFUGE);
    let count = |name| registry.find(name).map(|row| row.connections);
    assert_eq!((count("moody"), count(REFUGE)), (Some(0), Some(1)));
}

/// Plain model of a registry.
struct Oracle {
    /// Name, connections, withdrawn?
    policies: Vec<(&'static str, u32, bool)>,
    default: &'static str,
    allow_unfair: bool,
    unfair: Vec<&'static str>,
}

impl Oracle {
    fn at(&mut self, name: &str) -> Option<&mut (&'static str, u32, bool)> {
        self.policies.iter_mut().find(|row| row.0 == name)
    }

    fn offered(&mut self, name: &str) -> Option<&mut (&'static str, u32, bool)> {
        let allowed = self.allow_unfair || !self.unfair.contains(&name);
        self.at(name).filter(|row| !row.2 && allowed)
    }

    fn refusal(&mut self, name: &str) -> Option<RemoveError> {
        let default = self.default;
        match self.at(name) {
            None => Some(RemoveError::Unknown),
            Some(_) if name == "newreno" => Some(RemoveError::Refuge),
            Some(_) if name == default => Some(RemoveError::IsDefault),
            Some(_) => None,
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), RemoveError> {
        if let Some(refusal) = self.refusal(name) {
            return Err(refusal);
        }
        match self.at(name).map_or(0, |row| row.1) {
            0 => {
                self.policies.retain(|row| row.0 != name);
                self.unfair.retain(|unfair| *unfair != name);
                Ok(())
            }
            connections => Err(RemoveError::InUse { connections }),
        }
    }
}

#[test]
fn a_thousand_lives_of_a_registry_agree_with_the_oracle() {
    const NAMES: [&str; 8] = ["cubic", "newreno", "htcp", "one", "two", "magic", "mulwin", "multcp"];
    for seed in 0..1_000 {
        let mut rng = base::Rng::new(seed);
        let mut registry = Registry::new();
        let policies = Registry::built_in().map(|name| (name, 0, false)).collect();
        let mut oracle = Oracle { policies, default: "cubic", allow_unfair: false, unfair: UNFAIR.into() };
        for step in 0..80 {
            let name = NAMES[rng.below(8) as usize];
            let context = alloc::format!("seed {seed}, step {step}, {name}");
            match rng.below(8) {
                0 if name == "magic" => {}
                0 => {
                    let taken = oracle.at(name).is_some();
                    let expected = if taken { Err(RegisterError::Exists) } else { Ok(()) };
                    assert_eq!(registry.register(name, fixed(name)), expected, "{context}");
                    if !taken {
                        oracle.policies.push((name, 0, false));
                    }
                }
                1 => {
                    let refusal = oracle.refusal(name);
                    assert_eq!(registry.quiesce(name).err(), refusal, "{context}");
                    if let (None, Some(row)) = (refusal, oracle.at(name)) {
                        row.2 = true;
                    }
                }
                2 => {
                    let known = oracle.at(name).map(|row| row.2 = false);
                    assert_eq!(registry.resume(name), known.ok_or(Unknown), "{context}");
                }
                3 => assert_eq!(registry.remove(name), oracle.remove(name), "{context}"),
                4 => {
                    let offered = oracle.offered(name).map(|row| row.1 += 1);
                    assert_eq!(registry.create(name).is_ok(), offered.is_some(), "{context}");
                }
                5 => {
                    if let Some(row) = oracle.at(name).filter(|row| row.1 > 0) {
                        row.1 -= 1;
                        registry.retire(name);
                    }
                }
                6 => {
                    let allow = step % 2 == 0;
                    let stays = !allow && oracle.unfair.contains(&oracle.default);
                    let refused = stays.then_some(RemoveError::IsDefault);
                    assert_eq!(registry.allow_unfair(allow).err(), refused, "{context}");
                    oracle.allow_unfair = allow || stays;
                }
                _ => {
                    let offered = oracle.offered(name).map(|row| row.0);
                    assert_eq!(registry.set_default(name).is_ok(), offered.is_some(), "{context}");
                    oracle.default = offered.unwrap_or(oracle.default);
                }
            }
            let rows: Vec<_> = registry
                .available()
                .map(|row| (row.name, row.connections, row.quiesced, row.default))
                .collect();
            let default = oracle.default;
            let expected =
                oracle.policies.iter().map(|&(name, n, quiesced)| (name, n, quiesced, name == default));
            assert_eq!(rows, expected.collect::<Vec<_>>(), "{context}");
        }
    }
}

#[test]
fn the_list_shows_order_default_and_counts() {
    let mut registry = Registry::new();
    registry.register("fixed", fixed("fixed")).unwrap();
    let _one = registry.create("newreno").unwrap();
    let rows: Vec<_> = registry.available().map(|row| (row.name, row.default, row.connections)).collect();
    let built_in = BUILT_IN.iter().map(|(name, _)| (*name, *name == "cubic", u32::from(*name == "newreno")));
    let wanted: Vec<_> = built_in.chain([("fixed", false, 0)]).collect();
    assert_eq!(rows, wanted);
    let elsewhere = registry.for_another_core();
    assert!(elsewhere.available().all(|row| row.connections == 0));
    assert_eq!(elsewhere.available().count(), BUILT_IN.len() + 1);
    assert_eq!(registry.find("newreno").map(|row| row.connections), Some(1));
    assert_eq!(registry.find("reno"), None);
}

#[test]
fn tunables_are_tried_kept_and_told_to_the_newborn() {
    let mut registry = Registry::new();
    assert_eq!(registry.set_tunable("magic", "hystart", 0), Err(SetError::Policy));
    assert_eq!(registry.set_tunable("vegas", "magic", 0), Err(SetError::Tunable(TunableError::Unknown)));
    let out = TunableError::OutOfRange { min: 0, max: 255 };
    assert_eq!(registry.set_tunable("newreno", "abc_limit", 256), Err(SetError::Tunable(out)));
    let abc_limit = |registry: &Registry| {
        let rows = registry.tunables("newreno").unwrap();
        rows.iter().find(|(row, _)| row.name == "abc_limit").map(|(_, value)| *value)
    };
    assert_eq!(abc_limit(&registry), Some(8));

    for limit in [0, 1] {
        assert_eq!(registry.set_tunable("newreno", "abc_limit", limit), Ok(()));
    }
    assert_eq!(abc_limit(&registry), Some(1));
    assert_eq!(registry.tunables("reno"), None);
    let grown = |registry: &mut Registry| {
        let mut lab = crate::tests::testing::Lab::new(registry.create("newreno").unwrap(), 10, None);
        lab.ack(2 * crate::tests::testing::MSS);
        lab.cwnd()
    };
    assert_eq!(grown(&mut registry), 11.0);
    assert_eq!(grown(&mut registry.for_another_core()), 11.0);
}

#[test]
fn a_full_registry_says_so() {
    let mut registry = Registry::new();
    for i in registry.entries.len()..POLICIES_MAX {
        let name: &'static str = alloc::format!("policy{i}").leak();
        registry.register(name, fixed(name)).unwrap();
    }
    assert_eq!(registry.register("more", fixed("more")), Err(RegisterError::Full));
}

/// A receiver that acknowledges each segment in ten pieces gains nothing from any policy (RFC 3465, section 2; RFC
/// 5681, section 3.1).
#[test]
fn dividing_acknowledgments_gains_nothing() {
    let mut registry = Registry::new();
    registry.allow_unfair(true).unwrap();
    let names: Vec<&str> = registry.available().map(|row| row.name).collect();
    for (name, ssthresh) in names.iter().flat_map(|name| [(*name, None), (*name, Some(10))]) {
        let [whole, divided] = [1, 10].map(|pieces| {
            let mut control = registry.create(name).unwrap();
            control.on_established(&crate::tests::testing::path(10, ssthresh));
            for nth in 0..200 {
                for _ in 0..pieces {
                    let rtt = Duration::from_millis(100);
                    control.on_ack(&AckSample {
                        now: Instant::from_millis(1_000 + 10 * nth),
                        bytes: crate::tests::testing::MSS / pieces,
                        sacked: 0,
                        segments: 1,
                        in_flight: control.window().cwnd,
                        rtt: Some(rtt),
                        srtt: rtt,
                        min_rtt: rtt,
                        rate: None,
                        window_limited: true,
                        in_recovery: false,
                        paced: false,
                        hystart: &crate::HyStartLimits::STANDARD,
                    });
                }
            }
            control.window().cwnd
        });
        assert!(divided <= whole + crate::tests::testing::MSS, "{name}: {divided} and {whole}");
    }
}
