"""Statements for operations: what all kinds share, and the loop nest of `compute`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.arith.block_access import block_access_regions
from tilewright.errors import TensorExpressionError
from tilewright.ir.annotation_keys import LAYOUT_FREE_PLACEHOLDERS
from tilewright.ir.intrinsics import if_then_else
from tilewright.ir.node import NodeT
from tilewright.support.handlers import Handlers
from tilewright.support.names import NameSupply
from tilewright.te.compute import ComputeOp, domain_of, spatial_axis
from tilewright.te.tensor import Operation, ProducerLoad, Tensor

# Notes to other tools that mean nothing to a block.
_DROPPED_ATTRS = frozenset(
    {
        LAYOUT_FREE_PLACEHOLDERS,  # becomes an attribute of the function
        "const_matrix",
        "auto_scheduler_simplify_const_tensor_indices",
        "workload",
    }
)


class OpEmitter:
    """What the operations of one function share: buffers, block names, the simplifier."""

    def __init__(self) -> None:
        self.buffers: dict[Tensor, ir.Buffer] = {}
        self.allocated: list[ir.Buffer] = []
        self.block_names = NameSupply(["root"])
        self._analyzer = Analyzer()

    def declare(self, tensor: Tensor) -> ir.Buffer:
        """Make the buffer of a tensor."""
        buffer = ir.decl_buffer(tensor.shape, tensor.dtype, tensor.name)
        self.buffers[tensor] = buffer
        return buffer

    def buffer_of(self, tensor: Tensor) -> ir.Buffer:
        """The buffer of a tensor; intermediate ones are allocated when first asked for."""
        known = self.buffers.get(tensor)
        if known is None:
            known = self.declare(tensor)
            self.allocated.append(known)
        return known

    def simplify(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        return self._analyzer.simplify(expr)

    def lower(self, expr: NodeT, axes: Mapping[ir.Var, ir.PrimExpr]) -> NodeT:
        """`expr` with tensors read from their buffers and axes renamed."""

        def load(node: ProducerLoad) -> ir.PrimExpr:
            return ir.BufferLoad(self.buffer_of(node.producer), node.indices)

        return ir.rewrite(expr, {ir.Var: lambda var: axes.get(var, var), ProducerLoad: load})


# How operations of a class become statements: f(operation, emitter) -> statement
_emitters = Handlers()
register_emitter = _emitters.of


def emit_operation(op: Operation, emitter: OpEmitter) -> ir.Stmt:
    """The statements that compute the outputs of `op`."""
    emit = _emitters.get(type(op))
    if emit is None:
        raise TensorExpressionError(
            f"create_prim_func: operation {op.name} of kind {type(op).__name__} has no emitter; "
            "see tilewright.te.emit.register_emitter"
        )
    made: ir.Stmt = emit(op, emitter)
    return made


def block_annotations(op: Operation) -> dict[str, Any]:
    """The attributes of an operation that its block keeps."""
    return {key: value for key, value in op.attrs.items() if key not in _DROPPED_ATTRS}


def make_block(
    name: str,
    iter_vars: Sequence[ir.IterVar],
    body: ir.Stmt,
    init: ir.Stmt | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> ir.Block:
    """A block whose reads and writes are what its body touches."""
    bare = ir.Block(tuple(iter_vars), (), (), name, body, init, annotations=annotations or {})
    touched = block_access_regions(bare)
    return ir.replace(bare, reads=touched.reads, writes=touched.writes)


class AxisNest:
    """The loops of an operation and, for each block in them, iterators bound to the loops.

    The first axes may be bound to `fixed` values instead; they get no loop.
    """

    def __init__(self, axes: Sequence[ir.IterVar], fixed: Sequence[ir.PrimExpr] = ()) -> None:
        self._axes = tuple(axes)
        self._looped = self._axes[len(fixed) :]
        self._loop_vars = tuple(ir.Var(axis.var.name, axis.var.dtype) for axis in self._looped)
        self._values = (*fixed, *self._loop_vars)

    def block_iters(self) -> tuple[tuple[ir.IterVar, ...], dict[ir.Var, ir.PrimExpr]]:
        """Fresh block iterators, and the map from the operation's axes to them."""
        iters = tuple(
            ir.IterVar(axis.dom, ir.Var(f"v_{axis.var.name}", axis.var.dtype), axis.iter_type)
            for axis in self._axes
        )
        pairs = zip(self._axes, iters, strict=True)
        # A block with no axes at all still gets one iterator, so that it can be scheduled.
        return iters or (spatial_axis("vi", ir.const(1)),), {
            axis.var: item.var for axis, item in pairs
        }

    def realize(self, block: ir.Block) -> ir.Stmt:
        """`block` run for one point of the nest."""
        return ir.BlockRealize(self._values or (ir.const(0),), ir.TRUE, block)

    def wrap(self, body: ir.Stmt) -> ir.Stmt:
        """The loops around `body`."""
        for axis, loop_var in zip(reversed(self._looped), reversed(self._loop_vars), strict=True):
            domain = domain_of(axis)
            body = ir.For(loop_var, domain.min, domain.extent, ir.ForKind.SERIAL, body)
        return body


@register_emitter(ComputeOp)
def emit_compute(op: ComputeOp, emitter: OpEmitter) -> ir.Stmt:
    """Loops over the axes, then the reduction axes, around one block (one per plain output)."""
    first = op.body[0]
    if isinstance(first, ir.Reduce):
        own = {axis.var for axis in op.axis}
        if any(ir.uses_var(axis.dom, own.__contains__) for axis in first.axis if axis.dom):
            return _dependent_reduction(op, first, emitter)
    return emit_in_nest(op, AxisNest(op.axis + op.reduce_axis), emitter)


def emit_in_nest(op: ComputeOp, nest: AxisNest, emitter: OpEmitter) -> ir.Stmt:
    """The blocks of `op` in a given nest over all its axes."""
    first = op.body[0]
    if isinstance(first, ir.Reduce):
        return nest.wrap(nest.realize(_reduction_block(op, first, nest, emitter)))
    blocks = [
        nest.realize(_plain_block(op, index, nest, emitter)) for index in range(op.num_outputs)
    ]
    return nest.wrap(ir.seq(blocks))


def _plain_block(op: ComputeOp, index: int, nest: AxisNest, emitter: OpEmitter) -> ir.Block:
    iters, axes = nest.block_iters()
    output = op.output(index)
    value = emitter.simplify(emitter.lower(op.body[index], axes))
    indices = tuple(axes[axis.var] for axis in op.axis)
    store = ir.BufferStore(emitter.buffer_of(output), value, indices)
    name = emitter.block_names.fresh(output.name)
    return make_block(name, iters, store, annotations=block_annotations(op))


def _dependent_reduction(op: ComputeOp, reduction: ir.Reduce, emitter: OpEmitter) -> ir.Stmt:
    """A reduction whose extent depends on where it is: an outer block fixes the place first."""
    outer = AxisNest(op.axis)
    outer_iters, outer_axes = outer.block_iters()
    # Inside, each axis takes the one value that the outer iterator has.
    points = [
        ir.IterVar(ir.Range(item.var, ir.const(1, item.var.dtype)), axis.var, axis.iter_type)
        for axis, item in zip(op.axis, outer_iters, strict=True)
    ]
    reduced = [_with_lowered_domain(axis, outer_axes, emitter) for axis in reduction.axis]
    outer_name = emitter.block_names.fresh(f"{op.name}_l1")
    inner = AxisNest([*points, *reduced], [item.var for item in outer_iters])
    body = inner.wrap(inner.realize(_reduction_block(op, reduction, inner, emitter)))
    outer_block = make_block(outer_name, outer_iters, body, annotations=block_annotations(op))
    return outer.wrap(outer.realize(outer_block))


def _with_lowered_domain(
    axis: ir.IterVar, axes: Mapping[ir.Var, ir.PrimExpr], emitter: OpEmitter
) -> ir.IterVar:
    domain = domain_of(axis)
    low, extent = (
        emitter.simplify(emitter.lower(bound, axes)) for bound in (domain.min, domain.extent)
    )
    return ir.replace(axis, dom=ir.Range(low, extent))


def _reduction_block(
    op: ComputeOp, reduction: ir.Reduce, nest: AxisNest, emitter: OpEmitter
) -> ir.Block:
    iters, axes = nest.block_iters()
    buffers = [emitter.buffer_of(output) for output in op.outputs()]
    indices = tuple(axes[axis.var] for axis in op.axis)
    combiner = reduction.combiner
    start = reduction.init or combiner.identity_element
    inits = [
        ir.BufferStore(buffer, emitter.simplify(emitter.lower(value, axes)), indices)
        for buffer, value in zip(buffers, start, strict=True)
    ]
    arguments: dict[ir.Var, ir.PrimExpr] = {}
    for position, buffer in enumerate(buffers):
        arguments[combiner.lhs[position]] = ir.BufferLoad(buffer, indices)
        arguments[combiner.rhs[position]] = emitter.lower(_source(reduction, position), axes)
    values = [ir.substitute(result, arguments) for result in combiner.result]
    if len(values) == 1:  # of several values the combiner must stay recognisable as it was given
        values = [emitter.simplify(values[0])]
    name = emitter.block_names.fresh(op.name)
    body = store_together(buffers, values, indices)
    return make_block(name, iters, body, ir.seq(inits), block_annotations(op))


def _source(reduction: ir.Reduce, position: int) -> ir.PrimExpr:
    source = reduction.source[position]
    identity = reduction.combiner.identity_element[position]
    return if_then_else(reduction.condition, source, identity)


def store_together(
    buffers: Sequence[ir.Buffer], values: Sequence[ir.PrimExpr], indices: tuple[ir.PrimExpr, ...]
) -> ir.Stmt:
    """Store a value in each buffer; all are computed first: each may depend on what was there."""
    if len(buffers) == 1:
        return ir.BufferStore(buffers[0], values[0], indices)
    temporaries = [ir.Var(f"v_{b.name.replace('.', '_')}", b.dtype) for b in buffers]
    body = ir.seq(
        ir.BufferStore(buffer, temporary, indices)
        for buffer, temporary in zip(buffers, temporaries, strict=True)
    )
    for temporary, value in zip(reversed(temporaries), reversed(values), strict=True):
        body = ir.LetStmt(temporary, value, body)
    return body
