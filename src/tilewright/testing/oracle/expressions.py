"""Expressions as Python functions of a frame and a mask.

The frame holds the values of variables by slot. The mask says which lanes are active (None: all);
its last axis counts lanes, also in scalar code, where it has length one. The same functions run on
scalars and, when a whole loop nest is computed at once, on arrays with one entry per iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.oracle.arithmetic import (
    INTEGER_DIVISIONS,
    Value,
    binary_operator,
    caster,
    constant,
    select,
)
from tilewright.testing.oracle.errors import OracleError, OracleUnsupportedError
from tilewright.testing.oracle.intrinsics import builtin, find_extern
from tilewright.testing.oracle.memory import Memory, View

Frame: TypeAlias = list[Any]
Mask: TypeAlias = Any  # None or a boolean array whose last axis counts lanes
Evaluator: TypeAlias = Callable[[Frame, Mask], Value]


class Undefined:
    """What an unset slot holds; using it is an error."""

    __slots__ = ()


UNDEFINED = Undefined()


class ReturnValue(Exception):
    """`T.ret`: unwinds to the call of the function."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


def scalar_mask(mask: Mask) -> Any:
    """The mask for a scalar access: active where any lane is."""
    if mask is None:
        return None
    return mask[..., 0] if mask.shape[-1] == 1 else mask.any(-1)


def lane_mask(mask: Mask, lanes: int) -> Mask:
    """The mask for a vector; one of other lanes is active where any lane of the mask is."""
    if mask is None or mask.shape[-1] in (1, lanes):
        return mask
    return mask.any(-1, keepdims=True)


def narrowed(mask: Mask, condition: Value, lanes: int) -> Mask:
    """`mask`, further limited to where `condition` holds."""
    wide = condition[..., None] if lanes == 1 else condition
    if mask is None:
        return wide
    return mask & wide if lanes == 1 else lane_mask(mask, lanes) & wide


class ExpressionCompiler(ir.Visitor):
    """Turns expressions into evaluators; slots are shared with the statements around them."""

    def __init__(self, call_function: Callable[[str, Sequence[Value]], Value]) -> None:
        self.slots: dict[Any, int] = {}
        self._call_function = call_function

    def slot(self, key: ir.Var | ir.Buffer) -> int:
        """The place of a variable or buffer in the frame."""
        return self.slots.setdefault(key, len(self.slots))

    def compile(self, expr: ir.PrimExpr) -> Evaluator:
        evaluator: Evaluator = self.visit(expr)
        return evaluator

    def generic_visit(self, node: Any) -> Any:
        raise OracleUnsupportedError(f"the oracle cannot interpret {type(node).__name__}: {node}")

    # --- leaves ---

    def visit_var(self, node: ir.Var) -> Evaluator:
        slot, name = self.slot(node), node.name

        def evaluate(frame: Frame, mask: Mask) -> Value:
            value = frame[slot]
            if value is UNDEFINED:
                raise OracleError(f"variable {name} is used but has no value")
            return value

        return evaluate

    def visit_int_imm(self, node: ir.IntImm) -> Evaluator:
        value = constant(node.value, node.dtype)
        return lambda frame, mask: value

    def visit_float_imm(self, node: ir.FloatImm) -> Evaluator:
        value = constant(node.value, node.dtype)
        return lambda frame, mask: value

    def visit_string_imm(self, node: ir.StringImm) -> Evaluator:
        value = node.value
        return lambda frame, mask: value

    # --- operators ---

    def visit_binary_op(self, node: ir.BinaryOp) -> Evaluator:
        a, b = self.compile(node.a), self.compile(node.b)
        function = binary_operator(type(node), node.a.dtype)
        if function is None:
            raise OracleUnsupportedError(
                f"{type(node).__name__} has no meaning for {node.a.dtype!s}: {node}"
            )
        compute = function
        if type(node) in INTEGER_DIVISIONS and not node.a.dtype.is_float:
            return self._checked_division(node, compute, a, b)
        return lambda frame, mask: compute(a(frame, mask), b(frame, mask))

    @staticmethod
    def _checked_division(
        node: ir.BinaryOp, compute: Callable[[Value, Value], Value], a: Evaluator, b: Evaluator
    ) -> Evaluator:
        lanes = node.dtype.lanes

        def evaluate(frame: Frame, mask: Mask) -> Value:
            divisor = b(frame, mask)
            zero = divisor == 0
            if not isinstance(zero, np.ndarray) and not zero:
                return compute(a(frame, mask), divisor)
            active = lane_mask(mask, lanes) if lanes > 1 else scalar_mask(mask)
            if np.any(zero if active is None else zero & active):
                raise OracleError(f"division by zero in {type(node).__name__}: {node}")
            return compute(a(frame, mask), divisor)

        return evaluate

    def visit_and(self, node: ir.And) -> Evaluator:
        a, b, lanes = self.compile(node.a), self.compile(node.b), node.dtype.lanes

        def evaluate(frame: Frame, mask: Mask) -> Value:
            left = a(frame, mask)
            if type(left) is np.bool_:
                return b(frame, mask) if left else left
            return left & b(frame, narrowed(mask, left, lanes))

        return evaluate

    def visit_or(self, node: ir.Or) -> Evaluator:
        a, b, lanes = self.compile(node.a), self.compile(node.b), node.dtype.lanes

        def evaluate(frame: Frame, mask: Mask) -> Value:
            left = a(frame, mask)
            if type(left) is np.bool_:
                return left if left else b(frame, mask)
            return left | b(frame, narrowed(mask, ~left, lanes))

        return evaluate

    def visit_not(self, node: ir.Not) -> Evaluator:
        a = self.compile(node.a)
        return lambda frame, mask: ~a(frame, mask)

    def visit_cast(self, node: ir.Cast) -> Evaluator:
        value = self.compile(node.value)
        convert = caster(node.value.dtype, node.dtype)
        return lambda frame, mask: convert(value(frame, mask))

    def visit_select(self, node: ir.Select) -> Evaluator:
        condition, wide = self.compile(node.condition), node.condition.dtype.lanes == 1
        true_value, false_value = self.compile(node.true_value), self.compile(node.false_value)
        spread = wide and node.dtype.lanes > 1

        def evaluate(frame: Frame, mask: Mask) -> Value:
            chosen = condition(frame, mask)
            if spread and isinstance(chosen, np.ndarray):
                chosen = chosen[..., None]
            return select(chosen, true_value(frame, mask), false_value(frame, mask))

        return evaluate

    def visit_let(self, node: ir.Let) -> Evaluator:
        slot, value, body = self.slot(node.var), self.compile(node.value), self.compile(node.body)

        def evaluate(frame: Frame, mask: Mask) -> Value:
            frame[slot] = value(frame, mask)
            return body(frame, mask)

        return evaluate

    # --- vectors ---

    def visit_ramp(self, node: ir.Ramp) -> Evaluator:
        base, stride = self.compile(node.base), self.compile(node.stride)
        steps = np.arange(node.lanes).astype(to_numpy(node.base.dtype.element_of))
        if node.base.dtype.lanes == 1:
            return lambda frame, mask: (
                base(frame, mask)[..., None] + stride(frame, mask)[..., None] * steps
            )

        def evaluate(frame: Frame, mask: Mask) -> Value:
            start, step = base(frame, mask)[..., None, :], stride(frame, mask)[..., None, :]
            result = start + step * steps[:, None]
            return result.reshape(*result.shape[:-2], -1)

        return evaluate

    def visit_broadcast(self, node: ir.Broadcast) -> Evaluator:
        value, lanes = self.compile(node.value), node.lanes
        if node.value.dtype.lanes > 1:
            return lambda frame, mask: np.tile(value(frame, mask), lanes)
        return lambda frame, mask: np.repeat(value(frame, mask)[..., None], lanes, axis=-1)

    def visit_shuffle(self, node: ir.Shuffle) -> Evaluator:
        scalar = [vector.dtype.lanes == 1 for vector in node.vectors]
        vectors = [self.compile(vector) for vector in node.vectors]
        indices = [self.compile(index) for index in node.indices]
        single = len(node.indices) == 1

        def evaluate(frame: Frame, mask: Mask) -> Value:
            parts = [vector(frame, mask) for vector in vectors]
            parts = [
                part[..., None] if one else part for part, one in zip(parts, scalar, strict=True)
            ]
            leading = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
            full = [np.broadcast_to(part, (*leading, part.shape[-1])) for part in parts]
            chosen = [int(index(frame, mask)) for index in indices]
            lanes = np.concatenate(full, axis=-1)[..., chosen]
            return lanes[..., 0] if single else lanes

        return evaluate

    # --- memory ---

    def resolver(self, buffer: ir.Buffer) -> Callable[[Frame], View]:
        """Finds the view of a buffer; one that was never declared is made at its first use."""
        slot, data_slot = self.slot(buffer), self.slot(buffer.data)
        shape = [self.compile(extent) for extent in buffer.shape]
        strides = [self.compile(stride) for stride in buffer.strides]
        offset = None if buffer.elem_offset is None else self.compile(buffer.elem_offset)
        dtype, name = buffer.dtype, buffer.name

        def resolve(frame: Frame) -> View:
            view, memory = frame[slot], frame[data_slot]
            if view is not UNDEFINED and view.memory is memory:
                return view  # type: ignore[no-any-return]
            if not isinstance(memory, Memory):
                raise OracleError(f"buffer {name} is used but nothing defines its memory")
            extents = [int(extent(frame, None)) for extent in shape]
            steps = [int(stride(frame, None)) for stride in strides]
            start = 0 if offset is None else int(offset(frame, None))
            view = frame[slot] = View(memory, dtype, extents, steps, start, name)
            return view

        return resolve

    def visit_buffer_load(self, node: ir.BufferLoad) -> Evaluator:
        resolve, indices = self.resolver(node.buffer), self.indices(node.indices, node.dtype.lanes)
        if node.dtype.lanes > 1:
            return self._vector_load(node, resolve, indices)

        def evaluate(frame: Frame, mask: Mask) -> Value:
            view = resolve(frame)
            places = [index(frame, mask) for index in indices]
            if mask is None and not any(isinstance(place, np.ndarray) for place in places):
                return view.read_one(places)
            return view.read_many(places, scalar_mask(mask))

        return evaluate

    def _vector_load(
        self, node: ir.BufferLoad, resolve: Callable[[Frame], View], indices: list[Evaluator]
    ) -> Evaluator:
        predicate = None if node.predicate is None else self.compile(node.predicate)
        lanes = node.dtype.lanes

        def evaluate(frame: Frame, mask: Mask) -> Value:
            active = lane_mask(mask, lanes)
            if predicate is not None:
                active = narrowed(mask, predicate(frame, mask), lanes)
            return resolve(frame).read_many([index(frame, mask) for index in indices], active)

        return evaluate

    def indices(self, indices: Sequence[ir.PrimExpr], lanes: int) -> list[Evaluator]:
        """Evaluators of indices; beside a vector, a scalar index gets a lane axis."""
        evaluators = [self.compile(index) for index in indices]
        if lanes == 1:
            return evaluators
        return [
            evaluator if index.dtype.lanes > 1 else _with_lane_axis(evaluator)
            for index, evaluator in zip(indices, evaluators, strict=True)
        ]

    # --- calls ---

    def visit_call(self, node: ir.Call) -> Evaluator:
        if isinstance(node.op, ir.GlobalVar):
            return self._function_call(node.op.name, node)
        name = node.op.name.removeprefix("tir.")
        lazy = _LAZY_CALLS.get(name)
        if lazy is not None:
            return lazy(self, node)
        argument = node.args[0].dtype if node.args else node.dtype
        function = builtin(name, argument, node.dtype)
        if function is None:
            raise OracleUnsupportedError(f"the oracle does not know the operator {node.op.name}")
        args = [self.compile(arg) for arg in node.args]
        compute = function
        return lambda frame, mask: compute(*[arg(frame, mask) for arg in args])

    def _function_call(self, name: str, node: ir.Call) -> Evaluator:
        args, call = [self.compile(arg) for arg in node.args], self._call_function
        return lambda frame, mask: call(name, [arg(frame, mask) for arg in args])

    def if_then_else(self, node: ir.Call) -> Evaluator:
        condition, true_value, false_value = (self.compile(arg) for arg in node.args)
        lanes, spread = node.args[0].dtype.lanes, node.dtype.lanes > node.args[0].dtype.lanes

        def evaluate(frame: Frame, mask: Mask) -> Value:
            chosen = condition(frame, mask)
            if type(chosen) is np.bool_:
                return true_value(frame, mask) if chosen else false_value(frame, mask)
            yes = true_value(frame, narrowed(mask, chosen, lanes))
            no = false_value(frame, narrowed(mask, ~chosen, lanes))
            return np.where(chosen[..., None] if spread else chosen, yes, no)

        return evaluate

    def ret(self, node: ir.Call) -> Evaluator:
        value = self.compile(node.args[0])

        def evaluate(frame: Frame, mask: Mask) -> Value:
            raise ReturnValue(value(frame, mask))

        return evaluate

    def assume(self, node: ir.Call) -> Evaluator:
        condition, lanes = self.compile(node.args[0]), node.args[0].dtype.lanes

        def evaluate(frame: Frame, mask: Mask) -> Value:
            holds = condition(frame, mask)
            active = mask if lanes > 1 else scalar_mask(mask)
            if np.any(~holds if active is None else ~holds & active):
                raise OracleError(f"the program assumes what does not hold: {node.args[0]}")
            return np.bool_(True)

        return evaluate

    def address_of(self, node: ir.Call) -> Evaluator:
        load = node.args[0]
        if not isinstance(load, ir.BufferLoad):
            raise OracleUnsupportedError(f"address_of needs a buffer element, got {load}")
        resolve, indices = self.resolver(load.buffer), self.indices(load.indices, 1)
        step = load.buffer.dtype.itemsize * load.buffer.dtype.lanes

        def evaluate(frame: Frame, mask: Mask) -> Value:
            view = resolve(frame)
            position = view.position([index(frame, mask) for index in indices])
            return view.memory.at(position * step)

        return evaluate

    def access_pointer(self, node: ir.Call) -> Evaluator:
        kind, data, offset = node.args[0].dtype, self.compile(node.args[1]), node.args[2]
        start, step = self.compile(offset), kind.itemsize * kind.lanes
        return lambda frame, mask: data(frame, mask).at(int(start(frame, mask)) * step)

    def is_null(self, node: ir.Call) -> Evaluator:
        value = self.compile(node.args[0])
        return lambda frame, mask: np.bool_(value(frame, mask) is None)

    def extern_call(self, node: ir.Call) -> Evaluator:
        name, arguments = node.args[0], node.args[1:]
        if not isinstance(name, ir.StringImm):
            raise OracleUnsupportedError(f"a call by name needs a string, got {name}")
        text, args = name.value, [self.compile(arg) for arg in arguments]
        kinds = [_pointed_type(arg) for arg in arguments]

        def evaluate(frame: Frame, mask: Mask) -> Value:
            function = find_extern(text)
            if function is None:
                raise OracleUnsupportedError(
                    f"the program calls {text!r}; tell the oracle what it does with "
                    f"tilewright.testing.oracle.register_extern({text!r}, function)"
                )
            values = [arg(frame, mask) for arg in args]
            plain = [
                value.typed(kind) if isinstance(value, Memory) else value
                for value, kind in zip(values, kinds, strict=True)
            ]
            return function(*plain)

        return evaluate


def _with_lane_axis(evaluator: Evaluator) -> Evaluator:
    return lambda frame, mask: evaluator(frame, mask)[..., None]


def _pointed_type(arg: ir.PrimExpr) -> np.dtype[Any]:
    """The element type behind a pointer argument; bytes if nothing tells it."""
    if isinstance(arg, ir.Var) and arg.type_annotation is not None:
        return to_numpy(arg.type_annotation.element_type.element_of)
    if isinstance(arg, ir.Call) and arg.args:
        first = arg.args[0]
        if not first.dtype.is_handle:
            return to_numpy(first.dtype.element_of)
    return np.dtype(np.uint8)


# Calls that decide themselves what to evaluate.
_LAZY_CALLS: dict[str, Callable[[ExpressionCompiler, ir.Call], Evaluator]] = {
    "if_then_else": ExpressionCompiler.if_then_else,
    "ret": ExpressionCompiler.ret,
    "assume": ExpressionCompiler.assume,
    "address_of": ExpressionCompiler.address_of,
    "tvm_access_ptr": ExpressionCompiler.access_pointer,
    "isnullptr": ExpressionCompiler.is_null,
    "call_extern": ExpressionCompiler.extern_call,
    "call_pure_extern": ExpressionCompiler.extern_call,
    "call_llvm_intrin": ExpressionCompiler.extern_call,
    "call_llvm_pure_intrin": ExpressionCompiler.extern_call,
    "call_packed": ExpressionCompiler.extern_call,
}
