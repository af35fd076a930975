"""From the user's arguments to the 8-byte slots that compiled code reads.

Every check names the argument, what it is, and what was expected. Arrays are taken as they are, never
copied: NumPy arrays, and anything that speaks DLPack on the CPU.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ArgumentError
from tilewright.ir import DType
from tilewright.lower.host_abi import ArgumentSpec, evaluate_extent
from tilewright.runtime.tensor_view import TensorView, view_of


@dataclass(frozen=True)
class BoundArguments:
    """Slots ready to be handed to compiled code; `keep` holds the arrays alive."""

    slots: bytes
    keep: tuple[Any, ...]


def bind_arguments(
    function: str, signature: Sequence[ArgumentSpec], args: Sequence[Any]
) -> BoundArguments:
    """Check `args` against a signature and lay them out."""
    if len(args) != len(signature):
        expected = ", ".join(describe(spec) for spec in signature)
        raise ArgumentError(
            f"{function}() takes {len(signature)} arguments ({expected}), got {len(args)}"
        )
    views = [
        view_of(arg) if spec.kind == "buffer" else None
        for spec, arg in zip(signature, args, strict=True)
    ]
    symbols = _symbolic_values(function, signature, args, views)
    parts: list[bytes] = []
    for position, (spec, arg, view) in enumerate(zip(signature, args, views, strict=True)):
        where = f"{function}(): argument {position} ({spec.name})"
        if spec.kind == "scalar":
            parts.append(_scalar_slot(where, spec, arg))
            continue
        if view is None:
            raise ArgumentError(
                f"{where}: expected {describe(spec)}, got {type(arg).__name__}; pass a NumPy array "
                "or any object with __dlpack__ on the CPU"
            )
        _check_array(where, spec, view, symbols)
        parts.append(struct.pack("<Q", view.address))
        parts += [
            struct.pack("<q", _derived(view, derived.source, derived.axis))
            for derived in spec.derived
        ]
    return BoundArguments(b"".join(parts), tuple(args))


def describe(spec: ArgumentSpec) -> str:
    """An argument as a reader would write it: `A: float32[128, n]`."""
    if spec.kind == "scalar":
        return f"{spec.name}: {spec.dtype}"
    return f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.shape))}]"


def _derived(view: TensorView, source: str, axis: int) -> int:
    if source == "shape":
        return view.shape[axis]
    return view.strides[axis] if source == "stride" else 0


def _symbolic_values(
    function: str,
    signature: Sequence[ArgumentSpec],
    args: Sequence[Any],
    views: Sequence[TensorView | None],
) -> dict[str, int]:
    values: dict[str, int] = {}
    for spec, arg, view in zip(signature, args, views, strict=True):
        if spec.kind == "scalar" and isinstance(arg, int):
            values[spec.name] = arg
        for derived in spec.derived:
            if view is not None and derived.axis < len(view.shape):
                values[derived.name] = _derived(view, derived.source, derived.axis)
    return values


def _check_array(where: str, spec: ArgumentSpec, view: TensorView, symbols: dict[str, int]) -> None:
    if view.device != "cpu":
        raise ArgumentError(f"{where}: the array is on {view.device}, expected it on the cpu")
    if view.dtype != spec.dtype:
        raise ArgumentError(f"{where}: dtype is {view.dtype}, expected {spec.dtype}")
    if len(view.shape) != len(spec.shape):
        raise ArgumentError(
            f"{where}: shape is {list(view.shape)}, expected {len(spec.shape)} dimensions as in "
            f"{describe(spec)}"
        )
    for axis, (actual, extent) in enumerate(zip(view.shape, spec.shape, strict=True)):
        expected = evaluate_extent(extent, symbols)
        if actual != expected:
            meaning = "" if isinstance(extent, int) else f" ({extent})"
            raise ArgumentError(
                f"{where}: shape is {list(view.shape)}, expected {expected}{meaning} on axis {axis} "
                f"as in {describe(spec)}"
            )
    _check_layout(where, spec, view, symbols)
    if view.address % DType(spec.dtype).itemsize:
        raise ArgumentError(
            f"{where}: the data pointer is not aligned to its {DType(spec.dtype).itemsize}-byte "
            "elements; pass a copy (numpy.array(x))"
        )
    if view.readonly and "w" in spec.access:
        raise ArgumentError(f"{where}: the array is read-only but the function writes it")


def _check_layout(
    where: str, spec: ArgumentSpec, view: TensorView, symbols: dict[str, int]
) -> None:
    if spec.strides:
        expected = tuple(evaluate_extent(stride, symbols) for stride in spec.strides)
        described = f"strides {list(expected)}"
    else:
        expected, described = compact_strides(view.shape), "a C-contiguous array"
    relevant = (extent > 1 for extent in view.shape)
    if 0 in view.shape:
        return
    for needed, stride, wanted in zip(relevant, view.strides, expected, strict=True):
        if needed and stride != wanted:
            raise ArgumentError(
                f"{where}: strides are {list(view.strides)} elements, expected {described}; pass "
                "numpy.ascontiguousarray(x), or declare the buffer with strides"
            )


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _scalar_slot(where: str, spec: ArgumentSpec, arg: Any) -> bytes:
    dtype = DType(spec.dtype)
    try:
        if dtype.is_float:
            return _float_slot(float(arg), dtype)
        if dtype.is_handle:
            return struct.pack("<Q", int(arg))
        number = int(arg)
        if number != arg:
            raise ArgumentError(f"{where}: {arg!r} is not an integer, expected {spec.dtype}")
    except (TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"{where}: expected a number of dtype {spec.dtype}, got {type(arg).__name__}"
        ) from error
    low = -(1 << (dtype.bits - 1)) if dtype.is_int else 0
    high = (1 << (dtype.bits - (1 if dtype.is_int else 0))) - 1
    if not low <= number <= high:
        raise ArgumentError(f"{where}: {number} does not fit {spec.dtype} ({low} to {high})")
    return struct.pack("<q" if number < 0 else "<Q", number)


_FLOAT_CODES = {"float64": "<d", "float32": "<f4x", "float16": "<e6x"}


def _float_slot(value: float, dtype: DType) -> bytes:
    code = _FLOAT_CODES.get(dtype)
    if code is None:
        raise ArgumentError(f"scalar arguments of dtype {dtype!s} are not supported")
    return struct.pack(code, value)
