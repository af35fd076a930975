"""A template in the style of AutoTVM: one function schedules, its samples are the knobs.

`sample_perfect_tile` is `cfg.define_split`, `sample_categorical` is `cfg.define_knob`. The function
runs once; after that the search changes the decisions in its trace.

    python examples/autotvm_template.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tw
from tilewright import meta_schedule as ms
from tilewright.runtime import Module
from tilewright.schedule import Schedule, Trace
from tilewright.testing.handwritten import matmul

SIZE = 256
TRIALS = 16
UNROLL_STEPS = [0, 16, 64]


def template(sch: Schedule) -> None:
    """A tiled matrix product; every number that matters is a knob."""
    y, x, k = sch.get_loops("C")
    tile_y = sch.sample_perfect_tile(y, n=2, max_innermost_factor=32)
    tile_x = sch.sample_perfect_tile(x, n=2, max_innermost_factor=64)
    tile_k = sch.sample_perfect_tile(k, n=2, max_innermost_factor=16)
    unroll = sch.sample_categorical(UNROLL_STEPS, [1 / 3, 1 / 3, 1 / 3])
    yo, yi = sch.split(y, tile_y)
    xo, xi = sch.split(x, tile_x)
    ko, ki = sch.split(k, tile_k)
    sch.reorder(yo, xo, ko, ki, yi, xi)
    sch.parallel(yo)
    sch.vectorize(xi)
    sch.annotate(ko, "pragma_auto_unroll_max_step", unroll)
    sch.annotate(ko, "pragma_unroll_explicit", 1)
    sch.decompose_reduction("C", ko)


def knobs(trace: Trace) -> dict[str, Any]:
    """The decisions of a trace under the names that the template gives them."""
    y, x, k, unroll = trace.decisions.values()
    return {"tile_y": y, "tile_x": x, "tile_k": k, "unroll": UNROLL_STEPS[unroll]}


def report(name: str, module: Module) -> None:
    """Time a version, and compare its result with NumPy's."""
    a, b = (np.random.default_rng(0).random((SIZE, SIZE), dtype="float32") for _ in range(2))
    c = np.full_like(a, np.nan)
    secs = module.time_evaluator("main", number=10)(a, b, c).mean
    verdict = "right" if np.allclose(c, a @ b, rtol=1e-4) else "WRONG"
    print(f"{name}: {secs * 1e6:.0f} us, {2 * SIZE**3 / secs / 1e9:.1f} GFLOP/s, {verdict}")


def main() -> None:
    """Turn the knobs, and compare the best setting with the default: the loops as they are."""
    func = matmul(SIZE, SIZE, SIZE)
    database = ms.tune_tir(
        func, "llvm", max_trials_global=TRIALS, space=template, seed=0, console=False
    )
    (workload,) = database.workloads()
    for record in database.get_top_k(workload, 3):
        assert record.run_secs is not None
        print(f"{min(record.run_secs) * 1e6:.0f} us with {knobs(record.trace)}")
    print(f"... and {len(database) - 3} slower ones")
    report("default", tw.build(func))
    with database:
        report("best", tw.build(func))


if __name__ == "__main__":
    main()
