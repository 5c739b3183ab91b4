//! Output about runs: a page, tables, and lines on the terminal.

use super::choice::Chosen;
use ::lab::report::{self, Chapter};
use ::lab::{Failure, Store, Verdict};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// An experiment's runs, and whether they are as its file expects.
pub(super) struct Results {
    pub(super) chosen: Chosen,
    pub(super) store: Store,
    verdicts: Vec<Verdict>,
}

impl Results {
    pub(super) fn new(chosen: Chosen, store: Store) -> Results {
        let verdicts = chosen.experiment.judge(store.outcomes());
        Results { chosen, store, verdicts }
    }

    fn chapter(&self) -> Chapter<'_> {
        Chapter {
            experiment: &self.chosen.experiment,
            outcomes: self.store.outcomes(),
            store: Some(&self.store),
            failures: self.store.failures().collect(),
            verdicts: &self.verdicts,
            file: &self.chosen.source,
        }
    }
}

/// Writes the page and the tables to `folder`.
pub(super) fn write(folder: &Path, results: &[Results]) -> Result<(), Box<dyn Error>> {
    let chapters: Vec<Chapter<'_>> = results.iter().map(Results::chapter).collect();
    replace_by(&folder.join("report.html"), |file| Ok(report::html(&chapters, file)?))?;
    replace(&folder.join("report.csv"), report::csv(&chapters).as_bytes())?;
    #[cfg(feature = "parquet")]
    {
        replace_by(&folder.join("report.parquet"), |file| Ok(report::runs(&chapters, file)?))?;
        replace_by(&folder.join("series.parquet"), |file| Ok(report::series(&chapters, file)?))?;
    }
    Ok(())
}

/// Puts a file in its place as a whole: a reader finds the old one or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    replace_by(path, |file| Ok(file.write_all(bytes)?))
}

fn replace_by(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let whole = || -> Result<(), Box<dyn Error>> {
        let mut file = BufWriter::new(File::create(&beside)?);
        write(&mut file)?;
        file.flush()?;
        Ok(std::fs::rename(&beside, path)?)
    };
    whole().map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Tells what came out.
pub(super) fn print(folder: &Path, results: &[Results]) {
    for Results { chosen, store, verdicts } in results {
        outln!("{} ({} runs)", chosen.experiment.spec().title, store.outcomes().len());
        for Verdict { expected, at, seen, runs, holds, why } in verdicts {
            let mark = if *holds { "holds" } else { "FAILS" };
            let place = if at.is_empty() { String::new() } else { format!(" [{at}]") };
            outln!("  {mark}  {expected}{place}\n         {seen}");
            if !holds {
                outln!("         of {runs} runs: {why}");
            }
        }
        for Failure { point, seed, why } in store.failures() {
            let again = report::replay(&chosen.source, point, *seed);
            outln!("  NO RUN {}\n         {again}", why.replace('\n', "\n         "));
        }
        if store.curtailed() > 0 {
            outln!("  {} runs are kept without courses: --disk was reached", store.curtailed());
        }
    }
    outln!("report: {}", folder.join("report.html").display());
}

/// Prints the results as JSON.
pub(super) fn print_json(results: &[Results]) {
    let row = |Results { chosen, store, verdicts }: &Results| {
        let failures: Vec<&Failure> = store.failures().collect();
        serde_json::json!({
            "experiment": chosen.experiment.name,
            "runs": store.outcomes().len(),
            "failures": failures,
            "verdicts": verdicts,
        })
    };
    outln!("{}", serde_json::json!({ "experiments": results.iter().map(row).collect::<Vec<_>>() }));
}

/// An error if runs brought nothing or, where that is asked for, if something is not as expected.
pub(super) fn judge(results: &[Results], check: bool) -> Result<(), Box<dyn Error>> {
    let failed: usize = results.iter().map(|results| results.store.failures().count()).sum();
    if failed > 0 {
        return Err(format!("{failed} runs brought nothing").into());
    }
    let broken =
        results.iter().flat_map(|results| &results.verdicts).filter(|verdict| !verdict.holds).count();
    if check && broken > 0 {
        return Err(format!("{broken} expectations do not hold").into());
    }
    Ok(())
}
