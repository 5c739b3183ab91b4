//! The experiments that come with the program.

use crate::experiment::Experiment;
use crate::spec::SpecError;

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        /// Name and text of each file in `experiments/`.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../experiments/", $name, ".toml")))),+];
    };
}

shipped![
    "bbr-loss",
    "beside-linux-black-hole",
    "beside-linux-half-closed",
    "beside-linux-late-sack",
    "beside-linux-lost-again",
    "beside-linux-reordering",
    "beside-linux-sparse-acks",
    "beside-linux-steady",
    "beside-linux-super-segments",
    "beside-linux-uploads",
    "card",
    "convergence",
    "dctcp-step",
    "fairness",
    "fairness-buffers",
    "fairness-distance",
    "fairness-pairs",
    "faltcon",
    "gigabit",
    "mulwin-chance",
    "mulwin-even",
    "mulwin-lan",
    "mulwin-share",
    "mulwin-share-chance",
    "mulwin-share-multcp",
    "mulwin-wan",
    "mulwin-window",
    "p1-htcp-sawtooth",
    "p2-abc",
    "p3-induced-delay",
    "p4-asymmetric",
    "p5-retransmissions",
    "p6-queue-modes",
    "p7-round-trip",
    "p7-topology",
    "parking-lot",
    "prague-dualpi2",
    "response-acks",
    "response-chance",
    "response-even",
    "short-flows",
];

/// Every shipped experiment.
///
/// # Errors
/// A file that cannot be read is a defect; a test reads them all.
pub fn shipped() -> Result<Vec<Experiment>, SpecError> {
    FILES.iter().map(|(name, text)| Experiment::parse(name, text)).collect()
}

#[cfg(test)]
mod tests;
