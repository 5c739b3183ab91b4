//! Report of a sweep: one page without anything from elsewhere, and a table for programs. Other results make their page
//! of the same parts.

#[cfg(feature = "parquet")]
mod columns;
mod csv;
mod draw;

use serde::Serialize;
use serde_json::json;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::experiment::Experiment;
use crate::grid::typed;
use crate::measure::with_unit;
use crate::run::{Outcome, Series};
use crate::spec::Point;
use crate::store::Store;
use crate::sweep::Failure;
use crate::verdict::{Verdict, describe, estimate};

#[cfg(feature = "parquet")]
pub use columns::{TableError, runs, series};
pub use csv::csv;
pub use draw::{Drawing, Line};

/// How pages look: light, dark and on paper.
const STYLE: &str = include_str!("report/page.css");
/// Scripts that make them interactive, in this order: plots in boxes of class `plot` from the JSON in them, and what is
/// around them, of which a button `#theme` must be there.
const SCRIPTS: [&str; 2] = [include_str!("report/plot.js"), include_str!("report/page.js")];

/// Combinations that stand side by side in a table.
const ACROSS_MAX: usize = 6;
/// Rows of a table of means.
const DOWN_MAX: usize = 300;
/// Runs that the page lists, and combinations that it draws on demand.
const RUNS_MAX: usize = 5000;

/// An experiment with what it brought.
pub struct Chapter<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its runs, in any order.
    pub outcomes: &'a [Outcome],
    /// Where their courses are, if they are not with them.
    pub store: Option<&'a Store>,
    /// Runs that brought nothing.
    pub failures: Vec<&'a Failure>,
    /// Whether they are as expected.
    pub verdicts: &'a [Verdict],
    /// Name on the command line.
    pub file: &'a str,
}

/// The command that runs one combination with one seed again.
pub fn replay(file: &str, point: &Point, seed: u64) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let at = if point.is_empty() { String::new() } else { format!(" --point {}", quote(&typed(point))) };
    let plain = file.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let file = if plain { file.into() } else { quote(file) };
    format!("millstream lab replay {file}{at} --seed {seed}")
}

/// Begins a page with this title and with links to its parts, each an anchor and its name.
pub fn head(title: &str, parts: &[(&str, &str)]) -> String {
    let title = escape(title);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><header><h1>{title}</h1><button type=\"button\" id=\"theme\">light or dark</button></header>"
    );
    if parts.len() > 1 {
        let link =
            |(anchor, name): &(&str, &str)| format!("<a href=\"#{}\">{}</a>", escape(anchor), escape(name));
        page += &format!("<nav>{}</nav>", parts.iter().map(link).collect::<String>());
    }
    page
}

/// Ends a page: its scripts.
pub fn tail(page: &mut String) {
    SCRIPTS.iter().for_each(|script| *page += &format!("<script>{script}</script>"));
    *page += "</body></html>\n";
}

/// Writes the whole page.
///
/// # Errors
/// `into` takes no more, or courses cannot be read.
pub fn html(chapters: &[Chapter<'_>], into: &mut impl Write) -> io::Result<()> {
    let names: Vec<_> = chapters.iter().map(|chapter| chapter.experiment.name.as_str()).collect();
    let mut page =
        head("Millstream laboratory", &names.iter().map(|name| (*name, *name)).collect::<Vec<_>>());
    for chapter in chapters {
        into.write_all(page.as_bytes())?;
        page.clear();
        chapter.write(&mut page)?;
    }
    tail(&mut page);
    into.write_all(page.as_bytes())
}

impl<'a> Chapter<'a> {
    /// The courses of one of its runs.
    fn courses(&self, outcome: &'a Outcome) -> io::Result<Cow<'a, BTreeMap<String, Series>>> {
        match self.store {
            None => Ok(Cow::Borrowed(&outcome.series)),
            Some(store) => store.courses(&outcome.point, outcome.seed).map(Cow::Owned),
        }
    }

    fn write(&self, page: &mut String) -> io::Result<()> {
        let spec = self.experiment.spec();
        let name = escape(&self.experiment.name);
        *page += &format!("<h2 id=\"{name}\">{}</h2><p>{}</p>", escape(&spec.title), escape(&spec.about));
        let seeds: BTreeSet<u64> = self.outcomes.iter().map(|outcome| outcome.seed).collect();
        *page += &format!(
            "<p>{} runs of {} virtual seconds, seeds {}; intervals hold 95 % (Student's t).</p>",
            self.outcomes.len(),
            spec.seconds,
            span(&seeds)
        );
        self.write_failures(page);
        self.write_verdicts(page);
        for (plot, drawing) in spec.plots.iter().zip(self.drawings()?) {
            write_plot(page, &plot.title, &drawing);
        }
        self.write_measures(page);
        self.write_runs(page);
        *page += &format!(
            "<details><summary>The file</summary><pre>{}</pre></details>",
            escape(self.experiment.text())
        );
        Ok(())
    }

    fn write_verdicts(&self, page: &mut String) {
        if self.verdicts.is_empty() {
            return;
        }
        *page += "<h3>Expected and seen</h3>";
        let row = |Verdict { expected, at, seen, runs, holds, why }: &Verdict| {
            let mark = if *holds { "holds" } else { "fails" };
            let (expected, at, seen) = (escape(expected), escape(at), escape(seen));
            let why = if *holds { String::new() } else { format!("<br>{}", escape(why)) };
            format!(
                "<td class=\"{mark}\">{mark}</td><td>{expected}</td><td>{at}</td><td>{seen}{why}</td>\
                 <td class=\"number\">{runs}</td>"
            )
        };
        table(page, "", &["", "Expected", "Where", "Seen", "Runs"], self.verdicts.iter().map(row));
    }

    /// Means over the seeds: measures down and combinations across, or the other way where there are many.
    fn write_measures(&self, page: &mut String) {
        let means = self.means();
        let names: Vec<String> = means.measures.iter().map(|name| with_unit(name)).collect();
        let places: Vec<String> = means.points.iter().map(|mean| describe(mean.point)).collect();
        let cell = |place: usize, name: usize| match means.points[place].seen[name] {
            Some((mean, half)) => format!("<td class=\"number\">{mean:.4} ± {half:.4}</td>"),
            None => "<td></td>".into(),
        };
        *page += "<h3>Means</h3>";
        if places.len() > ACROSS_MAX {
            let (shown, rest) = places.split_at(places.len().min(DOWN_MAX));
            grid(page, "means", shown, &names, cell);
            told(page, rest.len(), "combinations more are not listed");
        } else {
            grid(page, "", &names, &places, |name, place| cell(place, name));
        }
    }

    fn write_runs(&self, page: &mut String) {
        let means = self.means();
        let runs = self.outcomes.iter().take(RUNS_MAX).map(|outcome| {
            let texts = means.parameters.iter().map(|place| json!(outcome.point.get(*place)));
            let numbers = means.measures.iter().map(|name| json!(outcome.measures.get(*name)));
            let again = json!(replay(self.file, &outcome.point, outcome.seed));
            texts.chain([json!(outcome.seed)]).chain(numbers).chain([again]).collect()
        });
        let shown = means.parameters.iter().chain(&means.measures).chain(&["seed"]);
        let explored = Explored {
            parameters: &means.parameters,
            measures: &means.measures,
            shown: shown.map(|name| (*name, with_unit(name))).collect(),
            points: means
                .points
                .iter()
                .take(RUNS_MAX)
                .map(|mean| Place {
                    at: means.parameters.iter().map(|place| mean.point.get(*place)).collect(),
                    seen: &mean.seen,
                })
                .collect(),
            runs: runs.collect(),
        };
        *page += &format!("<div class=\"data\">{}", data(&explored));
        *page += "<h3>Any measure</h3><div class=\"explorer\"></div><h3>Runs</h3>";
        told(page, self.outcomes.len().saturating_sub(RUNS_MAX), "runs more are not listed");
        *page += "<div class=\"search\"></div></div>";
    }

    fn write_failures(&self, page: &mut String) {
        if self.failures.is_empty() {
            return;
        }
        *page += "<h3 class=\"fails\">Runs that brought nothing</h3>";
        let row = |Failure { point, seed, why }: &&Failure| {
            let (at, why) = (escape(&describe(point)), escape(why));
            let again = escape(&replay(self.file, point, *seed));
            format!(
                "<td>{at}</td><td class=\"number\">{seed}</td><td class=\"why\">{why}</td>\
                 <td><code>{again}</code></td>"
            )
        };
        table(page, "", &["Where", "Seed", "Why", "Again"], self.failures.iter().map(row));
    }

    /// Means of all measures at all combinations.
    fn means(&self) -> Means<'a> {
        let parameters: BTreeSet<&'a str> =
            self.outcomes.iter().flat_map(|run| run.point.keys().map(String::as_str)).collect();
        let names: BTreeSet<&'a str> =
            self.outcomes.iter().flat_map(|run| run.measures.keys().map(String::as_str)).collect();
        let mut groups: BTreeMap<&'a Point, Vec<&'a Outcome>> = BTreeMap::new();
        for outcome in self.outcomes {
            groups.entry(&outcome.point).or_default().push(outcome);
        }
        let mean = |(point, here): (&'a Point, Vec<&Outcome>)| {
            let one = |name: &&str| estimate(here.iter().copied(), name).map(|seen| (seen.mean, seen.half));
            Mean { point, seen: names.iter().map(one).collect() }
        };
        let points = groups.into_iter().map(mean).collect();
        Means { parameters: parameters.into_iter().collect(), measures: names.into_iter().collect(), points }
    }
}

/// Means over seeds.
struct Means<'a> {
    parameters: Vec<&'a str>,
    measures: Vec<&'a str>,
    points: Vec<Mean<'a>>,
}

/// Those of a combination, in the order of the measures: mean and half of the interval.
struct Mean<'a> {
    point: &'a Point,
    seen: Vec<Option<(f64, f64)>>,
}

/// Data that the page's script lets the reader search and draw.
#[derive(Serialize)]
struct Explored<'a> {
    parameters: &'a [&'a str],
    measures: &'a [&'a str],
    /// Each of them with its unit.
    shown: BTreeMap<&'a str, String>,
    points: Vec<Place<'a>>,
    /// Parameters, seed, measures, and the command that repeats it.
    runs: Vec<Vec<serde_json::Value>>,
}

#[derive(Serialize)]
struct Place<'a> {
    at: Vec<Option<&'a String>>,
    seen: &'a [Option<(f64, f64)>],
}

/// Nothing if nothing of what is to be shown was seen.
fn write_plot(page: &mut String, title: &str, drawing: &Drawing) {
    if !drawing.is_empty() {
        *page += &format!("<h3>{}</h3>{}", escape(title), drawing.html());
        told(page, drawing.left_out, "lines more are not drawn");
    }
}

/// Data for a script. A script's end tag cannot hide in a name.
///
/// # Panics
/// If it is nothing that JSON can say.
fn data(what: &impl Serialize) -> String {
    let text = serde_json::to_string(what).expect("strings and numbers").replace("</", "<\\/");
    format!("<script type=\"application/json\">{text}</script>")
}

/// Says what a page had no room for.
fn told(page: &mut String, count: usize, what: &str) {
    if count > 0 {
        *page += &format!("<p>{count} {what}; report.csv has everything.</p>");
    }
}

/// Writes a table of this class: the names of its columns, and the cells of each row as they stand in the page.
pub fn table(page: &mut String, class: &str, columns: &[&str], rows: impl Iterator<Item = String>) {
    *page += &format!("<div class=\"wide\"><table class=\"{class}\"><thead><tr>");
    columns.iter().for_each(|name| *page += &format!("<th>{}</th>", escape(name)));
    *page += "</tr></thead><tbody>";
    rows.for_each(|cells| *page += &format!("<tr>{cells}</tr>"));
    *page += "</tbody></table></div>";
}

/// A table with names down its first column as well.
fn grid(
    page: &mut String,
    class: &str,
    down: &[String],
    across: &[String],
    cell: impl Fn(usize, usize) -> String,
) {
    let columns: Vec<&str> = [""].into_iter().chain(across.iter().map(String::as_str)).collect();
    let row = |(row, name): (usize, &String)| {
        let cells: String = (0..across.len()).map(|column| cell(row, column)).collect();
        format!("<td>{}</td>{cells}", escape(name))
    };
    table(page, class, &columns, down.iter().enumerate().map(row));
}

/// Seeds as people write them: `1-10`, or all of them where they have gaps.
fn span(seeds: &BTreeSet<u64>) -> String {
    match (seeds.first(), seeds.last()) {
        (Some(first), Some(last)) if last - first + 1 == seeds.len() as u64 && first != last => {
            format!("{first}-{last}")
        }
        _ => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Text as it stands in a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
