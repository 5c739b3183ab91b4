//! Who watches a core's connections: nobody, mostly, or any number of probes, each of which sees everything.

use base::{Duration, FlowKey, Instant};
use std::any::Any;
use tcp::{Incident, Probe, Seen, State, Stray};

use crate::core::Core;

/// A probe of this core.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProbeId(u64);

/// Those that watch. Exists only while there are some, so that a core which nobody watches looks at one pointer.
pub(crate) struct Probes(Vec<(ProbeId, Box<dyn Probe + Send>)>);

impl Probe for Probes {
    fn packet(&mut self, seen: &Seen<'_>) {
        self.0.iter_mut().for_each(|(_, probe)| probe.packet(seen));
    }

    fn state(&mut self, now: Instant, key: &FlowKey, from: State, to: State) {
        self.0.iter_mut().for_each(|(_, probe)| probe.state(now, key, from, to));
    }

    fn incident(&mut self, now: Instant, key: &FlowKey, incident: &Incident) {
        self.0.iter_mut().for_each(|(_, probe)| probe.incident(now, key, incident));
    }

    fn round_trip(&mut self, now: Instant, key: &FlowKey, sample: Duration) {
        self.0.iter_mut().for_each(|(_, probe)| probe.round_trip(now, key, sample));
    }

    fn stray(&mut self, now: Instant, outbound: bool, key: &FlowKey, whose: Stray) {
        self.0.iter_mut().for_each(|(_, probe)| probe.stray(now, outbound, key, whose));
    }

    fn pause(&mut self) {
        self.0.iter_mut().for_each(|(_, probe)| probe.pause());
    }
}

impl Probes {
    /// The only one, mostly; otherwise all of them as one.
    #[inline]
    pub(crate) fn as_one(&mut self) -> &mut dyn Probe {
        if self.0.len() == 1 { &mut *self.0[0].1 } else { self }
    }
}

impl Core {
    /// Attaches a probe that sees every segment of every connection from now on.
    pub fn attach(&mut self, probe: Box<dyn Probe + Send>) -> ProbeId {
        self.probes_begun += 1;
        let id = ProbeId(self.probes_begun);
        self.shared.probes.get_or_insert_with(|| Box::new(Probes(Vec::new()))).0.push((id, probe));
        id
    }

    /// The first probe of this type, if one is attached, and its id.
    pub fn probe<T: Probe>(&mut self) -> Option<(ProbeId, &mut T)> {
        let all = &mut self.shared.probes.as_mut()?.0;
        all.iter_mut().find_map(|(id, probe)| {
            let probe: &mut dyn Any = &mut **probe;
            Some((*id, probe.downcast_mut()?))
        })
    }

    /// Detaches a probe and gives it back; `None` if it is not attached.
    pub fn detach(&mut self, id: ProbeId) -> Option<Box<dyn Probe + Send>> {
        let all = &mut self.shared.probes.as_mut()?.0;
        let at = all.iter().position(|(known, _)| *known == id)?;
        let (_, probe) = all.remove(at);
        if all.is_empty() {
            self.shared.probes = None;
        }
        Some(probe)
    }
}

#[cfg(test)]
mod tests {
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
        assert!(core.detach(first).is_some() && core.detach(first).is_none());
        happen(&mut core);
        assert!(core.detach(second).is_some() && core.shared.probes.is_none());
        happen(&mut core);
        assert_eq!(seen.map(|count| count.load(Relaxed)), [2, 2]);
    }
}
