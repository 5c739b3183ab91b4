//! AIMD(a, b): `a` segments more a round trip, `b` percent less for a loss. Everything else (slow start, timeouts,
//! undo) is what all window-based policies share: `cc::Classical` has it, and a `Law` is what is left to say.

use cc::{AckSample, Classical, Law, Part, Reno, Signal, SignalInfo, Tunable, TunableError};

/// The law.
#[derive(Clone, Debug)]
struct Aimd {
    a: i64,
    b: i64,
}

impl Default for Aimd {
    fn default() -> Self {
        Aimd { a: 2, b: 30 }
    }
}

const A: Tunable = Tunable { name: "a", min: 1, max: 1000, help: "Segments that a round trip adds." };
const B: Tunable = Tunable { name: "b", min: 1, max: 90, help: "What a loss takes, percent." };

impl Law for Aimd {
    const NAME: &'static str = "aimd";

    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        reno.add_per_window(self.a as u32 * Reno::ONE, bytes, ack);
    }

    fn keep(&mut self, signal: Signal, _: &SignalInfo, _: &Reno) -> Part {
        match signal {
            Signal::Timeout { .. } => cc::HALF,
            Signal::Loss | Signal::Ecn => (100 - self.b as u32, 100),
        }
    }

    fn tunables(&self) -> &'static [Tunable] {
        &[A, B]
    }

    fn tunable(&self, name: &str) -> Option<i64> {
        match name {
            "a" => Some(self.a),
            "b" => Some(self.b),
            _ => None,
        }
    }

    fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        match name {
            "a" => self.a = A.checked(value)?,
            "b" => self.b = B.checked(value)?,
            _ => return Err(TunableError::Unknown),
        }
        Ok(())
    }
}

policy::export!("aimd", Classical<Aimd>, Classical::<Aimd>::new);
