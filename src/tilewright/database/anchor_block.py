"""The block that a program is about: its heaviest reduction."""

from __future__ import annotations

from tilewright.errors import ScheduleError, TuneError
from tilewright.ir import Block, BlockRealize, IRModule, PrimFunc, SeqStmt, Stmt
from tilewright.ir.patterns import nodes_of
from tilewright.records import entry_function
from tilewright.schedule.analysis import estimate_tir_flops


def find_anchor_block(mod: IRModule) -> Block | None:
    """The reduction block with the most operations in its loop nest; None without reductions."""
    try:
        func = entry_function(mod)
    except TuneError:
        return None
    candidates = [
        (nest, block)
        for nest in _top_level(func.body)
        for block in nodes_of(nest, Block)
        if block.init is not None
    ]
    if len(candidates) <= 1:
        return candidates[0][1] if candidates else None
    return max(candidates, key=lambda candidate: _flops(candidate[0]))[1]


def _top_level(body: Stmt) -> tuple[Stmt, ...]:
    if isinstance(body, BlockRealize) and not body.iter_values:
        body = body.block.body
    return body.seq if isinstance(body, SeqStmt) else (body,)


def _flops(nest: Stmt) -> float:
    try:
        return estimate_tir_flops(PrimFunc((), nest))
    except ScheduleError:
        return 0.0  # symbolic extents: there is nothing to compare
