//! SIFTR's logs of an experiment's hosts, one file a host and run, beside the results.

use base::Instant;
use emu::HostId;
use stack::ProbeId;
use std::fs::File;
use std::path::PathBuf;
use trace::siftr::{Log, LogConfig, Profile};

use crate::spec::{Siftr, SpecError, Task, told};
use crate::world::World;

/// How the key wants logs to be.
///
/// # Errors
/// There is no such profile, or one packet in none is wanted.
pub(crate) fn plan(siftr: &Siftr) -> Result<LogConfig, SpecError> {
    let known = || Profile::ALL.iter().map(|profile| profile.name()).collect::<Vec<_>>().join(", ");
    let profile = Profile::find(&siftr.profile).ok_or_else(|| {
        SpecError(format!("siftr.profile: want one of {}, not `{}`", known(), siftr.profile))
    })?;
    if siftr.ppl == 0 {
        return Err(SpecError("siftr.ppl: want 1 or more".into()));
    }
    let (ppl, genhashes) = (siftr.ppl, siftr.genhashes);
    Ok(LogConfig { profile, ppl, genhashes, threaded: false, ..LogConfig::default() })
}

/// The logs of a run that is under way.
pub(crate) struct Logs(Vec<(HostId, PathBuf, Log, Vec<ProbeId>)>);

impl Logs {
    /// Begins what `task` wants: nothing, if its file does not say so or nothing said where.
    ///
    /// # Errors
    /// A file cannot be made.
    pub(crate) fn begin(world: &mut World, task: &Task) -> Result<Logs, SpecError> {
        let mut logs = Vec::new();
        let (Some(siftr), Some(folder)) = (&task.spec.siftr, &task.folders.siftr) else {
            return Ok(Logs(logs));
        };
        let config = plan(siftr)?;
        std::fs::create_dir_all(folder).map_err(|error| told(folder, &error))?;
        for (host, name) in world.named_hosts(task) {
            let path = folder.join(format!("{name}.log"));
            let file = File::create(&path).map_err(|error| told(&path, &error))?;
            let begun = Log::begin(&config, Box::new(file), Instant::ZERO);
            let (log, hooks) = begun.map_err(|error| told(&path, &error))?;
            let Some(core) = world.core(host) else { continue };
            // One core, one hook.
            let ids = hooks.into_iter().map(|hook| core.attach(Box::new(hook))).collect();
            logs.push((host, path, log, ids));
        }
        Ok(Logs(logs))
    }

    /// Writes what there is so far.
    ///
    /// # Errors
    /// A file takes no more.
    pub(crate) fn drain(&self) -> Result<(), SpecError> {
        self.0.iter().try_for_each(|(_, path, log, _)| log.drain().map_err(|error| told(path, &error)))
    }

    /// Writes the rest, and the last lines.
    ///
    /// # Errors
    /// As for [`Logs::drain`].
    pub(crate) fn end(self, world: &mut World, now: Instant) -> Result<(), SpecError> {
        for (host, path, log, ids) in self.0 {
            if let Some(core) = world.core(host) {
                ids.into_iter().for_each(|id| drop(core.detach(id)));
            }
            log.end(now).map_err(|error| told(&path, &error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
