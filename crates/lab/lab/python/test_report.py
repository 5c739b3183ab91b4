"""Goal: a report opens in a browser without an error, its plots are drawn, and everything in it answers the mouse and the
keys."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import Browser

MILLSTREAM = os.path.abspath(os.environ.get("MILLSTREAM", "target/debug/millstream"))
# Shipped ones with every kind of plot: courses over time, distributions, measures over names.
SHIPPED = ["p2-abc", "p6-queue-modes", "fairness"]

# Names that would break a page which trusts them.
NASTY = """
title = "</script><b id='broken'>&amp; \\\\ `${1}`"
about = "<img src=x onerror=alert(1)>"
seconds = 5
seeds = 3
[path]
rtt_ms = 10
down_kbit = 2000
queue = "slots 20"
[[flow]]
cc = "newreno"
count = 2
[[flow]]
cc = "cubic"
[vary]
"path.rtt_ms" = [10, 20, 40]
"flow.0.cc" = ["newreno", "htcp", "vegas"]
[[plot]]
title = "Window </script>"
show = "series cwnd 1"
[[plot]]
title = "Goodput"
show = "measure goodput_mbit"
x = "path.rtt_ms"
[[plot]]
title = "By name"
show = "measure queue_mean"
x = "flow.0.cc"
"""


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        nasty = Path(cls.folder.name, "nasty.toml")
        nasty.write_text(NASTY)
        for names, out in ((SHIPPED, "shipped"), ([nasty], "nasty")):
            seeds = ["--seeds", "1"] if out == "shipped" else []
            subprocess.run([MILLSTREAM, "lab", "run", *names, *seeds, "-o", Path(cls.folder.name, out)],
                           check=True, capture_output=True)
        browser = Browser()
        cls.page = browser.__enter__()
        cls.addClassCleanup(browser.__exit__)

    def open(self, name):
        self.page.problems.clear()
        self.page.open(Path(self.folder.name, name, "report.html"))
        self.addCleanup(lambda: self.assertEqual(self.page.problems, []))

    def tell(self, script):
        return self.page.tell(script)

    def view(self):
        """x0, x1, y0, y1 of the first plot."""
        return [float(word) for word in self.tell("document.querySelector('.plot svg').dataset.view").split()]

    def test_shipped_experiments_are_drawn(self):
        self.open("shipped")
        self.assertEqual(self.tell("document.querySelectorAll('h2').length"), len(SHIPPED))
        # Each plot of the files, and one of any measure for each experiment.
        plots = self.tell("document.querySelectorAll('.plot').length")
        self.assertGreaterEqual(plots, 2 * len(SHIPPED))
        drawn = """[...document.querySelectorAll('.plot')].map(plot =>
            [...plot.querySelectorAll('.line path')].filter(path => path.getTotalLength() > 3).length)"""
        for count in self.tell(drawn):
            self.assertGreater(count, 0)
        self.assertGreater(self.tell("document.querySelectorAll('.runs tbody tr').length"), 10)

    def test_names_break_nothing(self):
        self.open("nasty")
        self.assertIsNone(self.tell("document.getElementById('broken')"))
        self.assertEqual(self.tell("document.images.length"), 0)
        self.assertIn("</script>", self.tell("document.querySelector('h2').textContent"))
        self.assertEqual(self.tell("document.querySelectorAll('.plot > svg').length"), 4)
        self.assertEqual(self.tell("document.querySelectorAll('.line circle').length"), 27, "nine points in three plots")

    def test_the_legend_switches_lines(self):
        self.open("nasty")
        first = ".plot .legend button"
        lines = "document.querySelectorAll('.plot')[0].querySelectorAll('.line').length"
        before = self.tell(lines)
        self.page.click(first)
        self.assertEqual(self.tell(f"document.querySelector('{first}').getAttribute('aria-pressed')"), "false")
        self.assertEqual(self.tell(lines), before - 1)
        self.assertIsNone(self.tell("document.querySelector('.plot').querySelector('[data-line=\"0\"]')"))
        self.page.click(first)
        self.assertEqual(self.tell(lines), before)

    def test_a_drag_zooms_and_a_double_click_shows_everything(self):
        self.open("nasty")
        x0, x1, y0, y1 = self.view()
        self.page.drag(".plot svg", (0.3, 0.5), (0.6, 0.5))
        near0, near1, _, _ = self.view()
        self.assertTrue(x0 < near0 < near1 < x1, (x0, near0, near1, x1))
        self.assertAlmostEqual((near1 - near0) / (x1 - x0), 0.3 * 860 / (860 - 86), places=2)
        self.page.drag(".plot svg", (0.3, 0.2), (0.6, 0.7))
        _, _, low, high = self.view()
        self.assertTrue(y0 < low < high < y1, "a box takes a part of y, too")
        self.page.click(".plot svg", count=2)
        self.assertEqual(self.view(), [x0, x1, y0, y1])

    def test_keys_zoom_and_tell_values(self):
        self.open("nasty")
        x0, x1, _, _ = self.view()
        self.tell("document.querySelector('.plot svg').focus()")
        self.page.key("+")
        near0, near1, _, _ = self.view()
        self.assertAlmostEqual((near1 - near0) / (x1 - x0), 0.7)
        self.page.key("ArrowRight")
        told = self.tell("document.querySelector('.plot .told').textContent")
        self.assertTrue(told.startswith("time (s)") and told.count(": ") >= 9, told)
        self.page.key("0")
        self.assertEqual(self.view()[:2], [x0, x1])
        self.page.key("Escape")
        self.assertTrue(self.tell("document.querySelector('.plot .told').hidden"))

    def test_a_logarithmic_axis_has_room_for_factors(self):
        self.open("nasty")
        # Powers of ten stand at equal distances, and what is not above nothing is nowhere.
        where = self.tell("""(() => {
            const box = document.querySelector("main") || document.body.appendChild(document.createElement("div"));
            const points = [[0, 1, 0], [0.001, 10, 1], [0.01, 100, 200], [0.1, 1000, 1]];
            const plot = new Plot(box, { title: "t", x: "p", y: "v", lines: [{ name: "a", points }] });
            const seen = () => [...box.querySelectorAll(".line circle")].map(dot => Number(dot.getAttribute("cx")));
            const before = seen();
            const [x, y] = [...box.querySelectorAll(".tools button")].filter(made => made.textContent.startsWith("log"));
            x.click(); y.click();
            const after = seen();
            box.remove();
            return [before, after];
        })()""")
        self.assertEqual([len(dots) for dots in where], [4, 3])
        left, middle, right = where[1]
        self.assertAlmostEqual(middle - left, right - middle, places=3)
        self.assertGreater(middle - left, 100)

    def test_the_pointer_tells_values(self):
        self.open("nasty")
        self.page.mouse("mouseMoved", self.page.place(".plot:nth-of-type(2) svg"))
        told = self.tell("[...document.querySelectorAll('.told')].find(told => !told.hidden).textContent")
        self.assertIn("±", told)

    def test_runs_are_searched_and_sorted(self):
        self.open("nasty")
        rows = "[...document.querySelectorAll('.runs tbody tr')].map(row => row.cells[2].textContent)"
        self.assertEqual(len(self.tell(rows)), 27)
        self.tell("document.querySelector('input[type=search]').focus()")
        self.page.type("htcp seed>=2")
        self.assertEqual(sorted(self.tell(rows)), ["2", "2", "2", "3", "3", "3"])
        header = "th:nth-child(3) button"
        for order in (False, True):
            self.page.click(f".runs {header}")
            self.assertEqual(self.tell(rows), sorted(self.tell(rows), reverse=order))

    def test_any_measure_is_drawn(self):
        self.open("nasty")
        select = "document.querySelector('.explorer select')"
        for measure in self.tell(f"[...{select}.options].map(option => option.value)"):
            self.tell(f"{select}.value = '{measure}'; {select}.dispatchEvent(new Event('change'))")
            self.assertEqual(self.tell("document.querySelector('.explorer svg').getAttribute('aria-label').split(' ')[0]"),
                             measure)

    def test_axes_and_columns_have_units(self):
        self.open("nasty")
        labels = "[...document.querySelectorAll('.plot:not(.explorer .plot)')].map(plot => " \
            "[...plot.querySelectorAll('.axes text')].slice(-2).map(text => text.textContent))"
        self.assertEqual(self.tell(labels), [
            ["time (s)", "cwnd 1 (segments)"], ["path.rtt_ms (ms)", "goodput_mbit (Mbit/s)"],
            ["flow.0.cc", "queue_mean (bytes)"]])
        heads = "[...document.querySelectorAll('table.means th, table.runs th')].map(head => head.textContent)"
        heads = self.tell(heads)
        self.assertGreater(len(heads), 40)
        plain = {"", "flow.0.cc", "seed", "again"}
        self.assertEqual([head for head in heads if head not in plain and not head.endswith(")")], [])

    def test_every_line_has_a_colour_and_a_dash_of_its_own(self):
        self.open("nasty")
        drawn = """(() => {
            const box = document.body.appendChild(document.createElement("div"));
            box.className = "plot";
            const lines = [...Array(COUNT).keys()].map(nth => ({ name: `${nth}`, points: [[0, nth], [1, nth]] }));
            new Plot(box, { title: "t", x: "p", y: "v", lines });
            const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            const rgb = colour => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
            const seen = (where) => [...box.querySelectorAll(where)].map(path => [
                rgb(getComputedStyle(path).stroke), path.getAttribute("stroke-dasharray")]);
            const both = [seen(".line path"), seen(".legend .sample path")];
            box.remove();
            return both;
        })()"""
        for theme in ("light", "dark"):
            self.tell(f"document.documentElement.dataset.theme = '{theme}'")
            for count in (8, 12, 32):
                lines, legend = self.tell(drawn.replace("COUNT", str(count)))
                self.assertEqual(lines, legend, "the legend shows what is drawn")
                self.assertEqual(len(lines), count)
                for nth, (colour, dash) in enumerate(lines):
                    for other, other_dash in lines[:nth]:
                        apart = sum((a - b) ** 2 for a, b in zip(colour, other)) ** 0.5
                        self.assertGreater(apart, 25 if dash == other_dash else 10, (theme, count, nth))
                self.assertTrue(all(a[1] != b[1] for a, b in zip(lines, lines[1:])), "neighbours have other dashes")

    def test_no_box_hides_a_column(self):
        self.open("nasty")
        boxes = "[...document.querySelectorAll('.wide')].map(box => [box.scrollWidth, box.clientWidth])"
        for inside, room in self.tell(boxes):
            self.assertLessEqual(inside, room)
        for kind in ("means", "runs"):
            shown = f"[...document.querySelectorAll('table.{kind} th')].filter(head => !head.hidden).length"
            off = f".columns:has(+ .wide > table.{kind}) button[aria-pressed=\"false\"]"
            before = self.tell(shown)
            self.assertGreater(self.tell(f"document.querySelectorAll('{off}').length"), 0, "the rest is named")
            self.tell(f"document.querySelector('{off}').click()")
            self.assertEqual(self.tell(shown), before + 1)
            cells = f"[...document.querySelector('table.{kind} tbody tr').cells].filter(cell => !cell.hidden).length"
            self.assertEqual(self.tell(cells), before + 1)
        # Values under the pointer cover nothing.
        self.page.mouse("mouseMoved", self.page.place(".plot svg"))
        told, following = self.tell("""(() => { const plot = document.querySelector('.plot');
            return [plot.querySelector('.told').getBoundingClientRect().bottom,
                    plot.nextElementSibling.getBoundingClientRect().top]; })()""")
        self.assertLessEqual(told, following)

    def test_data_and_picture_can_be_saved(self):
        self.open("nasty")
        self.tell("window.saved = []; URL.createObjectURL = blob => { saved.push(blob); return '#'; }")
        for back in (2, 1):
            self.page.click(f".plot:nth-of-type(2) .tools button:nth-last-child({back})")
        table, picture = self.tell("Promise.all(saved.map(blob => blob.text()))")
        rows = table.strip().split("\n")
        self.assertEqual((rows[0], len(rows)), ("line,path.rtt_ms (ms),goodput_mbit (Mbit/s),half of the 95 % interval", 10))
        self.assertTrue(picture.startswith("<svg") and "#" not in picture.split("clip")[0][:30], picture[:100])
        self.assertIsNone(self.tell(f"""new DOMParser().parseFromString({picture!r}, "image/svg+xml")
            .querySelector("parsererror")"""))

    def test_light_dark_and_paper(self):
        self.open("nasty")
        paper = "getComputedStyle(document.body).backgroundColor"
        light = self.tell(paper)
        self.page.click("#theme")
        self.assertNotEqual(self.tell(paper), light)
        self.page.click("#theme")
        self.assertEqual(self.tell(paper), light)
        self.page.call("Emulation.setEmulatedMedia", media="print")
        self.assertEqual(self.tell("getComputedStyle(document.querySelector('.tools')).display"), "none")
        self.page.call("Emulation.setEmulatedMedia", media="")
        self.assertGreater(len(self.page.call("Page.printToPDF")["data"]), 10_000)

    def test_a_narrow_screen_has_room(self):
        self.page.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True)
        self.addCleanup(self.page.call, "Emulation.clearDeviceMetricsOverride")
        self.open("nasty")
        self.assertLessEqual(self.tell("document.documentElement.scrollWidth"), 400)


if __name__ == "__main__":
    unittest.main()
