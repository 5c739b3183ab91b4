//! Observers of a core's connections: mostly none, or any number of probes, each of which sees everything.

pub(crate) mod watch;

use base::{Duration, FlowKey, Instant};
use std::any::Any;
use tcp::{Incident, Probe, Seen, State, Stray};

use crate::core::Core;
use crate::probes::watch::ProbeId;

/// Several of them as one. Exists only while there are several: mostly one watches, and is called without a detour.
struct Probes(Vec<Box<dyn Probe + Send>>);

impl Probe for Probes {
    fn packet(&mut self, seen: &Seen<'_>) {
        self.0.iter_mut().for_each(|probe| probe.packet(seen));
    }

    fn wants_each(&self) -> bool {
        self.0.iter().any(|probe| probe.wants_each())
    }

    fn state(&mut self, now: Instant, key: &FlowKey, from: State, to: State) {
        self.0.iter_mut().for_each(|probe| probe.state(now, key, from, to));
    }

    fn incident(&mut self, now: Instant, key: &FlowKey, incident: &Incident) {
        self.0.iter_mut().for_each(|probe| probe.incident(now, key, incident));
    }

    fn round_trip(&mut self, now: Instant, key: &FlowKey, sample: Duration) {
        self.0.iter_mut().for_each(|probe| probe.round_trip(now, key, sample));
    }

    fn stray(&mut self, now: Instant, outbound: bool, key: &FlowKey, whose: Stray) {
        self.0.iter_mut().for_each(|probe| probe.stray(now, outbound, key, whose));
    }

    fn pause(&mut self) {
        self.0.iter_mut().for_each(|probe| probe.pause());
    }
}

impl Core {
    /// Attaches a probe that sees every segment of every connection from now on.
    pub fn attach(&mut self, probe: Box<dyn Probe + Send>) -> ProbeId {
        self.probes_begun += 1;
        let id = ProbeId(self.probes_begun);
        self.probe_ids.push(id);
        self.shared.probes = Some(match self.shared.probes.take() {
            None => probe,
            Some(mut known) => match several(&mut known) {
                Some(all) => {
                    all.push(probe);
                    known
                }
                None => Box::new(Probes(vec![known, probe])),
            },
        });
        id
    }

    /// The first probe of this type, if one is attached, and its id.
    pub fn probe<T: Probe>(&mut self) -> Option<(ProbeId, &mut T)> {
        let known = self.shared.probes.as_mut()?;
        let alone = self.probe_ids.len() == 1;
        let all = if alone { std::slice::from_mut(known) } else { several(known)? };
        self.probe_ids.iter().zip(all).find_map(|(id, probe)| {
            let probe: &mut dyn Any = &mut **probe;
            Some((*id, probe.downcast_mut()?))
        })
    }

    /// Detaches a probe and gives it back; `None` if it is not attached.
    pub fn detach(&mut self, id: ProbeId) -> Option<Box<dyn Probe + Send>> {
        let at = self.probe_ids.iter().position(|known| *known == id)?;
        self.probe_ids.remove(at);
        let mut known = self.shared.probes.take()?;
        let Some(all) = several(&mut known) else { return Some(known) };
        let probe = all.remove(at);
        self.shared.probes = if all.len() == 1 { all.pop() } else { Some(known) };
        Some(probe)
    }
}

/// The probes that this one stands for, if it does.
fn several(probe: &mut Box<dyn Probe + Send>) -> Option<&mut Vec<Box<dyn Probe + Send>>> {
    let probe: &mut dyn Any = &mut **probe;
    probe.downcast_mut().map(|Probes(all)| all)
}

#[cfg(test)]
mod tests;
