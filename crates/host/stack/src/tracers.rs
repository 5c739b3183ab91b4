//! Tracers of the static tracepoints (USDT) of this program: noticed once a turn, and given a probe while they are
//! attached.

pub(crate) mod tracer;

use trace::Points;
use usdt::PacketDropped;

use crate::core::Core;
use crate::stats::PacketDrop;
use crate::tracers::tracer::Tracer;

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
mod tests;
