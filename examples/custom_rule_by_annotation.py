"""A rule for one operator only: the block itself names it.

`schedule_rule` in the annotations of a block is looked up as the global function
`meta_schedule.<key of the target>.<name>`; all other rules keep away from that block and schedule
the rest of the program as ever.

    python examples/custom_rule_by_annotation.py
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import meta_schedule as ms, te
from tilewright.ir import PrimFunc
from tilewright.schedule import BlockRV, Schedule

ROWS, COLUMNS = 512, 512
TRIALS = 8


@tw.register_func("meta_schedule.cpu.blur")
def schedule_blur(sch: Schedule, block: BlockRV) -> list[Schedule]:
    """A row is a task; vectors as wide as the search likes; the window is written out."""
    rows, columns, dy, dx = sch.get_loops(block)
    lanes = sch.sample_categorical([8, 16, 32, 64], [0.25] * 4)
    outer, inner = sch.split(columns, [None, lanes])
    sch.reorder(rows, outer, dy, dx, inner)
    sch.vectorize(inner)
    sch.unroll(dy)
    sch.unroll(dx)
    sch.parallel(rows)
    return [sch]


def blur_and_scale() -> PrimFunc:
    """A 3x3 window over an image, then a block that names no rule."""
    image = te.placeholder((ROWS + 2, COLUMNS + 2), name="image")
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    blurred = te.compute(
        (ROWS, COLUMNS),
        lambda y, x: te.sum(image[y + dy, x + dx], axis=[dy, dx]),
        name="blurred",
        attrs={"schedule_rule": "blur"},  # in a script: T.block_attr({"schedule_rule": "blur"})
    )
    scaled = te.compute((ROWS, COLUMNS), lambda y, x: blurred[y, x] / 9.0, name="scaled")
    return te.create_prim_func([image, scaled])


def main() -> None:
    """Tune, and show the program that was found."""
    func = blur_and_scale()
    database = ms.tune_tir(func, "llvm", max_trials_global=TRIALS, seed=0, console=False)
    with database:
        tuned = tw.build(func)
    best = ms.compile_tir(database, func, "llvm")
    assert best is not None
    print(best.mod.script())

    image = np.random.default_rng(0).random((ROWS + 2, COLUMNS + 2), dtype="float32")
    result = np.full((ROWS, COLUMNS), np.nan, "float32")
    tuned(image, result)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))
    print("right:", np.allclose(result, windows.mean(axis=(2, 3)), rtol=1e-4))
    for name, module in (("plain loops", tw.build(func)), ("tuned", tuned)):
        secs = module.time_evaluator("main", number=10)(image, result).mean
        print(f"{name}: {secs * 1e6:.0f} us")


if __name__ == "__main__":
    main()
