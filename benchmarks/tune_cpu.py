"""The tuner against TVM's with the same number of trials, and its kernels against PyTorch's.

    python benchmarks/tune_cpu.py [--quick] [--trials N] [--no-tvm] [--json FILE] [--only ROW ...]

For each workload: rows `C1D_0` (latency, rival pytorch: the better of eager and compiled),
`C1D_0` (latency, rival tvm) and `tune_wall_C1D_0` (seconds of the whole tuning, rival tvm). All
kernels of a workload are timed in turns in one run. Rivals that are not installed are skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

import numpy as np
from harness import HEADER, Report, finish
from tuning import (
    RIVALS,
    Measure,
    TvmTuner,
    add_rows,
    in_a_row,
    medians_in_turns,
    show_mean,
    tune,
    tuning_arguments,
    tvm_tuner,
)

from tilewright import nd
from tilewright.ir import PrimFunc, as_module
from tilewright.records import args_info_of
from tilewright.testing.te_workload import CONFIGS, create_te_workload

WORKLOADS = (
    ("C1D", 0), ("C2D", 1), ("C2D", 2), ("C3D", 1), ("GMM", 0), ("GMM", 3), ("GRP", 0), ("DIL", 1),
    ("DEP", 0), ("T2D", 0), ("CAP", 1), ("NRM", 0), ("SFM", 2), ("CBR", 1), ("TBG", 0),
)  # fmt: skip
QUICK = (("GMM", 0), ("C1D", 0), ("SFM", 2))
THREADS = 2


class Workload:
    """One workload, its data, and everybody's kernels for it."""

    def __init__(self, name: str, index: int) -> None:
        self.name, self.index = name, index
        self.func: PrimFunc = create_te_workload(name, index)
        random = np.random.default_rng(0)
        infos = args_info_of(as_module(self.func))
        values = [random.random(info.shape, dtype="float32") for info in infos]
        # NumPy aligns small arrays to 16 bytes: chance would decide 5 % of a kernel's time.
        self.arrays = [np.asarray(nd.array(value)) for value in values]

    @property
    def row(self) -> str:
        return f"{self.name}_{self.index}"

    def torch_kernels(self) -> dict[str, Measure]:
        """PyTorch's eager and compiled kernels, checked against each other's layout by shape."""
        if importlib.util.find_spec("torch") is None:
            return {}
        import torch

        sys.path.insert(0, str(RIVALS))
        workloads = importlib.import_module("torch_workloads")
        torch.set_num_threads(THREADS)
        arguments = CONFIGS[self.name][1][self.index]
        kernels = {}
        for name in ("eager", "compiled"):
            compiled = name == "compiled"
            try:
                call, _ = workloads.make(self.name, arguments, self.arrays, compiled=compiled)
                kernels[name] = in_a_row(call)
            except Exception as error:
                print(f"{self.row}: PyTorch {name}: {error}")
        return kernels


def measure_workload(report: Report, workload: Workload, trials: int, tvm: TvmTuner | None) -> None:
    """Tune with both tuners, then time all kernels in turns."""
    ours = tune(workload.func, trials, workload.row)
    kernels = {"ours": ours.measure(workload.arrays)}
    question = (workload.name, workload.index, trials)
    theirs = None if tvm is None else tvm.tune(report, workload.row, *question)
    if theirs is not None:
        kernels["tvm"] = theirs.measure
    torch_kernels = workload.torch_kernels()
    kernels |= torch_kernels
    times = medians_in_turns(kernels)
    add_rows(report, workload.row, ours, theirs, times, torch_kernels)


def main() -> None:
    """Measure, show, and write the result."""
    options = tuning_arguments(__doc__.splitlines()[0], "three workloads, without TVM")
    report = Report("tune_cpu")
    tvm = None if options.quick or options.no_tvm else tvm_tuner("tvm_tune.py")
    print(HEADER)
    for name, index in QUICK if options.quick else WORKLOADS:
        if not options.only or f"{name}_{index}" in options.only:
            measure_workload(report, Workload(name, index), options.trials, tvm)
            if options.json is not None:
                report.save(options.json)  # long runs are not lost
    if tvm is not None:
        tvm.close()
    rows = tuple(f"{name}_{index}" for name, index in WORKLOADS)
    for rival in ("pytorch", "tvm"):
        show_mean(report, "latency", rival, rows)
    show_mean(report, "wall time", "tvm", "tune_wall")
    finish(report, options)


if __name__ == "__main__":
    main()
