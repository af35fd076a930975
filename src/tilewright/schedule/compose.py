"""The vocabulary of older schedule languages, in terms of the primitives.

Each function does in a few steps what used to be one; the steps are what the trace records.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import ScheduleError
from tilewright.ir import annotation_keys as keys
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.primitives.compute_root import ComputeRoot
from tilewright.schedule.schedule import BlockLike, Factor, Schedule
from tilewright.schedule.state import BlockRV, LoopRV, leaf_realizes


def tile(
    sch: Schedule, x: LoopRV, y: LoopRV, x_factor: Factor, y_factor: Factor
) -> tuple[LoopRV, LoopRV, LoopRV, LoopRV]:
    """Run two nested loops tile by tile; the loops `(x_outer, y_outer, x_inner, y_inner)`."""
    x_outer, x_inner = sch.split(x, [None, x_factor])
    y_outer, y_inner = sch.split(y, [None, y_factor])
    sch.reorder(x_outer, y_outer, x_inner, y_inner)
    return x_outer, y_outer, x_inner, y_inner


def compute_root(sch: Schedule, block: BlockLike) -> None:
    """Compute all of a stage before its consumers, in loops of its own, where it was moved from."""
    sch.run(ComputeRoot(sch.block(block)))


def auto_inline_injective(sch: Schedule, func_name: str | None = None) -> list[str]:
    """Inline every stage that computes each element from a few others; their names.

    What cannot be inlined (reductions, results of the function) stays as it is.
    """
    root = sch.get_sref(sch.get_block("root", func_name))
    inlined = []
    for realize in list(leaf_realizes(root.block.body)):
        block = sch.get_block(realize.block.name_hint, func_name)
        try:
            sch.compute_inline(block)
        except PrimitiveError:
            continue
        inlined.append(realize.block.name_hint)
    return inlined


def pragma(sch: Schedule, loop: LoopRV, kind: str, value: object = 1) -> None:
    """Leave a hint for code generation on a loop, e.g. `auto_unroll_max_step`."""
    sch.annotate(loop, f"pragma_{kind}", value)


def double_buffer(sch: Schedule, block: BlockRV, write_buffer_index: int = 0) -> None:
    """Give what a block writes two places, so that one is filled while the other is read."""
    sch.annotate(block, keys.DOUBLE_BUFFER_SCOPE, write_buffer_index)


def software_pipeline(
    sch: Schedule,
    loop: LoopRV,
    stages: Sequence[int],
    order: Sequence[int],
    async_stages: Sequence[int] = (),
) -> None:
    """Overlap the iterations of a loop: statement `i` of its body runs in stage `stages[i]`."""
    if len(stages) != len(order) or sorted(order) != list(range(len(order))):
        raise ScheduleError(
            f"software_pipeline: stages {list(stages)} and order {list(order)} do not describe the "
            "same statements; give a stage and a distinct position from 0 on to each"
        )
    sch.annotate(loop, keys.SOFTWARE_PIPELINE_STAGE, list(stages))
    sch.annotate(loop, keys.SOFTWARE_PIPELINE_ORDER, list(order))
    if async_stages:
        sch.annotate(loop, keys.SOFTWARE_PIPELINE_ASYNC_STAGES, list(async_stages))
