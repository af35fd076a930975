"""A test of whether a buffer carries values from one run of a statement to the next.

It does not if each read is covered by writes that come before it in the same run. Then every run
may have a buffer of its own. What cannot be proven counts as carried.

A read is compared with a write under the loops and tests that both lie in: those loops stand still,
and only the loops and tests around one of the two alone run and count. A scan reads what earlier
iterations of a loop wrote; they are looked at if the caller wants it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.ir.node import common_prefix
from tilewright.lowering.access_boxes import Axes, Box, Boxes, Domains, axis_at, runs
from tilewright.lowering.rewriters import (
    ADDRESS_OF,
    IF_THEN_ELSE,
    takes_pointer,
    thread_tag,
    threads_share,
)
from tilewright.lowering.widen_expr import conjuncts


@dataclass(frozen=True, eq=False)
class _Loop:
    var: ir.Var
    domain: ir.Range
    is_together: bool = False  # all iterations run at the same time and see each other's writes
    is_in_order: bool = False  # an iteration begins when the one before it has ended


@dataclass(frozen=True, eq=False)
class _Tests:
    """Conditions under which a place runs; none at all: nobody knows whether it does."""

    tests: tuple[ir.PrimExpr, ...]


_Path = tuple[_Loop | _Tests, ...]  # what lies around a place, from the outside in


@dataclass(frozen=True, eq=False)
class _Access:
    axes: Axes
    path: _Path

    def is_like(self, other: _Access) -> bool:
        """True for the same elements at the same place."""
        return self.path == other.path and all(
            ir.expr_deep_equal(mine.min, its.min) and ir.expr_deep_equal(mine.extent, its.extent)
            for mine, its in zip(self.axes, other.axes, strict=True)
        )

    def alone(self, shared: int) -> tuple[Domains, list[ir.PrimExpr]]:
        """The loops that run and the tests that count when the first `shared` parts stand still."""
        inner = self.path[shared:]
        outer = (part for part in self.path[:shared] if isinstance(part, _Loop))
        together = [part for part in outer if part.is_together]
        domains = {part.var: part.domain for part in (*together, *inner) if isinstance(part, _Loop)}
        tests = list(_tests(inner))
        if together:
            around = _tests(self.path[:shared])
            tests += [test for test in around if ir.uses_var(test, domains.__contains__)]
        return domains, tests


def _tests(path: _Path) -> Iterator[ir.PrimExpr]:
    for part in path:
        if isinstance(part, _Tests):
            yield from part.tests


def _is_read_by_data(block: ir.Block, buffer: ir.Buffer) -> bool:
    """True when a block itself reads elements whose indices lie in memory."""
    return any(
        isinstance(node, ir.BufferLoad)
        and node.buffer is buffer
        and any(map(ir.has_load, node.indices))
        for node in ir.walk(block.body, into=lambda node: not isinstance(node, ir.Block))
    )


class _Scanner(ir.Visitor):
    """Walks a statement in program order and checks each read of the buffer."""

    def __init__(
        self, buffer: ir.Buffer, analyzer: Analyzer, all_writes: Sequence[_Access] = ()
    ) -> None:
        self._buffer = buffer
        self._all_writes = all_writes
        self._analyzer = analyzer
        self._boxes = Boxes(analyzer)
        self._path: list[_Loop | _Tests] = []
        self.writes: list[_Access] = []
        self._covered: list[_Access] = []  # reads: what was written once stays so
        self.carried = False

    # --- where things run ----------------------------------------------------------------------

    def run_under(self, loops: Sequence[ir.For], stmt: ir.Stmt) -> None:
        """Walk a statement; of the loops around it, only those of threads that meet in it count."""
        self._path += [loop for loop in map(self._loop, loops) if loop.is_together]
        self.visit(stmt)

    def _loop(self, node: ir.For) -> _Loop:
        domain = ir.Range(node.min, node.extent)
        self._analyzer.bind(node.loop_var, domain, allow_override=True)
        together = self._run_together(thread_tag(node))
        in_order = node.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED)
        return _Loop(node.loop_var, domain, together, in_order)

    def _run_together(self, tag: str) -> bool:
        scope = self._buffer.scope
        return tag.startswith("threadIdx") and (scope == "global" or threads_share(tag, scope))

    def visit_for(self, node: ir.For) -> None:
        self._path.append(self._loop(node))
        self.visit(node.body)
        self._path.pop()

    def _under(self, tests: Sequence[ir.PrimExpr], body: ir.PrimExpr | ir.Stmt) -> None:
        self._path.append(_Tests(tuple(tests)))
        self.visit(body)
        self._path.pop()

    def visit_if_then_else(self, node: ir.IfThenElse) -> None:
        self.visit(node.condition)
        self._under(conjuncts(node.condition), node.then_case)
        if node.else_case is not None:
            self._under([ir.Not(node.condition)], node.else_case)

    def visit_while(self, node: ir.While) -> None:
        self._path.append(_Tests(()))
        self.generic_visit(node)
        self._path.pop()

    def visit_call(self, node: ir.Call) -> None:
        if node.op is ADDRESS_OF and takes_pointer(node, self._buffer.data):
            self.carried = True
        if node.op is not IF_THEN_ELSE:
            self.generic_visit(node)
            return
        self.visit(node.args[0])
        self._under(conjuncts(node.args[0]), node.args[1])
        self._under([ir.Not(node.args[0])], node.args[2])

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        self.visit(node.predicate)
        if ir.is_true(node.predicate):
            self.visit(node.block)
        else:
            self._under(conjuncts(node.predicate), node.block)

    def visit_block(self, block: ir.Block) -> None:
        hidden = takes_pointer(block.body, self._buffer.data) or block.match_buffers
        if not hidden and not _is_read_by_data(block, self._buffer):
            self.visit(block.body)
            return
        # What the block declares, for memory used through pointers, views or stored indices.
        for region in block.reads:
            if region.buffer is self._buffer:
                self._read(region.region)
        for region in block.writes:
            if region.buffer is self._buffer:
                self._write(region.region)

    # --- what they access ----------------------------------------------------------------------

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self.generic_visit(node)
        if node.buffer is self._buffer:
            self._read([axis_at(index) for index in node.indices])
        elif node.buffer.data is self._buffer.data:
            self.carried = True

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self.generic_visit(node)
        if node.buffer is self._buffer and node.predicate is None:
            self._write([axis_at(index) for index in node.indices])

    def visit_var(self, node: ir.Var) -> None:
        self.carried = self.carried or node is self._buffer.data

    def _write(self, axes: Axes) -> None:
        self.writes.append(_Access(axes, tuple(self._path)))

    def _read(self, axes: Axes) -> None:
        if self.carried:
            return
        read = _Access(axes, tuple(self._path))
        if any(map(read.is_like, self._covered)):
            return
        known = list(_tests(read.path))
        with self._analyzer.constraint_scope(ir.logical_and(*known)) if known else nullcontext():
            written = self._is_covered(read) or self._is_covered_by_iterations(read)
        self.carried = not written
        self._covered.append(read)

    # --- whether it was written before ---------------------------------------------------------

    def _is_covered(self, read: _Access) -> bool:
        by_depth: dict[int, list[Box]] = {}
        for write in reversed(self.writes):
            shared = len(common_prefix(read.path, write.path))
            written = self._written(write, shared, read)
            if written is None:
                continue
            if self._boxes.cover(written, self._read_box(read, shared)):
                return True
            by_depth.setdefault(shared, []).append(written)
        return any(
            self._boxes.cover_together(parts, self._read_box(read, shared))
            for shared, parts in by_depth.items()
            if len(parts) > 1
        )

    def _is_covered_by_iterations(self, read: _Access) -> bool:
        """True if earlier iterations of some loop, and what ran before it, wrote what is read."""
        for depth, loop in enumerate(read.path):
            if not isinstance(loop, _Loop) or not loop.is_in_order:
                continue
            inside = [write for write in self._all_writes if _lies_in(write, loop, depth)]
            found = [self._written_earlier(write, loop, depth) for write in inside]
            before = [write for write in self.writes if not _lies_in(write, loop, depth)]
            found += [
                self._written(write, len(common_prefix(read.path, write.path)), read)
                for write in (before if inside else ())
            ]
            parts = [box for box in found if box is not None]
            inner = self._read_box(read, depth + 1)
            whole = any(self._boxes.cover(part, inner) for part in parts)
            if whole or self._boxes.cover_together(parts, inner):
                return True
        return False

    def _written_earlier(self, write: _Access, loop: _Loop, depth: int) -> Box | None:
        """A box that earlier iterations of a loop are sure to have written."""
        inner = write.path[depth + 1 :]
        if any(isinstance(part, _Tests) and not part.tests for part in inner):
            return None
        # What is known at the read need not hold there: all loops get variables of their own.
        loops = [loop, *(part for part in inner if isinstance(part, _Loop))]
        change = {part.var: ir.Var(f"{part.var.name}_earlier", part.var.dtype) for part in loops}

        def moved(domain: ir.Range) -> ir.Range:
            return ir.Range(ir.substitute(domain.min, change), ir.substitute(domain.extent, change))

        domains: Domains = {change[part.var]: moved(part.domain) for part in loops}
        count = self._analyzer.simplify(loop.var - loop.domain.min)
        domains[change[loop.var]] = ir.Range(loop.domain.min, count)
        tests = [ir.substitute(test, change) for test in _tests(inner)]
        return self._boxes.within([moved(axis) for axis in write.axes], domains, tests)

    def _read_box(self, read: _Access, shared: int) -> Box:
        domains, _ = read.alone(shared)
        return self._boxes.around(self._buffer, read.axes, domains, _tests(read.path))

    def _written(self, write: _Access, shared: int, read: _Access) -> Box | None:
        """A box that a write is sure to have written when a read with the same loops runs."""
        if any(isinstance(part, _Tests) and not part.tests for part in write.path[shared:]):
            return None
        first = self._first_iterations(write, shared)
        domains, tests = write.alone(shared)
        known = list(_tests(read.path))
        unknown = [
            test
            for test in tests
            if not any(test is other or ir.expr_deep_equal(test, other) for other in known)
        ]
        if first:
            domains = {var: domain for var, domain in domains.items() if var not in first}
            unknown = [ir.substitute(test, first) for test in unknown]
        return self._boxes.within(write.axes, domains, unknown)

    def _first_iterations(self, write: _Access, shared: int) -> dict[ir.Var, ir.PrimExpr]:
        """The loops, each with its start, of which a write only needs the first iteration.

        The tests of an init are true there. Those loops must not matter for anything else around
        the write: then it wrote in their first iteration what it would write in any other.
        """
        loops = {part.var: part.domain for part in write.path if isinstance(part, _Loop)}
        tests = [test for test in write.alone(shared)[1] if isinstance(test, ir.EQ)]
        first = {
            var: loops[var].min for test in tests for var in ir.free_vars(test) if var in loops
        }
        if not first or not all(runs(loops[var]) for var in first):
            return {}
        ranges = [end for domain in loops.values() for end in (domain.min, domain.extent)]
        starts = [axis.min for axis in write.axes]
        if any(ir.uses_var(expr, first.__contains__) for expr in (*ranges, *starts)):
            return {}
        around = [
            test for test in _tests(write.path[:shared]) if ir.uses_var(test, first.__contains__)
        ]
        prove = self._analyzer.can_prove
        return first if all(prove(ir.substitute(test, first)) for test in (*tests, *around)) else {}


def _lies_in(write: _Access, loop: _Loop, depth: int) -> bool:
    part = write.path[depth] if depth < len(write.path) else None
    return isinstance(part, _Loop) and part.var is loop.var


def carries_values(
    stmt: ir.Stmt,
    buffer: ir.Buffer,
    analyzer: Analyzer,
    *,
    loops: Sequence[ir.For] = (),
    with_earlier_iterations: bool = False,
) -> bool:
    """True unless every run of `stmt`, inside of `loops`, provably writes what it reads."""
    writes: list[_Access] = []
    if with_earlier_iterations:
        collector = _Scanner(buffer, analyzer)
        collector.carried = True  # whatever is read
        collector.run_under(loops, stmt)
        writes = collector.writes
    scanner = _Scanner(buffer, analyzer, writes)
    scanner.run_under(loops, stmt)
    return scanner.carried
