"""Making a block fit a tensor instruction: the order of its iterators, padding, packed operands.

An instruction wants its operands in an order of their own and extents that are multiples of its
own. Where a block has neither, it may work on copies that have both; its result is copied back
without what was added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.ir import (
    Block,
    Buffer,
    IntImm,
    IterVar,
    PrimExpr,
    PrimFunc,
    Var,
    floordiv,
    floormod,
    replace,
    uses_var,
)
from tilewright.ir.tensor_intrin import TensorIntrin, description_nest
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis.auto_tensorize import match_bodies
from tilewright.schedule.analysis.tensorize_info import get_tensorize_loop_mapping
from tilewright.schedule.primitives.tensorize import tensorized_block
from tilewright.space.annotations import LAYOUT_REWRITE_PREPROC
from tilewright.space.layout_free import is_layout_free

# Padding pays as long as less than half of the work is for nothing: an instruction does many times
# what a vector of plain code does.
MAX_WORK_WITH_PADDING = 2.0


def adapt_to_intrin(sch: Schedule, block: BlockRV, intrin: TensorIntrin) -> bool:
    """Let `tile_with_tensor_intrin` find what `intrin` computes in a block; False if it cannot.

    The schedule is of no use after False.
    """
    fit = _Fit.of(sch.get_sref(block).block, intrin.desc)
    if fit is None:
        return False
    try:
        _order_iterators(sch, block, fit, intrin.desc)
        lacking = _paddings(sch, block, intrin.desc)
        if lacking is None:
            return False
        copies = _pad(sch, block, lacking) if any(lacking) else {}
        _pack(sch, block, fit, copies)
    except ScheduleError:
        return False
    return True


def is_tensorizable(sch: Schedule, block: BlockRV, intrin: TensorIntrin) -> bool:
    """True when `tensorize` will accept a block once its initialisation is apart."""
    sref = sch.get_sref(block)
    try:
        tensorized_block(replace(sref.block, init=None), intrin, sref)
    except ScheduleError:
        return False
    return True


# --- which iterators the instruction takes over -------------------------------------------------


@dataclass(frozen=True)
class _Operand:
    """A buffer of the description."""

    indices: tuple[Var, ...]  # iterators of the block that stand for those of the description
    extents: tuple[int, ...]  # of the instruction


@dataclass(frozen=True)
class _Fit:
    """Iterators and buffers of a block that stand for those of a description."""

    chosen: tuple[Var, ...]  # in the order of the description
    units: Mapping[Var, int]  # extents of the instruction, by iterator of the block
    operands: Mapping[Buffer, _Operand]  # by buffer of the block

    @staticmethod
    def of(block: Block, desc: PrimFunc) -> _Fit | None:
        """What stands for what, None if the block computes something else."""
        target = description_nest(desc)[1].block
        matched = match_bodies(block, target)
        if matched is None:
            return None
        accesses = [
            (matched.mine[mine], matched.theirs[theirs])
            for mine, theirs in matched.buffer_map.items()
        ]
        chosen: dict[Var, Var] = {}
        for wanted in target.iter_vars:
            found = _stand_in(block.iter_vars, wanted, accesses)
            if found is None:
                return None
            chosen[wanted.var] = found
        extents = {iter_var.var: _extent(iter_var) for iter_var in target.iter_vars}
        operands = {
            mine: _Operand(
                tuple(chosen[index] for index in matched.theirs[theirs] if isinstance(index, Var)),
                tuple(extents[index] for index in matched.theirs[theirs] if isinstance(index, Var)),
            )
            for mine, theirs in matched.buffer_map.items()
        }
        units = {chosen[var]: extent for var, extent in extents.items()}
        return _Fit(tuple(chosen.values()), units, operands)


def _stand_in(
    iters: Sequence[IterVar],
    wanted: IterVar,
    accesses: Sequence[tuple[Sequence[PrimExpr], Sequence[PrimExpr]]],
) -> Var | None:
    """The iterator that indexes the same operands; rather one that does nothing but that."""
    uses = [_contains(theirs, wanted.var) for _, theirs in accesses]
    candidates = [
        iter_var.var
        for iter_var in iters
        if iter_var.iter_type is wanted.iter_type
        and [_contains(mine, iter_var.var) for mine, _ in accesses] == uses
    ]
    plain = [
        var
        for var in candidates
        if all(_is_plain(mine, var) for (mine, _), used in zip(accesses, uses, strict=True) if used)
    ]
    return next(reversed(plain or candidates), None)


def _contains(indices: Sequence[PrimExpr], var: Var) -> bool:
    return any(uses_var(index, var.__eq__ if False else lambda other: other is var) for index in indices)


def _is_plain(indices: Sequence[PrimExpr], var: Var) -> bool:
    """True when the variable is an index of its own and is part of no other."""
    using = [index for index in indices if uses_var(index, lambda other: other is var)]
    return len(using) == 1 and using[0] is var


def _extent(iter_var: IterVar) -> int:
    assert iter_var.dom is not None
    assert isinstance(iter_var.dom.extent, IntImm)
    return iter_var.dom.extent.value


def _order_iterators(sch: Schedule, block: BlockRV, fit: _Fit, desc: PrimFunc) -> None:
    """Bring the chosen iterators where `get_tensorize_loop_mapping` looks for them: last."""
    iters = [iter_var.var for iter_var in sch.get_sref(block).block.iter_vars]
    ordered = [var for var in iters if var not in fit.units] + list(fit.chosen)
    if ordered != iters:
        sch.reorder_block_iter_var(block, [iters.index(var) for var in ordered])
