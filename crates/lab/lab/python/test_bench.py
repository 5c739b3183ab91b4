"""Goal: workloads that need no privilege run, and their page opens in a browser without an error, with a point for
every contender that took part and a reason for all who did not."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import Browser

BENCH = os.path.abspath(os.environ.get("MILLSTREAM_BENCH", "target/debug/millstream-bench"))
MILLSTREAM = os.path.abspath(os.environ.get("MILLSTREAM", "target/debug/millstream"))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        results, page = Path(folder.name, "bench.json"), Path(folder.name, "bench.html")
        run = lambda *words: subprocess.run([BENCH, *words], check=True, capture_output=True,
                                            env={**os.environ, "MILLSTREAM_BIN": MILLSTREAM})
        size = ["--rounds", "2", "--seconds", "0.02", "--json", results]
        run("--all", "--quick", "--only", "memory-short", *size)
        # A second run leaves what the first has brought.
        run("--all", "--only", "idea-batch", *size)
        run("report", "--from", results, "--to", page)
        cls.results = json.loads(results.read_text())
        browser = Browser()
        cls.page = browser.__enter__()
        cls.addClassCleanup(browser.__exit__)
        cls.page.open(page)

    def tearDown(self):
        self.assertEqual(self.page.problems, [])

    def test_everybody_is_there(self):
        short, batch = self.results["workloads"]
        self.assertEqual((short["name"], batch["name"]), ("memory-short", "idea-batch"))
        # Those of the first workload, which stands before the second's heading.
        before = "[...document.querySelectorAll(%r)].filter(it => it.compareDocumentPosition(document.querySelector(" \
            "'#idea-batch')) & Node.DOCUMENT_POSITION_FOLLOWING).length"
        points = self.page.tell(before % ".plot .line circle")
        reached = [entry for point in short["points"] for entry in point["entries"].values() if entry["figures"]]
        self.assertEqual(points, len(reached))
        self.assertGreaterEqual(len(reached), 4, "ours and smoltcp, at two points")
        missing = [entry for point in short["points"] for entry in point["entries"].values() if entry["left_out"]]
        self.assertEqual(self.page.tell(before % ".absent"), len(missing))

    def test_a_curve_is_drawn(self):
        drawn = "[...document.querySelectorAll('.plot .line path')].filter(path => path.getTotalLength() > 3).length"
        self.assertGreater(self.page.tell(drawn), 0)

    def test_a_plots_data_has_the_rounds_ends(self):
        self.page.tell("window.saved = []; URL.createObjectURL = blob => { saved.push(blob); return '#'; }")
        self.page.click(".plot .tools button:nth-last-child(2)")
        rows = self.page.tell("saved[0].text()").split("\n")
        self.assertEqual(rows[0], 'line,in flight,"rate, a second",least,greatest')
        rounds = self.results["workloads"][0]["points"][0]["entries"]["millstream"]["figures"]["per_s"]
        for seen, end in zip(rows[1].split(",")[3:], (min(rounds), max(rounds))):
            self.assertAlmostEqual(float(seen), end, places=3)

    def test_it_says_who_is_ahead(self):
        ratios = self.page.tell("[...document.querySelectorAll('.standing .ratio')].map(cell => cell.textContent)")
        self.assertEqual(len(ratios), 2, ratios)

    def test_the_configuration_is_whole(self):
        text = self.page.tell("document.querySelector('#with').parentElement.textContent")
        for word in ("smoltcp", "gVisor", "lwIP", "kernel", "rustc", "tcp_syncookies"):
            self.assertIn(word, text)

    def test_a_narrow_screen_has_room(self):
        self.page.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True)
        self.addCleanup(self.page.call, "Emulation.clearDeviceMetricsOverride")
        self.assertLessEqual(self.page.tell("document.documentElement.scrollWidth"), 400)


if __name__ == "__main__":
    unittest.main()
