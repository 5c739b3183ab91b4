//! Runs as tasks that need nothing but the program: for machines that share no disk.

use serde::{Deserialize, Serialize};
use std::io;

use crate::run::Outcome;
use crate::spec::{Experiment, Point, SpecError};
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
mod tests {
    //! Goal: a run done elsewhere is the run done here, and what is not is refused.
    use super::*;
    use crate::testing::{SMALL, small};

    #[test]
    fn tasks_bring_what_runs_bring() {
        let experiment = small(SMALL);
        let planned = Planned::all(&experiment, None, Limits::default(), "c0ffee").unwrap();
        let tasks = experiment.tasks(None).unwrap();
        assert_eq!(planned.len(), tasks.len());
        for (planned, task) in planned.iter().zip(&tasks) {
            let line = serde_json::to_string(planned).unwrap();
            let planned: Planned = serde_json::from_str(&line).unwrap();
            let brought = planned.run("c0ffee").unwrap();
            let brought: Brought = serde_json::from_str(&serde_json::to_string(&brought).unwrap()).unwrap();
            brought.verify(&planned).unwrap();
            let Line::Run(run) = &brought.ended else { panic!("{brought:?}") };
            let here = crate::run(task).unwrap();
            assert_eq!((&run.digest, &run.outcome.measures), (&here.digest(), &here.measures));
            assert_eq!(run.outcome.series.is_empty(), task.seed > 1);
        }
    }

    #[test]
    fn what_is_not_the_task_is_refused() {
        let experiment = small(SMALL);
        let planned = Planned::all(&experiment, None, Limits::default(), "c0ffee").unwrap();
        assert!(planned[0].run("decaf").is_err());
        let brought = planned[0].run("c0ffee").unwrap();
        assert!(brought.verify(&planned[1]).is_err());
        let mut damaged = brought.clone();
        let Line::Run(run) = &mut damaged.ended else { panic!("{damaged:?}") };
        run.outcome.measures.insert("goodput_mbit".into(), 1e9);
        assert!(damaged.verify(&planned[0]).is_err());
        let other = Brought { commit: "decaf".into(), ..brought };
        assert!(other.verify(&planned[0]).is_err());
        let swapped = Planned { point: planned[3].point.clone(), ..planned[0].clone() };
        assert!(swapped.run("c0ffee").is_err());
    }
}
