//! Tracers of the static tracepoints (USDT) of this program: noticed once a turn, and given a probe while they are
//! attached.

use trace::Points;
use usdt::PacketDropped;

use crate::core::Core;
use crate::probes::ProbeId;
use crate::stats::PacketDrop;

/// State of a core while a tracer is attached.
pub(crate) struct Tracer {
    probe: ProbeId,
    /// Packets dropped by reason, as far as they were told.
    told: [u64; PacketDrop::ALL.len()],
}

impl Core {
    /// An observer looks at a point, or did until now: attaches the probe or detaches it, and tells what was dropped
    /// since the turn before.
    #[cold]
    pub(crate) fn follow_tracers(&mut self) {
        match self.tracer.take() {
            None => {
                let probe = self.attach(Box::new(Points::new()));
                self.tracer = Some(Box::new(Tracer { probe, told: self.drops.counts() }));
            }
            Some(tracer) if !usdt::watched() => {
                self.detach(tracer.probe);
            }
            Some(mut tracer) => {
                if PacketDropped::is_watched() {
                    self.tell_drops(&mut tracer);
                }
                self.tracer = Some(tracer);
            }
        }
    }

    fn tell_drops(&self, tracer: &mut Tracer) {
        let now = self.drops.counts();
        for ((reason, &now), told) in PacketDrop::ALL.iter().zip(&now).zip(&mut tracer.told) {
            let news = now - std::mem::replace(told, now);
            if news > 0 {
                let (why, length) = usdt::text(reason.name());
                PacketDropped { why, length, packets: news }.reach();
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
}
