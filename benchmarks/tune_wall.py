"""Wall time of tuning, side by side with another commit of ours.

    python benchmarks/tune_wall.py --against SRC [--trials N] [--space NAME] [--only ROW ...]

`SRC` is the folder `src` of the other commit. Each run is a process of its own, and both take turns
in each of `--repeat` turns; the median wall time counts. For each workload: rows `tune_wall_C1D_0`
(seconds of the whole tuning, workers and all) and `C1D_0` (the kernel that it ended with, as its
final measured it; for figures of kernels in turns there is `tune_cpu.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from harness import HEADER, ROOT, Report, Row, finish
from tune_cpu import WORKLOADS
from tuning import show_mean

OURS = ROOT / "src"


class Run(NamedTuple):
    """What one run of the tuner took, and its best kernel; both in seconds."""

    wall: float
    best: float


def tune_here(row: str, trials: int, space: str) -> Run:
    """Tune a workload in this process."""
    from tilewright import meta_schedule as ms
    from tilewright.testing.te_workload import create_te_workload

    name, index = row.split("_")
    func = create_te_workload(name, int(index))
    start = time.perf_counter()
    database = ms.tune_tir(
        func, "llvm", None, trials, seed=1, console=False, database="memory", space=space
    )
    wall = time.perf_counter() - start
    return Run(wall, min(r.mean_secs for r in database.get_all_tuning_records() if r.is_valid))


def tune_with(source: Path, row: str, options: argparse.Namespace) -> Run:
    """The same with the package of some commit, in a new process."""
    command = [sys.executable, __file__, "--tune", row]
    command += ["--trials", str(options.trials), "--space", options.space]
    environ = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return Run(*json.loads(done.stdout.splitlines()[-1]))


def median_run(runs: list[Run]) -> Run:
    """The medians of both figures."""
    return Run(*(statistics.median(figures) for figures in zip(*runs, strict=True)))


def measure_row(report: Report, row: str, options: argparse.Namespace) -> None:
    """Both commits in turns, on one workload."""
    runs: dict[Path, list[Run]] = {OURS: [], options.against: []}
    for _ in range(options.repeat):
        for source, own in runs.items():
            own.append(tune_with(source, row, options))
    ours, theirs = (median_run(own) for own in runs.values())
    report.add(Row(f"tune_wall_{row}", ours.wall, theirs.wall, "before", "s"))
    report.add(Row(row, ours.best * 1e6, theirs.best * 1e6, "before", "us"))


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="SRC", help="`src` of another commit")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--space", default="tilewright", help="the rules: tilewright, llvm, ...")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each commit")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="these rows, any workload")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--tune", metavar="ROW", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tune is None and options.against is None:
        parser.error("--against SRC: which commit to compare with")
    return options


def main() -> None:
    """Measure, show, and write the result."""
    options = parse()
    if options.tune is not None:
        print(json.dumps(tune_here(options.tune, options.trials, options.space)))
        return
    report = Report("tune_wall")
    print(HEADER)
    rows = options.only or [f"{name}_{index}" for name, index in WORKLOADS]
    for row in rows:
        measure_row(report, row, options)
        if options.json is not None:
            report.save(options.json)  # long runs are not lost
    show_mean(report, "wall time", "before", "tune_wall")
    show_mean(report, "latency", "before", tuple(rows))
    finish(report, options)


if __name__ == "__main__":
    main()
