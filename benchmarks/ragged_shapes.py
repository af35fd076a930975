"""Shapes that do not divide beside the nearest round ones: what a FLOP costs in each.

    python benchmarks/ragged_shapes.py [--quick] [--json FILE] [--only ROW ...]

For each shape the sketches of our CPU rules are tried with random decisions on one thread; the best
few of the ragged shape and of the round one are then timed in turn. `ours` is the time of a FLOP in
the ragged shape, `rival` that in the round one. On a shared machine, run it with a high priority.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import HEADER, Report, Row, finish, interleaved, parse_arguments

from tilewright import te
from tilewright.driver import build
from tilewright.ir import IntImm, IRModule, PrimFunc
from tilewright.runtime import threads
from tilewright.schedule import Schedule
from tilewright.space.base import schedule_rules
from tilewright.space.generators import PostOrderApply
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.space_generation import SpaceTask

TARGET = Target("llvm -num-cores=1")
RULES = ("InlineConstantScalars", "FuseRows", "RegisterTiling", "ReduceInVectors", "SpatialPass")
FINALISTS = 6
SHORT_RUN = 0.002  # seconds; on a busy machine, some short runs are left alone
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    """An operator in some shape, and what it should compute."""

    func: PrimFunc
    flop: int
    expected: Callable[..., Any]


def matmul(m: int, n: int, k: int) -> Workload:
    """A product of two matrices."""
    func = te.create_prim_func(te_workload.matmul(m, n, k))
    return Workload(func, 2 * m * n * k, lambda a, b: a @ b)


def conv(h: int, w: int, ci: int, co: int) -> Workload:
    """A convolution with a window of 3 x 3 and as many results as inputs."""
    func = te.create_prim_func(te_workload.conv2d_nhwc(1, h, w, ci, co, 3, 1, 1))
    window = list(itertools.product(range(3), repeat=2))

    def expected(x: Any, f: Any) -> Any:
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        return sum(padded[:, i : i + h, j : j + w] @ f[i, j] for i, j in window)

    return Workload(func, 2 * h * w * ci * co * 9, expected)


def softmax(m: int, n: int) -> Workload:
    """A softmax of each row; its FLOPs are its elements."""

    def expected(a: Any) -> Any:
        e = np.exp(a - a.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return Workload(te.create_prim_func(te_workload.softmax_mn(m, n)), m * n, expected)


# For each row an operator, the ragged shape, and a round one near it.
PAIRS: dict[str, tuple[Callable[..., Workload], Shape, Shape]] = {
    "matmul_197": (matmul, (197, 197, 197), (192, 192, 192)),
    "matmul_197_rows": (matmul, (197, 192, 192), (192, 192, 192)),
    "matmul_197_columns": (matmul, (192, 197, 192), (192, 192, 192)),
    "matmul_197_depth": (matmul, (192, 192, 197), (192, 192, 192)),
    "matmul_251": (matmul, (251, 251, 251), (256, 256, 256)),
    "matmul_251_rows": (matmul, (251, 256, 256), (256, 256, 256)),
    "matmul_251_columns": (matmul, (256, 251, 256), (256, 256, 256)),
    "matmul_251_depth": (matmul, (256, 256, 251), (256, 256, 256)),
    "matmul_333": (matmul, (333, 333, 333), (336, 336, 336)),
    "matmul_333_columns": (matmul, (336, 333, 336), (336, 336, 336)),
    "matmul_1009": (matmul, (1009, 1009, 1009), (1024, 1024, 1024)),
    "matmul_1009_rows": (matmul, (1009, 1024, 1024), (1024, 1024, 1024)),
    "matmul_1009_columns": (matmul, (1024, 1009, 1024), (1024, 1024, 1024)),
    "matmul_1009_depth": (matmul, (1024, 1024, 1009), (1024, 1024, 1024)),
    "conv_13x13": (conv, (13, 13, 64, 64), (14, 14, 64, 64)),
    "conv_15x17": (conv, (15, 17, 64, 64), (14, 14, 64, 64)),
    "conv_61_channels": (conv, (14, 14, 61, 61), (14, 14, 64, 64)),
    "conv_13x13_61": (conv, (13, 13, 61, 61), (14, 14, 64, 64)),
    "softmax_197": (softmax, (1000, 197), (1000, 192)),
}


class Tried:
    """The best of some random candidates for a workload."""

    def __init__(self, workload: Workload, count: int) -> None:
        self._workload = workload
        self._arguments = _arguments(workload.func)
        timed: list[tuple[float, int, Any]] = []
        for schedule in _candidates(workload.func, count):
            module = build(schedule.mod, target=TARGET)
            self._check(module)
            timed.append((self._seconds(module), len(timed), module))
        self._finalists = [module for _, _, module in sorted(timed)[:FINALISTS]]

    def _check(self, module: Any) -> None:
        *inputs, result = self._arguments
        result[:] = np.nan
        module(*inputs, result)
        wanted = self._workload.expected(*inputs)
        np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3)

    def _seconds(self, module: Any, repeat: int = 5) -> float:
        once = module.time_evaluator("main", number=1)(*self._arguments).mean
        number = max(1, int(SHORT_RUN / once))
        timer = module.time_evaluator("main", number=number)
        return float(min(timer(*self._arguments).mean for _ in range(repeat)))

    def picoseconds(self) -> float:
        """The time of a FLOP in the best candidate."""
        best = min(self._seconds(module, 3) for module in self._finalists)
        return best / self._workload.flop * 1e12


def _arguments(func: PrimFunc) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [func.buffer_map[param].shape for param in func.params]
    sizes = [[extent.value for extent in shape if isinstance(extent, IntImm)] for shape in shapes]
    return [rng.standard_normal(size).astype("float32") for size in sizes]


def _candidates(func: PrimFunc, count: int) -> Iterator[Schedule]:
    """Our sketches in turn, with random decisions, none twice."""
    module = IRModule({"main": func})
    rules = [schedule_rules.create(name) for name in RULES]
    generator = PostOrderApply(sch_rules=rules, postprocs=[], mutator_probs={})
    generator._initialize_with_tune_context(SpaceTask(module, TARGET, rand_state=1))
    sketches = generator.generate_design_space(module)
    seen: set[str] = set()
    for seed in range(1, 4 * count):
        sketch = sketches[seed % len(sketches)]
        assert sketch.trace is not None
        trace = sketch.trace.simplified(True).copy()
        trace.decisions.clear()
        made = Schedule(module, seed=seed)
        trace.apply_to_schedule(made, remove_postproc=True)
        if str(made.trace) not in seen:
            seen.add(str(made.trace))
            yield made
        if len(seen) == count:
            return


def measure(report: Report, names: Sequence[str], count: int, rounds: int) -> None:
    """All rows; workloads that several rows share are tried once."""
    tried: dict[tuple[Callable[..., Workload], Shape], Tried] = {}
    for name in names:
        maker, ragged, even = PAIRS[name]
        for shape in (ragged, even):
            if (maker, shape) not in tried:
                tried[maker, shape] = Tried(maker(*shape), count)
        pair = [tried[maker, shape].picoseconds for shape in (ragged, even)]
        ours, rival = interleaved(pair, rounds)
        size = "x".join(map(str, even))
        note = f"{1e3 / ours:.0f} against {1e3 / rival:.0f} GFLOP/s"
        report.add(Row(f"ragged_{name}", ours, rival, size, "ps", note))


def main() -> None:
    """Measure, show, and write the result."""
    options = parse_arguments(__doc__.splitlines()[0])
    threads.set_num_threads(1)
    names = [name for name in PAIRS if not options.only or f"ragged_{name}" in options.only]
    report = Report("ragged shapes")
    print(HEADER)
    measure(report, names, 8 if options.quick else 24, 5 if options.quick else 15)
    finish(report, options)


if __name__ == "__main__":
    main()
