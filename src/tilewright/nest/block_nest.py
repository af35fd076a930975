"""A block as a loop nest of its own: its iterators are the loops, its regions the accesses.

Rules that decide how to schedule a block ask here which of its operands moves along which iterator,
and how it lies in memory. The loops around the block do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

from tilewright import ir
from tilewright.arith.affine import used_vars
from tilewright.ir import IterType, Var
from tilewright.ir.access import inputs_of
from tilewright.nest.access import BufferAccess
from tilewright.nest.loops import known_extent


def loads_of(node: ir.Node) -> list[BufferAccess]:
    """The loads of an expression or statement, in the order in which they are written."""
    return [BufferAccess.at(load.buffer, load.indices) for load in ir.nodes_of(node, ir.BufferLoad)]


class BlockNest:
    """The iterators of a block and its accesses; numbers are positions."""

    def __init__(self, block: ir.Block) -> None:
        self._block = block
        self.iters = [iter_var.var for iter_var in block.iter_vars]
        kinds = [iter_var.iter_type for iter_var in block.iter_vars]
        self.spatial = [n for n, kind in enumerate(kinds) if kind is IterType.DATA_PAR]
        self.depth = [n for n, kind in enumerate(kinds) if kind is IterType.COMM_REDUCE]

    @cached_property
    def extents(self) -> list[int | None]:
        """Of the iterators; None where it is not a number."""
        return [known_extent(iter_var) for iter_var in self._block.iter_vars]

    @cached_property
    def reads(self) -> list[BufferAccess]:
        """What the block declares to read."""
        return [BufferAccess.of(region) for region in self._block.reads]

    @cached_property
    def writes(self) -> list[BufferAccess]:
        """What it declares to write."""
        return [BufferAccess.of(region) for region in self._block.writes]

    @cached_property
    def inputs(self) -> dict[int, BufferAccess]:
        """Those of its reads that bring values into the block."""
        return {number: self.reads[number] for number in inputs_of(self._block)}

    @cached_property
    def operands(self) -> dict[int, BufferAccess]:
        """Those of its reads that are of buffers which it does not write."""
        written = {region.buffer for region in self._block.writes}
        return {n: read for n, read in enumerate(self.reads) if read.buffer not in written}

    @cached_property
    def _nodes(self) -> list[ir.Node]:
        return list(ir.walk(self._block.body))

    @cached_property
    def loaded(self) -> dict[int, BufferAccess]:
        """Operands that more than the initialisation reads."""
        used = {node.buffer for node in self._nodes if isinstance(node, ir.BufferLoad)}
        return {n: operand for n, operand in self.operands.items() if operand.buffer in used}

    @cached_property
    def periods(self) -> dict[Var, int]:
        """Variables that occur in `x % period`; an outer remainder overrules an inner one."""
        found: dict[Var, int] = {}

        def look(node: ir.Node) -> None:
            if isinstance(node, ir.FloorMod) and isinstance(node.b, ir.IntImm):
                found.update(dict.fromkeys(used_vars(node.a), node.b.value))

        if any([type(node) is ir.FloorMod for node in self._nodes]):
            ir.post_order_visit(self._block.body, look)
        return found

    @property
    def divides(self) -> bool:
        """True when there is a quotient of floats in the block."""
        return any([type(node) is ir.Div and node.dtype.is_float for node in self._nodes])

    @property
    def is_plain(self) -> bool:
        """True when iterators are spatial or reductions, and run as often as numbers say."""
        usual = len(self.spatial) + len(self.depth)
        return usual == len(self.iters) and None not in self.extents

    def points(self, positions: Iterable[int]) -> int:
        """How often some iterators run together; 0 if that is not a number."""
        return math.prod([self.extents[n] or 0 for n in positions])

    def position(self, var: Var | None) -> int | None:
        """The iterator that a variable is."""
        return next((n for n, own in enumerate(self.iters) if own is var), None)
