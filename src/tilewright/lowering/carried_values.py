"""Does a buffer carry values from one run of a statement to the next?

It does not if each read is covered by a write that comes before it in the same run. Then every run
may have a buffer of its own. Boxes of accesses are compared while the loops inside the statement
run; what cannot be proven counts as carried.
"""

from __future__ import annotations

from tilewright.arith import Analyzer
from tilewright.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    For,
    IfThenElse,
    IntImm,
    MatchBufferRegion,
    PrimExpr,
    Range,
    Stmt,
    Var,
    Visitor,
    While,
    free_vars,
    logical_and,
    substitute,
    uses_var,
)
from tilewright.lowering.access_bounds import IndexBounds, Interval
from tilewright.lowering.linear_form import is_dense, linear_form
from tilewright.lowering.walk import ADDRESS_OF, IF_THEN_ELSE, takes_pointer
from tilewright.lowering.widen_expr import conjuncts

_Box = list[Interval | None]
_BOUND_TESTS = (LT, LE, GT, GE)


class _Scanner(Visitor):
    """Walks a statement in program order and checks each read of the buffer."""

    def __init__(self, buffer: Buffer, analyzer: Analyzer) -> None:
        self._buffer = buffer
        self._analyzer = analyzer
        self._domains: dict[Var, Range] = {}
        self._writes: list[_Box] = []
        self._maybe = 0  # depth of places that may not run
        self._at_first: frozenset[Var] = frozenset()  # loops known to be in their first iteration
        self.carried = False

    def visit_for(self, node: For) -> None:
        domain = Range(node.min, node.extent)
        self._analyzer.bind(node.loop_var, domain, allow_override=True)
        self._domains[node.loop_var] = domain
        may_be_empty = not (isinstance(node.extent, IntImm) and node.extent.value > 0)
        self._maybe += may_be_empty
        self.visit(node.body)
        self._maybe -= may_be_empty

    def visit_if_then_else(self, node: IfThenElse) -> None:
        self.visit(node.condition)
        tested = self._tested_first(node.condition)
        if tested is not None:
            outside, self._at_first = self._at_first, self._at_first | tested
            self.visit(node.then_case)
            self._at_first = outside
        self._maybe += 1
        if tested is None:
            self.visit(node.then_case)
        if node.else_case is not None:
            self.visit(node.else_case)
        self._maybe -= 1

    def _tested_first(self, condition: PrimExpr) -> frozenset[Var] | None:
        """The loops of which `condition` holds in the first iteration, as that of an init does."""
        tests = conjuncts(condition)
        tested = frozenset(var for test in tests for var in free_vars(test) if var in self._domains)
        if not tested or not all(isinstance(test, EQ) for test in tests):
            return None
        first = {var: self._domains[var].min for var in tested}
        holds = self._analyzer.can_prove(substitute(logical_and(*tests), first))
        return tested if holds else None

    def visit_while(self, node: While) -> None:
        self._maybe += 1
        self.generic_visit(node)
        self._maybe -= 1

    def visit_call(self, node: Call) -> None:
        if node.op is ADDRESS_OF and takes_pointer(node, self._buffer.data):
            self.carried = True
        self._maybe += node.op is IF_THEN_ELSE
        self.generic_visit(node)
        self._maybe -= node.op is IF_THEN_ELSE

    def visit_block_realize(self, node: BlockRealize) -> None:
        self.visit(node.predicate)
        # Where a tile does not divide its extent, the elements that a bound check leaves out do not
        # exist; any other predicate may leave out real ones.
        only_bounds = all(
            isinstance(part, (*_BOUND_TESTS, IntImm)) for part in conjuncts(node.predicate)
        )
        self._maybe += not only_bounds
        self._visit_block(node.block)
        self._maybe -= not only_bounds

    def _visit_block(self, block: Block) -> None:
        if not takes_pointer(block.body, self._buffer.data) and not block.match_buffers:
            self.visit(block.body)
            return
        for match in block.match_buffers:
            self.visit(match)
        self._visit_regions(block)

    def _visit_regions(self, block: Block) -> None:
        """For memory that is used through pointers or views, what the block declares counts."""
        for region in block.reads:
            if region.buffer is self._buffer:
                self._read(_points(region))
        for region in block.writes:
            if region.buffer is self._buffer:
                self._write(_points(region))

    def visit_match_buffer_region(self, node: MatchBufferRegion) -> None:
        """A view counts through the regions of its block."""

    def visit_buffer_load(self, node: BufferLoad) -> None:
        self.generic_visit(node)
        if node.buffer is self._buffer:
            self._read([(index, None) for index in node.indices])
        elif node.buffer.data is self._buffer.data:
            self.carried = True

    def visit_buffer_store(self, node: BufferStore) -> None:
        self.generic_visit(node)
        if node.buffer is self._buffer:
            self._write([(index, None) for index in node.indices])

    def visit_var(self, node: Var) -> None:
        self.carried = self.carried or node is self._buffer.data

    def _box(self, axes: list[tuple[PrimExpr, PrimExpr | None]]) -> _Box:
        bounds = IndexBounds(self._domains, self._analyzer)
        box: _Box = []
        for start, extent in axes:
            first = bounds.of(start)
            size = None if extent is None else bounds.of(extent)
            if first is None or (extent is not None and size is None):
                box.append(None)
            else:
                last = first.high if size is None else first.high + size.high - 1
                box.append(Interval(first.low, last))
        return box

    def _read(self, axes: list[tuple[PrimExpr, PrimExpr | None]]) -> None:
        box = self._box(axes)
        if not any(self._covers(write, box) for write in self._writes):
            self.carried = True

    def _write(self, axes: list[tuple[PrimExpr, PrimExpr | None]]) -> None:
        starts = [start for start, _ in axes]
        if any(uses_var(start, self._at_first.__contains__) for start in starts):
            return  # only part of the box is written in the first iteration
        if not self._maybe and not any(map(self._has_gaps, starts)):
            self._writes.append(self._box(axes))

    def _has_gaps(self, index: PrimExpr) -> bool:
        """True for an index such as `2 * i`, whose box holds elements that it never reaches."""
        form = linear_form(index, self._domains.__contains__)
        if form is None or not form.coefficients:
            return False
        extents = [self._domains[var].extent for var in form.coefficients]
        known = [extent.value for extent in extents if isinstance(extent, IntImm)]
        return len(known) < len(extents) or not is_dense(form.coefficients.values(), known)

    def _covers(self, outer: _Box, inner: _Box) -> bool:
        return all(
            a is not None and b is not None and self._contains(a, b)
            for a, b in zip(outer, inner, strict=True)
        )

    def _contains(self, outer: Interval, inner: Interval) -> bool:
        prove = self._analyzer.can_prove
        return prove(outer.low <= inner.low) and prove(inner.high <= outer.high)


def _points(region: BufferRegion) -> list[tuple[PrimExpr, PrimExpr | None]]:
    return [(axis.min, axis.extent) for axis in region.region]


def carries_values(stmt: Stmt, buffer: Buffer, analyzer: Analyzer) -> bool:
    """True unless every run of `stmt` provably writes what it reads of `buffer`."""
    scanner = _Scanner(buffer, analyzer)
    scanner.visit(stmt)
    return scanner.carried
