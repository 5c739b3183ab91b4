#!/usr/bin/env python3
"""Makes the pictures of the documents. Without a name docs/lab.png, the report in the README; with names of experiments
docs/figures/NAME.png, the plots of each:

    cargo build --release && target/lab-python/bin/python crates/lab/lab/python/screenshot.py target/release/millstream card
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from browser import Browser

DOCS = Path(__file__).resolve().parents[4] / "docs"
WIDTH = 1000


def report(command, experiment, page):
    """Runs an experiment and opens its report."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([Path(command).resolve(), "lab", "run", experiment, "-o", folder], check=True)
        page.open(Path(folder, "report.html"))
    page.tell("document.documentElement.dataset.theme = 'light'")


def whole(command, page):
    report(command, "p1-htcp-sawtooth", page)
    page.mouse("mouseMoved", page.place(".plot svg", (0.62, 0.5)))
    height = page.tell("document.querySelector('.told').getBoundingClientRect().bottom + scrollY + 2")
    (DOCS / "lab.png").write_bytes(page.screenshot(0, 0, WIDTH, height))


def plots(command, experiment, page):
    report(command, experiment, page)
    # Buttons are for those who have the page itself.
    page.tell("document.querySelectorAll('.plot .tools').forEach(tools => tools.remove())")
    top, bottom = page.tell("""(() => { const drawn = [...document.querySelectorAll('h3 + .plot')];
        return [drawn[0].previousSibling.getBoundingClientRect().top + scrollY,
                drawn.at(-1).getBoundingClientRect().bottom + scrollY]; })()""")
    (DOCS / "figures").mkdir(exist_ok=True)
    (DOCS / "figures" / f"{experiment}.png").write_bytes(page.screenshot(0, top, WIDTH, bottom - top))


def main():
    command, *experiments = sys.argv[1:]
    with Browser(WIDTH, 1000) as page:
        for experiment in experiments:
            plots(command, experiment, page)
        if not experiments:
            whole(command, page)
        if page.problems:
            sys.exit("\n".join(page.problems))


if __name__ == "__main__":
    main()
