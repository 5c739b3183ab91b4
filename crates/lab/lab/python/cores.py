"""Draws docs/cores.svg from what `cargo xtask cards --scaling` kept: how many requests the same number of instructions
on each core would answer, on one core to eight.

    python crates/lab/lab/python/cores.py target/cards/scaling.json docs/cores.svg
"""

import json
import sys

WIDTH, HEIGHT, LEFT, TOP, WIDE, TALL = 620, 380, 60, 40, 500, 260
COLOURS = ["#1668a8", "#2a8a3a", "#a8441c", "#777777"]


def main(source, target):
    with open(source, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    # Of a card that does not spread connections over the cores there is nothing to see.
    rows = [row for row in rows if min(row["spread"]) > 0]
    rows = [row for row in rows if sum(other["card"] == row["card"] for other in rows) > 1]
    most = max(row["cores"] for row in rows)
    across = lambda cores: LEFT + WIDE * cores / most
    up = lambda times: TOP + TALL * (1 - times / (most + 0.5))
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="{TOP - 16}" font-weight="bold">Requests for the same instructions on each core, to one core</text>',
        f'<path d="M{across(1):.1f} {up(1):.1f}L{across(most):.1f} {up(most):.1f}" stroke="#bbb" stroke-dasharray="5 4"/>',
    ]
    for cores in sorted({row["cores"] for row in rows}):
        svg.append(f'<path d="M{LEFT} {up(cores):.1f}h{WIDE}" stroke="#eee"/>')
        svg.append(f'<text x="{LEFT - 8}" y="{up(cores) + 4:.1f}" text-anchor="end">{cores}</text>')
        svg.append(f'<text x="{across(cores):.1f}" y="{TOP + TALL + 18}" text-anchor="middle">{cores}</text>')
    svg.append(f'<text x="{LEFT + WIDE / 2}" y="{TOP + TALL + 38}" text-anchor="middle">cores</text>')
    lines = []
    for card in dict.fromkeys(row["card"] for row in rows):
        own = sorted((row["cores"], row) for row in rows if row["card"] == card)
        cost = {"the server's": lambda row: row["together"]["program"],
                "with the guest's kernel": lambda row: row["together"]["program"] + row["together"]["guest_kernel"]}
        for name, each in cost.items():
            points = [(cores, cores / own[0][0] * each(own[0][1]) / each(row)) for cores, row in own]
            lines.append((f"{card}, {name}", points))
    for at, (colour, (name, points)) in enumerate(zip(COLOURS, lines)):
        path = " ".join(f"{'ML'[i > 0]}{across(cores):.1f} {up(times):.1f}" for i, (cores, times) in enumerate(points))
        svg.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        svg += [f'<circle cx="{across(cores):.1f}" cy="{up(times):.1f}" r="3" fill="{colour}"/>' for cores, times in points]
        svg.append(f'<text x="{LEFT + 16}" y="{TOP + 16 + 16 * at}" fill="{colour}">{name}</text>')
    svg += [
        f'<text x="{LEFT}" y="{HEIGHT - 22}">Instructions in guests of QEMU, not times: contention for caches, memory and</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}">a card is not in the picture. Dashed: each core adds one.</text>',
        "</svg>",
    ]
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(svg) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
