//! Goal: a core has the probe while an observer looks at a point, whichever, and only then.
use super::*;
use crate::CoreConfig;
use base::Instant;
use pio::{PairConfig, pair};
use usdt::Id;

#[test]
fn the_probe_is_there_while_somebody_looks() {
    let (port, _peer) = pair(&PairConfig::default()).unwrap();
    let mut core = Core::new(CoreConfig::default(), Box::new(port));
    let mut has_probe = |now: u64| {
        core.turn(Instant::from_millis(now)).unwrap();
        core.probe::<Points>().is_some()
    };
    assert!(!has_probe(0));
    for (i, &point) in Id::ALL.iter().enumerate() {
        let now = 10 * (i as u64 + 1);
        let look = usdt::look(point);
        assert!(has_probe(now) && has_probe(now + 1), "{point:?}");
        drop(look);
        assert!(!has_probe(now + 2) && !has_probe(now + 3));
    }
}
