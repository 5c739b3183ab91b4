//! Runs as tasks that need nothing but the program: for machines that share no disk.

use serde::{Deserialize, Serialize};
use std::io;

use crate::experiment::Experiment;
use crate::run::Outcome;
use crate::spec::{Point, SpecError};
use crate::store::{Limits, Line, Run, Store};
use crate::sweep::attempt;

/// A run to do elsewhere: a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Names it among the tasks of a plan; fit for a file's name.
    pub id: String,
    /// The experiment's name.
    pub experiment: String,
    /// Its file, with the parameters put in.
    pub text: String,
    /// The parameters.
    pub point: Point,
    /// The seed.
    pub seed: u64,
    /// Are the courses over time wanted?
    pub courses: bool,
    /// The program that planned it, and must run it: other programs may bring other bytes.
    pub commit: String,
}

/// How it ended: a line of JSON, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Brought {
    /// That of the task.
    pub id: String,
    /// The program that ran it.
    pub commit: String,
    ended: Line,
}

impl Planned {
    /// Every run of `experiment` as a task; see [`Experiment::tasks`]. `commit` is that of this program.
    ///
    /// # Errors
    /// As [`Experiment::parse`].
    pub fn all(
        experiment: &Experiment,
        seeds: Option<u64>,
        limits: Limits,
        commit: &str,
    ) -> Result<Vec<Planned>, SpecError> {
        let mut planned: Vec<Planned> = Vec::new();
        for task in experiment.tasks(seeds)? {
            // Seeds of a combination follow each other.
            let text = match planned.last() {
                Some(last) if last.point == task.point => last.text.clone(),
                _ => experiment.only(&task.point)?.text().to_owned(),
            };
            planned.push(Planned {
                id: format!("{}-{:06}", experiment.name, planned.len() + 1),
                experiment: experiment.name.clone(),
                text,
                courses: limits.wants_courses(task.seed),
                point: task.point,
                seed: task.seed,
                commit: commit.into(),
            });
        }
        Ok(planned)
    }

    /// Runs it, in the program called `commit`.
    ///
    /// # Errors
    /// It was planned by another program, or its text is not one run.
    pub fn run(&self, commit: &str) -> Result<Brought, SpecError> {
        if commit != self.commit {
            return Err(SpecError(format!("{}: planned by {}, this is {commit}", self.id, self.commit)));
        }
        let experiment = Experiment::parse(&self.experiment, &self.text)?;
        let tasks = experiment.tasks(Some(self.seed))?;
        let task = tasks.into_iter().find(|task| task.seed == self.seed && task.point == self.point);
        let task = task.ok_or_else(|| SpecError(format!("{}: its text is another run", self.id)))?;
        let ended = match attempt(&task) {
            Ok(outcome) => Line::Run(self.curtail(outcome)),
            Err(failure) => Line::Failed(failure),
        };
        Ok(Brought { id: self.id.clone(), commit: commit.into(), ended })
    }

    fn curtail(&self, mut outcome: Outcome) -> Run {
        let digest = outcome.digest();
        if !self.courses {
            outcome.series.clear();
        }
        Run { digest, outcome }
    }
}

impl Brought {
    /// Is it how `planned` ended, undamaged?
    ///
    /// # Errors
    /// The contradiction.
    pub fn verify(&self, planned: &Planned) -> Result<(), SpecError> {
        let wrong = |what: &str| Err(SpecError(format!("{}: {what}", planned.id)));
        let (point, seed) = self.ended.key();
        if self.id != planned.id || (point, seed) != (&planned.point, planned.seed) {
            return wrong("the result is of another task");
        }
        if self.commit != planned.commit {
            return wrong(&format!("planned by {}, run by {}", planned.commit, self.commit));
        }
        match &self.ended {
            Line::Run(run) if planned.courses && run.outcome.digest() != run.digest => wrong("damaged"),
            _ => Ok(()),
        }
    }

    /// Puts it among the runs done here.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(self, store: &mut Store) -> io::Result<()> {
        store.keep_line(self.ended)
    }
}

#[cfg(test)]
mod tests;
