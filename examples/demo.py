"""`make demo`: one matmul, first as three plain loops, then scheduled by hand.

    python examples/demo.py [SIZE]

Shows the program, builds both versions, checks the fast one against the plain one and NumPy, and
prints how long each takes.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

import tilewright as tw
from tilewright.ir import PrimFunc
from tilewright.testing import handwritten

console = Console()


@dataclass(frozen=True)
class Version:
    """One way to write the matmul, and what came of it."""

    name: str
    func: PrimFunc


@dataclass(frozen=True)
class Outcome:
    """How a version did."""

    name: str
    build_ms: float
    run_us: float
    error: float


def measure(version: Version, a: np.ndarray, b: np.ndarray, expected: np.ndarray) -> Outcome:
    """Build, check and time one version."""
    start = time.perf_counter()
    module = tw.build(version.func, target="llvm")
    build_ms = (time.perf_counter() - start) * 1e3
    c = np.full_like(expected, np.nan)  # poisoned: an element that is not written shows
    module(a, b, c)
    error = float(np.abs(c - expected).max() / np.abs(expected).max())
    timer = module.time_evaluator("main", number=1, repeat=5, min_repeat_ms=50)
    return Outcome(version.name, build_ms, timer(a, b, c).min * 1e6, error)


def numpy_outcome(a: np.ndarray, b: np.ndarray) -> Outcome:
    """NumPy's own matmul, for scale."""
    best = float("inf")
    for _ in range(50):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return Outcome("NumPy (its BLAS)", 0.0, best * 1e6, 0.0)


def result_table(size: int, outcomes: list[Outcome]) -> Table:
    """All versions side by side."""
    table = Table(title=f"float32 matmul, {size} x {size} x {size}")
    for column in ("version", "build", "run", "GFLOP/s", "speed-up", "error"):
        table.add_column(column, justify="left" if column == "version" else "right", no_wrap=True)
    slowest = outcomes[0].run_us
    for outcome in outcomes:
        table.add_row(
            outcome.name,
            f"{outcome.build_ms:.0f} ms" if outcome.build_ms else "-",
            f"{outcome.run_us:,.0f} µs",
            f"{2 * size**3 / outcome.run_us / 1e3:.1f}",
            f"{slowest / outcome.run_us:.1f}x",
            f"{outcome.error:.0e}" if outcome.build_ms else "-",
        )
    return table


def main() -> int:
    """Run the demo."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    if size % 64:
        console.print(f"SIZE must be a multiple of 64, got {size}")
        return 2
    target = tw.Target("llvm")
    console.print(
        f"Tilewright {tw.__version__} on {target.mcpu}: {target.num_cores} cores, "
        f"{target.vector_bits}-bit vectors\n"
    )
    naive = handwritten.matmul(size, size, size)
    console.print("The program, as TensorIR:\n")
    naive.show()
    versions = [
        Version("three plain loops", naive),
        Version("scheduled by hand", handwritten.packed_matmul(size, size, size)),
    ]
    a, b = (np.random.rand(size, size).astype("float32") for _ in range(2))
    expected = a @ b
    with console.status("loading the compiler"):
        tw.build(handwritten.matmul(64, 64, 64))
    outcomes = []
    for version in versions:
        with console.status(f"building and timing: {version.name}"):
            outcomes.append(measure(version, a, b, expected))
        console.print(f"  built and checked: {version.name}")
    outcomes.append(numpy_outcome(a, b))
    console.print()
    console.print(result_table(size, outcomes))
    wrong = [outcome.name for outcome in outcomes if not outcome.error < 1e-5]
    if wrong:
        console.print(f"WRONG RESULT: {', '.join(wrong)}")
        return 1
    console.print(
        "\nNext: `make doctor` shows what works on this machine,\n"
        "README.md and docs/tutorials/ how to write your own."
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
