//! Bounds of the numbers in an experiment's file: one with a few zeros too many is an error that names the bound, not a
//! machine without memory.

use crate::spec::{Flow, Ills, Path, RUNS_MAX, Spec, SpecError};

/// Points of a series.
const SAMPLES_MAX: f64 = 1e6;
/// Flows of a run that have hosts of their own, and flows that arrive in time.
const FLOWS_MAX: u32 = 10_000;
const ARRIVALS_MAX: f64 = 1e6;
/// Seconds, also of virtual time: eleven days.
const SECONDS_MAX: f64 = 1e6;
/// Milliseconds of a delay.
const DELAY_MAX: f64 = 1e6;
/// Kilobits a second: 1 Tbit/s.
const RATE_MAX: f64 = 1e9;

/// Refuses a number at `place` that is not within its bounds, as what is not a number is not.
fn within(place: &str, name: &str, value: f64, min: f64, max: f64) -> Result<(), SpecError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let dot = if place.is_empty() { "" } else { "." };
    Err(SpecError(format!("{place}{dot}{name} = {value}: want {min} to {max}")))
}

impl Spec {
    /// Checks every number of a file.
    pub(crate) fn check_bounds(&self) -> Result<(), SpecError> {
        within("", "seconds", self.seconds, 1e-6, SECONDS_MAX)?;
        within("", "sample_ms", self.sample_ms, 1e-6, SECONDS_MAX * 1000.0)?;
        let samples = self.seconds * 1000.0 / self.sample_ms;
        if samples > SAMPLES_MAX {
            let (seconds, sample_ms) = (self.seconds, self.sample_ms);
            return Err(SpecError(format!(
                "{seconds} seconds every {sample_ms} ms: want 1 to {SAMPLES_MAX} samples"
            )));
        }
        within("", "discard", self.discard, 0.0, SECONDS_MAX)?;
        within("", "seeds", self.seeds as f64, 1.0, RUNS_MAX as f64)?;
        if let Some(one) = &self.path {
            one.check_bounds("path")?;
        }
        for (nth, hop) in self.hops.iter().enumerate() {
            hop.check_bounds(&format!("hop.{nth}"))?;
        }
        for (nth, group) in self.flows.iter().enumerate() {
            flow(&format!("flow.{nth}"), group, self)?;
        }
        if let Some(cbr) = &self.cbr {
            within("cbr", "bytes", cbr.bytes.into(), 28.0, 65_535.0)?;
            within("cbr", "every_ms", cbr.every_ms, 0.001, DELAY_MAX)?;
            within("cbr", "jitter_ms", cbr.jitter_ms, 0.0, DELAY_MAX)?;
        }
        Ok(())
    }
}

impl Path {
    /// Checks the numbers of the path at `place`.
    pub(crate) fn check_bounds(&self, place: &str) -> Result<(), SpecError> {
        within(place, "rtt_ms", self.rtt_ms, 0.0, DELAY_MAX)?;
        within(place, "down_kbit", self.down_kbit, 0.0, RATE_MAX)?;
        within(place, "up_kbit", self.up_kbit.unwrap_or(0.0), 0.0, RATE_MAX)?;
        within(place, "mtu", self.mtu.into(), 68.0, 65_535.0)?;
        within(place, "count", self.count.into(), 0.0, crate::hops::HOPS_MAX.into())?;
        ills(place, &self.ills())?;
        ills(&format!("{place}.up"), &self.up)
    }
}

fn ills(place: &str, ills: &Ills) -> Result<(), SpecError> {
    for (name, chance) in [
        ("loss", ills.loss),
        ("reorder", ills.reorder),
        ("duplicate", ills.duplicate),
        ("corrupt", ills.corrupt),
    ] {
        within(place, name, chance, 0.0, 1.0)?;
    }
    within(place, "every", ills.every as f64, 0.0, 1e15)?;
    within(place, "hold_ms", ills.hold_ms, 0.0, DELAY_MAX)?;
    within(place, "jitter_ms", ills.jitter_ms, 0.0, DELAY_MAX)?;
    within(place, "reorder_ms", ills.reorder_ms, 0.0, DELAY_MAX)
}

fn flow(place: &str, flow: &Flow, spec: &Spec) -> Result<(), SpecError> {
    let hops = if flow.over == "each" { spec.all_hops()?.len() } else { 1 };
    within(place, "count", flow.count.into(), 0.0, (FLOWS_MAX / hops as u32).into())?;
    within(place, "extra_rtt_ms", flow.extra_rtt_ms, 0.0, DELAY_MAX)?;
    within(place, "start", flow.start, 0.0, SECONDS_MAX)?;
    within(place, "stagger", flow.stagger, 0.0, SECONDS_MAX / 10.0)?;
    within(place, "spread", flow.spread, 0.0, SECONDS_MAX)?;
    within(place, "bytes", flow.bytes.unwrap_or(0) as f64, 0.0, 1e15)?;
    within(place, "piece", flow.piece.unwrap_or(1).into(), 1.0, f64::from(1 << 30))?;
    within(place, "every_ms", flow.every_ms, 0.0, DELAY_MAX)?;
    within(place, "per_second", flow.per_second.unwrap_or(1e-6), 1e-6, ARRIVALS_MAX / spec.seconds.max(1.0))
}

#[cfg(test)]
mod tests;
