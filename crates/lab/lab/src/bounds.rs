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
mod tests {
    //! Goal: every number of a file has a bound, and the error names the number and the bound.
    use crate::Experiment;

    const FILE: &str = "title = \"t\"\nseconds = 1\n[path]\nrtt_ms = 10\ndown_kbit = 1000\nqueue = \"slots 10\"\n\
                        [path.up]\nloss = 0.1\n[[flow]]\ncc = \"newreno\"\n[cbr]\nbytes = 200\nevery_ms = 20\n";

    /// Tables by their structs, and what the place of one is in the file.
    const PLACES: [(&str, &str); 5] =
        [("Spec", ""), ("Path", "path."), ("Ills", "path.up."), ("Flow", "flow.0."), ("Cbr", "cbr.")];

    /// Places of the numbers in a file, as the structs have them.
    fn numbers() -> Vec<String> {
        let source = include_str!("spec.rs");
        let of = |(name, place): (&str, &str)| {
            let (_, body) = source.split_once(&format!("pub struct {name} {{")).expect("a struct");
            let body = body.split("\n}").next().unwrap_or_default();
            let fields = body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "));
            let numeric = fields.filter(|(_, kind)| {
                let kind = kind.trim_end_matches(',').trim_start_matches("Option<").trim_end_matches('>');
                ["f64", "u64", "u32", "u16"].contains(&kind)
            });
            numeric.map(|(field, _)| format!("{place}{field}")).collect::<Vec<_>>()
        };
        PLACES.into_iter().flat_map(of).collect()
    }

    fn error(place: &str, value: &str) -> String {
        let mut file: toml::Value = toml::from_str::<toml::Table>(FILE).unwrap().into();
        let value: toml::Table = toml::from_str(&format!("x = {value}")).unwrap();
        crate::spec::put(&mut file, place, &value["x"]).expect("a place");
        let text = toml::to_string(&file).unwrap();
        Experiment::parse("test", &text).err().map_or_else(String::new, |error| error.0)
    }

    #[test]
    fn every_number_has_a_bound_that_the_error_names() {
        assert_eq!(Experiment::parse("test", FILE).err(), None);
        let numbers = numbers();
        assert!(numbers.len() > 35, "{numbers:?}");
        for place in &numbers {
            for value in ["9e15", "nan", "-1", "4000000000"] {
                let said = error(place, value);
                // Integers of another width or sign are refused where they are read.
                let read = said.contains("invalid value") || said.contains("invalid type");
                let named = said.contains(&format!("{place} = ")) && said.contains(": want ");
                let samples = said.contains("samples");
                let is_within = value == "4000000000"
                    && ["path.every", "path.up.every", "flow.0.bytes"].contains(&place.as_str());
                assert!(is_within || read || named || samples, "{place} = {value}: {said:?}");
            }
        }
        assert!(error("flow.0.count", "4000000000").contains("flow.0.count = 4000000000: want 0 to 10000"));
    }

    #[test]
    fn combinations_have_a_bound() {
        let values = format!("{:?}", (0..1_001).collect::<Vec<_>>());
        let text = format!("{FILE}[vary]\n\"path.rtt_ms\" = {values}\n\"flow.0.start\" = {values}\n");
        let said = Experiment::parse("test", &text).err().unwrap().0;
        assert!(said.contains("vary") && said.contains("1000000"), "{said}");
        let experiment = Experiment::parse("test", FILE).unwrap();
        assert!(experiment.tasks(Some(u64::MAX)).err().unwrap().0.contains("1000000"));
        assert_eq!(experiment.tasks(Some(3)).unwrap().len(), 3);
    }
}
