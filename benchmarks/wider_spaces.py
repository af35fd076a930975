"""What a budget buys: kernels after 16, 64 and 512 trials beside another commit's after 64.

    python benchmarks/wider_spaces.py --against SRC [--only ROW ...] [--json FILE]

`SRC` is the folder `src` of the other commit. Each search is a process of its own; their kernels
then run in turns, and the best of each counts. For each workload: rows `C1D_0_16`, `C1D_0_64` and
`C1D_0_512` (latency, rival: the other commit's 64 trials); the note says how many candidates were
measured, why the search ended if it was not for its trials, and the share of the roofline that the
kernel uses. With `--json FILE` rows that the file has already are kept, so that a run can be done
in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from harness import HEADER, ROOT, Report, Rival, Row, finish, interleaved
from tune_cpu import WORKLOADS
from tuning import show_mean, times_to_call

OURS = ROOT / "src"
FIRST_LAYERS = (("C2D", 0), ("CBR", 0), ("DIL", 0))
ROWS = tuple(f"{name}_{index}" for name, index in (*WORKLOADS, *FIRST_LAYERS))
BEFORE, TRIALS = 64, (16, 64, 512)
PEAKS = 8
TURNS = 40  # of each kernel; the best counts, since others may work on the machine, too
NOT_ZERO = {"T2D": 0.25}  # the share of products that a stride of two leaves


class Search(Rival):
    """A search with the package of some commit; then its best kernel, which can be timed."""

    def __init__(self, source: Path, row: str, trials: int) -> None:
        environ = {**os.environ, "PYTHONPATH": str(source)}
        super().__init__(
            Path(sys.executable), Path(__file__), "--serve", row, str(trials), environ=environ
        )
        self.found: dict[str, Any] = self.ask("tune")
        self._number = times_to_call(self.ask("1"))

    def measure(self) -> float:
        """Seconds of one call."""
        return float(self.ask(str(self._number)))


def serve(row: str, trials: int) -> None:
    """Tune a workload in this process, then time its kernel for each line that comes in."""
    from tune_cpu import Workload

    from tilewright import meta_schedule as ms
    from tilewright.driver import build

    name, index = row.split("_")
    workload = Workload(name, int(index))
    sys.stdin.readline()
    start = time.perf_counter()
    ends: list[str] = []

    def see(event: object) -> None:
        if type(event).__name__ == "TaskFinished":
            ends.append(f" ({getattr(event, 'reason', '')})")

    options = {"seed": 1, "console": False, "database": "memory", "observers": [see]}
    database = ms.tune_tir(workload.func, "llvm", None, trials, **options)
    wall = time.perf_counter() - start
    best = ms.compile_tir(database, workload.func, "llvm")
    assert best is not None, f"{row}: no candidate worked"
    kernel = build(best.mod)["main"]
    found = {
        "wall": wall,
        "measured": len(database.get_all_tuning_records()),
        "end": "".join(ends),
    }
    print(json.dumps(found), flush=True)
    for line in iter(sys.stdin.readline, ""):
        timer = kernel.time_evaluator(number=int(line))
        print(timer(*workload.arrays).mean, flush=True)


def roofline_seconds(row: str) -> tuple[float, str]:
    """The least time that the machine needs for a workload, and what for.

    Peaks are measured here and now: multiply-adds on registers, and reading as many bytes as the
    arguments have. Of a transposed convolution, products with the zeros in between do not count.
    """
    from tilewright.ir import as_module
    from tilewright.report.roofline import MeasuredPeaks, bytes_of, flop_of
    from tilewright.target import Target
    from tilewright.workloads.configs import create_te_workload

    name, index = row.split("_")
    mod = as_module(create_te_workload(name, int(index)))
    peaks = MeasuredPeaks(Target("llvm"))
    for _ in range(PEAKS):
        peaks.measure_again(bytes_of(mod))
    needed = flop_of(mod) * NOT_ZERO.get(name, 1.0)
    compute, memory = needed / peaks.operations(), bytes_of(mod) / peaks.bandwidth(bytes_of(mod))
    return max(compute, memory), "compute" if compute >= memory else "memory"


def measure_row(report: Report, row: str, against: Path) -> None:
    """All searches, one after the other, then their kernels in turns."""
    searches = {"before": Search(against, row, BEFORE)}
    searches |= {str(trials): Search(OURS, row, trials) for trials in TRIALS}
    best = interleaved([search.measure for search in searches.values()], TURNS)
    times = dict(zip(searches, best, strict=True))
    least, bound = roofline_seconds(row)
    for trials in map(str, TRIALS):
        found = searches[trials].found
        note = (
            f"{found['measured']} measured in {found['wall']:.0f} s{found['end']}, "
            f"{least / times[trials]:.0%} of the {bound} roofline, before "
            f"{least / times['before']:.0%}"
        )
        ours, theirs = times[trials] * 1e6, times["before"] * 1e6
        report.add(Row(f"{row}_{trials}", ours, theirs, "before", "us", note))
    for search in searches.values():
        search.close()


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="SRC", help="`src` of another commit")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="these rows, any workload")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--serve", nargs=2, metavar=("ROW", "TRIALS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is None and options.against is None:
        parser.error("--against SRC: which commit to compare with")
    return options


def known_rows(path: Path | None, again: tuple[str, ...]) -> list[Row]:
    """The rows of an earlier piece of a run."""
    if path is None or not path.exists():
        return []
    rows = [
        {k: v for k, v in row.items() if k != "ratio"}
        for row in json.loads(path.read_text())["rows"]
    ]
    return [Row(**row) for row in rows if not row["name"].startswith(again)]


def main() -> None:
    """Measure, show, and write the result."""
    options = parse()
    if options.serve is not None:
        serve(options.serve[0], int(options.serve[1]))
        return
    rows = tuple(options.only or ROWS)
    report = Report("wider_spaces", known_rows(options.json, rows))
    print(HEADER)
    for row in rows:
        measure_row(report, row, options.against)
        if options.json is not None:
            report.save(options.json)  # long runs are not lost
    for trials in TRIALS:
        show_mean(
            report, f"latency after {trials} trials", "before", tuple(f"{r}_{trials}" for r in ROWS)
        )
    finish(report, options)


if __name__ == "__main__":
    main()
