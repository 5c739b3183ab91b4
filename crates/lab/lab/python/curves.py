"""Draws docs/mulwin.svg from the report of `millstream lab run mulwin`: goodput as a multiple of Reno's over
sub-windows, beside the model and the fits of MulWinTCP's own measurements.

    python crates/lab/lab/python/curves.py lab-results/report.csv docs/mulwin.svg
"""

import csv
import sys
from collections import defaultdict

WIDTH, HEIGHT, LEFT, TOP, SIDE = 760, 340, 50, 40, 300
# Experiment, title, round trip in seconds, packets to a loss, the paper's fit.
PANELS = [
    ("mulwin-lan", "2 ms, each 100,000th lost", 0.002, 100_000, (1.074, 0.07208, 0.8448)),
    ("mulwin-wan", "20 ms, each 1,000th lost", 0.02, 1_000, (1.091, 0.09604, 0.8116)),
]


def measured(path, experiment, rtt, every):
    """Multiples of Reno's rate by the model, on average over seeds."""
    reno = (1.5 * every) ** 0.5 * 1448 * 8 / rtt / 1e6
    by_n = defaultdict(list)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["experiment"] == experiment:
                by_n[int(row["tunables.mulwin.n"])].append(float(row["goodput_mbit"]) / reno)
    return sorted((n, sum(values) / len(values)) for n, values in by_n.items())


def line(points, at, style):
    places = " ".join("{:.1f},{:.1f}".format(*at(n, value)) for n, value in points)
    return f'<polyline fill="none" {style} points="{places}"/>'


def panel(path, left, experiment, title, rtt, every, fit):
    def at(n, value):
        return left + n / 16 * SIDE, TOP + (1 - value / 16) * 260

    a, b, c = fit
    steps = [n / 4 for n in range(4, 65)]
    seen = measured(path, experiment, rtt, every)
    parts = [f'<text x="{left + SIDE / 2}" y="24" text-anchor="middle">{title}</text>']
    for tick in range(0, 17, 4):
        (x, _), (_, y) = at(tick, 0), at(0, tick)
        parts.append(f'<path stroke="#ccc" d="M{left} {y}H{left + SIDE}M{x} {TOP}V{TOP + 260}"/>')
        parts.append(f'<text x="{x}" y="{TOP + 276}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{tick}</text>')
    parts.append(line([(n, n) for n in steps], at, 'stroke="#888" stroke-dasharray="5 4"'))
    parts.append(line([(n, n * (a - b * n**c)) for n in steps], at, 'stroke="#c0392b" stroke-width="2"'))
    parts.append(line(seen, at, 'stroke="#2166ac" stroke-width="2"'))
    parts += ['<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="#2166ac"/>'.format(*at(*point)) for point in seen]
    return parts


def main(report, out):
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 20}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for nth, row in enumerate(PANELS):
        parts += panel(report, LEFT + nth * (SIDE + 60), *row)
    legend = [("#888", "the model: N times Reno"), ("#2166ac", "this stack"), ("#c0392b", "the paper's stack: N f(N)")]
    for nth, (colour, text) in enumerate(legend):
        x = LEFT + nth * 220
        parts.append(f'<path stroke="{colour}" stroke-width="2" d="M{x} {HEIGHT}h24"/>')
        parts.append(f'<text x="{x + 30}" y="{HEIGHT + 4}">{text}</text>')
    parts.append("</svg>")
    with open(out, "w") as file:
        file.write("\n".join(parts) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
