"""Post-processors on trees of loops, by the name of their class."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import ir
from tilewright.algebra.choices import Choices
from tilewright.algebra.loop_tree import (
    LoopTree,
    NotInterpreted,
    StageNode,
    is_spatial,
    loops_of,
    types_of,
)
from tilewright.algebra.parallel_vector import rewrite_parallel_vectorize_unroll
from tilewright.algebra.reductions import decompose_reduction
from tilewright.ir.annotation_keys import AUTO_TENSORIZE
from tilewright.space.layout_free import layout_free_buffers

Rewrite = Callable[[LoopTree, ir.PrimFunc, Choices], None]


def _nothing(tree: LoopTree, func: ir.PrimFunc, choices: Choices) -> None:
    """All extents are numbers."""


def _reductions(tree: LoopTree, func: ir.PrimFunc, choices: Choices) -> None:
    """Decompose every reduction at its outermost reduction loop."""
    for stage in tree.stages():
        if stage.block.init is None or stage.does != "all" or _over_threads(stage):
            continue
        for loop in loops_of(stage):
            if not types_of(loop, tree.stages_below(loop)) <= {ir.IterType.DATA_PAR}:
                decompose_reduction(tree, stage, loop)
                break


def _over_threads(stage: StageNode) -> bool:
    reducing = {
        digit
        for iter_var, terms in zip(stage.block.iter_vars, stage.bindings, strict=True)
        if not is_spatial(iter_var)
        for digit in terms
    }
    return any(loop.tag and not reducing.isdisjoint(loop.digits) for loop in loops_of(stage))


def _tensorize(tree: LoopTree, func: ir.PrimFunc, choices: Choices) -> None:
    for stage in tree.stages():
        if AUTO_TENSORIZE in stage.annotations:
            raise NotInterpreted(f"block {stage.name!r} becomes a tensor instruction")


def _layout(tree: LoopTree, func: ir.PrimFunc, choices: Choices) -> None:
    for buffer in layout_free_buffers(func):
        raise NotInterpreted(
            f"the layout of {buffer.name!r} follows the loops around its last reader"
        )


_REWRITES: dict[str, Rewrite] = {
    "DisallowDynamicLoop": _nothing,
    "RewriteParallelVectorizeUnroll": rewrite_parallel_vectorize_unroll,
    "RewriteReductionBlock": _reductions,
    "RewriteTensorize": _tensorize,
    "RewriteLayout": _layout,
}


def rewrite_of(name: str) -> Rewrite | None:
    """What a post-processor does, if it is known."""
    return _REWRITES.get(name)
