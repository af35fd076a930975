"""`scan`: tensors defined by recurrence along their first axis."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.te import emit
from tilewright.te.compute import ComputeOp, spatial_axis
from tilewright.te.tensor import Operation, Tensor, is_placeholder, load


@dataclass(frozen=True, eq=False)
class ScanOp(Operation):
    """Each state starts with `init`; from there on `update` gives its value at time t."""

    init: tuple[Tensor, ...] = ()
    update: tuple[Tensor, ...] = ()
    state_placeholder: tuple[Tensor, ...] = ()
    extra_inputs: tuple[Tensor, ...] = ()

    @property
    def results(self) -> Sequence[Any]:
        return self.state_placeholder

    @functools.cached_property
    def cell(self) -> tuple[ComputeOp, ...]:
        """The operations that depend on the states, producers first."""
        return _cell_of(self)

    @functools.cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        inside = {*self.state_placeholder, *(t for op in self.cell for t in op.outputs())}
        read = [t for op in self.cell for t in op.input_tensors if t not in inside]
        return tuple(dict.fromkeys([*self.init, *read, *self.extra_inputs]))


def _cell_of(scan_op: ScanOp) -> tuple[ComputeOp, ...]:
    states = set(scan_op.state_placeholder)
    depends: dict[Operation, bool] = {}
    order: list[ComputeOp] = []

    def visit(op: Operation) -> bool:
        known = depends.get(op)
        if known is None:
            # Every input is visited, so that all producers come first.
            found = [tensor in states or visit(tensor.op) for tensor in op.input_tensors]
            known = depends[op] = any(found)
            if known:
                order.append(_require_compute(op, scan_op.name))
        return known

    for tensor in scan_op.update:
        if not visit(tensor.op) and isinstance(tensor.op, ComputeOp):
            order.append(tensor.op)  # an update may ignore the state
    return tuple(dict.fromkeys(order))


def _require_compute(op: Operation, name: str) -> ComputeOp:
    if not isinstance(op, ComputeOp):
        raise TensorExpressionError(
            f"scan {name}: {op.name} depends on the state but is not made by te.compute"
        )
    return op


def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """States over time: `init` gives the first steps, `update` each later one.

    The first axis of all tensors is time. `update` reads earlier steps of `state_placeholder`.
    Several states come back as a tuple.
    """
    several = not isinstance(state_placeholder, Tensor)
    states, inits, updates = (
        (value,) if isinstance(value, Tensor) else tuple(value)
        for value in (state_placeholder, init, update)
    )
    if not len(states) == len(inits) == len(updates):
        raise TensorExpressionError(
            f"scan {name}: {len(states)} states, {len(inits)} inits and {len(updates)} updates"
        )
    for state, start, step in zip(states, inits, updates, strict=True):
        _check_state(state, start, step, name)
    operation = ScanOp(name, tag, dict(attrs or {}), inits, updates, states, tuple(inputs or ()))
    _check_cell(operation)
    return operation.outputs() if several else operation.output(0)


def _check_state(state: Tensor, init: Tensor, update: Tensor, name: str) -> None:
    if not is_placeholder(state):
        raise TensorExpressionError(f"scan {name}: state {state.name} must be a placeholder")
    if state.ndim == 0:
        raise TensorExpressionError(f"scan {name}: state {state.name} has no time axis")
    for role, tensor in (("init", init), ("update", update)):
        if tensor.dtype is not state.dtype:
            raise TensorExpressionError(
                f"scan {name}: {role} {tensor.name} is {tensor.dtype!s}, "
                f"state {state.name} is {state.dtype!s}"
            )
        first = 0 if role == "update" else 1
        if tensor.ndim != state.ndim or any(
            str(a) != str(b) for a, b in zip(tensor.shape[first:], state.shape[first:], strict=True)
        ):
            raise TensorExpressionError(
                f"scan {name}: the shape of {role} {tensor.name} does not fit state {state.name}"
            )


def _check_cell(op: ScanOp) -> None:
    steps = op.state_placeholder[0].shape[0]
    for cell_op in op.cell:
        if not cell_op.axis or str(cell_op.output_shape(0)[0]) != str(steps):
            raise TensorExpressionError(
                f"scan {op.name}: the first axis of {cell_op.name} must be time, of extent {steps}"
            )
    starts = {str(init.shape[0]) for init in op.init}
    if len(starts) > 1:
        raise TensorExpressionError(
            f"scan {op.name}: the inits cover different numbers of steps: {sorted(starts)}"
        )
    first = op.init[0].shape[0]
    if isinstance(first, ir.IntImm) and first.value < 1:
        raise TensorExpressionError(f"scan {op.name}: init must give at least one step")


@emit.register_emitter(ScanOp)
def emit_scan(op: ScanOp, emitter: emit.OpEmitter) -> ir.Stmt:
    """Copy the first steps, then one loop over time around the operations of the cell."""
    for output, state, update in zip(op.outputs(), op.state_placeholder, op.update, strict=True):
        # State, update and result are one buffer: what a step writes the next one reads.
        buffer = emitter.buffer_of(output)
        emitter.buffers[state] = emitter.buffers[update] = buffer
    starts = [_emit_init(op, index, emitter) for index in range(op.num_outputs)]
    first = op.init[0].shape[0]
    steps = op.state_placeholder[0].shape[0]
    time = ir.Var(op.cell[0].axis[0].var.name, steps.dtype)
    remaining = ir.subtract(steps, first)
    domain = ir.Range(first, remaining)
    body = []
    for cell_op in op.cell:  # for one step: its first axis is the time of the enclosing loop
        now = ir.replace(cell_op.axis[0], dom=domain, iter_type=ir.IterType.ORDERED)
        nest = emit.AxisNest((now, *cell_op.axis[1:], *cell_op.reduce_axis), (time,))
        body.append(emit.emit_in_nest(cell_op, nest, emitter))
    return ir.seq([*starts, ir.For(time, first, remaining, ir.ForKind.SERIAL, ir.seq(body))])


def _emit_init(op: ScanOp, index: int, emitter: emit.OpEmitter) -> ir.Stmt:
    source = op.init[index]
    axes = tuple(spatial_axis(f"i{d}", extent) for d, extent in enumerate(source.shape))
    nest = emit.AxisNest(axes)
    iters, renamed = nest.block_iters()
    indices = tuple(renamed[axis.var] for axis in axes)
    target = emitter.buffer_of(op.output(index))
    store = ir.BufferStore(target, emitter.lower(load(source, indices), {}), indices)
    name = emitter.block_names.fresh(f"{op.output(index).name}_init")
    return nest.wrap(
        nest.realize(emit.make_block(name, iters, store, None, emit.block_annotations(op)))
    )
