"""A reduction seen as a matrix product: which loops are rows, which are columns, what is streamed.

`out[batch, rows, columns] += left[batch, rows, depth] * right[batch, depth, columns]` covers
products, convolutions of all kinds and most attention steps. The innermost axis of the result is
the vector axis; the operand that is contiguous along it is the right one. Loops that the right
operand does not know are rows: their results share what was loaded of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.access import inputs_of
from tilewright.space.conditions import iter_extent


@dataclass(frozen=True)
class Contraction:
    """The iterators of a block by their part in the computation; numbers are positions."""

    vector: int
    rows: tuple[int, ...]
    batch: tuple[int, ...]  # all other spatial ones, outermost first
    depth: tuple[int, ...]  # reductions
    extents: tuple[int, ...]
    right: int | None  # which read region is contiguous along the vector axis
    left: tuple[int, ...]  # the read regions that do not change along it
    # A vector may not cross a multiple of this: groups of channels read different inputs.
    vector_limit: int | None
    # Iterators that occur in `x % period`: tiles of a multiple of it turn conditions constant.
    periods: dict[int, int]

    @staticmethod
    def of(block: ir.Block, any_layout: bool = False) -> Contraction | None:
        """The contraction that a block computes, if it is one.

        With `any_layout`, the right operand need not be contiguous along the vector axis: it is
        going to be copied.
        """
        return _Analysis(block, any_layout).result() if _has_form(block) else None


def _has_form(block: ir.Block) -> bool:
    if block.init is None or len(block.writes) != 1 or not inputs_of(block):
        return False
    kinds = {iter_var.iter_type for iter_var in block.iter_vars}
    if not kinds <= {ir.IterType.DATA_PAR, ir.IterType.COMM_REDUCE}:
        return False
    if None in map(iter_extent, block.iter_vars):
        return False
    written = block.writes[0].region
    return bool(written) and isinstance(written[-1].min, ir.Var)


class _Analysis:
    def __init__(self, block: ir.Block, any_layout: bool) -> None:
        self._block = block
        self._any_layout = any_layout
        self._position = {iter_var.var: n for n, iter_var in enumerate(block.iter_vars)}
        vector = block.writes[0].region[-1].min
        assert isinstance(vector, ir.Var)
        self._vector = vector
        # What only the initialisation reads is no operand.
        used = {load.buffer for load in ir.nodes_of(block.body, ir.BufferLoad)}
        used.discard(block.writes[0].buffer)
        self._inputs = {
            number: [axis.min for axis in region.region]
            for number, region in enumerate(block.reads)
            if region.buffer in used
        }

    def result(self) -> Contraction | None:
        if self._vector not in self._position:
            return None
        inputs = self._inputs
        streamed = [n for n, indices in inputs.items() if self._is_streamed(indices)]
        if len(streamed) < sum(map(self._is_strided, inputs.values())):
            return None  # some operand would be gathered
        right = streamed[-1] if streamed else None
        known = set() if right is None else self._positions_in(*inputs[right])
        own = self._position[self._vector]
        rest = [n for n in self._of_kind(ir.IterType.DATA_PAR) if n != own]
        return Contraction(
            vector=own,
            rows=tuple(n for n in rest if n not in known),
            batch=tuple(n for n in rest if n in known),
            depth=tuple(self._of_kind(ir.IterType.COMM_REDUCE)),
            extents=tuple(iter_extent(iter_var) or 0 for iter_var in self._block.iter_vars),
            right=right,
            left=tuple(n for n in inputs if n not in streamed),
            vector_limit=self._vector_limit(),
            periods=self._periods(),
        )

    def _is_streamed(self, indices: list[ir.PrimExpr]) -> bool:
        """Does an operand lie along the vector axis as it should?"""
        if self._any_layout:
            return any(index is self._vector for index in indices)
        return is_plain_term(indices[-1], self._vector)

    def _is_strided(self, indices: list[ir.PrimExpr]) -> bool:
        """Do neighbours along the vector axis lie in different places, contiguous or not?"""
        return any(
            uses(index, self._vector)
            and all(node.a is not self._vector for node in ir.nodes_of(index, ir.FloorDiv))
            for index in indices
        )

    def _of_kind(self, kind: ir.IterType) -> list[int]:
        return [n for n, iter_var in enumerate(self._block.iter_vars) if iter_var.iter_type is kind]

    def _positions_in(self, *indices: ir.PrimExpr) -> set[int]:
        used = {var for index in indices for var in ir.free_vars(index)}
        return {self._position[var] for var in used if var in self._position}

    def _vector_limit(self) -> int | None:
        quotients = (
            node
            for indices in self._inputs.values()
            for index in indices
            for node in ir.nodes_of(index, ir.FloorDiv)
        )
        limits = [
            node.b.value
            for node in quotients
            if node.a is self._vector and isinstance(node.b, ir.IntImm)
        ]
        return min(limits, default=None)

    def _periods(self) -> dict[int, int]:
        found: dict[int, int] = {}

        def look(node: ir.Node) -> None:
            match node:
                case ir.FloorMod(a=a, b=ir.IntImm(value=period)):
                    found.update(dict.fromkeys(self._positions_in(a), period))

        ir.post_order_visit(self._block.body, look)  # an outer remainder overrules an inner one
        return found


def is_plain_term(index: ir.PrimExpr, var: ir.Var) -> bool:
    """True when an index is `var` plus something without it."""
    match index:
        case ir.Var():
            return index is var
        case ir.Add(a=a, b=b):
            parts = [is_plain_term(a, var), is_plain_term(b, var)]
            return any(parts) and not uses(b if parts[0] else a, var)
    return False


def uses(expr: ir.PrimExpr, var: ir.Var) -> bool:
    """True when a variable occurs in an expression."""
    return ir.uses_var(expr, lambda other: other is var)
