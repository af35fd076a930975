"""Memory that a warp shares becomes registers of its threads.

Of a buffer in scope `warp`, thread t holds m elements out of each 32 m, from t * m on; m is how far
the index moves from one thread to the next. A thread stores its own elements; those of others it
gets by a shuffle. Instructions of a warp, which take a pointer and an offset, get the own part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.errors import LowerError
from tilewright.ir.intrinsics import call_intrin
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.threads import launched_tag
from tilewright.lowering.storage_rewrite import scope_of

WARP_SIZE = 32


def _strides(thread: ir.Var, kernel: ir.Stmt) -> dict[ir.Var, set[int]]:
    """How far indices of each buffer move from one thread to the next."""
    analyzer = Analyzer()
    found: dict[ir.Var, set[int]] = {}
    for data, index in _places(kernel):
        if scope_of(data) != "warp" or index.dtype.lanes > 1:
            continue
        steps = found.setdefault(data, set())
        if ir.uses_var(index, thread.same_as):
            after = ir.substitute(index, {thread: thread + 1})
            step = analyzer.simplify(after - index)
            if isinstance(step, ir.IntImm) and step.value > 0:
                steps.add(step.value)
    return found


def _places(kernel: ir.Stmt) -> Iterator[tuple[ir.Var, ir.PrimExpr]]:
    """Pointers, and the indices behind them."""
    for node in ir.walk(kernel):
        if isinstance(node, ir.BufferStore):
            yield node.buffer.data, node.indices[0]
        elif isinstance(node, ir.Call):
            for data, index in zip(node.args, node.args[1:], strict=False):
                if isinstance(data, ir.Var) and data.dtype.is_handle:
                    yield data, index


class _Distributor(AnalyzingRewriter):
    def __init__(self, thread: ir.Var, kernel: ir.Stmt) -> None:
        super().__init__()
        self._thread = thread
        self.analyzer.bind(thread, ir.Range(ir.const(0), ir.const(WARP_SIZE)))
        strides = _strides(thread, kernel)
        self._steps = {data: _step(data, found) for data, found in strides.items()}
        self._vars = {
            data: ir.Var(data.name, data.dtype, ir.PointerType(_element(data), "local"))
            for data in self._steps
        }
        self._buffers: dict[ir.Buffer, ir.Buffer] = {}

    def visit_allocate(self, node: ir.Allocate) -> Any:
        if node.buffer_var not in self._vars:
            return ir.map_children(node, self.visit)
        extent = ir.floordiv(node.extents[0] + (WARP_SIZE - 1), WARP_SIZE)
        return ir.replace(
            node,
            buffer_var=self._vars[node.buffer_var],
            extents=(self.analyzer.simplify(extent),),
            body=self.visit(node.body),
        )

    def _own(self, data: ir.Var, index: ir.PrimExpr) -> ir.PrimExpr:
        """Where a thread keeps what lies at an index."""
        step = self._steps[data]
        block = ir.floordiv(index, step * WARP_SIZE) * step
        return self.analyzer.simplify(block + ir.floormod(index, step))

    def _lane(self, data: ir.Var, index: ir.PrimExpr) -> ir.PrimExpr:
        """The thread that holds what lies at an index."""
        lane = ir.floormod(ir.floordiv(index, self._steps[data]), WARP_SIZE)
        return self.analyzer.simplify(lane)

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        if buffer.data not in self._vars:
            return buffer
        if buffer not in self._buffers:
            shape = tuple(ir.floordiv(extent, WARP_SIZE) for extent in buffer.shape)
            self._buffers[buffer] = ir.replace(
                buffer,
                data=self._vars[buffer.data],
                shape=tuple(map(self.analyzer.simplify, shape)),
            )
        return self._buffers[buffer]

    def visit_buffer_store(self, node: ir.BufferStore) -> Any:
        node = ir.map_children(node, self.visit)
        data, (index,) = node.buffer.data, node.indices
        if data not in self._vars:
            return node
        if not self.analyzer.can_prove_equal(self._lane(data, index), self._thread):
            raise LowerError(
                f"a thread stores to {node.buffer.name}[{index}], which another thread of its warp "
                "holds; let each thread store its own elements"
            )
        at = (self._own(data, index),)
        return ir.replace(node, buffer=self.visit_buffer(node.buffer), indices=at)

    def visit_buffer_load(self, node: ir.BufferLoad) -> Any:
        node = ir.map_children(node, self.visit)
        data, (index,) = node.buffer.data, node.indices
        if data not in self._vars:
            return node
        own = ir.BufferLoad(self.visit_buffer(node.buffer), (self._own(data, index),))
        lane = self._lane(data, index)
        if self.analyzer.can_prove_equal(lane, self._thread):
            return own
        if ir.uses_var(own.indices[0], lambda var: var is self._thread):
            raise LowerError(
                f"a thread reads {node.buffer.name}[{index}], of which each thread of its warp "
                "holds another part; read the same part of one thread at a time"
            )
        mask = call_intrin("uint32", "tir.tvm_warp_activemask")
        sizes = (WARP_SIZE, WARP_SIZE)
        return call_intrin(own.dtype, "tir.tvm_warp_shuffle", mask, own, lane, *sizes)

    def visit_call(self, node: ir.Call) -> Any:
        args = list(node.args)
        for place, arg in enumerate(node.args[:-1]):
            if isinstance(arg, ir.Var) and arg in self._vars:
                args[place] = self._vars[arg]
                args[place + 1] = self._own(arg, args[place + 1])
        return super().visit_call(ir.replace(node, args=tuple(args)))


def _element(data: ir.Var) -> ir.DType:
    assert data.type_annotation is not None
    return data.type_annotation.element_type


def _step(data: ir.Var, found: set[int]) -> int:
    if len(found) != 1:
        raise LowerError(
            f"threads of a warp share {data.name}, but not by one number of elements each "
            f"({sorted(found)}); index it by threadIdx.x times a number"
        )
    return next(iter(found))


def _distributed(node: ir.AttrStmt) -> ir.Stmt | None:
    if launched_tag(node) != "threadIdx.x":
        return None
    allocations = ir.nodes_of(node.body, ir.Allocate)
    if not any(scope_of(each.buffer_var) == "warp" for each in allocations):
        return node
    if not isinstance(node.value, ir.IntImm) or node.value.value != WARP_SIZE:
        raise LowerError(
            f"memory in scope 'warp' needs {WARP_SIZE} threads along threadIdx.x, got {node.value}"
        )
    return ir.replace(node, body=_Distributor(node.node.var, node.body).rewrite(node.body))


@function_pass
def LowerWarpMemory(func: ir.PrimFunc) -> ir.PrimFunc:
    """Spread buffers of a warp over the registers of its threads."""
    return ir.rewrite(func, before={ir.AttrStmt: _distributed})
