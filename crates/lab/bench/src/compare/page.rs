//! The page: where we stand, a chart for each workload, all figures, and the configuration.

use super::bars::{Bar, Cluster, draw, escape};
use super::contender::{CONTENDERS, Contender};
use super::figure::{self, Figure, written};
use super::kept::{Entry, Ran, RanPoint, Results};
use super::{Group, WORKLOADS, Workload, find};
use crate::stats;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Points that are drawn as bars; more are a curve.
const BARS_MAX: usize = 3;
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
    Ok(table(&all))
}

fn table(all: &[Results]) -> String {
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
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>Millstream beside its \
         peers</title><style>{}{}</style></head><body><header><h1>Millstream beside its peers</h1><button \
         type=\"button\" id=\"theme\">light or dark</button></header>",
        lab::report::STYLE,
        include_str!("page.css")
    );
    let machine = |key: &str| results.machine.get(key).map_or("", String::as_str);
    page += &format!(
        "<p class=\"about\">{}; {}. Contenders took turns; bars are medians of the rounds, whiskers the interval \
         that holds the median with at least 93 % (all rounds where they are fewer than eight). CPU counts all of a \
         server's threads; of all cores, everything.</p>",
        escape(machine("processor")),
        escape(machine("kernel"))
    );
    page += "<nav>";
    for group in Group::ALL.into_iter().filter(|group| rows.iter().any(|row| row.workload.group == *group)) {
        page += &format!("<a href=\"#{group:?}\">{}</a>", escape(group.words().0));
    }
    page += "<a href=\"#with\">Configuration</a></nav>";
    standing(&mut page, &rows);
    for group in Group::ALL {
        let mut of_group = rows.iter().filter(|row| row.workload.group == group).peekable();
        if of_group.peek().is_some() {
            let (title, about) = group.words();
            page += &format!(
                "<h2 id=\"{group:?}\">{}</h2><p class=\"about\">{}</p>",
                escape(title),
                escape(about)
            );
            of_group.for_each(|row| row.write(&mut page));
        }
    }
    configuration(&mut page, results);
    lab::report::SCRIPTS.iter().for_each(|script| page += &format!("<script>{script}</script>"));
    Ok(page + "</body></html>\n")
}

/// Writes the ratio to the best other at each point: above 1 is ahead.
fn standing(page: &mut String, rows: &[Row<'_>]) {
    let known: Vec<_> = rows.iter().filter(|row| row.ratios().next().is_some()).collect();
    if known.is_empty() {
        return;
    }
    *page += "<h2>Where it stands</h2><p class=\"about\">Millstream, as it comes, beside the best of the others: \
              above 1 it is ahead, whatever the figure.</p><div class=\"bars\"><table \
              class=\"standing\"><thead><tr><th>Workload</th><th>Figure</th><th>Millstream / best \
              other</th></tr></thead><tbody>";
    for row in known {
        let cells: Vec<_> = row
            .ratios()
            .map(|(point, who, ratio)| {
                let mark = if ratio >= 1.0 { "holds" } else { "fails" };
                let (label, who) = (escape(point), escape(label(who)));
                let ratio = format!("<span class=\"{mark}\">{ratio:.2}</span>");
                format!("<span class=\"ratio\" title=\"beside {who}\">{label} {ratio}</span>")
            })
            .collect();
        let figure = figure::of(row.workload.charts[0]).map_or("", |figure| figure.title);
        *page += &format!(
            "<tr><td><a href=\"#{0}\">{1}</a></td><td>{2}</td><td>{3}</td></tr>",
            row.workload.name,
            escape(row.workload.title),
            escape(figure),
            cells.join(" · ")
        );
    }
    *page += "</tbody></table></div>";
}

fn label(name: &str) -> &str {
    Contender::of(name).map_or(name, |contender| contender.label)
}

impl Entry {
    /// Median, and the ends of its interval.
    fn of(&self, figure: &str) -> Option<(f64, f64, f64)> {
        let values = self.figures.get(figure).filter(|values| !values.is_empty())?;
        let (low, high) = stats::interval(values);
        Some((stats::median(values), low, high))
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

impl Row<'_> {
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
            if ran
                .points
                .iter()
                .all(|point| point.entries.values().all(|entry| entry.of(figure.name).is_none()))
            {
                continue;
            }
            let better = if figure.more { "more is better" } else { "less is better" };
            let title = format!("{}, {} ({better}), by {}", figure.title, figure.unit, workload.axis);
            *page += &format!("<p class=\"chart\">{}</p>", escape(&title));
            if ran.points.len() > BARS_MAX {
                *page += &format!("<div class=\"plot\">{}</div>", lab::report::data(&self.curve(figure)));
            } else {
                *page += &format!("<div class=\"bars\">{}</div>", draw(&title, &self.clusters(figure)));
            }
        }
        self.table(page);
    }

    fn clusters(&self, figure: &Figure) -> Vec<Cluster> {
        let bar = |point: &RanPoint, nth: usize, name: &str| {
            let entry = point.entries.get(name)?;
            let value = entry.of(figure.name).ok_or_else(|| entry.why());
            Some(Bar { label: label(name).into(), colour: nth, value })
        };
        let cluster = |point: &RanPoint| Cluster {
            label: point.label.clone(),
            bars: self
                .workload
                .contenders
                .iter()
                .enumerate()
                .filter_map(|(nth, name)| bar(point, nth, name))
                .collect(),
        };
        self.ran.points.iter().map(cluster).collect()
    }

    /// As the laboratory's script draws it.
    fn curve(&self, figure: &Figure) -> serde_json::Value {
        let numbers = self.ran.points.iter().all(|point| point.value > 0.0);
        let place = |nth: usize, point: &RanPoint| if numbers { point.value } else { nth as f64 };
        let line = |name: &&str| {
            let points: Vec<_> = self
                .ran
                .points
                .iter()
                .enumerate()
                .filter_map(|(nth, point)| {
                    let (median, low, high) = point.entries.get(*name)?.of(figure.name)?;
                    Some(vec![place(nth, point), median, (high - median).max(median - low)])
                })
                .collect();
            json!({"name": label(name), "points": points})
        };
        let lines: Vec<_> = self.workload.contenders.iter().map(line).collect();
        let labels: Vec<_> = self.ran.points.iter().map(|point| &point.label).collect();
        let mut plot = json!({
            "title": format!("{}: {}", self.workload.title, figure.title),
            "x": self.workload.axis, "y": format!("{}, {}", figure.title, figure.unit), "lines": lines,
        });
        if !numbers {
            plot["categories"] = json!(labels);
        }
        plot
    }

    /// Every figure of every contender, for those who want to know.
    fn table(&self, page: &mut String) {
        let figures: Vec<&Figure> = figure::FIGURES
            .iter()
            .filter(|figure| {
                let mut entries = self.ran.points.iter().flat_map(|point| point.entries.values());
                entries.any(|entry| entry.figures.contains_key(figure.name))
            })
            .collect();
        *page +=
            "<details><summary>All figures</summary><div class=\"wide\"><table><thead><tr><th></th><th></th>";
        figures.iter().for_each(|figure| {
            *page += &format!("<th>{}, {}</th>", escape(figure.title), escape(figure.unit))
        });
        *page += "</tr></thead><tbody>";
        for point in &self.ran.points {
            for name in self.workload.contenders {
                let Some(entry) = point.entries.get(*name) else { continue };
                let (at, who) = (escape(&point.label), escape(label(name)));
                *page += &format!("<tr><td>{at}</td><td>{who}</td>");
                if entry.figures.is_empty() {
                    *page += &format!("<td colspan=\"{}\">{}</td></tr>", figures.len(), escape(&entry.why()));
                    continue;
                }
                for figure in &figures {
                    *page += &entry.of(figure.name).map_or("<td></td>".into(), |(median, low, high)| {
                        let (m, l, h) = (written(median), written(low), written(high));
                        format!("<td class=\"number\" title=\"{l} to {h}\">{m}</td>")
                    });
                }
                *page += "</tr>";
                for why in &entry.failed {
                    *page += &format!(
                        "<tr><td></td><td class=\"fails\">failed</td><td colspan=\"{}\" class=\"why\">{}</td></tr>",
                        figures.len(),
                        escape(why)
                    );
                }
            }
        }
        *page += "</tbody></table></div></details>";
    }
}

fn configuration(page: &mut String, results: &Results) {
    *page += "<h2 id=\"with\">Configuration</h2><div \
              class=\"wide\"><table><thead><tr><th>Contender</th><th>Version</th><th>Settings, and what it \
              lacks</th></tr></thead><tbody>";
    for contender in CONTENDERS {
        let entered = results.contenders.iter().find(|entered| entered.name == contender.name);
        let version = match entered.map(|entered| (&entered.version, &entered.missing)) {
            Some((Some(version), _)) => escape(version),
            Some((None, Some(how))) => {
                format!("<span class=\"fails\">missing</span>: <code>{}</code>", escape(how))
            }
            _ => "not in this run".into(),
        };
        let (label, about) = (escape(contender.label), escape(contender.about));
        *page += &format!("<tr><td>{label}</td><td>{version}</td><td>{about}</td></tr>");
    }
    *page += "</tbody></table></div><div class=\"wide\"><table><tbody>";
    for (name, value) in &results.machine {
        *page += &format!("<tr><td>{}</td><td>{}</td></tr>", escape(name), escape(value));
    }
    *page += "</tbody></table></div>";
}

#[cfg(test)]
mod tests {
    //! Goal: who is ahead is said right, whether more or less is better, and no contender that is missing is left out
    //! silently.
    use super::super::kept::{Effort, Entered};
    use super::*;

    fn entry(figure: &str, values: &[f64]) -> Entry {
        Entry { figures: [(figure.to_string(), values.to_vec())].into(), ..Entry::default() }
    }

    fn results(workload: &str, figure: &str, ours: f64, kernel: f64) -> Results {
        let entries = [
            ("millstream".to_string(), entry(figure, &[ours])),
            ("kernel".to_string(), entry(figure, &[kernel])),
            ("paired".to_string(), Entry { failed: vec!["<broke>".into()], ..Entry::default() }),
        ];
        let point = RanPoint {
            label: "64 B".into(),
            value: 64.0,
            effort: Effort { rounds: 1, seconds: 1.0 },
            began: "2026-11-22 07:00".into(),
            commit: "abc".into(),
            entries: entries.into(),
        };
        let ran = Ran { name: workload.into(), points: vec![point] };
        let missing =
            Entered { name: "lwip".into(), version: None, missing: Some("apt-get install it".into()) };
        Results { machine: [].into(), contenders: vec![missing], workloads: vec![ran] }
    }

    #[test]
    fn several_machines_make_a_range() {
        let mut all = [results("sizes", "per_s", 98.0, 100.0), results("sizes", "per_s", 260.0, 100.0)];
        for (results, processor) in all.iter_mut().zip(["family 25", "family 26"]) {
            results.machine.insert("processor".into(), processor.into());
        }
        let text = table(&all);
        assert!(text.starts_with("1. family 25; unknown; commit unknown\n2. family 26; "), "{text}");
        assert!(text.contains("| Linux kernel | 0.98 to 2.60 |\n"), "{text}");
        assert!(table(&all[..1]).contains(" | 0.98 (one machine) |\n"));
        ranges(&["/nowhere/bench.json".into()]).expect_err("nothing is there");
    }

    #[test]
    fn ahead_is_above_one() {
        let page = html(&results("sizes", "per_s", 200.0, 100.0)).unwrap();
        assert!(page.contains("<span class=\"holds\">2.00</span>"), "a higher rate");
        let page = html(&results("ping-pong", "p50_us", 200.0, 100.0)).unwrap();
        assert!(page.contains("<span class=\"fails\">0.50</span>"), "a longer wait");
    }

    #[test]
    fn nobody_is_left_out_silently() {
        let page = html(&results("sizes", "per_s", 200.0, 100.0)).unwrap();
        assert!(page.contains("failed: &lt;broke&gt;") && page.contains("apt-get install it"));
        assert!(html(&Results::default()).is_err());
    }

    #[test]
    fn points_of_several_runs_say_so() {
        let mut points = results("sizes", "per_s", 2.0, 1.0).workloads.remove(0).points;
        assert_eq!(how(&points), "1 rounds of 1 s; 2026-11-22 07:00 UTC; commit abc");
        let later = RanPoint {
            effort: Effort { rounds: 5, seconds: 0.4 },
            commit: "def".into(),
            ..points[0].clone()
        };
        points.push(later);
        assert_eq!(how(&points), "1 to 5 rounds of 0.4 to 1 s; 2026-11-22 07:00 UTC; commit abc, def");
    }
}
