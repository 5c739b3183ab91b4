//! Bars with intervals, drawn without a script.

use super::figure::written;

const WIDTH: f64 = 860.0;
/// Where bars begin, and how much room their values take at the end.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 130.0;
const BAR: f64 = 15.0;
const GAP: f64 = 10.0;

/// A bar: who, its class of colour, and its median with the ends of the interval; or why there is none.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) colour: usize,
    pub(super) value: Result<(f64, f64, f64), String>,
}

/// Bars that stand together.
pub(super) struct Cluster {
    pub(super) label: String,
    pub(super) bars: Vec<Bar>,
}

/// The whole drawing as SVG.
pub(super) fn draw(title: &str, clusters: &[Cluster]) -> String {
    let bars = clusters.iter().map(|cluster| cluster.bars.len()).sum::<usize>();
    let height = bars as f64 * BAR + (clusters.len() + 1) as f64 * GAP;
    let ends = clusters.iter().flat_map(|cluster| &cluster.bars).filter_map(|bar| bar.value.as_ref().ok());
    let most = ends.map(|(_, _, high)| *high).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let mut out =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", escape(title));
    let mut y = GAP;
    for cluster in clusters {
        let middle = y + cluster.bars.len() as f64 * BAR / 2.0 + 4.0;
        out += &format!("<text x=\"0\" y=\"{middle}\" class=\"at\">{}</text>", escape(&cluster.label));
        for bar in &cluster.bars {
            out += &one(bar, y, scale);
            y += BAR;
        }
        y += GAP;
    }
    out + "</svg>"
}

fn one(bar: &Bar, y: f64, scale: f64) -> String {
    let (text, label) = (y + BAR - 4.0, escape(&bar.label));
    let mut out = format!("<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{label}</text>", LEFT - 6.0);
    match &bar.value {
        Err(why) => out += &format!("<text x=\"{LEFT}\" y=\"{text}\" class=\"none\">{}</text>", escape(why)),
        Ok((median, low, high)) => {
            let (width, middle) = (median * scale, y + BAR / 2.0);
            let (low, high) = (LEFT + low * scale, LEFT + high * scale);
            out += &format!(
                "<rect class=\"c{}\" x=\"{LEFT}\" y=\"{}\" width=\"{width:.1}\" height=\"{}\"/>\
                 <path class=\"interval\" d=\"M{low:.1} {middle}H{high:.1}M{low:.1} {a}v6M{high:.1} {a}v6\"/>\
                 <text x=\"{:.1}\" y=\"{text}\">{}</text>",
                bar.colour,
                y + 1.0,
                BAR - 2.0,
                high.max(LEFT + width) + 6.0,
                written(*median),
                a = middle - 3.0,
            );
        }
    }
    out
}

/// Text as it stands in a page.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    //! Goal: the longest bar fills the room, and what is missing is said.
    use super::*;

    #[test]
    fn lengths_follow_values() {
        let bar = |value: f64| Bar { label: "a".into(), colour: 0, value: Ok((value, value, value)) };
        let gone = Bar { label: "b".into(), colour: 1, value: Err("<gone>".into()) };
        let drawn = draw("t", &[Cluster { label: "x".into(), bars: vec![bar(50.0), bar(100.0), gone] }]);
        assert!(drawn.contains("width=\"480.0\"") && drawn.contains("width=\"240.0\""), "{drawn}");
        assert!(drawn.contains("&lt;gone&gt;"));
    }
}
