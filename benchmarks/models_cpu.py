"""Whole models against onnxruntime, OpenVINO and PyTorch, eager and compiled: f32, batch 1.

    python benchmarks/models_cpu.py [--budget SECONDS] [--only MODEL ...] [--json FILE]

For each network of `models/zoo.py`: rows `model_NAME` (latency, one for each rival and one for the
`best` of them), `ready_NAME` (seconds from file to a program without a search) and
`memory_NAME` (what a process holds while it infers, beside onnxruntime). `--budget` is the
time to tune each model; 0 is for schedules without a search. Everybody runs in turns on two
threads, and all outputs are compared with PyTorch's. Rivals that are not installed are skipped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import HEADER, Report, Row, finish
from tuning import Measure, in_a_row, medians_in_turns, show_mean

FOLDER = Path(__file__).resolve().parent / "models"
sys.path.insert(0, str(FOLDER))

import contestants  # noqa: E402
import zoo  # noqa: E402

THREADS = 2
TOLERANCE = 2e-4  # of the largest output: sums of thousands of products, in another order
MEGABYTE = 1 << 20


class Model:
    """One network, exported, with inputs and what PyTorch makes of them."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder
        self._inputs = folder / f"{name}.npz"
        self.arrays = [tensor.numpy() for tensor in zoo.network(name)[1]]
        np.savez(self._inputs, *self.arrays)
        self._file = zoo.export(name, folder)
        self.wanted = contestants.pytorch(self.case())()

    @property
    def row(self) -> str:
        return f"model_{self.name}"

    def case(self) -> contestants.Case:
        """The network as contestants take it."""
        return contestants.Case(self.name, self._file, self.arrays, THREADS)

    def error(self, got: Sequence[Any]) -> float:
        """The largest difference from PyTorch, as a share of the largest output."""
        return max(
            float(np.abs(one - other).max() / np.abs(other).max())
            for one, other in zip(got, self.wanted, strict=True)
        )

    def memory(self, contestant: str) -> float | None:
        """Megabytes that a process holds while it infers; None if it fails."""
        script = FOLDER / "contestants.py"
        question = [contestant, self.name, str(self._file), str(self._inputs), str(THREADS)]
        found = subprocess.run(
            [sys.executable, str(script), *question], capture_output=True, text=True, check=False
        )
        return int(found.stdout.split()[-1]) / MEGABYTE if found.returncode == 0 else None


def measure_model(report: Report, model: Model, budget: float) -> None:
    """All contestants on one network."""
    case = model.case()
    kernels = _checked(report, model, "ours", contestants.ours(case, budget))
    for name in contestants.RIVALS:
        if not contestants.is_installed(name):
            report.skip(f"{model.row} against {name}", "it is not installed")
            continue
        try:
            call = contestants.RIVALS[name][1](model.case())
            kernels |= _checked(report, model, name, call)
        except Exception as error:  # whatever goes wrong in a rival is its own
            report.skip(f"{model.row} against {name}", str(error).splitlines()[0])
    if "ours" in kernels:
        _add_rows(report, model, medians_in_turns(kernels), case.seconds)
    _add_memory(report, model)


def _checked(report: Report, model: Model, name: str, call: contestants.Call) -> dict[str, Measure]:
    """A call that can be timed, if it computes the same as PyTorch."""
    error = model.error(call())
    if not error <= TOLERANCE:
        report.skip(f"{model.row} {name}", f"its outputs differ from PyTorch's by {error:.1e}")
        return {}
    return {name: in_a_row(call)}


def _add_rows(
    report: Report, model: Model, times: Mapping[str, float], seconds: Mapping[str, float]
) -> None:
    own = times["ours"] * 1e3
    rivals = {name: time * 1e3 for name, time in times.items() if name != "ours"}
    for name, time in rivals.items():
        report.add(Row(model.row, own, time, name, "ms"))
    if rivals:
        best = min(rivals, key=lambda name: rivals[name])
        report.add(Row(model.row, own, rivals[best], "best", "ms", best))
    steps = ", ".join(f"{name} {spent:.1f}" for name, spent in seconds.items())
    ready = seconds["imported"] + seconds["compiled"]
    report.add(Row(f"ready_{model.name}", ready, 10.0, "budget", "s", steps))


def _add_memory(report: Report, model: Model) -> None:
    own = model.memory("ours")
    rival = model.memory("onnxruntime") if contestants.is_installed("onnxruntime") else None
    if own is None:
        report.skip(f"memory_{model.name}", "the process that measures it failed")
    else:
        report.add(Row(f"memory_{model.name}", own, rival, "onnxruntime", "MB"))


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--only", nargs="*", metavar="MODEL", choices=list(zoo.NETWORKS))
    return parser.parse_args()


def main() -> None:
    """Measure, show, and write the result."""
    options = arguments()
    report = Report("models_cpu")
    print(HEADER)
    for name in options.only or zoo.NETWORKS:
        with tempfile.TemporaryDirectory() as folder:  # one at a time: they are large
            measure_model(report, Model(name, Path(folder)), options.budget)
        if options.json is not None:
            report.save(options.json)  # long runs are not lost
    latencies = tuple(f"model_{name}" for name in zoo.NETWORKS)
    for rival in ("best", *contestants.RIVALS):
        show_mean(report, "latency", rival, latencies)
    finish(report, options)


if __name__ == "__main__":
    main()
