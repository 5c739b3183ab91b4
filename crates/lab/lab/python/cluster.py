#!/usr/bin/env python3
"""Runs a plan of `millstream lab export` on a Dask cluster, and gathers its results.

    millstream lab export p3-induced-delay --vary path.rtt_ms=10,20,40,80 --seeds 100 -o plan
    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python cluster.py plan --scheduler tcp://10.0.0.1:8786     # or --workers 8, on this machine
    venv/bin/python cluster.py plan --workers 8                         # stopped, it goes on where it was

The workers need the `millstream` of the same commit at the same path (--millstream) and nothing else: tasks and results
travel through Dask. What comes out is, byte for byte, what `millstream lab sweep` writes on one machine.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import dask
from dask.distributed import Client, KilledWorker, LocalCluster, as_completed

# Tasks that the scheduler knows at the same time, however many there are.
WINDOW = 2000


def run_task(millstream, line, timeout):
    """Runs one task where it is called, on a worker; its result, a line of JSON."""
    ran = subprocess.run(
        [millstream, "lab", "task"], input=line, capture_output=True, text=True, timeout=timeout
    )
    if ran.returncode != 0:
        raise RuntimeError(f"{millstream} lab task: {ran.stderr.strip()}")
    return ran.stdout


class Plan:
    """The folder that `millstream lab export` made."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.results = self.folder / "results"
        self.results.mkdir(exist_ok=True)
        with open(self.folder / "tasks.jsonl", encoding="utf-8") as lines:
            self.tasks = {json.loads(line)["id"]: line for line in lines}

    def open_tasks(self):
        """Identifiers of the tasks that have no result yet."""
        return [name for name in self.tasks if not self.result(name).exists()]

    def result(self, name):
        return self.results / f"{name}.json"

    def keep(self, name, line):
        """Puts a result in its place as a whole, or not at all."""
        beside = self.result(name).with_suffix(".new")
        beside.write_text(line, encoding="utf-8")
        os.replace(beside, self.result(name))


class Progress:
    """How many are done and how long the rest may take, on the standard error."""

    def __init__(self, done, total):
        self.before, self.done, self.total, self.began, self.told = done, done, total, time.monotonic(), 0.0

    def step(self):
        self.done += 1
        now = time.monotonic()
        live = sys.stderr.isatty()
        if self.done < self.total and now - self.told < (0.2 if live else 10):
            return
        self.told = now
        left = (self.total - self.done) * (now - self.began) / (self.done - self.before)
        text = f"{self.done} of {self.total} tasks, {left:.0f} s left"
        end = "\n" if not live or self.done == self.total else ""
        print(f"\r{text}\x1b[K" if live else text, end=end, file=sys.stderr, flush=True)


def drive(client, plan, millstream="millstream", retries=3, timeout=None, on_result=None):
    """Runs every task of `plan` that has no result yet. One that fails, or whose worker dies, is tried again `retries`
    times; what failed for good comes back, with why."""
    waiting = plan.open_tasks()
    progress = Progress(len(plan.tasks) - len(waiting), len(plan.tasks))
    waiting.reverse()
    failed, tries, names = {}, {}, {}
    running = as_completed()

    def submit(name):
        # A key of its own for each try: Dask would hand back the failure of the last one.
        tries[name] = tries.get(name, 0) + 1
        key = f"{name}-try{tries[name]}-{time.time_ns()}"
        future = client.submit(run_task, millstream, plan.tasks[name], timeout, key=key, pure=False)
        names[key] = name
        running.add(future)

    for _ in range(min(WINDOW, len(waiting))):
        submit(waiting.pop())
    for future in running:
        name = names.pop(future.key)
        try:
            plan.keep(name, future.result())
        except (KilledWorker, RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            if tries[name] <= retries:
                submit(name)
                continue
            failed[name] = str(error)
        else:
            progress.step()
            if on_result:
                on_result(name)
        future.release()
        if waiting:
            submit(waiting.pop())
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("plan", help="the folder that `millstream lab export` made")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--scheduler", help="address of a Dask scheduler, such as tcp://10.0.0.1:8786")
    where.add_argument("--workers", type=int, default=os.cpu_count(), help="workers on this machine instead")
    parser.add_argument("--millstream", default=shutil.which("millstream") or "millstream", help="where workers find it")
    parser.add_argument("--retries", type=int, default=3, help="how often a task is tried again")
    parser.add_argument("--timeout", type=float, help="seconds a task may take")
    parser.add_argument("--check", action="store_true", help="fail if something expected did not come out")
    args = parser.parse_args()
    plan = Plan(args.plan)
    with dask.config.set({"distributed.scheduler.allowed-failures": args.retries}):
        with cluster(args) as client:
            failed = drive(client, plan, args.millstream, args.retries, args.timeout)
    for name, why in failed.items():
        print(f"{name}: {why}", file=sys.stderr)
    if failed:
        return 1
    gather = [args.millstream, "lab", "gather", args.plan] + (["--check"] if args.check else [])
    return subprocess.run(gather).returncode


def cluster(args):
    if args.scheduler:
        return Client(args.scheduler)
    return Client(LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None))


if __name__ == "__main__":
    sys.exit(main())
