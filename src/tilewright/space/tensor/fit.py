"""Making a block fit a tensor instruction: units, order of iterators, padding, packed operands.

An instruction wants its operands in an order of their own and extents that are multiples of its
own. Where a block has neither, it may work on copies that have both; its result is copied back
without what was added. `TensorFit` is for register tiles, which know the block as a contraction,
`IntrinFit` for instructions of any kind in tilings of loops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir import Block, PrimFunc, annotation_keys as keys
from tilewright.ir.tensor_intrin import TensorIntrin, description_nest
from tilewright.nest.access import BufferAccess
from tilewright.nest.block_nest import BlockNest
from tilewright.nest.loops import known_extent
from tilewright.nest.placement import static_shape
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.analysis import get_tensorize_loop_mapping
from tilewright.schedule.analysis.auto_tensorize import match_bodies
from tilewright.schedule.primitives.tensorize import tensorized_block
from tilewright.schedule.tensor.tiling import tile_with_tensor_intrin
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.layout_free import is_layout_free
from tilewright.space.tensor.instruction import TensorTile

_SIGNED = {"uint8": "int8", "int8": "uint8"}


@dataclass(frozen=True)
class TensorFit:
    """How an instruction fits a contraction; numbers are positions of iterators or of reads."""

    tile: TensorTile
    contraction: Contraction
    depth: int  # the reduction that the instruction does some steps of
    units: Mapping[int, int]  # how many iterations of each iterator the instruction does
    shifted: int | None  # the read that has the wrong sign
    paddings: tuple[int, ...] | None  # what iterators lack to units
    is_packed: bool  # the right operand is in the order of the instruction

    @property
    def work(self) -> float:
        """The products that one instruction contributes, those with padding left out."""
        tile, extents = self.tile, self.contraction.extents
        lacking = self.paddings or (0,) * len(extents)
        share = math.prod(e / (e + n) for e, n in zip(extents, lacking, strict=True))
        return tile.rows * tile.lanes * tile.depth * share

    @property
    def order(self) -> list[int]:
        """The iterators that the instruction does some iterations of, as its loops are nested."""
        tile = self.tile
        position = dict(zip((tile.lane, tile.depth_iter, tile.row), self.units, strict=False))
        return [position[v.var] for v in tile.iters if v.var in position]

    def effort(self, func: PrimFunc, block: Block) -> tuple[bool, bool, bool]:
        """What has to be done to the operands first: shifting costs more than padding.

        The right operand is shifted while it is packed, unless that was done ahead. What results
        start from then is a sum over the left one, which windows would compute again and again.
        """
        is_right = self.shifted is not None and self.shifted == self.contraction.right
        is_expensive = is_right and (
            self.is_constant(func, block) or len(self.contraction.depth) > 1
        )
        return self.shifted is not None, self.paddings is not None, is_expensive

    def is_constant(self, func: PrimFunc, block: Block) -> bool:
        """True if the right operand is packed once, ahead of all calls."""
        assert self.contraction.right is not None
        return is_layout_free(func, block.reads[self.contraction.right].buffer)

    @staticmethod
    def of(block: Block, contraction: Contraction, tile: TensorTile) -> TensorFit | None:
        """How the instruction fits a block, None if it does not."""
        assert contraction.right is not None
        (left,) = contraction.left
        if block.writes[0].buffer.dtype != tile.out.buffer.dtype:
            return None
        wrong: list[int] = []
        for number, wanted in ((left, tile.left), (contraction.right, tile.right)):
            dtype = block.reads[number].buffer.dtype
            if dtype != wanted.buffer.dtype:
                if wrong or _SIGNED.get(str(dtype)) != str(wanted.buffer.dtype):
                    return None
                wrong.append(number)
        depth = _contiguous_depth(block, contraction, left)
        row = next((n for n in reversed(contraction.rows) if contraction.extents[n] > 1), None)
        if depth is None or (tile.rows > 1 and row is None):
            return None
        units = {contraction.vector: tile.lanes, depth: tile.depth}
        if tile.rows > 1 and row is not None:
            units[row] = tile.rows
        lacking = tuple(-e % units.get(n, 1) for n, e in enumerate(contraction.extents))
        return TensorFit(
            tile,
            contraction,
            depth,
            units,
            wrong[0] if wrong else None,
            lacking if any(lacking) else None,
            _is_packed(block, contraction, tile, depth),
        )


def _contiguous_depth(block: Block, contraction: Contraction, left: int) -> int | None:
    """The reduction along which the left operand is contiguous and the right one has an axis."""
    assert contraction.right is not None
    nest = BlockNest(block)
    for n in contraction.depth:
        var = nest.iters[n]
        if (
            nest.reads[left].runs_along(var)
            and nest.reads[contraction.right].axis_of(var) is not None
        ):
            return n
    return None


def _is_packed(block: Block, contraction: Contraction, tile: TensorTile, depth: int) -> bool:
    assert contraction.right is not None
    if (
        contraction.extents[contraction.vector] != tile.lanes
        or contraction.extents[depth] != tile.depth
    ):
        return False
    lane, step = block.iter_vars[contraction.vector].var, block.iter_vars[depth].var
    return BufferAccess.of(block.reads[contraction.right]).ends_in(tile.right_indices(lane, step))


# Padding pays as long as no more than half of the work is for nothing: an instruction does several
# times what a vector of plain code does.
MAX_WORK_WITH_PADDING = 2.0


def adapt_to_intrin(sch: Schedule, block: BlockRV, intrin: TensorIntrin) -> bool:
    """Let `tile_with_tensor_intrin` find in a block what `intrin` computes; False if it cannot.

    After False the schedule is of no use.
    """
    try:
        copy = sch.copy()
        tile = tile_with_tensor_intrin(copy, block, intrin.name)
        if tile is not None and is_tensorizable(copy, copy.blockize(tile), intrin):
            return True
        fit = IntrinFit.of(sch.get_sref(block).block, intrin.desc)
        return fit is not None and _Adapter(sch, block, fit).run(intrin.desc)
    except ScheduleError:
        return False  # the program around the block does not allow it


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
        if _access(stmt, role).variables & grown
    }
    sch.pad_einsum(block, list(lacking))
    return copies


def _copy(sch: Schedule, block: BlockRV, role: Role, mark_packing: bool) -> BlockRV:
    """The block that copies an operand; constants may be marked, so that it runs only once."""
    kind, number = role
    if kind == "write":
        return sch.cache_write(block, number, "global")
    sref = sch.get_sref(block)
    func, source = sch.mod[sch.state.function_of(sref)], _access(sref.block, role).buffer
    made = sch.cache_read(block, number, "global")
    if mark_packing and is_layout_free(func, source):
        sch.annotate(made, keys.LAYOUT_REWRITE_PREPROC, True)
    return made


def _access(block: ir.Block, role: Role) -> BufferAccess:
    kind, number = role
    return BufferAccess.of((block.reads if kind == "read" else block.writes)[number])


# --- what stands for what -----------------------------------------------------------------------


@dataclass(frozen=True)
class MatchedOperand:
    """A buffer of the block, and how the instruction would index it."""

    role: Role
    indices: tuple[ir.Var, ...]  # iterators of the block
    extents: tuple[int, ...]  # of the instruction

    def lies_right(self, access: BufferAccess) -> bool:
        """True when the instruction finds its elements next to each other."""
        shape = static_shape(access.buffer, unknown=0)
        rows = shape[len(shape) - len(self.extents) + 1 :]
        return access.ends_in(self.indices) and rows == self.extents[1:]


@dataclass(frozen=True)
class IntrinFit:
    """Iterators and buffers of a block that stand for those of a description."""

    chosen: tuple[ir.Var, ...]  # in the order of the description
    operands: tuple[MatchedOperand, ...]

    @staticmethod
    def of(block: ir.Block, desc: ir.PrimFunc) -> IntrinFit | None:
        """What stands for what, None if the block computes something else."""
        target = description_nest(desc)[1].block
        if (matched := match_bodies(block, target)) is None:
            return None
        pairs = list(matched.buffer_map.items())
        mine = [BufferAccess.at(own, matched.mine[own]) for own, _ in pairs]
        theirs = [BufferAccess.at(other, matched.theirs[other]) for _, other in pairs]
        chosen: dict[ir.PrimExpr, ir.Var] = {}
        for wanted in target.iter_vars:
            found = _stand_in(block.iter_vars, wanted, list(zip(mine, theirs, strict=True)))
            if found is None:
                return None
            chosen[wanted.var] = found
        extents: dict[ir.PrimExpr, int] = {v.var: known_extent(v) or 0 for v in target.iter_vars}
        operands = []
        for own, other in pairs:
            indices = [index for index in matched.theirs[other] if index in chosen]
            role = ("write", 0)
            if own is not block.writes[0].buffer:
                role = ("read", [region.buffer for region in block.reads].index(own))
            axes = tuple(chosen[index] for index in indices)
            operands.append(MatchedOperand(role, axes, tuple(extents[index] for index in indices)))
        return IntrinFit(tuple(chosen.values()), tuple(operands))


def _stand_in(
    iters: Sequence[ir.IterVar],
    wanted: ir.IterVar,
    accesses: Sequence[tuple[BufferAccess, BufferAccess]],
) -> ir.Var | None:
    """The iterator that indexes the same operands; rather one that is an index by itself."""
    uses = [theirs.uses(wanted.var) for _, theirs in accesses]
    candidates = [
        iter_var.var
        for iter_var in iters
        if iter_var.iter_type is wanted.iter_type
        and [mine.uses(iter_var.var) for mine, _ in accesses] == uses
    ]
    used = [mine for (mine, _), is_used in zip(accesses, uses, strict=True) if is_used]
    plain = [var for var in candidates if all(_axis_of(mine, var) is not None for mine in used)]
    return next(reversed(plain or candidates), None)


def _axis_of(access: BufferAccess, var: ir.Var) -> int | None:
    """The axis that a variable indexes by itself; None if it is part of another index, too."""
    axis = access.axis_of(var)
    return axis if access.axes_using(var) == [axis] else None


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
            grown = zip(self._stmt.iter_vars, info.block_iter_paddings, strict=True)
            work = math.prod(1 + amount / (known_extent(v) or 1) for v, amount in grown if amount)
            if work > MAX_WORK_WITH_PADDING:
                return False
            roles = [operand.role for operand in self._fit.operands]
            self._copies = pad_to_units(
                self._sch, self._block, info.block_iter_paddings, roles, mark_packing=True
            )
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
        bound = sch.get_sref(self._block).realize.iter_values
        loops: dict[ir.PrimExpr, LoopRV] = {
            sch.get_sref(loop).loop.loop_var: loop for loop in sch.get_loops(self._block)
        }
        is_trivial = len(bound) == len(loops) and all(value in loops for value in bound)
        if is_trivial and any(a is not b for a, b in zip(loops, bound, strict=True)):
            sch.reorder(*(loops[value] for value in bound))

    def _pack(self, operand: MatchedOperand) -> None:
        """Store an operand in units of the instruction, where its indices tell how.

        A unit is followed by the next one of the reduction, which is the next to be read.
        """
        access, nest = _access(self._stmt, operand.role), BlockNest(self._stmt)
        axes = [_axis_of(access, var) for var in operand.indices]
        if None in axes or operand.lies_right(access):
            return
        units = {axis: n for axis, n in zip(axes, operand.extents, strict=True) if axis is not None}
        spatial = {nest.iters[n] for n in nest.spatial}
        outer = sorted(
            range(len(access.indices)),
            key=lambda axis: spatial.isdisjoint(access.indices[axis].variables),
        )

        def panels(*at: ir.PrimExpr) -> tuple[ir.PrimExpr, ...]:
            return (
                *(
                    ir.floordiv(at[axis], units[axis]) if axis in units else at[axis]
                    for axis in outer
                ),
                *(ir.floormod(at[axis], unit) for axis, unit in units.items()),
            )

        sch, role = self._sch, operand.role
        copy = self._copies.get(role) or _copy(sch, self._block, role, mark_packing=True)
        sch.transform_layout(self._block, role, panels, assume_injective_transform=True)
        if role[0] == "read":
            sch.transform_block_layout(copy, panels)
