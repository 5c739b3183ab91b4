//! Figures, and their format.

/// A figure.
pub(super) struct Figure {
    /// Its name in the results.
    pub(super) name: &'static str,
    /// Title on the page.
    pub(super) title: &'static str,
    /// Of what.
    pub(super) unit: &'static str,
    /// Is a greater one better?
    pub(super) more: bool,
}

const fn more(name: &'static str, title: &'static str, unit: &'static str) -> Figure {
    Figure { name, title, unit, more: true }
}

const fn less(name: &'static str, title: &'static str, unit: &'static str) -> Figure {
    Figure { name, title, unit, more: false }
}

/// How many cores others kept busy during a measurement, about.
pub(super) const OTHERS: &str = "others";

/// Every figure.
pub(super) const FIGURES: [Figure; 16] = [
    more("per_s", "rate", "a second"),
    more("gbit", "goodput", "Gbit/s"),
    more("mbit", "goodput", "Mbit/s"),
    less("cpu_us", "server's CPU", "us each"),
    less("spin_us", "of which it only looked for packets", "us each"),
    less("client_us", "client's CPU", "us each"),
    less("machine_us", "CPU of all cores", "us each"),
    less("cores", "server's cores busy", "of 1"),
    less("worked", "server's cores busy without looking for packets", "of 1"),
    less("p50_us", "median latency", "us"),
    less("p99_us", "99 % answered within", "us"),
    less("p999_us", "99.9 % answered within", "us"),
    less("bytes", "memory of an idle connection's end", "bytes"),
    more("packets", "packets", "a transaction"),
    less("errors", "errors", "in all"),
    less(OTHERS, "cores busy with what is not measured", "cores"),
];

/// The figure of that name.
pub(super) fn of(name: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name)
}

/// A number as people write it: three or four digits, thousands apart.
pub(super) fn written(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        let digits = format!("{:.0}", value.abs());
        let mut out = String::from(if value < 0.0 { "-" } else { "" });
        for (nth, digit) in digits.chars().enumerate() {
            if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        return out;
    }
    match size {
        s if s >= 100.0 => format!("{value:.0}"),
        s if s >= 10.0 => format!("{value:.1}"),
        s if s >= 0.1 || s == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests;
