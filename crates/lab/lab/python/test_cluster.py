"""Goal: a plan run on a cluster of two workers, one of which is killed, brings the same bytes as a sweep on one machine;
the tables are read by the reader that every caller uses.

`cargo xtask ci lab` calls it; by hand: MILLSTREAM=target/debug/millstream python3 -m unittest discover -s crates/lab/lab/python
"""

import csv
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import pyarrow.parquet
from dask.distributed import Client, LocalCluster

import cluster

MILLSTREAM = os.path.abspath(os.environ.get("MILLSTREAM", "target/debug/millstream"))

SMALL = """
title = "Small"
seconds = 20
seeds = 4
[path]
rtt_ms = 10
down_kbit = 4000
queue = "slots 20"
loss = 0.001
[[flow]]
cc = "newreno"
count = 2
[[check]]
measure = "failed"
range = { min = 0, max = 0 }
"""
GRID = ["--vary", "path.rtt_ms=10,20,40", "--vary", "flow.cc=cubic,htcp"]
RUNS = 3 * 2 * 4
# What a sweep and a plan both leave, under the same names.
FILES = ["small.jsonl", "small.toml", "report.csv", "report.html", "report.parquet", "series.parquet"]


def lab(folder, *arguments):
    subprocess.run([MILLSTREAM, "lab", *arguments], cwd=folder, check=True, capture_output=True, text=True)


class Cluster(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.here, self.there = Path(self.folder.name, "here"), Path(self.folder.name, "there")
        for place in (self.here, self.there):
            place.mkdir()
            (place / "small.toml").write_text(SMALL)

    def test_a_cluster_brings_the_same_payload(self):
        lab(self.here, "sweep", "small.toml", *GRID, "-o", "out", "--check")
        lab(self.there, "export", "small.toml", *GRID, "-o", "out")
        plan = cluster.Plan(self.there / "out")
        self.assertEqual(len(plan.open_tasks()), RUNS)
        deaths = []

        def kill_one(_):
            """At the first result one of the two workers dies, with what it is at."""
            if not deaths:
                deaths.append(next(iter(client.run(os.getpid).values())))
                os.kill(deaths[0], signal.SIGKILL)

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two, Client(two) as client:
            failed = cluster.drive(client, plan, MILLSTREAM, on_result=kill_one)
            self.assertNotIn(deaths[0], client.run(os.getpid).values())
        self.assertEqual((failed, plan.open_tasks()), ({}, []))
        lab(self.there, "gather", "out", "--check")
        for name in FILES:
            ours, theirs = (self.here / "out" / name).read_bytes(), (self.there / "out" / name).read_bytes()
            self.assertEqual(ours, theirs, name)
        self.tables(self.here / "out")

    def tables(self, folder):
        """Parquet says what the CSV says."""
        runs = pyarrow.parquet.read_table(folder / "report.parquet").to_pylist()
        with open(folder / "report.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual((len(runs), len(rows)), (RUNS, RUNS))
        for run, row in zip(runs, rows):
            self.assertEqual(list(run), list(row))
            for name, value in run.items():
                text = row[name]
                same = float(text) == value if isinstance(value, float) else text == ("" if value is None else str(value))
                self.assertTrue(same, f"{name}: {text!r} is not {value!r}")
        series = pyarrow.parquet.read_table(folder / "series.parquet")
        self.assertEqual(set(series["name"].to_pylist()), {"cwnd", "srtt_ms", "ssthresh", "queue_bytes", "queue_packets"})
        self.assertEqual(set(series["seed"].to_pylist()), {1})
        self.assertEqual(set(series["flow"].to_pylist()), {None, 1, 2})
        # 200 samples of two series of the queue at each of six points, more of the flows.
        self.assertGreater(series.num_rows, 6 * 200 * 2)

    def test_what_cannot_run_is_told(self):
        lab(self.there, "export", "small.toml", "--seeds", "1", "-o", "out")
        plan = cluster.Plan(self.there / "out")
        (name, line), = plan.tasks.items()
        plan.tasks[name] = line.replace('"commit":"', '"commit":"not-')
        with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as one, Client(one) as client:
            failed = cluster.drive(client, plan, MILLSTREAM, retries=1)
        self.assertIn("planned by not-", failed[name])
        with self.assertRaises(subprocess.CalledProcessError):
            lab(self.there, "gather", "out")


if __name__ == "__main__":
    unittest.main()
