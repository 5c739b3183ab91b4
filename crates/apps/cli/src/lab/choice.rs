//! Which experiments a command is about.

use ::lab::{Experiment, Vary, shipped};
use std::error::Error;
use std::path::Path;

/// An experiment, and where it came from.
pub(super) struct Chosen {
    pub(super) experiment: Experiment,
    /// Name on the command line.
    pub(super) source: String,
}

/// The shipped experiment called `name`, or that of a file.
pub(super) fn find(name: &str) -> Result<Chosen, Box<dyn Error>> {
    let shipped = shipped()?;
    let source = name.to_owned();
    if let Some(experiment) = shipped.iter().find(|experiment| experiment.name == name) {
        return Ok(Chosen { experiment: experiment.clone(), source });
    }
    let path = Path::new(name);
    if path.extension().is_none() {
        let names: Vec<&str> = shipped.iter().map(|experiment| experiment.name.as_str()).collect();
        return Err(format!("no experiment {name}; there are {}, and files *.toml", names.join(", ")).into());
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let stem = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
    Ok(Chosen { experiment: Experiment::parse(&stem, &text)?, source })
}

/// Those called `names`, or by the first part of several shipped ones' names, or all that are shipped. Each needs a
/// name of its own: files of results are called by it.
pub(super) fn all(names: &[String], all: bool) -> Result<Vec<Chosen>, Box<dyn Error>> {
    if all {
        let known = |experiment: Experiment| Chosen { source: experiment.name.clone(), experiment };
        return Ok(shipped()?.into_iter().map(known).collect());
    }
    let shipped = shipped()?;
    let named = |name: &String| shipped.iter().any(|experiment| experiment.name == *name);
    let mut chosen = Vec::new();
    for name in names {
        // The first part of names stands for all that begin so: `p7` for `p7-topology` and `p7-round-trip`.
        let begins = |experiment: &&Experiment| {
            let rest = experiment.name.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.starts_with('-'))
        };
        let family: Vec<&Experiment> = shipped.iter().filter(begins).collect();
        if named(name) || family.is_empty() {
            chosen.push(find(name)?);
        } else {
            let known = |one: &Experiment| Chosen { source: one.name.clone(), experiment: one.clone() };
            chosen.extend(family.into_iter().map(known));
        }
    }
    for (nth, one) in chosen.iter().enumerate() {
        if chosen[..nth].iter().any(|before| before.experiment.name == one.experiment.name) {
            return Err(format!("two experiments called {}", one.experiment.name).into());
        }
    }
    Ok(chosen)
}

/// Returns the choice with other values to vary. The file this makes is written to `folder`, so that its runs can
/// be repeated.
pub(super) fn varied(chosen: Chosen, vary: &[Vary], folder: &Path) -> Result<Chosen, Box<dyn Error>> {
    if vary.is_empty() {
        return Ok(chosen);
    }
    let (experiment, left_out) = chosen.experiment.with(vary)?;
    if left_out > 0 {
        eprintln!(
            "{}: {left_out} checks and plots do not fit what is varied, and are left out",
            experiment.name
        );
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join(format!("{}.toml", experiment.name));
    super::results::replace(&path, experiment.text().as_bytes())?;
    Ok(Chosen { experiment, source: path.display().to_string() })
}

#[cfg(test)]
mod tests;
