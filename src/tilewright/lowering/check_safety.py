"""Mistakes that can be proven before a program runs, reported with their place.

Runs while blocks and dimensions are still there, so that messages speak of what the user wrote.
Only what certainly goes wrong is an error: an access that some iteration is sure to make outside
its buffer, and an element to which iterations of a parallel loop write different values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright import ir
from tilewright.arith.affine import affine_in
from tilewright.errors import LowerError
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.lower_match_buffer import LowerMatchBuffer
from tilewright.lowering.race_witness import ParallelStore, find_witness
from tilewright.lowering.rewriters import ADDRESS_OF, IF_THEN_ELSE, crosses_rows, thread_tag
from tilewright.target import Target


@dataclass
class _ParallelRegion:
    """What is known inside a parallel loop."""

    loop: ir.For
    guards: int  # conditions that already held outside
    varying: set[ir.Var]  # may differ between iterations
    private: set[ir.Var] = field(default_factory=set)  # memory that each iteration has for itself
    loops: set[ir.Var] = field(default_factory=set)  # variables of the loops inside

    def may_vary(self, expr: ir.Node) -> bool:
        """True unless an expression is sure to be the same in all iterations."""
        return any(
            isinstance(node, ir.BufferLoad) or node in self.varying for node in ir.walk(expr)
        )


class _Checker(ir.Visitor):
    def __init__(self, func: ir.PrimFunc, target: Target | None) -> None:
        self._func = func
        self._target = target
        self._ranges: dict[ir.Var, tuple[int, int] | None] = {}  # inclusive; None: unknown
        self._blocks: list[str] = []
        self._guards: list[ir.PrimExpr] = []  # conditions under which the current place runs
        self._unsure = 0  # depth of places that run depending on more than guards
        self._regions: list[_ParallelRegion] = []
        # All that were met; which elements they are is not known
        self.views: set[ir.Buffer] = set()

    def _place(self) -> str:
        block = next((name for name in reversed(self._blocks) if name not in ("", "root")), None)
        return f"function {self._func.name!r}" + (f", block {block!r}" if block else "")

    # --- where things run ----------------------------------------------------------------------

    def visit_for(self, node: ir.For) -> None:
        self._check_kind(node)
        self.visit(node.min)
        self.visit(node.extent)
        self._ranges[node.loop_var] = None
        if isinstance(node.min, ir.IntImm) and isinstance(node.extent, ir.IntImm):
            begin, extent = node.min.value, node.extent.value
            self._ranges[node.loop_var] = (begin, begin + extent - 1)
        may_be_empty = not isinstance(node.extent, ir.IntImm) or node.extent.value <= 0
        self._unsure += may_be_empty
        self._bind(node.loop_var, node.min, node.extent)
        for region in self._regions:
            region.loops.add(node.loop_var)
        if node.kind == ir.ForKind.PARALLEL:
            self._regions.append(_ParallelRegion(node, len(self._guards), {node.loop_var}))
        self.visit(node.body)
        if node.kind == ir.ForKind.PARALLEL:
            self._regions.pop()
        self._unsure -= may_be_empty

    def _bind(self, var: ir.Var, *values: ir.PrimExpr) -> None:
        for region in self._regions:
            if any(map(region.may_vary, values)):
                region.varying.add(var)

    def visit_let_stmt(self, node: ir.LetStmt | ir.Let) -> None:
        self._bind(node.var, node.value)
        self.generic_visit(node)

    visit_let = visit_let_stmt

    def _check_kind(self, node: ir.For) -> None:
        target = self._target
        if node.kind != ir.ForKind.THREAD_BINDING or target is None or not target.is_cpu:
            return
        tag = thread_tag(node) or "a thread"
        raise LowerError(
            f"{self._place()}: loop {node.loop_var.name!r} is bound to {tag}, but target "
            f"{target.kind.name!r} has no such threads; use parallel or a GPU target"
        )

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        for value in node.iter_values:
            self.visit(value)
        self._blocks.append(node.block.name_hint)
        self.views.update(match.buffer for match in node.block.match_buffers)
        for region in self._regions:
            region.private.update(buffer.data for buffer in node.block.alloc_buffers)
        if ir.is_true(node.predicate):
            self.visit(node.block.body)
        else:
            self._guarded(node.predicate, node.block.body)
        self._blocks.pop()

    def _guarded(self, condition: ir.PrimExpr, body: ir.Node) -> None:
        self._guards.append(condition)
        self.visit(body)
        self._guards.pop()

    def visit_if_then_else(self, node: ir.IfThenElse) -> None:
        self.visit(node.condition)
        self._guarded(node.condition, node.then_case)
        if node.else_case is not None:
            self._guarded(ir.Not(node.condition), node.else_case)

    def _visit_guarded(self, node: ir.Node) -> None:
        """The first part decides about the others; lowering protects what is not chosen."""
        condition, *others = ir.children(node)
        assert isinstance(condition, ir.PrimExpr)
        self.visit(condition)
        for part in others:
            self._guarded(condition, part)

    visit_and = visit_or = visit_select = visit_assert_stmt = _visit_guarded

    def visit_while(self, node: ir.While) -> None:
        self._unsure += 1
        self.generic_visit(node)
        self._unsure -= 1

    def visit_call(self, node: ir.Call) -> None:
        if node.op is ADDRESS_OF and isinstance(node.args[0], ir.BufferLoad):
            for index in node.args[0].indices:  # an address may well lie behind the last element
                self.visit(index)
            return
        if node.op is IF_THEN_ELSE:
            self._visit_guarded(node)
        else:
            self.generic_visit(node)

    def visit_allocate(self, node: ir.Allocate) -> None:
        for region in self._regions:
            region.private.add(node.buffer_var)
        self.generic_visit(node)

    # --- what must not happen ------------------------------------------------------------------

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self.generic_visit(node)
        self._check_bounds(node.buffer, node.indices, "reads")

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self.generic_visit(node)
        self._check_bounds(node.buffer, node.indices, "writes")
        if node.buffer in self.views:
            return
        for region in self._regions:
            if node.buffer.data not in region.private:
                self._check_race(node, region)

    def _check_bounds(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...], verb: str) -> None:
        if self._unsure or self._guards:
            return
        if len(indices) != len(buffer.shape):
            raise LowerError(
                f"{self._place()} {verb} {buffer.name} with {len(indices)} indices, but it has "
                f"{len(buffer.shape)} dimensions"
            )
        shape = buffer.shape
        if crosses_rows(buffer, indices):
            # The elements are counted from the first of the buffer.
            last = indices[-1]
            assert isinstance(last, ir.Ramp)
            start = ir.replace(buffer, elem_offset=None).offset_of((*indices[:-1], last.base))
            indices, shape = (ir.Ramp(start, last.stride, last.lanes),), (buffer.size(),)
        for axis, (index, extent) in enumerate(zip(indices, shape, strict=True)):
            if isinstance(extent, ir.IntImm):
                reached = self._range_of(index)
                if reached is not None and (reached[0] < 0 or reached[1] >= extent.value):
                    worst = reached[0] if reached[0] < 0 else reached[1]
                    raise LowerError(
                        f"{self._place()} {verb} {buffer.name} outside its bounds: index `{index}` "
                        f"of dimension {axis} reaches {worst}, valid indices are 0 to "
                        f"{extent.value - 1}"
                    )

    def _range_of(self, index: ir.PrimExpr) -> tuple[int, int] | None:
        """The exact smallest and largest value of an index, or None if that is not known."""
        if isinstance(index, ir.IntImm):
            return index.value, index.value
        if isinstance(index, ir.Var):
            return self._ranges.get(index)
        lanes, stride = 1, 0
        if isinstance(index, ir.Ramp) and isinstance(index.stride, ir.IntImm):
            lanes, stride, index = index.lanes, index.stride.value, index.base
        found = affine_in(index, self._ranges.__contains__)
        if found is None or found[1]:
            return None
        form = found[0]
        ranges: dict[ir.PrimExpr, tuple[int, int]] = {
            var: known for var, _ in form.variable_terms() if (known := self._ranges[var])
        }
        if len(ranges) < len(form.terms):
            return None
        low, high = form.bounds(ranges.__getitem__)
        reach = stride * (lanes - 1)
        return low + min(reach, 0), high + max(reach, 0)

    def _check_race(self, node: ir.BufferStore, region: _ParallelRegion) -> None:
        loop = region.loop
        runs_once = isinstance(loop.extent, ir.IntImm) and loop.extent.value <= 1
        outer = self._guards[region.guards :]
        if runs_once:
            return
        if not any(region.may_vary(part) for part in (*node.indices, *outer)):
            indices = ", ".join(map(str, node.indices))
            raise self._race(loop, f"all its iterations write {node.buffer.name}[{indices}]")
        if self._unsure:
            return
        ranges, inner = self._ranges, frozenset(region.loops)
        case = ParallelStore(node, tuple(self._guards), loop.loop_var, inner, ranges)
        witness = find_witness(case)
        if witness is not None:
            element = ", ".join(map(str, witness.element))
            both = f"iterations {witness.first} and {witness.second} both write"
            raise self._race(loop, f"{both} {node.buffer.name}[{element}]")

    def _race(self, loop: ir.For, proof: str) -> LowerError:
        return LowerError(
            f"{self._place()}: parallel loop {loop.loop_var.name!r} has a race: {proof}; make the "
            "loop serial, or give each iteration an element of its own"
        )


@register_pass
class CheckSafety(FunctionPass):
    """Raise an error for accesses out of bounds, races and threads that the target lacks."""

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        checker = _Checker(func, target)
        checker.visit(func.body)
        if checker.views:
            plain = LowerMatchBuffer().run_function(func)
            _Checker(plain, target).visit(plain.body)
        return func
