"""Draws docs/scale.svg from what `cargo xtask bench scale --json` printed: what a request costs while more and more
connections are established.

    python crates/lab/lab/python/scale.py scale.json docs/scale.svg
"""

import json
import math
import statistics
import sys

WIDTH, HEIGHT, LEFT, TOP, WIDE, TALL = 760, 360, 70, 40, 640, 240
COLOURS = ["#1668a8", "#2a8a3a"]


def main(source, target):
    with open(source, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    least, most = (choose(math.log10(row["connections"]) for row in rows) for choose in (min, max))
    top = 100 * math.ceil(max(max(row["all"]) for row in rows) / 100)
    place = lambda connections: LEFT + WIDE * (math.log10(connections) - least) / max(1, most - least)
    height = lambda cost: TOP + TALL * (1 - cost / top)
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="{TOP - 16}" font-weight="bold">Nanoseconds for a request and its answer, both ends</text>',
    ]
    for cost in range(0, top + 1, 100):
        svg.append(f'<path d="M{LEFT} {height(cost):.1f}h{WIDE}" stroke="#ddd"/>')
        svg.append(f'<text x="{LEFT - 8}" y="{height(cost) + 4:.1f}" text-anchor="end">{cost}</text>')
    for connections in sorted({row["connections"] for row in rows}):
        x, y = place(connections), TOP + TALL
        svg.append(f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{connections:,}</text>')
    svg.append(f'<text x="{LEFT + WIDE / 2}" y="{TOP + TALL + 38}" text-anchor="middle">established connections</text>')
    # Where there are not so many connections, all of them are busy: the last row of a size is that of the most.
    few = {row["connections"]: row for row in reversed(rows)}
    many = {row["connections"]: row for row in rows}
    for colour, name, line in zip(COLOURS, ["64 busy", "100,000 busy (all, where there are fewer)"], [few, many]):
        points = [(place(at), row["all"]) for at, row in sorted(line.items())]
        path = " ".join(f"{'ML'[i > 0]}{x:.1f} {height(statistics.median(all)):.1f}" for i, (x, all) in enumerate(points))
        svg.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, all in points:
            svg.append(f'<path d="M{x:.1f} {height(min(all)):.1f}V{height(max(all)):.1f}" stroke="{colour}"/>')
            svg.append(f'<circle cx="{x:.1f}" cy="{height(statistics.median(all)):.1f}" r="3" fill="{colour}"/>')
        x, all = points[-1]
        y = height(max(all)) - 8 if line is many else height(min(all)) + 18
        svg.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" fill="{colour}">{name}</text>')
    svg += [
        f'<text x="{LEFT}" y="{HEIGHT - 14}">Client and server stack in one thread, joined in memory. '
        "Medians; whiskers from the least to the greatest round.</text>",
        "</svg>",
    ]
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(svg) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
