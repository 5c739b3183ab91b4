//! The page: where we stand, a chart for each workload, all figures, and the configuration.

use super::contender::{CONTENDERS, Contender};
use super::figure::{self, Figure, written};
use super::kept::{Entry, Ran, RanPoint, Results};
use super::{Group, WORKLOADS, Workload, find};
use lab::report::{Drawing, Line, escape, head, table, tail};
use lab::stats::median;
use std::path::{Path, PathBuf};

/// Points that stand side by side by their names; more are a curve over their values.
const NAMED_MAX: usize = 3;
/// Contenders that are our own stack, or none at all: nothing has to be ahead of them.
const NOT_OTHERS: [&str; 5] = ["millstream", "paired", "spinning", "blocking", "ideal"];

/// Writes a page of what `from` holds to `to`.
///
/// # Errors
/// A file cannot be read or written, or is no result of `--all`.
pub fn report(from: &Path, to: &Path) -> Result<(), String> {
    let page = html(&Results::read(from)?)
        .map_err(|e| format!("{}: {e}; `cargo xtask bench --all --json {0}` makes it", from.display()))?;
    std::fs::write(to, page).map_err(|e| format!("{}: {e}", to.display()))
}

/// A table, in Markdown, of how Millstream stands beside the best of the others on several machines: the least and the
/// greatest ratio at each point, above 1 where it is ahead.
///
/// # Errors
/// A file cannot be read, or holds no result of `--all`.
pub fn ranges(from: &[PathBuf]) -> Result<String, String> {
    let all: Vec<Results> = from.iter().map(|from| Results::read(from)).collect::<Result<_, _>>()?;
    if let Some((file, _)) = from.iter().zip(&all).find(|(_, results)| results.workloads.is_empty()) {
        return Err(format!("{}: no workload in it", file.display()));
    }
    Ok(markdown(&all))
}

fn markdown(all: &[Results]) -> String {
    let mut text = String::new();
    for (nth, results) in (1..).zip(all) {
        let machine = |key: &str| results.machine.get(key).map_or("unknown", String::as_str);
        text += &format!(
            "{nth}. {}; {}; commit {}\n",
            machine("processor"),
            machine("kernel"),
            machine("commit")
        );
    }
    text += "\n| Workload | Point | Best other | Millstream / best other |\n|---|---|---|---:|\n";
    for workload in WORKLOADS {
        let rows: Vec<_> = all
            .iter()
            .filter_map(|results| results.workloads.iter().find(|ran| ran.name == workload.name))
            .map(|ran| Row { workload, ran })
            .collect();
        for point in workload.points {
            let here = |row| Row::ratios(row).find(|(label, ..)| *label == point.label);
            let found: Vec<_> = rows.iter().filter_map(here).collect();
            let mut others: Vec<_> = found.iter().map(|(_, who, _)| label(who)).collect();
            others.dedup();
            let least = found.iter().map(|(.., ratio)| *ratio).min_by(f64::total_cmp);
            let greatest = found.iter().map(|(.., ratio)| *ratio).max_by(f64::total_cmp);
            let (Some(least), Some(greatest)) = (least, greatest) else { continue };
            let range = match found.len() {
                1 => format!("{least:.2} (one machine)"),
                _ => format!("{least:.2} to {greatest:.2}"),
            };
            text += &format!(
                "| {} | {} {} | {} | {range} |\n",
                workload.title,
                point.label,
                workload.axis,
                others.join(", ")
            );
        }
    }
    text
}

/// A workload of the table, and what came out.
struct Row<'r> {
    workload: &'static Workload,
    ran: &'r Ran,
}

fn html(results: &Results) -> Result<String, String> {
    let rows: Vec<Row<'_>> =
        results.workloads.iter().filter_map(|ran| Some(Row { workload: find(&ran.name)?, ran })).collect();
    if rows.is_empty() {
        return Err("no workload in it".into());
    }
    let of_group = |group: Group| rows.iter().filter(move |row| row.workload.group == group);
    let groups: Vec<Group> =
        Group::ALL.into_iter().filter(|group| of_group(*group).next().is_some()).collect();
    let anchors: Vec<String> = groups.iter().map(|group| format!("{group:?}")).collect();
    let mut parts: Vec<_> =
        anchors.iter().zip(&groups).map(|(anchor, group)| (anchor.as_str(), group.words().0)).collect();
    parts.push(("with", "Configuration"));
    let mut page = head("Millstream beside its peers", &parts);
    let machine = |key: &str| results.machine.get(key).map_or("", String::as_str);
    page += &format!(
        "<p class=\"about\">{}; {}. Contenders took turns; points are medians of the rounds, whiskers reach from the \
         least to the greatest of them. CPU counts all of a server's threads; of all cores, everything.</p>",
        escape(machine("processor")),
        escape(machine("kernel"))
    );
    standing(&mut page, &rows);
    for (group, anchor) in groups.iter().zip(&anchors) {
        let (title, about) = group.words();
        page +=
            &format!("<h2 id=\"{anchor}\">{}</h2><p class=\"about\">{}</p>", escape(title), escape(about));
        of_group(*group).for_each(|row| row.write(&mut page));
    }
    configuration(&mut page, results);
    tail(&mut page);
    Ok(page)
}

/// Writes the ratio to the best other at each point: above 1 is ahead.
fn standing(page: &mut String, rows: &[Row<'_>]) {
    let known: Vec<_> = rows.iter().filter(|row| row.ratios().next().is_some()).collect();
    if known.is_empty() {
        return;
    }
    *page += "<h2>Where it stands</h2><p class=\"about\">Millstream, as it comes, beside the best of the others: \
              above 1 it is ahead, whatever the figure.</p>";
    let cells = |row: &&Row<'_>| {
        let ratio = |(point, who, ratio): (&str, &str, f64)| {
            let mark = if ratio >= 1.0 { "holds" } else { "fails" };
            format!(
                "<span class=\"ratio\" title=\"beside {}\">{} <span class=\"{mark}\">{ratio:.2}</span></span>",
                escape(label(who)),
                escape(point)
            )
        };
        format!(
            "<td><a href=\"#{}\">{}</a></td><td>{}</td><td>{}</td>",
            row.workload.name,
            escape(row.workload.title),
            escape(figure::of(row.workload.charts[0]).map_or("", |figure| figure.title)),
            row.ratios().map(ratio).collect::<Vec<_>>().join(" · ")
        )
    };
    let columns = ["Workload", "Figure", "Millstream / best other"];
    table(page, "standing whole", &columns, known.iter().map(cells));
}

fn label(name: &str) -> &str {
    Contender::of(name).map_or(name, |contender| contender.label)
}

impl Entry {
    /// Median, least and greatest of the rounds.
    fn of(&self, figure: &str) -> Option<(f64, f64, f64)> {
        let values = self.figures.get(figure)?;
        let low = values.iter().copied().min_by(f64::total_cmp)?;
        let high = values.iter().copied().max_by(f64::total_cmp)?;
        Some((median(values), low, high))
    }

    /// Why there is no figure.
    fn why(&self) -> String {
        match (&self.left_out, self.failed.first()) {
            (Some(why), _) => why.clone(),
            (None, Some(why)) => format!("failed: {why}"),
            (None, None) => "no such figure".into(),
        }
    }
}

/// How the points of a workload were measured, and when, of which commits.
fn how(points: &[RanPoint]) -> String {
    let span = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) =
            values.fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        if low < high { format!("{low} to {high}") } else { format!("{high}") }
    };
    let rounds = span(&mut points.iter().map(|point| f64::from(point.effort.rounds)));
    let seconds = span(&mut points.iter().map(|point| point.effort.seconds));
    let first = points.iter().map(|point| point.began.as_str()).min().unwrap_or_default();
    let mut commits: Vec<_> = points.iter().map(|point| point.commit.as_str()).collect();
    commits.dedup();
    format!("{rounds} rounds of {seconds} s; {first} UTC; commit {}", commits.join(", "))
}

impl<'r> Row<'r> {
    /// Point, best other and ratio, of the first figure.
    fn ratios(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        let figure = figure::of(self.workload.charts[0]);
        self.ran.points.iter().filter_map(move |point| {
            let figure = figure?;
            let ours = point.entries.get("millstream")?.of(figure.name)?.0;
            let others = point.entries.iter().filter(|(name, _)| !NOT_OTHERS.contains(&name.as_str()));
            let ratio = |value: f64| if figure.more { ours / value } else { value / ours };
            let ratios =
                others.filter_map(|(name, entry)| Some((name.as_str(), ratio(entry.of(figure.name)?.0))));
            let (who, least) = ratios.min_by(|a, b| a.1.total_cmp(&b.1))?;
            Some((point.label.as_str(), who, least))
        })
    }

    /// Each contender at each point that it has a row for.
    fn entries(&self) -> impl Iterator<Item = (&str, &'static str, &Entry)> {
        let here = |point: &'r RanPoint| {
            let entry =
                |name: &&'static str| Some((point.label.as_str(), label(name), point.entries.get(*name)?));
            self.workload.contenders.iter().filter_map(entry)
        };
        self.ran.points.iter().flat_map(here)
    }

    fn write(&self, page: &mut String) {
        let Row { workload, ran } = self;
        *page += &format!(
            "<h3 id=\"{}\">{}</h3><p class=\"about\">{} {}; <code>--only {0}</code>.</p>",
            workload.name,
            escape(workload.title),
            escape(workload.about),
            escape(&how(&ran.points)),
        );
        for figure in workload.charts.iter().filter_map(|name| figure::of(name)) {
            if self.entries().all(|(.., entry)| entry.of(figure.name).is_none()) {
                continue;
            }
            let better = if figure.more { "more is better" } else { "less is better" };
            let title = format!("{}, {} ({better}), by {}", figure.title, figure.unit, workload.axis);
            *page += &format!("<p class=\"chart\">{}</p>{}", escape(&title), self.drawing(figure).html());
            let absent = self.entries().filter(|(.., entry)| entry.of(figure.name).is_none());
            for (at, who, entry) in absent {
                *page +=
                    &format!("<p class=\"absent\">{}</p>", escape(&format!("{at}: {who}: {}", entry.why())));
            }
        }
        self.figures(page);
    }

    fn drawing(&self, figure: &Figure) -> Drawing {
        let points = &self.ran.points;
        let named = points.len() <= NAMED_MAX || points.iter().any(|point| point.value <= 0.0);
        let line = |name: &&str| {
            let place = |(nth, point): (usize, &RanPoint)| {
                let (median, low, high) = point.entries.get(*name)?.of(figure.name)?;
                let x = if named { nth as f64 } else { point.value };
                Some(vec![x, median, median - low, high - median])
            };
            Line { name: label(name).into(), points: points.iter().enumerate().filter_map(place).collect() }
        };
        Drawing {
            title: format!("{}: {}", self.workload.title, figure.title),
            x: self.workload.axis.into(),
            y: format!("{}, {}", figure.title, figure.unit),
            categories: named.then(|| points.iter().map(|point| point.label.clone()).collect()),
            lines: self.workload.contenders.iter().map(line).collect(),
            ..Drawing::default()
        }
    }

    /// Every figure of every contender, for those who want to know.
    fn figures(&self, page: &mut String) {
        let seen =
            |figure: &&Figure| self.entries().any(|(.., entry)| entry.figures.contains_key(figure.name));
        let figures: Vec<&Figure> = figure::FIGURES.iter().filter(seen).collect();
        let titles: Vec<_> =
            figures.iter().map(|figure| format!("{}, {}", figure.title, figure.unit)).collect();
        let columns: Vec<_> = ["", ""].into_iter().chain(titles.iter().map(String::as_str)).collect();
        let across = figures.len();
        let rows = self.entries().flat_map(|(at, who, entry)| {
            let cell = |figure: &&Figure| match entry.of(figure.name) {
                None => "<td></td>".into(),
                Some((median, low, high)) => {
                    let [m, l, h] = [median, low, high].map(written);
                    format!("<td class=\"number\" title=\"{l} to {h}\">{m}</td>")
                }
            };
            let measured = !entry.figures.is_empty();
            let cells = match measured {
                true => figures.iter().map(cell).collect(),
                false => format!("<td colspan=\"{across}\">{}</td>", escape(&entry.why())),
            };
            let failed = entry.failed.iter().filter(move |_| measured).map(move |why| {
                let why = escape(why);
                format!("<td></td><td class=\"fails\">failed</td><td colspan=\"{across}\" class=\"why\">{why}</td>")
            });
            [format!("<td>{}</td><td>{}</td>{cells}", escape(at), escape(who))].into_iter().chain(failed)
        });
        *page += "<details><summary>All figures</summary>";
        table(page, "", &columns, rows);
        *page += "</details>";
    }
}

fn configuration(page: &mut String, results: &Results) {
    *page += "<h2 id=\"with\">Configuration</h2>";
    let row = |contender: &Contender| {
        let entered = results.contenders.iter().find(|entered| entered.name == contender.name);
        let version = match entered.map(|entered| (&entered.version, &entered.missing)) {
            Some((Some(version), _)) => escape(version),
            Some((None, Some(how))) => {
                format!("<span class=\"fails\">missing</span>: <code>{}</code>", escape(how))
            }
            _ => "not in this run".into(),
        };
        format!("<td>{}</td><td>{version}</td><td>{}</td>", escape(contender.label), escape(contender.about))
    };
    let columns = ["Contender", "Version", "Settings, and what it lacks"];
    table(page, "whole", &columns, CONTENDERS.iter().map(row));
    let rows = results.machine.iter();
    let rows = rows.map(|(name, value)| format!("<td>{}</td><td>{}</td>", escape(name), escape(value)));
    table(page, "whole", &["Machine", ""], rows);
}

#[cfg(test)]
mod tests;
