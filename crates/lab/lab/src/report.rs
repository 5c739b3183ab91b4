//! What a sweep brought, for people: one page without anything from elsewhere, and a table for programs.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::check::{Verdict, describe, estimate};
use crate::run::{Outcome, Series};
use crate::spec::{Experiment, Plot, Point};

/// Points of a line on the page; the shape survives, since the extremes of each stretch are kept.
const POINTS_MAX: usize = 1500;

/// An experiment with what it brought.
pub struct Chapter<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its runs, in any order.
    pub outcomes: &'a [Outcome],
    /// Whether they are as expected.
    pub verdicts: &'a [Verdict],
}

/// A plot as the page's script reads it.
#[derive(Serialize)]
struct Drawing {
    title: String,
    x: String,
    y: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    categories: Option<Vec<String>>,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    /// x, y, and half of the confidence interval where there is one.
    points: Vec<Vec<f64>>,
}

/// The whole page.
pub fn html(chapters: &[Chapter<'_>]) -> String {
    let mut page = String::from("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
    page += "<title>Millstream laboratory</title>";
    page += &format!(
        "<style>{}</style></head><body><h1>Millstream laboratory</h1>",
        include_str!("report/page.css")
    );
    if chapters.len() > 1 {
        page += "<nav>";
        for Chapter { experiment, .. } in chapters {
            page += &format!("<a href=\"#{0}\">{0}</a>", escape(&experiment.name));
        }
        page += "</nav>";
    }
    chapters.iter().for_each(|chapter| chapter.write(&mut page));
    page += &format!("<script>{}</script></body></html>\n", include_str!("report/plot.js"));
    page
}

impl Chapter<'_> {
    fn write(&self, page: &mut String) {
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
        self.write_verdicts(page);
        for plot in &spec.plots {
            self.write_plot(page, plot);
        }
        self.write_measures(page);
        *page += &format!(
            "<details><summary>The file</summary><pre>{}</pre></details>",
            escape(self.experiment.text())
        );
    }

    fn write_verdicts(&self, page: &mut String) {
        if self.verdicts.is_empty() {
            return;
        }
        *page += "<h3>Expected and seen</h3><div class=\"wide\"><table>";
        *page += "<tr><th></th><th>Expected</th><th>Where</th><th>Seen</th></tr>";
        for Verdict { expected, at, seen, holds } in self.verdicts {
            let mark = if *holds { "holds" } else { "fails" };
            let (expected, at, seen) = (escape(expected), escape(at), escape(seen));
            *page += &format!(
                "<tr><td class=\"{mark}\">{mark}</td><td>{expected}</td><td>{at}</td><td>{seen}</td></tr>"
            );
        }
        *page += "</table></div>";
    }

    fn write_plot(&self, page: &mut String, plot: &Plot) {
        let Some(drawing) = self.draw(plot) else { return };
        // A script's end tag cannot hide in a name.
        let data = serde_json::to_string(&drawing).expect("strings and numbers").replace("</", "<\\/");
        let title = escape(&plot.title);
        *page += &format!(
            "<h3>{title}</h3><div class=\"plot\"><script type=\"application/json\">{data}</script></div>"
        );
    }

    fn write_measures(&self, page: &mut String) {
        let names: BTreeSet<&String> =
            self.outcomes.iter().flat_map(|outcome| outcome.measures.keys()).collect();
        let points: BTreeSet<&Point> = self.outcomes.iter().map(|outcome| &outcome.point).collect();
        *page += "<h3>Measures</h3><div class=\"wide\"><table><tr><th></th>";
        points.iter().for_each(|point| *page += &format!("<th>{}</th>", escape(&describe(point))));
        *page += "</tr>";
        for name in names {
            *page += &format!("<tr><td>{}</td>", escape(name));
            for point in &points {
                let here = self.outcomes.iter().filter(|outcome| outcome.point == **point);
                let cell = estimate(here, name)
                    .map_or("".into(), |seen| format!("{:.4} ± {:.4}", seen.mean, seen.half));
                *page += &format!("<td class=\"number\">{cell}</td>");
            }
            *page += "</tr>";
        }
        *page += "</table></div>";
    }

    /// `None` if nothing of what is to be shown was seen.
    fn draw(&self, plot: &Plot) -> Option<Drawing> {
        let (kind, what) = plot.show.split_once(' ')?;
        let mut drawing = Drawing {
            title: plot.title.clone(),
            x: plot.x.clone(),
            y: what.into(),
            categories: None,
            lines: Vec::new(),
        };
        match kind {
            "series" => {
                drawing.x = "seconds".into();
                drawing.lines = self.courses(plot, what);
            }
            "cdf" => {
                (drawing.x, drawing.y) = ("milliseconds".into(), "part of all".into());
                drawing.lines = self.distributions();
            }
            _ => drawing.categories = self.measures_over(plot, what, &mut drawing.lines),
        }
        (!drawing.lines.is_empty()).then_some(drawing)
    }

    /// A course over time for each combination, of its first seed.
    fn courses(&self, plot: &Plot, what: &str) -> Vec<Line> {
        let (from, to) = (plot.from.unwrap_or(f64::MIN), plot.to.unwrap_or(f64::MAX));
        let mut firsts: BTreeMap<&Point, &Outcome> = BTreeMap::new();
        for outcome in self.outcomes {
            let first = firsts.entry(&outcome.point).or_insert(outcome);
            if outcome.seed < first.seed {
                *first = outcome;
            }
        }
        let line = |(point, outcome): (&&Point, &&Outcome)| {
            let inside = |(t, _): &&(f64, f64)| (from..=to).contains(t);
            let course: Series = outcome.series.get(what)?.iter().filter(inside).copied().collect();
            let points = thinned(&course).into_iter().map(|(t, value)| vec![t, value]).collect();
            Some(Line { name: label(point, what), points })
        };
        firsts.iter().filter_map(line).collect()
    }

    /// The distribution for each combination: quantiles, each on average over the seeds.
    fn distributions(&self) -> Vec<Line> {
        let mut groups: BTreeMap<&Point, Vec<&Vec<f64>>> = BTreeMap::new();
        for outcome in self.outcomes.iter().filter(|outcome| !outcome.delays.is_empty()) {
            groups.entry(&outcome.point).or_default().push(&outcome.delays);
        }
        let line = |(point, runs): (&Point, Vec<&Vec<f64>>)| {
            let steps = runs.iter().map(|run| run.len()).min().unwrap_or(0);
            let mean = |nth: usize| runs.iter().map(|run| run[nth]).sum::<f64>() / runs.len() as f64;
            let at = |nth: usize| vec![mean(nth), nth as f64 / steps.saturating_sub(1).max(1) as f64];
            Line { name: label(point, "all"), points: (0..steps).map(at).collect() }
        };
        groups.into_iter().map(line).collect()
    }

    /// A measure along a parameter, a line for each combination of the others; the parameter's values where they are no
    /// numbers.
    fn measures_over(&self, plot: &Plot, what: &str, lines: &mut Vec<Line>) -> Option<Vec<String>> {
        let values: Vec<String> =
            self.experiment.spec().vary.get(&plot.x)?.iter().map(crate::spec::show).collect();
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let place = |nth: usize| numbers.as_ref().map_or(nth as f64, |numbers| numbers[nth]);
        let rest = |outcome: &Outcome| {
            let mut point = outcome.point.clone();
            point.remove(&plot.x);
            point
        };
        let others: BTreeSet<Point> = self.outcomes.iter().map(rest).collect();
        for other in &others {
            let at = |(nth, value): (usize, &String)| {
                let here =
                    |outcome: &&Outcome| rest(outcome) == *other && outcome.point.get(&plot.x) == Some(value);
                let seen = estimate(self.outcomes.iter().filter(here), what)?;
                Some(vec![place(nth), seen.mean, seen.half])
            };
            let points: Vec<Vec<f64>> = values.iter().enumerate().filter_map(at).collect();
            if !points.is_empty() {
                lines.push(Line { name: label(other, what), points });
            }
        }
        if numbers.is_some() { None } else { Some(values) }
    }
}

fn label(point: &Point, otherwise: &str) -> String {
    if point.is_empty() { otherwise.into() } else { describe(point) }
}

/// The least and the greatest value of each stretch of a long course, in the order of time.
fn thinned(course: &[(f64, f64)]) -> Series {
    if course.len() <= POINTS_MAX {
        return course.to_vec();
    }
    let stretch = course.len().div_ceil(POINTS_MAX / 2);
    let ends = |piece: &[(f64, f64)]| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (low, high) = (*piece.iter().min_by(by_value)?, *piece.iter().max_by(by_value)?);
        Some(if low.0 <= high.0 { [low, high] } else { [high, low] })
    };
    course.chunks(stretch).filter_map(ends).flatten().collect()
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A row for each run: the experiment, its parameters, the seed, the measures. A field with a comma, a quote or a
/// line's end is quoted (RFC 4180).
pub fn csv(chapters: &[Chapter<'_>]) -> String {
    let outcomes =
        || chapters.iter().flat_map(|chapter| chapter.outcomes.iter().map(move |outcome| (chapter, outcome)));
    let parameters: BTreeSet<&String> = outcomes().flat_map(|(_, outcome)| outcome.point.keys()).collect();
    let measures: BTreeSet<&String> = outcomes().flat_map(|(_, outcome)| outcome.measures.keys()).collect();
    let mut table = String::from("experiment");
    for column in parameters
        .iter()
        .map(|name| name.as_str())
        .chain(["seed"])
        .chain(measures.iter().map(|name| name.as_str()))
    {
        let _ = write!(table, ",{}", field(column));
    }
    table += "\n";
    for (chapter, outcome) in outcomes() {
        table += &field(&chapter.experiment.name);
        for name in &parameters {
            let _ = write!(table, ",{}", field(outcome.point.get(*name).map_or("", String::as_str)));
        }
        let _ = write!(table, ",{}", outcome.seed);
        for name in &measures {
            let value = outcome.measures.get(*name).map_or(String::new(), f64::to_string);
            let _ = write!(table, ",{value}");
        }
        table += "\n";
    }
    table
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: nothing in a name breaks the page or the table, long courses keep their extremes.
    use super::*;

    #[test]
    fn long_courses_keep_their_extremes() {
        let mut course: Series = (0..100_000).map(|nth| (f64::from(nth), 0.0)).collect();
        (course[5_000].1, course[77_777].1) = (9.0, -9.0);
        let thin = thinned(&course);
        assert!(
            thin.len() <= POINTS_MAX && thin.contains(&(5_000.0, 9.0)) && thin.contains(&(77_777.0, -9.0))
        );
        assert!(thin.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!((field("a"), field("a,\"b\"")), ("a".into(), "\"a,\"\"b\"\"\"".into()));
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
        assert_eq!(span(&[1, 2, 3].into()), "1-3");
        assert_eq!(span(&[1, 3].into()), "1, 3");
    }
}
