//! Goal: every probe sees everything while it is attached, and nothing before or after.
use super::*;
use crate::CoreConfig;
use base::{Addr, Endpoint};
use pio::{PairConfig, pair};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts changes of state.
struct Count(Arc<AtomicU32>);

impl Probe for Count {
    fn packet(&mut self, _: &Seen<'_>) {}
    fn state(&mut self, _: Instant, _: &FlowKey, _: State, _: State) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Other;

impl Probe for Other {
    fn packet(&mut self, _: &Seen<'_>) {}
    fn state(&mut self, _: Instant, _: &FlowKey, _: State, _: State) {}
}

#[test]
fn each_sees_what_happens_while_it_is_attached() {
    let (port, _peer) = pair(&PairConfig::default()).unwrap();
    let mut core = Core::new(CoreConfig::default(), Box::new(port));
    let end = Endpoint::new(Addr::v4([192, 0, 2, 1]), 7);
    let key = FlowKey::new(end, end);
    let seen: [Arc<AtomicU32>; 2] = Default::default();
    let happen = |core: &mut Core| {
        let cx = core.shared.cx(Instant::ZERO);
        if let Some(probe) = cx.probe {
            probe.state(Instant::ZERO, &key, State::SynSent, State::Established);
        }
    };
    happen(&mut core);
    let first = core.attach(Box::new(Count(seen[0].clone())));
    happen(&mut core);
    let second = core.attach(Box::new(Count(seen[1].clone())));
    happen(&mut core);
    assert_eq!(core.probe::<Count>().map(|(id, count)| (id, count.0.load(Relaxed))), Some((first, 2)));
    let third = core.attach(Box::new(Other));
    assert_eq!(core.probe::<Other>().map(|(id, _)| id), Some(third));
    assert!(core.detach(third).is_some() && core.probe::<Other>().is_none());
    assert!(core.detach(first).is_some() && core.detach(first).is_none());
    assert_eq!(core.probe::<Count>().map(|(id, count)| (id, count.0.load(Relaxed))), Some((second, 1)));
    happen(&mut core);
    assert!(core.detach(second).is_some() && core.shared.probes.is_none());
    happen(&mut core);
    assert_eq!(seen.map(|count| count.load(Relaxed)), [2, 2]);
}
