#!/usr/bin/env python3
"""Makes docs/lab.png, the picture of a report in the README:

    cargo build --release && target/lab-python/bin/python crates/lab/lab/python/screenshot.py target/release/millstream
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from browser import Browser

ROOT = Path(__file__).resolve().parents[4]
EXPERIMENT = "p1-htcp-sawtooth"


def main():
    with tempfile.TemporaryDirectory() as folder, Browser(1000, 1000) as page:
        subprocess.run([Path(sys.argv[1]).resolve(), "lab", "run", EXPERIMENT, "-o", folder], check=True)
        page.open(Path(folder, "report.html"))
        page.tell("document.documentElement.dataset.theme = 'light'")
        page.mouse("mouseMoved", page.place(".plot svg", (0.62, 0.5)))
        height = page.tell("document.querySelector('.told').getBoundingClientRect().bottom + scrollY + 2")
        (ROOT / "docs" / "lab.png").write_bytes(page.screenshot(0, 0, 1000, height))
        if page.problems:
            sys.exit("\n".join(page.problems))


if __name__ == "__main__":
    main()
