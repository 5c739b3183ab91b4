#!/usr/bin/env python3
"""Makes the picture of the benchmarks' page that the README shows: `cargo xtask bench picture [bench.html]`."""

import sys
from pathlib import Path

from browser import Browser

WIDTH = 1000
# Enough for where we stand and that.
HEIGHT_MAX = 2000


def main():
    page_file, picture = sys.argv[1:]
    with Browser(WIDTH, 1000) as page:
        page.open(page_file)
        page.tell("document.documentElement.dataset.theme = 'light'")
        # Down to the end of the first workload's first chart.
        bottom = page.tell("document.querySelectorAll('.chart')[1].getBoundingClientRect().top + scrollY")
        Path(picture).write_bytes(page.screenshot(0, 0, WIDTH, min(bottom, HEIGHT_MAX)))
        if page.problems:
            sys.exit("\n".join(page.problems))


if __name__ == "__main__":
    main()
