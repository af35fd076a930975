"""`RewriteReductionBlock`: the initialisation of each reduction becomes a block of its own."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import IterType, annotation_keys as keys, uses_var
from tilewright.nest.block_loops import first_not_spatial, nest_above
from tilewright.nest.kernels import tag_of
from tilewright.schedule import BlockRV, Schedule, ScheduleState, StmtSRef
from tilewright.space.base import Postproc, postprocs
from tilewright.space.conditions import blocks_in_order


@postprocs.register("RewriteReductionBlock")
class RewriteReductionBlock(Postproc):
    """Decompose every reduction at its outermost reduction loop.

    Reductions over GPU threads keep their initialisation: they become cross-thread reductions.
    """

    def apply(self, sch: Schedule) -> bool:
        while found := list(_decomposable(sch.state)):
            for name, function, position in found:
                block = sch.get_block(name, function)
                init = sch.decompose_reduction(block, sch.get_loops(block)[position])
                _pass_on_intrinsics(sch, block, init)
        return True


def _decomposable(state: ScheduleState) -> Iterator[tuple[str, str, int]]:
    """Name of a block, its function, and the position of its outermost reduction loop."""
    for function, block in blocks_in_order(state):
        if block.block.init is not None and not _reduces_over_threads(block):
            position = first_not_spatial(nest_above(block))
            if position is not None:
                yield block.name, function, position


def _reduces_over_threads(block: StmtSRef) -> bool:
    threads = {
        sref.loop.loop_var
        for sref in block.loops
        if tag_of(sref.loop).startswith(("blockIdx", "threadIdx"))
    }
    return bool(threads) and any(
        iter_var.iter_type is IterType.COMM_REDUCE and uses_var(value, threads.__contains__)
        for iter_var, value in block.realize.bindings
    )


def _pass_on_intrinsics(sch: Schedule, block: BlockRV, init: BlockRV) -> None:
    """The initialisation gets the intrinsic meant for it instead of the one of its block."""
    annotations = sch.get_sref(block).block.annotations
    if keys.AUTO_TENSORIZE not in annotations:
        return
    for_init = annotations.get(keys.AUTO_TENSORIZE_INIT)
    sch.unannotate(init, keys.AUTO_TENSORIZE)
    sch.annotate(init, keys.AUTO_TENSORIZE, for_init or "")
    if for_init is not None:
        sch.unannotate(block, keys.AUTO_TENSORIZE_INIT)
        sch.unannotate(init, keys.AUTO_TENSORIZE_INIT)
