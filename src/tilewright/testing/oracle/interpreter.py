"""Running functions: arguments in, frames, calls between functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir import Buffer, IRModule, PrimFunc, Var, as_module
from tilewright.ir.numpy_bridge import from_numpy, to_numpy
from tilewright.testing.oracle.arithmetic import Value, constant
from tilewright.testing.oracle.empty_reductions import EarlyStarts
from tilewright.testing.oracle.errors import OracleArgumentError
from tilewright.testing.oracle.expressions import UNDEFINED, Frame, ReturnValue
from tilewright.testing.oracle.grid_runner import Runner
from tilewright.testing.oracle.memory import Memory, View, compact_strides
from tilewright.testing.oracle.statements import StatementCompiler


@dataclass(frozen=True)
class OracleOptions:
    """How to interpret: `plain` never computes several iterations at once (slow, but simplest)."""

    plain: bool = False
    track_uninitialized: bool = True


def run(
    program: PrimFunc | IRModule,
    *args: Any,
    name: str = "main",
    options: OracleOptions = OracleOptions(),
) -> Any:
    """Interpret a function on NumPy arrays and scalars; outputs are written into the arrays.

    Works for TensorIR with blocks and for lowered programs, where pointer parameters take arrays.
    Returns the value of `T.ret`, or None.
    """
    if isinstance(program, PrimFunc):
        name = program.name
    return Interpreter(as_module(program), options).call(name, args)


class Interpreter:
    """A module whose functions are compiled to Python closures when they are first called."""

    def __init__(self, module: IRModule, options: OracleOptions) -> None:
        self._module = module
        self._options = options
        self._functions: dict[str, _Function] = {}

    def call(self, name: str, args: Sequence[Any]) -> Any:
        """Call a function from outside, with arrays and numbers."""
        with np.errstate(all="ignore"):
            return self._function(name).call(args)

    def _function(self, name: str) -> _Function:
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = _Function(self._module[name], name, self)
        return found

    def compiler(self) -> StatementCompiler:
        return StatementCompiler(
            lambda callee, values: self._function(callee).call(values),
            vectorize=not self._options.plain,
            track=self._options.track_uninitialized,
        )


class _Function:
    def __init__(self, func: PrimFunc, name: str, interpreter: Interpreter) -> None:
        self._func = func
        self._name = name
        self._compiler = interpreter.compiler()
        self._slots = [self._compiler.slot(param) for param in func.params]
        for buffer in func.buffer_map.values():
            self._compiler.resolver(buffer)
        self._body: Runner = self._compiler.statement(EarlyStarts().rewrite(func.body))

    def call(self, args: Sequence[Any]) -> Any:
        params = self._func.params
        values = lowered_arguments(self._func, args)
        if len(values) != len(params):
            names = ", ".join(param.name for param in params)
            raise OracleArgumentError(
                f"{self._name} takes {len(params)} arguments ({names}), got {len(args)}"
            )
        frame: Frame = [UNDEFINED] * len(self._compiler.slots)
        with_buffers = []
        for param, value in zip(params, values, strict=True):
            buffer = self._func.buffer_map.get(param)
            if buffer is None:
                frame[self._compiler.slot(param)] = self._plain_argument(param, value)
            else:
                with_buffers.append((buffer, value))
        for buffer, value in with_buffers:
            self._bind_buffer(frame, buffer, value)
        for buffer, _ in with_buffers:
            self._check_buffer(frame, buffer)
        try:
            self._body(frame, None)
        except ReturnValue as result:
            return result.value
        return None

    def _plain_argument(self, param: Var, value: Any) -> Value:
        if isinstance(value, Memory):
            return value
        if not param.dtype.is_handle:
            if isinstance(value, np.ndarray) and value.ndim:
                raise OracleArgumentError(f"{self._name}: {param.name} is a {param.dtype!s} scalar")
            number = value.item() if hasattr(value, "item") else value
            return constant(number, param.dtype)
        if not isinstance(value, np.ndarray):
            raise OracleArgumentError(f"{self._name}: pointer {param.name} needs a NumPy array")
        pointer = param.type_annotation
        if pointer is not None and to_numpy(pointer.element_type.element_of) != value.dtype:
            raise OracleArgumentError(
                f"{self._name}: pointer {param.name} is to {pointer.element_type!s}, "
                f"got an array of {value.dtype}"
            )
        return Memory.of_array(_contiguous(value, f"{self._name}: {param.name}"), param.name)

    def _bind_buffer(self, frame: Frame, buffer: Buffer, value: Any) -> None:
        slot, data_slot = self._compiler.slot(buffer), self._compiler.slot(buffer.data)
        if isinstance(value, Memory):  # a call inside the module: the shape must follow by itself
            frame[data_slot] = value
            return
        array = self._checked_array(buffer, value)
        for extent, size in zip(buffer.shape, array.shape, strict=True):
            self._bind_symbol(frame, extent, size)
        steps = [stride // array.itemsize for stride in array.strides]
        if buffer.strides:
            for expr, step in zip(buffer.strides, steps, strict=True):
                self._bind_symbol(frame, expr, step)
            flat = _flat_span(array)
        else:
            flat = _contiguous(array, f"{self._name}: buffer {buffer.name}")
            steps = list(compact_strides(array.shape))
        if buffer.elem_offset is not None:
            self._bind_symbol(frame, buffer.elem_offset, 0)
        memory = Memory.of_array(flat, buffer.name)
        frame[data_slot] = memory
        frame[slot] = View(memory, buffer.dtype, array.shape, steps, 0, buffer.name)

    def _checked_array(self, buffer: Buffer, value: Any) -> np.ndarray[Any, Any]:
        place = f"{self._name}: buffer {buffer.name}"
        if not isinstance(value, np.ndarray):
            raise OracleArgumentError(f"{place} needs a NumPy array, got {type(value).__name__}")
        if from_numpy(value.dtype) != buffer.dtype:
            raise OracleArgumentError(f"{place} is {buffer.dtype!s}, got an array of {value.dtype}")
        if value.ndim != len(buffer.shape):
            raise OracleArgumentError(
                f"{place} has {len(buffer.shape)} dimensions, got an array with {value.ndim}"
            )
        return value

    def _bind_symbol(self, frame: Frame, expr: Any, value: int) -> None:
        if isinstance(expr, Var) and frame[self._compiler.slot(expr)] is UNDEFINED:
            frame[self._compiler.slot(expr)] = constant(value, expr.dtype)

    def _check_buffer(self, frame: Frame, buffer: Buffer) -> None:
        view = frame[self._compiler.slot(buffer)]
        if view is UNDEFINED:
            return
        wanted = [int(self._compiler.compile(extent)(frame, None)) for extent in buffer.shape]
        if tuple(wanted) != view.shape:
            raise OracleArgumentError(
                f"{self._name}: buffer {buffer.name} has shape {tuple(wanted)}, "
                f"got an array of shape {view.shape}"
            )


def lowered_arguments(func: PrimFunc, args: Sequence[Any]) -> list[Any]:
    """The arguments of a lowered function, with the scalars it takes from each array."""
    signature = func.attrs.get("tilewright.signature", ())
    if len(signature) != len(args) or len(args) == len(func.params):
        return list(args)
    expanded: list[Any] = []
    for spec, arg in zip(signature, args, strict=True):
        strided = bool(spec.strides) and isinstance(arg, np.ndarray)
        expanded.append(_flat_span(arg) if strided else arg)
        expanded += [_read_off(arg, each.source, each.axis) for each in spec.derived]
    return expanded


def _read_off(array: np.ndarray[Any, Any], source: str, axis: int) -> int:
    """A number that a lowered function takes from an array."""
    if source == "shape":
        return int(array.shape[axis])
    return int(array.strides[axis] // array.itemsize) if source == "stride" else 0


def _contiguous(array: np.ndarray[Any, Any], place: str) -> np.ndarray[Any, Any]:
    if not array.flags.c_contiguous:
        raise OracleArgumentError(f"{place} needs a contiguous array; pass np.ascontiguousarray(x)")
    return array


def _flat_span(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """All elements from the first to the last of a strided array, those between them included."""
    if any(stride < 0 for stride in array.strides):
        raise OracleArgumentError("arrays with negative strides cannot be passed; copy them first")
    span = 1 + sum(
        (extent - 1) * stride // array.itemsize
        for extent, stride in zip(array.shape, array.strides, strict=True)
    )
    span = 0 if array.size == 0 else span
    return np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
