"""`make demo`: tune a matrix product and a convolution for half a minute, live.

    python examples/demo.py [--budget SECONDS]

Then shows side by side what the plain loops take, what a schedule without any search takes, what
tuning found, and what PyTorch takes where it is installed. Every result is checked.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tilewright as tw
from tilewright import meta_schedule as ms
from tilewright.cli.console import make_console
from tilewright.cli.live_table import make_display
from tilewright.ir import IRModule, as_module
from tilewright.records import args_info_of
from tilewright.report.roofline import flop_of
from tilewright.report.units import gflops, seconds
from tilewright.runtime.cpu_device import aligned_memory
from tilewright.workloads import CONFIGS, create_te_workload

BUDGET = 25.0  # with what comes before and after it, the demo takes half a minute
PROGRAMS = {  # of the usual workloads
    "matmul": ("GMM", 2, "matmul 512x512x512"),
    "conv2d": ("C2D", 2, "conv2d 14x14x256, 3x3"),
}
ROWS, ROW_SECS = 9, 0.02
TOLERANCE = 1e-4
FLOAT32 = np.dtype("float32")

Timer = Callable[[int], float]  # seconds of a run, the mean of so many in a row


@dataclass
class Version:
    """One way to compute a program."""

    name: str
    timer: Timer
    error: float
    secs: float = float("inf")


class Program:
    """A program with data to run it on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.workload, self.index, self.label = PROGRAMS[name]
        self.func = create_te_workload(self.workload, self.index)
        self.mod = as_module(self.func)
        self.flop = flop_of(self.mod)
        random = np.random.default_rng(0)
        # They begin at cache lines, as the tensors of frameworks do; NumPy's begin anywhere.
        self.arrays = [aligned_memory(info.shape, FLOAT32) for info in args_info_of(self.mod)]
        for array in self.arrays:
            array[...] = random.random(array.shape, dtype=np.float32)
        self.expected = np.array([])
        self.versions: list[Version] = []

    def add(self, name: str, mod: IRModule, target: tw.Target) -> None:
        """Build a version, run it once, compare."""
        module = tw.build(mod, target)
        output = self.arrays[-1]
        output[:] = np.nan  # an element that is not written shows
        module(*self.arrays)
        if not self.versions:
            self.expected = output.copy()

        def timer(number: int) -> float:
            return float(module.time_evaluator("main", number=number)(*self.arrays).mean)

        self.versions.append(Version(name, timer, self._error_of(output)))

    def add_pytorch(self, threads: int) -> None:
        """PyTorch's own kernel for the same data, if it is installed."""
        if importlib.util.find_spec("torch") is None:
            return
        import torch

        from tilewright.workloads import in_torch

        torch.set_num_threads(threads)
        arguments = CONFIGS[self.workload][1][self.index]
        call, output = in_torch.make(self.workload, arguments, self.arrays)

        def timer(number: int) -> float:
            call()
            start = time.perf_counter()
            for _ in range(number):
                call()
            return (time.perf_counter() - start) / number

        name = f"PyTorch {torch.__version__.partition('+')[0]}"
        self.versions.append(Version(name, timer, self._error_of(output())))

    def _error_of(self, output: Any) -> float:
        scale = float(np.abs(self.expected).max())
        return float(np.abs(np.asarray(output) - self.expected).max()) / scale

    def time(self) -> None:
        """Time all versions in turns, so that what disturbs the machine disturbs them all."""
        plain, *others = self.versions
        plain.secs = plain.timer(1)
        rows: list[list[float]] = [[] for _ in others]
        numbers = [max(1, int(ROW_SECS / version.timer(1))) for version in others]
        for _ in range(ROWS):
            for own, version, number in zip(rows, others, numbers, strict=True):
                own.append(version.timer(number))
        for version, own in zip(others, rows, strict=True):
            version.secs = median(own)


def tune(programs: Sequence[Program], budget: float, console: Console) -> ms.Database:
    """Tune all programs together, and show it."""
    module = IRModule({program.name: program.func for program in programs})
    database = ms.database.MemoryDatabase()
    with make_display(console, as_json=False) as display, contextlib.suppress(KeyboardInterrupt):
        ms.tune_tir(
            module, "llvm", budget_secs=budget, database=database, seed=1, console=False,
            observers=[display],
        )  # fmt: skip
    return database


def result_table(programs: Sequence[Program]) -> Table:
    """All versions of all programs side by side."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)  # within 80 columns
    for column in ("program, float32", "version", "run", "GFLOP/s", "speed-up", "error"):
        is_text = column in ("program, float32", "version")
        table.add_column(column, justify="left" if is_text else "right", no_wrap=True)
    for program in programs:
        slowest = program.versions[0].secs
        for number, version in enumerate(program.versions):
            table.add_row(
                program.label if number == 0 else "",
                version.name,
                seconds(version.secs),
                gflops(program.flop, version.secs),
                f"{slowest / version.secs:.0f}x",
                f"{version.error:.0e}",
                end_section=version is program.versions[-1],
            )
    return table


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS")
    budget = parser.parse_args().budget
    console, target = make_console(), tw.Target("llvm")
    console.print(
        f"Tilewright {tw.__version__} on {target.mcpu}: {target.num_cores} cores, "
        f"{target.vector_bits}-bit vectors\n"
    )
    programs = [Program(name) for name in PROGRAMS]
    console.print(f"Tuning {' and '.join(PROGRAMS)} for {budget:g} s; Ctrl-C ends it early.\n")
    database = tune(programs, budget, console)
    with console.status("building and timing all versions"):
        for program in programs:
            program.add("plain loops", program.mod, target)
            program.add("no search", ms.default_schedule(program.func).mod, target)
            with database:
                program.add("tuned", program.mod, target)
            program.add_pytorch(target.num_cores)
            program.time()
    console.print()
    console.print(result_table(programs))
    wrong = [
        f"{program.name}, {version.name}"
        for program in programs
        for version in program.versions
        if not version.error < TOLERANCE
    ]
    if wrong:
        console.print(f"WRONG RESULT: {'; '.join(wrong)}")
        return 1
    console.print(
        "\nNext: `.venv/bin/tilewright tune --help` tunes programs of your own and keeps what it "
        "finds;\n`make doctor` shows what works on this machine; README.md and docs/tutorials/ "
        "tell the rest."
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
