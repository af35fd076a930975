"""The tuner against TVM's with the same number of trials, and its kernels against PyTorch's.

    python benchmarks/tune_cpu.py [--quick] [--trials N] [--no-tvm] [--json FILE] [--only ROW ...]

For each workload: rows `C1D_0` (latency, rival pytorch: the better of eager and compiled),
`C1D_0` (latency, rival tvm) and `tune_wall_C1D_0` (seconds of the whole tuning, rival tvm). All
kernels of a workload are timed in turns in one run. Rivals that are not installed are skipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import HEADER, SETTLE_SECONDS, TVM_PYTHON, Report, Rival, Row, finish

from tilewright import meta_schedule as ms
from tilewright.driver import build
from tilewright.ir import PrimFunc, as_module
from tilewright.records import args_info_of
from tilewright.target import Target
from tilewright.testing.te_workload import CONFIGS, create_te_workload

HERE = Path(__file__).resolve().parent
WORKLOADS = (
    ("C1D", 0), ("C2D", 1), ("C2D", 2), ("C3D", 1), ("GMM", 0), ("GMM", 3), ("GRP", 0), ("DIL", 1),
    ("DEP", 0), ("T2D", 0), ("CAP", 1), ("NRM", 0), ("SFM", 2), ("CBR", 1), ("TBG", 0),
)  # fmt: skip
QUICK = (("GMM", 0), ("C1D", 0), ("SFM", 2))
ROW_SECONDS = 0.02  # of each measurement
ROUNDS = 15
THREADS = 2

Measure = Callable[[], float]


def in_a_row(call: Callable[[], object]) -> Measure:
    """Seconds of one call, the mean of as many as fit a row."""
    call()
    start = time.perf_counter()
    call()
    number = max(1, int(ROW_SECONDS / max(1e-7, time.perf_counter() - start)))

    def measure() -> float:
        call()  # wakes the threads
        begin = time.perf_counter()
        for _ in range(number):
            call()
        return (time.perf_counter() - begin) / number

    return measure


class Workload:
    """One workload, its data, and everybody's kernels for it."""

    def __init__(self, name: str, index: int) -> None:
        self.name, self.index = name, index
        self.func: PrimFunc = create_te_workload(name, index)
        random = np.random.default_rng(0)
        infos = args_info_of(as_module(self.func))
        self.arrays = [random.random(info.shape, dtype="float32") for info in infos]

    @property
    def row(self) -> str:
        return f"{self.name}_{self.index}"

    def tune(self, trials: int) -> tuple[float, Measure, float]:
        """Wall time, the best kernel, and how many times slower the median candidate was."""
        start = time.perf_counter()
        database = ms.tune_tir(
            self.func, "llvm", None, trials, seed=1, console=False, database="memory"
        )
        wall = time.perf_counter() - start
        best = ms.compile_tir(database, self.func, "llvm")
        assert best is not None, f"{self.row}: no candidate worked"
        module = build(best.mod)
        timer = module.time_evaluator("main", number=1)
        number = max(1, int(ROW_SECONDS / max(1e-7, timer(*self.arrays).mean)))
        timer = module.time_evaluator("main", number=number)
        records = [r.mean_secs for r in database.get_all_tuning_records() if r.is_valid]
        spread = statistics.median(records) / min(records)
        return wall, lambda: float(timer(*self.arrays).mean), spread

    def torch_kernels(self) -> list[Measure]:
        """PyTorch's eager and compiled kernels, checked against each other's layout by shape."""
        if importlib.util.find_spec("torch") is None:
            return []
        import torch

        sys.path.insert(0, str(HERE / "rivals"))
        workloads = importlib.import_module("torch_workloads")
        torch.set_num_threads(THREADS)
        arguments = CONFIGS[self.name][1][self.index]
        kernels = []
        for compiled in (False, True):
            try:
                call, _ = workloads.make(self.name, arguments, self.arrays, compiled=compiled)
                kernels.append(in_a_row(call))
            except Exception as error:
                print(f"{self.row}: PyTorch {'compiled' if compiled else 'eager'}: {error}")
        return kernels


def interleaved(kernels: Sequence[Measure], rounds: int) -> list[float]:
    """The median of each kernel, measured in turns."""
    seconds: list[list[float]] = [[] for _ in kernels]
    for _ in range(rounds):
        for own, measure in zip(seconds, kernels, strict=True):
            time.sleep(SETTLE_SECONDS)
            own.append(measure())
    return [statistics.median(own) for own in seconds]


def tvm_rival() -> Rival | None:
    if not TVM_PYTHON.exists():
        print("TVM is missing: `make bench-env` installs it")
        return None
    target = Target("llvm")
    options = {"kind": "llvm", "mcpu": target.mcpu, "num-cores": target.num_cores}
    return Rival(TVM_PYTHON, HERE / "rivals" / "tvm_tune.py", json.dumps(options))


def measure_workload(
    report: Report, workload: Workload, trials: int, tvm: Rival | None, rounds: int
) -> None:
    """Tune with both tuners, then time all kernels in turns."""
    wall, ours, spread = workload.tune(trials)
    kernels = {"ours": ours}
    tvm_answer: dict[str, Any] | None = None
    if tvm is not None:
        tvm_answer = tvm.ask(json.dumps(["tune", workload.name, workload.index, trials]))
        ask = tvm.ask
        first = float(ask(json.dumps(["time", 1])))
        number = max(1, int(ROW_SECONDS / max(1e-7, first)))
        kernels["tvm"] = lambda: float(ask(json.dumps(["time", number])))
    eager_and_compiled = workload.torch_kernels()
    names = ("eager", "compiled")
    kernels |= dict(zip(names, eager_and_compiled, strict=False))
    times = dict(zip(kernels, interleaved(list(kernels.values()), rounds), strict=True))
    best = times["ours"] * 1e6
    torch_times = {name: times[name] for name in names if name in times}
    note = f"median candidate {spread:.1f}x the best"
    if torch_times:
        which = min(torch_times, key=lambda name: torch_times[name])
        rival = torch_times[which] * 1e6
        report.add(Row(workload.row, best, rival, "pytorch", "us", f"{which}; {note}"))
    else:
        report.add(Row(workload.row, best, None, "pytorch", "us", note))
    if tvm_answer is not None:
        theirs = f"its median candidate {tvm_answer['spread']:.1f}x the best"
        report.add(Row(workload.row, best, times["tvm"] * 1e6, "tvm", "us", theirs))
        report.add(Row(f"tune_wall_{workload.row}", wall, tvm_answer["wall"], "tvm", "s"))
    else:
        report.add(Row(f"tune_wall_{workload.row}", wall, None, "tvm", "s"))


def summarize(report: Report) -> None:
    """Geometric means and the worst rows."""
    for label, rival, is_wall in (
        ("latency", "pytorch", False),
        ("latency", "tvm", False),
        ("wall time", "tvm", True),
    ):
        ratios = {
            row.name: row.ratio
            for row in report.rows
            if row.rival_name == rival and row.ratio and row.name.startswith("tune_wall") == is_wall
        }
        if ratios:
            mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
            worst = max(ratios, key=lambda name: ratios[name])
            print(
                f"{label} against {rival}: geometric mean {mean:.2f}, worst {worst} "
                f"{ratios[worst]:.2f} ({len(ratios)} workloads)"
            )


def main() -> None:
    """Measure, show, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three workloads, without TVM")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--no-tvm", action="store_true", help="do not tune with TVM")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="run only these, e.g. C1D_0")
    options = parser.parse_args()
    report = Report("tune_cpu")
    tvm = None if options.quick or options.no_tvm else tvm_rival()
    print(HEADER)
    for name, index in QUICK if options.quick else WORKLOADS:
        if not options.only or f"{name}_{index}" in options.only:
            workload = Workload(name, index)
            measure_workload(report, workload, options.trials, tvm, ROUNDS)
            if options.json is not None:
                report.save(options.json)  # long runs are not lost
    if tvm is not None:
        tvm.close()
    summarize(report)
    finish(report, options)


if __name__ == "__main__":
    main()
