"""Draws docs/faltcon.svg from what `cargo xtask bench again --json` printed: what the handshake cache
saves, over sizes and over how many connections are to hosts that do, beside FALTCON's published figures.

    python crates/lab/lab/python/faltcon.py again.json docs/faltcon.svg
"""

import json
import sys

WIDTH, HEIGHT, LEFT, TOP, SIDE, TALL = 760, 330, 60, 40, 290, 220
LEAST, MOST = -35.0, 10.0
# What the paper has at best, per cent: cycles of a connection.
PAPER = -31.0


def per_cent(part):
    return 100 * part - 100


def panel(left, title, ticks, lines):
    """A set of axes with lines: a name, a colour and points (place from 0 to 1, value)."""
    height = lambda value: TOP + TALL * (MOST - value) / (MOST - LEAST)
    place = lambda x: left + SIDE * x
    out = [f'<text x="{left}" y="{TOP - 14}" font-weight="bold">{title}</text>']
    for value in range(int(LEAST) + 5, int(MOST) + 1, 10):
        out.append(f'<path d="M{left} {height(value):.1f}h{SIDE}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{height(value) + 4:.1f}" text-anchor="end">{value:+d} %</text>')
    for x, text in ticks:
        out.append(f'<text x="{place(x):.1f}" y="{TOP + TALL + 18}" text-anchor="middle">{text}</text>')
    out.append(f'<path d="M{left} {height(0):.1f}h{SIDE}" stroke="#888"/>')
    out.append(f'<path d="M{left} {height(PAPER):.1f}h{SIDE}" stroke="#b22" stroke-dasharray="5 4"/>')
    for name, colour, points in lines:
        path = " ".join(f"{'ML'[i > 0]}{place(x):.1f} {height(y):.1f}" for i, (x, y) in enumerate(points))
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{place(x):.1f}" cy="{height(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
        x, y = points[-1]
        out.append(f'<text x="{place(x) - 4:.1f}" y="{height(y) - 9:.1f}" text-anchor="end" fill="{colour}">{name}</text>')
    return out


def main(source, target):
    with open(source, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    counted = [row for row in rows if "control" in row]
    sizes = [row for row in counted if row["percent"] == 100 and row["peers"] == 1]
    ratios = [row for row in counted if row["size"] == 64 and row["peers"] == 100]
    lines = lambda rows, x: [
        (name, colour, [(x(nth, row), per_cent(row[key])) for nth, row in enumerate(rows)])
        for name, colour, key in [("control path", "#1668a8", "control"), ("connection and request", "#2a8a3a", "whole")]
    ]
    step = 1 / max(1, len(sizes) - 1)
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        *panel(LEFT, "Bytes of request and answer", [(n * step, row["size"]) for n, row in enumerate(sizes)],
               lines(sizes, lambda n, _: n * step)),
        *panel(LEFT + SIDE + 80, "Connections to hosts met before",
               [(row["percent"] / 100, f'{row["percent"]} %') for row in ratios],
               lines(ratios, lambda _, row: row["percent"] / 100)),
        f'<text x="{LEFT}" y="{HEIGHT - 14}">Instructions with the handshake cache against those without. '
        'Dashed: cycles, the most that FALTCON saved in Linux 5.1.</text>',
        "</svg>",
    ]
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(svg) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
