"""Making a block fit a tensor instruction: the order of its iterators, padding, packed operands.

An instruction wants its operands in an order of their own and extents that are multiples of its
own. Where a block has neither, it may work on copies that have both; its result is copied back
without what was added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir.annotation_keys import LAYOUT_REWRITE_PREPROC
from tilewright.ir.tensor_intrin import TensorIntrin, description_nest
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.analysis import get_tensorize_loop_mapping
from tilewright.schedule.analysis.auto_tensorize import match_bodies
from tilewright.schedule.primitives.tensorize import tensorized_block
from tilewright.schedule.state.scope import realize_of
from tilewright.schedule.tensor.tiling import tile_with_tensor_intrin
from tilewright.space.conditions import iter_extent
from tilewright.space.layout_free import is_layout_free

# Padding pays as long as no more than half of the work is for nothing: an instruction does several
# times what a vector of plain code does.
MAX_WORK_WITH_PADDING = 2.0


def adapt_to_intrin(sch: Schedule, block: BlockRV, intrin: TensorIntrin) -> bool:
    """Let `tile_with_tensor_intrin` find in a block what `intrin` computes; False if it cannot.

    After False the schedule is of no use.
    """
    try:
        if _fits_already(sch.copy(), block, intrin):
            return True
        fit = IntrinFit.of(sch.get_sref(block).block, intrin.desc)
        return fit is not None and _Adapter(sch, block, fit).run(intrin.desc)
    except ScheduleError:
        return False  # the program around the block does not allow it


def _fits_already(sch: Schedule, block: BlockRV, intrin: TensorIntrin) -> bool:
    tile = tile_with_tensor_intrin(sch, block, intrin.name)
    return tile is not None and is_tensorizable(sch, sch.blockize(tile), intrin)


def is_tensorizable(sch: Schedule, block: BlockRV, intrin: TensorIntrin) -> bool:
    """True when `tensorize` will accept a block once its initialisation is apart."""
    sref = sch.get_sref(block)
    try:
        tensorized_block(ir.replace(sref.block, init=None), intrin, sref)
    except ScheduleError:
        return False
    return True


# --- copies with whole units --------------------------------------------------------------------

Role = tuple[str, int]  # ("read" or "write", number), as `transform_layout` takes it


def pad_to_units(
    sch: Schedule,
    block: BlockRV,
    lacking: Sequence[int],
    roles: Sequence[Role],
    *,
    mark_packing: bool = False,
) -> dict[Role, BlockRV]:
    """Let a block work on copies of those of its operands that grow; the blocks that copy.

    `lacking` is what each iterator lacks to whole units. What is added to the result is not copied
    back.
    """
    stmt = sch.get_sref(block).block
    grown = {v.var for v, amount in zip(stmt.iter_vars, lacking, strict=True) if amount}
    copies = {
        role: _copy(sch, block, role, mark_packing)
        for role in roles
        if any(ir.uses_var(axis.min, grown.__contains__) for axis in _region(stmt, role).region)
    }
    sch.pad_einsum(block, list(lacking))
    return copies


def _copy(sch: Schedule, block: BlockRV, role: Role, mark_packing: bool) -> BlockRV:
    """The block that copies an operand; constants may be marked, so that it runs only once."""
    kind, number = role
    if kind == "write":
        return sch.cache_write(block, number, "global")
    sref = sch.get_sref(block)
    func, source = sch.mod[sch.state.function_of(sref)], _region(sref.block, role).buffer
    made = sch.cache_read(block, number, "global")
    if mark_packing and is_layout_free(func, source):
        sch.annotate(made, LAYOUT_REWRITE_PREPROC, True)
    return made


def _region(block: ir.Block, role: Role) -> ir.BufferRegion:
    kind, number = role
    return (block.reads if kind == "read" else block.writes)[number]


# --- what stands for what -----------------------------------------------------------------------


@dataclass(frozen=True)
class MatchedOperand:
    """A buffer of the block, and how the instruction would index it."""

    role: Role
    indices: tuple[ir.Var, ...]  # iterators of the block
    extents: tuple[int, ...]  # of the instruction

    def lies_right(self, region: ir.BufferRegion) -> bool:
        """True when the instruction finds its elements next to each other."""
        axes, shape = [axis.min for axis in region.region], region.buffer.shape
        last = axes[len(axes) - len(self.indices) :]
        if any(axis is not index for axis, index in zip(last, self.indices, strict=True)):
            return False
        rows = zip(shape[len(shape) - len(self.extents) + 1 :], self.extents[1:], strict=True)
        return all(isinstance(have, ir.IntImm) and have.value == want for have, want in rows)


@dataclass(frozen=True)
class IntrinFit:
    """Iterators and buffers of a block that stand for those of a description."""

    chosen: tuple[ir.Var, ...]  # in the order of the description
    operands: tuple[MatchedOperand, ...]

    @staticmethod
    def of(block: ir.Block, desc: ir.PrimFunc) -> IntrinFit | None:
        """What stands for what, None if the block computes something else."""
        target = description_nest(desc)[1].block
        matched = match_bodies(block, target)
        if matched is None:
            return None
        pairs = list(matched.buffer_map.items())
        accesses = [(matched.mine[mine], matched.theirs[theirs]) for mine, theirs in pairs]
        chosen: dict[ir.PrimExpr, ir.Var] = {}
        for wanted in target.iter_vars:
            found = _stand_in(block.iter_vars, wanted, accesses)
            if found is None:
                return None
            chosen[wanted.var] = found
        extents: dict[ir.PrimExpr, int] = {v.var: iter_extent(v) or 0 for v in target.iter_vars}
        operands = []
        for mine, theirs in pairs:
            indices = [index for index in matched.theirs[theirs] if index in chosen]
            role = ("write", 0)
            if mine is not block.writes[0].buffer:
                role = ("read", [region.buffer for region in block.reads].index(mine))
            axes = tuple(chosen[index] for index in indices)
            operands.append(MatchedOperand(role, axes, tuple(extents[index] for index in indices)))
        return IntrinFit(tuple(chosen.values()), tuple(operands))


def _stand_in(
    iters: Sequence[ir.IterVar],
    wanted: ir.IterVar,
    accesses: Sequence[tuple[Sequence[ir.PrimExpr], Sequence[ir.PrimExpr]]],
) -> ir.Var | None:
    """The iterator that indexes the same operands; rather one that is an index by itself."""
    uses = [_contains(theirs, wanted.var) for _, theirs in accesses]
    candidates = [
        iter_var.var
        for iter_var in iters
        if iter_var.iter_type is wanted.iter_type
        and [_contains(mine, iter_var.var) for mine, _ in accesses] == uses
    ]
    used = [mine for (mine, _), is_used in zip(accesses, uses, strict=True) if is_used]
    plain = [var for var in candidates if all(_axis_of(mine, var) is not None for mine in used)]
    return next(reversed(plain or candidates), None)


def _contains(indices: Sequence[ir.PrimExpr], var: ir.Var) -> bool:
    return any(ir.uses_var(index, lambda other: other is var) for index in indices)


def _axis_of(indices: Sequence[ir.PrimExpr], var: ir.Var) -> int | None:
    """The axis that a variable indexes by itself; None if it is part of another index, too."""
    using = [axis for axis, index in enumerate(indices) if _contains([index], var)]
    return using[0] if len(using) == 1 and indices[using[0]] is var else None


def _are_last(iters: Sequence[ir.IterVar], chosen: Sequence[ir.Var]) -> bool:
    """True when each is the last of its kind before those that come after it."""
    kinds = {iter_var.var: iter_var.iter_type for iter_var in iters}
    left = list(iters)
    for var in reversed(chosen):
        while left and left[-1].iter_type is not kinds[var]:
            left.pop()
        if not left or left.pop().var is not var:
            return False
    return True


# --- changing the block -------------------------------------------------------------------------


class _Adapter:
    def __init__(self, sch: Schedule, block: BlockRV, fit: IntrinFit) -> None:
        self._sch = sch
        self._block = block
        self._fit = fit
        self._copies: dict[Role, BlockRV] = {}

    @property
    def _stmt(self) -> ir.Block:
        return self._sch.get_sref(self._block).block

    def run(self, desc: ir.PrimFunc) -> bool:
        """Do all that is needed; False if the block does not fit or padding does not pay."""
        self._order()
        info = get_tensorize_loop_mapping(self._sch, self._block, desc, allow_padding=True)
        if info is None:
            return False
        if info.block_iter_paddings is not None:
            if _work_with(self._stmt, info.block_iter_paddings) > MAX_WORK_WITH_PADDING:
                return False
            self._pad(info.block_iter_paddings)
        for operand in self._fit.operands:
            self._pack(operand)
        return True

    def _order(self) -> None:
        """Bring the chosen iterators where loops are looked for, and the loops into their order."""
        sch, iters = self._sch, self._stmt.iter_vars
        if not _are_last(iters, self._fit.chosen):
            place = {var: len(iters) + number for number, var in enumerate(self._fit.chosen)}
            order = sorted(range(len(iters)), key=lambda n: place.get(iters[n].var, n))
            sch.reorder_block_iter_var(self._block, order)
        bound = realize_of(sch.get_sref(self._block)).iter_values
        loops: dict[ir.PrimExpr, LoopRV] = {
            sch.get_sref(loop).loop.loop_var: loop for loop in sch.get_loops(self._block)
        }
        is_trivial = len(bound) == len(loops) and all(value in loops for value in bound)
        if is_trivial and any(a is not b for a, b in zip(loops, bound, strict=True)):
            sch.reorder(*(loops[value] for value in bound))

    def _pad(self, lacking: Sequence[int]) -> None:
        """Work on copies with whole units; what is added to the result is not copied back."""
        roles = [operand.role for operand in self._fit.operands]
        self._copies = pad_to_units(self._sch, self._block, lacking, roles, mark_packing=True)

    def _copy(self, operand: MatchedOperand) -> BlockRV:
        """The block that copies an operand; constants are marked, so that it runs only once."""
        if operand.role not in self._copies:
            copy = _copy(self._sch, self._block, operand.role, mark_packing=True)
            self._copies[operand.role] = copy
        return self._copies[operand.role]

    def _pack(self, operand: MatchedOperand) -> None:
        """Store an operand in units of the instruction, where its indices tell how.

        A unit is followed by the next one of the reduction, which is the next to be read.
        """
        region = _region(self._stmt, operand.role)
        indices = [axis.min for axis in region.region]
        axes = [_axis_of(indices, var) for var in operand.indices]
        if None in axes or operand.lies_right(region):
            return
        units = {axis: n for axis, n in zip(axes, operand.extents, strict=True) if axis is not None}
        spatial = {v.var for v in self._stmt.iter_vars if v.iter_type is ir.IterType.DATA_PAR}
        outer = sorted(
            range(len(indices)),
            key=lambda axis: not ir.uses_var(indices[axis], spatial.__contains__),
        )

        def panels(*at: ir.PrimExpr) -> tuple[ir.PrimExpr, ...]:
            return (
                *(
                    ir.floordiv(at[axis], units[axis]) if axis in units else at[axis]
                    for axis in outer
                ),
                *(ir.floormod(at[axis], unit) for axis, unit in units.items()),
            )

        copy = self._copy(operand)
        self._sch.transform_layout(
            self._block, operand.role, panels, assume_injective_transform=True
        )
        if operand.role[0] == "read":
            self._sch.transform_block_layout(copy, panels)


def _work_with(block: ir.Block, lacking: Sequence[int]) -> float:
    """How many times the work there is with padding."""
    grown = [(v, amount) for v, amount in zip(block.iter_vars, lacking, strict=True) if amount]
    return math.prod(1 + amount / (iter_extent(iter_var) or 1) for iter_var, amount in grown)
