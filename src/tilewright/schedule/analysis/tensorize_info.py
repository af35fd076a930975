"""Loops of a block that a tensor instruction would take over."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.ir.tensor_intrin import description_nest
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.state import BlockRV, StmtSRef
from tilewright.schedule.state.sref import upwards


@dataclass(frozen=True, eq=False)
class TensorizeInfo:
    """Loops of a block and the loops of a description that they stand for."""

    loop_map: Mapping[StmtSRef, ir.For]
    desc_loop_indexer: Mapping[ir.For, int]  # outermost 0
    block_iter_paddings: list[int] | None = None  # for each iterator what to add to its extent


def get_tensorize_loop_mapping(
    sch: ScheduleCore, block: BlockRV, desc_func: ir.PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """Find, for each loop of a description, the loop of a block that does the same.

    Iterators are paired from the innermost one outwards by their kind, so their order must agree
    while loops may be nested in any order. Extents must be multiples of those of the description,
    unless padding is allowed; None where nothing fits.
    """
    return _LoopMapper(sch.get_sref(block), desc_func, allow_padding).run()


class _LoopMapper:
    def __init__(self, block: StmtSRef, desc_func: ir.PrimFunc, allow_padding: bool) -> None:
        self._loops = _loops_in_chain(block)
        self._realize = block.realize
        self._desc_loops, self._desc = description_nest(desc_func)
        self._allow_padding = allow_padding
        self._analyzer = arith.Analyzer()
        self._paddings: dict[int, int] = {}
        self._loop_map: dict[StmtSRef, ir.For] = {}

    def run(self) -> TensorizeInfo | None:
        """The pairs of loops, or None."""
        iters = self._realize.block.iter_vars
        desc_iters = self._desc.block.iter_vars
        starts_at_zero = all(ir.is_zero(loop.loop.min) for loop in self._loops)
        if len(self._desc_loops) != len(desc_iters) or len(self._loops) != len(iters):
            return None
        if len(iters) < len(desc_iters) or not starts_at_zero:
            return None
        upto = len(iters) - 1
        for position in range(len(desc_iters) - 1, -1, -1):
            found = _last_of_kind(iters, upto, desc_iters[position].iter_type)
            if found is None or not self._map_iter(position, found):
                return None
            upto = found - 1
        indexer = {loop: index for index, loop in enumerate(self._desc_loops)}
        return self._with_paddings(TensorizeInfo(self._loop_map, indexer), len(iters))

    def _map_iter(self, desc_position: int, position: int) -> bool:
        """Pair the loops of two iterators; False where that is impossible."""
        desc_loop = self._desc_loop_of(desc_position)
        if desc_loop is None or not isinstance(desc_loop.extent, ir.IntImm):
            return False
        binding = self._realize.iter_values[position]
        variables = {loop.loop.loop_var for loop in self._loops}
        for loop in self._loops:
            residual = self._residual(binding, loop.loop, variables)
            if loop in self._loop_map or residual is None:
                continue
            if not ir.is_zero(residual):
                self._allow_padding = False
            return self._pair(loop, desc_loop, position)
        return True  # an iterator without a loop of its own stays outside

    def _desc_loop_of(self, position: int) -> ir.For | None:
        binding = self._desc.iter_values[position]
        variables = {loop.loop_var for loop in self._desc_loops}
        for loop in self._desc_loops:
            if self._residual(binding, loop, variables) is not None:
                return loop
        return None

    def _residual(
        self, binding: ir.PrimExpr, loop: ir.For, variables: set[ir.Var]
    ) -> ir.PrimExpr | None:
        """What a binding adds to a loop variable; None if it depends on loops."""
        rest = self._analyzer.simplify(ir.subtract(binding, loop.loop_var))
        return None if ir.uses_var(rest, variables.__contains__) else rest

    def _pair(self, loop: StmtSRef, desc_loop: ir.For, position: int) -> bool:
        extent, wanted = loop.loop.extent, desc_loop.extent
        if not isinstance(extent, ir.IntImm) or not isinstance(wanted, ir.IntImm):
            return False
        missing = -extent.value % wanted.value
        if missing:
            if not self._allow_padding:
                return False
            self._paddings[position] = missing
        self._loop_map[loop] = desc_loop
        return True

    def _with_paddings(self, info: TensorizeInfo, count: int) -> TensorizeInfo | None:
        if not self._paddings:
            return info
        if not self._allow_padding:
            return None
        paddings = [self._paddings.get(position, 0) for position in range(count)]
        return TensorizeInfo(info.loop_map, info.desc_loop_indexer, paddings)


def _loops_in_chain(block: StmtSRef) -> list[StmtSRef]:
    """The loops around a block that hold nothing else, outermost first."""
    around = upwards(block.parent)
    alone = itertools.takewhile(lambda n: n.is_loop and type(n.body) is not ir.SeqStmt, around)
    return [*alone][::-1]


def _last_of_kind(iters: Sequence[ir.IterVar], upto: int, kind: ir.IterType) -> int | None:
    for position in range(upto, -1, -1):
        if iters[position].iter_type is kind:
            return position
    return None


def description_block(desc_func: ir.PrimFunc) -> ir.BlockRealize:
    """The block inside the loops of a description."""
    return description_nest(desc_func)[1]
