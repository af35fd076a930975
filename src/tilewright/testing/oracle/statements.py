"""Statements as Python functions of a frame and a mask (see `expressions.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright import ir
from tilewright.errors import KernelAssertError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.oracle.arithmetic import Value
from tilewright.testing.oracle.errors import OracleError
from tilewright.testing.oracle.expressions import (
    UNDEFINED,
    Evaluator,
    ExpressionCompiler,
    Frame,
    Mask,
    narrowed,
    scalar_mask,
)
from tilewright.testing.oracle.grid import GridPlan, plan_grid
from tilewright.testing.oracle.grid_runner import GridRunner, Runner
from tilewright.testing.oracle.memory import Memory, View


class StatementCompiler(ExpressionCompiler):
    """Turns statements into runners."""

    def __init__(
        self,
        call_function: Callable[[str, Sequence[Value]], Value],
        *,
        vectorize: bool,
        track: bool,
    ) -> None:
        super().__init__(call_function)
        self._vectorize = vectorize
        self._track = track
        self._binders: dict[ir.Var, ir.MatchBufferRegion] = {}

    def statement(self, stmt: ir.Stmt) -> Runner:
        runner: Runner = self.visit(stmt)
        return runner

    # --- plain statements ---

    def visit_seq_stmt(self, node: ir.SeqStmt) -> Runner:
        runners = [self.statement(each) for each in node.seq]

        def run(frame: Frame, mask: Mask) -> None:
            for runner in runners:
                runner(frame, mask)

        return run

    def visit_evaluate(self, node: ir.Evaluate) -> Runner:
        value = self.compile(node.value)

        def run(frame: Frame, mask: Mask) -> None:
            value(frame, mask)

        return run

    def visit_let_stmt(self, node: ir.LetStmt) -> Runner:
        slot, value, body = self.slot(node.var), self.compile(node.value), self.statement(node.body)

        def run(frame: Frame, mask: Mask) -> None:
            frame[slot] = value(frame, mask)
            body(frame, mask)

        return run

    def visit_attr_stmt(self, node: ir.AttrStmt) -> Runner:
        body = self.statement(node.body)
        if node.attr_key not in ("thread_extent", "virtual_thread"):
            return body
        var = node.node.var if isinstance(node.node, ir.IterVar) else node.node
        return self._loop(var, None, self.compile(node.value), body)

    def visit_assert_stmt(self, node: ir.AssertStmt) -> Runner:
        condition, body = self.compile(node.condition), self.statement(node.body)
        message = node.message

        def run(frame: Frame, mask: Mask) -> None:
            if not condition(frame, mask):
                raise KernelAssertError(message)
            body(frame, mask)

        return run

    def visit_if_then_else(self, node: ir.IfThenElse) -> Runner:
        condition, then_case = self.compile(node.condition), self.statement(node.then_case)
        else_case = None if node.else_case is None else self.statement(node.else_case)
        return _guarded(condition, then_case, else_case)

    def visit_while(self, node: ir.While) -> Runner:
        condition, body = self.compile(node.condition), self.statement(node.body)

        def run(frame: Frame, mask: Mask) -> None:
            while condition(frame, mask):
                body(frame, mask)

        return run

    def visit_buffer_store(self, node: ir.BufferStore) -> Runner:
        lanes = node.value.dtype.lanes
        resolve, value = self.resolver(node.buffer), self.compile(node.value)
        indices = self.indices(node.indices, lanes)
        predicate = None if node.predicate is None else self.compile(node.predicate)

        def run(frame: Frame, mask: Mask) -> None:
            stored = value(frame, mask)
            places = [index(frame, mask) for index in indices]
            view = resolve(frame)
            if lanes == 1 and mask is None and not _has_array(places):
                view.write_one(places, stored)
                return
            active = mask if lanes > 1 else scalar_mask(mask)
            if predicate is not None:
                active = narrowed(active, predicate(frame, mask), lanes)
            view.write_many(places, stored, active)

        return run

    # --- memory ---

    def visit_allocate(self, node: ir.Allocate) -> Runner:
        slot, body = self.slot(node.buffer_var), self.statement(node.body)
        extents = [self.compile(extent) for extent in node.extents]
        itemsize, name = node.dtype.itemsize * node.dtype.lanes, node.buffer_var.name
        track = self._track

        def run(frame: Frame, mask: Mask) -> None:
            size = itemsize
            for extent in extents:
                size *= int(extent(frame, mask))
            frame[slot] = Memory.allocate(size, name, track)
            body(frame, mask)

        return run

    def visit_allocate_const(self, node: ir.AllocateConst) -> Runner:
        slot, body = self.slot(node.buffer_var), self.statement(node.body)
        array = np.array(node.data).astype(to_numpy(node.dtype))
        name = node.buffer_var.name

        def run(frame: Frame, mask: Mask) -> None:
            frame[slot] = Memory.of_array(array, name)
            body(frame, mask)

        return run

    def visit_decl_buffer(self, node: ir.DeclBuffer) -> Runner:
        slot, body = self.slot(node.buffer), self.statement(node.body)

        def run(frame: Frame, mask: Mask) -> None:
            frame[slot] = UNDEFINED  # its shape may differ from that of the last time
            body(frame, mask)

        return run

    def _allocation(self, buffer: ir.Buffer) -> Callable[[Frame], None]:
        slot, data_slot = self.slot(buffer), self.slot(buffer.data)
        extents = [self.compile(extent) for extent in buffer.shape]
        strides = [self.compile(stride) for stride in buffer.strides]
        itemsize, name, track = buffer.dtype.itemsize * buffer.dtype.lanes, buffer.name, self._track

        def allocate(frame: Frame) -> None:
            shape = [int(extent(frame, None)) for extent in extents]
            steps = [int(stride(frame, None)) for stride in strides]
            size = _span(shape, steps) * itemsize
            frame[data_slot] = Memory.allocate(size, name, track)
            frame[slot] = UNDEFINED

        return allocate

    # --- blocks ---

    def visit_block_realize(self, node: ir.BlockRealize) -> Runner:
        predicate = self.compile(node.predicate)
        block = node.block
        bindings = [
            self._binding(iter_var, value, block.name_hint)
            for iter_var, value in zip(block.iter_vars, node.iter_values, strict=True)
        ]
        body = self.statement(block)

        def run_bound(frame: Frame, mask: Mask) -> None:
            for bind in bindings:
                bind(frame, mask)
            body(frame, mask)

        if isinstance(node.predicate, ir.IntImm) and node.predicate.value:
            return run_bound
        return _guarded(predicate, run_bound, None)

    def _binding(self, iter_var: ir.IterVar, value: ir.PrimExpr, block_name: str) -> Runner:
        slot, evaluate, name = self.slot(iter_var.var), self.compile(value), iter_var.var.name
        if iter_var.dom is None:
            raise OracleError(f"iterator {name} of block {block_name!r} has no domain")
        bounds = self._bounds(iter_var.dom)

        def bind(frame: Frame, mask: Mask) -> None:
            bound = evaluate(frame, mask)
            low, high = bounds(frame)
            if isinstance(bound, np.ndarray):
                outside, active = (bound < low) | (bound >= high), scalar_mask(mask)
                wrong = bool(np.any(outside if active is None else outside & active))
            else:
                wrong = not low <= int(bound) < high
            if wrong:
                raise OracleError(
                    f"block {block_name!r}: iterator {name} is bound to {bound}, "
                    f"outside its domain [{low}, {high})"
                )
            frame[slot] = bound

        return bind

    def _bounds(self, domain: ir.Range) -> Callable[[Frame], tuple[int, int]]:
        """The first value of a range and the one after its last."""
        if isinstance(domain.min, ir.IntImm) and isinstance(domain.extent, ir.IntImm):
            known = domain.min.value, domain.min.value + domain.extent.value
            return lambda frame: known
        begin, extent = self.compile(domain.min), self.compile(domain.extent)

        def evaluate(frame: Frame) -> tuple[int, int]:
            low = int(begin(frame, None))
            return low, low + int(extent(frame, None))

        return evaluate

    def visit_block(self, node: ir.Block) -> Runner:
        allocations = [self._allocation(buffer) for buffer in node.alloc_buffers]
        matches = [self._match(match) for match in node.match_buffers]
        init = None if node.init is None else self._guarded_init(node, node.init)
        body = self.statement(node.body)

        def run(frame: Frame, mask: Mask) -> None:
            for allocate in allocations:
                allocate(frame)
            for match in matches:
                match(frame, mask)
            if init is not None:
                init(frame, mask)
            body(frame, mask)

        return run

    def _guarded_init(self, block: ir.Block, init: ir.Stmt) -> Runner:
        """`init` runs where every reduction iterator stands at its first value."""
        runner = self.statement(init)
        starts = [
            (self.slot(each.var), self.compile(each.dom.min))
            for each in block.iter_vars
            if each.iter_type == ir.IterType.COMM_REDUCE and each.dom is not None
        ]

        def first(frame: Frame, mask: Mask) -> Value:
            holds: Value = np.bool_(True)
            for slot, begin in starts:
                holds = holds & (frame[slot] == begin(frame, mask))
            return holds

        return _guarded(first, runner, None)

    def _match(self, match: ir.MatchBufferRegion) -> Runner:
        source, target = match.source, match.buffer
        resolve = self.resolver(source.buffer)
        begins = [self.compile(each.min) for each in source.region]
        extents = [self.compile(each.extent) for each in source.region]
        rank = len(target.shape)
        shape = [self._unify(expr, match) for expr in target.shape]
        strides = [self._unify(expr, match) for expr in target.strides]
        offset = None if target.elem_offset is None else self._unify(target.elem_offset, match)
        slot, data_slot = self.slot(target), self.slot(target.data)

        def run(frame: Frame, mask: Mask) -> None:
            view = resolve(frame)
            start = view.offset
            for begin, stride in zip(begins, view.strides, strict=True):
                start += int(begin(frame, mask)) * stride
            sizes = [int(extent(frame, mask)) for extent in extents][len(extents) - rank :]
            steps = view.strides[len(extents) - rank :]
            for unify, size in zip(shape, sizes, strict=True):
                unify(frame, size)
            for unify, step in zip(strides, steps, strict=bool(strides)):
                unify(frame, step)
            if offset is not None:
                offset(frame, start)
            frame[data_slot] = view.memory
            frame[slot] = View(view.memory, target.dtype, sizes, steps, start, target.name)

        return run

    def _unify(
        self, expr: ir.PrimExpr, match: ir.MatchBufferRegion
    ) -> Callable[[Frame, int], None]:
        """Give a variable that the match introduces its value, or check any other expression."""
        if isinstance(expr, ir.Var) and (
            expr not in self.slots or self._binders.get(expr) is match
        ):
            self._binders[expr] = match
            slot, convert = self.slot(expr), to_numpy(expr.dtype).type

            def bind(frame: Frame, value: int) -> None:
                frame[slot] = convert(value)

            return bind
        wanted, name, is_offset = (
            self.compile(expr),
            match.buffer.name,
            expr is match.buffer.elem_offset,
        )

        def check(frame: Frame, value: int) -> None:
            if int(wanted(frame, None)) != value and not is_offset:
                raise OracleError(f"match_buffer {name}: expected {expr}, the region has {value}")

        return check

    # --- loops ---

    def visit_for(self, node: ir.For) -> Runner:
        plan = plan_grid(node) if self._vectorize else None
        if plan is not None:
            return self._grid_loop(node, plan)
        return self._plain_for(node)

    def _plain_for(self, node: ir.For) -> Runner:
        thread = node.thread_binding.var if node.thread_binding is not None else None
        body = self.statement(node.body)
        run = self._loop(node.loop_var, self.compile(node.min), self.compile(node.extent), body)
        if thread is None or thread is node.loop_var:
            return run
        return self._loop(
            node.loop_var, self.compile(node.min), self.compile(node.extent), body, thread
        )

    def _loop(
        self,
        var: ir.Var,
        begin: Evaluator | None,
        extent: Evaluator,
        body: Runner,
        alias: ir.Var | None = None,
    ) -> Runner:
        slot, kind = self.slot(var), to_numpy(var.dtype)
        also = slot if alias is None else self.slot(alias)

        def run(frame: Frame, mask: Mask) -> None:
            low = 0 if begin is None else int(begin(frame, mask))
            for value in np.arange(low, low + int(extent(frame, mask))).astype(kind):
                frame[slot] = frame[also] = value
                body(frame, mask)

        return run

    def _grid_loop(self, node: ir.For, plan: GridPlan) -> Runner:
        self._vectorize = False
        grid = GridRunner(self, plan, self.statement(plan.body))
        self._vectorize = True
        plain: list[Runner] = []  # compiled when first needed

        def run(frame: Frame, mask: Mask) -> None:
            if grid.run(frame):
                return
            if not plain:
                plain.append(self._plain_for(node))
                frame.extend([UNDEFINED] * (len(self.slots) - len(frame)))
            plain[0](frame, mask)

        return run


def _guarded(condition: Evaluator, then_case: Runner, else_case: Runner | None) -> Runner:
    def run(frame: Frame, mask: Mask) -> None:
        holds = condition(frame, mask)
        if isinstance(holds, np.ndarray):
            _run_where(then_case, frame, narrowed(mask, holds, 1))
            if else_case is not None:
                _run_where(else_case, frame, narrowed(mask, ~holds, 1))
        elif holds:
            then_case(frame, mask)
        elif else_case is not None:
            else_case(frame, mask)

    return run


def _run_where(runner: Runner, frame: Frame, mask: Mask) -> None:
    """Run for the active iterations; where there are none, not even uniform values are computed."""
    if mask.any():
        runner(frame, mask)


def _has_array(values: Sequence[Value]) -> bool:
    return any(isinstance(value, np.ndarray) for value in values)


def _span(shape: list[int], strides: list[int]) -> int:
    """The number of elements from the first to the last of a strided layout."""
    if any(extent == 0 for extent in shape):
        return 0
    if not strides:
        return int(np.prod(shape, dtype=np.int64))
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
