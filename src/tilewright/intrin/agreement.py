"""Tests that an instruction does what its description says: both run here, on the same numbers.

The numbers are random over the whole range of a type (or the range for which an instruction claims
to be exact) and at its ends, in all combinations. Integers must agree exactly, floats up to
rounding. An instruction of another machine cannot be tried and counts as right. Description and
implementation become programs of their own, with all operands in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.errors import TilewrightError
from tilewright.ir import Buffer, DType, PrimFunc, max_value_of, min_value_of
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.ir.tensor_intrin import TensorIntrin, parameters, root_block_of
from tilewright.target import Target

RANDOM_ROUNDS = 3
# Scopes of a CPU; all others belong to accelerators.
_SCOPES = frozenset({"global", "local"})
# Float inputs stay small enough for sums of products to be finite in every type.
_FLOAT_RANGE = (-100.0, 100.0)


Runnable = Callable[..., object]
Build = Callable[[PrimFunc, Target], Runnable]


def disagreement(intrin: TensorIntrin, build: Build) -> str | None:
    """Where description and implementation differ, in words; None if they agree.

    `build` compiles a function for a target.
    """
    target = Target("llvm")
    if not _can_run(intrin, target):
        return None
    try:
        implementation = build(stand_alone(intrin.impl), target)
    except TilewrightError:
        return None  # it calls what is linked later, or what only another backend knows
    description = build(stand_alone(intrin.desc), target)
    return next(_differences(intrin, description, implementation), None)


def _can_run(intrin: TensorIntrin, target: Target) -> bool:
    buffers = (*parameters(intrin.desc), *parameters(intrin.impl))
    return intrin.features <= target.features and all(
        buffer.scope in _SCOPES and constant_shape(buffer) and _has_numpy_type(buffer.dtype)
        for buffer in buffers
    )


def _has_numpy_type(dtype: DType) -> bool:
    try:
        to_numpy(dtype)
    except TilewrightError:
        return False
    return True


def _differences(
    intrin: TensorIntrin, description: Runnable, implementation: Runnable
) -> Iterator[str]:
    buffers = parameters(intrin.desc)
    for what, arrays in _trials(intrin):
        expected = [array.copy() for array in arrays]
        actual = [array.copy() for array in arrays]
        description(*expected)
        implementation(*actual)
        for buffer, wanted, got in zip(buffers, expected, actual, strict=True):
            wrong = _first_wrong(buffer.dtype, wanted, got)
            if wrong is not None:
                at, place = wrong, ", ".join(str(index) for index in wrong[1:])
                yield (
                    f"{buffer.name}[{place}] is {got[at]} in the implementation and {wanted[at]} "
                    f"in the description, for {what}"
                )


def _first_wrong(dtype: DType, wanted: Any, got: Any) -> tuple[int, ...] | None:
    """Where two arrays differ first by more than rounding."""
    if not dtype.is_float:
        differ = wanted != got
    else:
        # A sum may be rounded in any order: its error is relative to the largest summand, of which
        # the largest result is a fair estimate.
        wide, seen = wanted.astype(np.float64), got.astype(np.float64)
        limit = _tolerance(dtype) * max(1.0, float(np.abs(wide).max(initial=0.0)))
        differ = ~(np.abs(wide - seen) <= limit)
    places = np.argwhere(differ)
    return tuple(int(index) for index in places[0]) if len(places) else None


def _tolerance(dtype: DType) -> float:
    """A few units in the last place."""
    precise = {"float64": 2.0**-48, "float32": 2.0**-19, "float16": 2.0**-8, "bfloat16": 2.0**-5}
    return precise.get(str(dtype), 0.25)


# --- numbers ------------------------------------------------------------------------------------


def _trials(intrin: TensorIntrin) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Operands in words and as arrays: random numbers first, then every combination of random,
    smallest and largest ones."""
    rng = np.random.default_rng(0)
    buffers = parameters(intrin.desc)
    read = {region.buffer for region in root_block_of(intrin.desc).reads}
    kinds: Sequence[Sequence[str]] = [
        ("random", "smallest", "largest") if buffer in read else ("random",) for buffer in buffers
    ]
    first = [("random",) * len(buffers)] * RANDOM_ROUNDS
    for chosen in itertools.chain(first, itertools.product(*kinds)):
        arrays = tuple(
            _numbers(rng, buffer, kind, _range_of(intrin, buffer))
            for buffer, kind in zip(buffers, chosen, strict=True)
        )
        ends = [
            f"{buffer.name} all {array.flat[0]}"
            for buffer, kind, array in zip(buffers, chosen, arrays, strict=True)
            if kind != "random"
        ]
        yield " and ".join(ends) or "random numbers", arrays


def _range_of(intrin: TensorIntrin, buffer: Buffer) -> tuple[float, float]:
    given = intrin.value_ranges.get(buffer.name)
    if given is not None:
        return given
    if buffer.dtype.is_float:
        return _FLOAT_RANGE
    return min_value_of(buffer.dtype), max_value_of(buffer.dtype)


def _numbers(
    rng: np.random.Generator, buffer: Buffer, kind: str, bounds: tuple[float, float]
) -> Any:
    shape = (2, *(constant_shape(buffer) or ()))
    dtype = to_numpy(buffer.dtype)
    low, high = bounds
    if kind != "random":
        return np.full(shape, low if kind == "smallest" else high).astype(dtype)
    if buffer.dtype.is_float:
        return rng.uniform(low, high, shape).astype(dtype)
    wide = np.uint64 if high >= 2**63 else np.int64
    return rng.integers(int(low), int(high), shape, wide, endpoint=True).astype(dtype)


def stand_alone(func: ir.PrimFunc) -> ir.PrimFunc:
    """A function whose arguments have one more, leading dimension of two.

    The instruction works on the second half, so that one which forgets about offsets is found out.
    Operands that do not live in memory are copied to their scope and back.
    """
    buffers = parameters(func)
    arguments = [
        ir.decl_buffer((2, *buffer.shape), buffer.dtype, f"{buffer.name}_argument")
        for buffer in buffers
    ]
    operands = [
        argument
        if buffer.scope == "global"
        else ir.decl_buffer(argument.shape, buffer.dtype, buffer.name, scope=buffer.scope)
        for buffer, argument in zip(buffers, arguments, strict=True)
    ]
    moved = [pair for pair in zip(arguments, operands, strict=True) if pair[0] is not pair[1]]
    body = ir.seq(
        [
            *(_copy(source, copy) for source, copy in moved),
            _instruction(func, buffers, operands),
            *(_copy(copy, source) for source, copy in moved),
        ]
    )
    root = ir.Block((), (), (), "root", body, alloc_buffers=tuple(copy for _, copy in moved))
    params = tuple(ir.Var(argument.name, ir.HANDLE) for argument in arguments)
    return ir.PrimFunc(
        params,
        ir.BlockRealize((), ir.TRUE, root),
        dict(zip(params, arguments, strict=True)),
        {"global_symbol": "main"},
    )


def constant_shape(buffer: ir.Buffer) -> tuple[int, ...] | None:
    """The extents of a buffer; None if one of them is no number."""
    extents = tuple(extent.value for extent in buffer.shape if isinstance(extent, ir.IntImm))
    return extents if len(extents) == len(buffer.shape) else None


def _instruction(func: ir.PrimFunc, buffers: list[ir.Buffer], operands: list[ir.Buffer]) -> ir.Stmt:
    root = root_block_of(func)
    views = {
        buffer: ir.MatchBufferRegion(buffer, _half(operand, buffer))
        for buffer, operand in zip(buffers, operands, strict=True)
    }
    block = ir.replace(
        root,
        name_hint="instruction",
        reads=tuple(views[region.buffer].source for region in root.reads),
        writes=tuple(views[region.buffer].source for region in root.writes),
        match_buffers=(*views.values(), *root.match_buffers),
    )
    return ir.BlockRealize((), ir.TRUE, block)


def _half(operand: ir.Buffer, view: ir.Buffer) -> ir.BufferRegion:
    """The second half of an operand, or the first one if the view may not begin there."""
    size = math.prod(constant_shape(view) or ())
    start = 1 if size % max(view.offset_factor, 1) == 0 else 0
    ranges = [ir.Range(ir.const(start), ir.const(1))]
    ranges += [ir.Range(ir.const(0), extent) for extent in view.shape]
    return ir.BufferRegion(operand, tuple(ranges))


def _copy(source: ir.Buffer, destination: ir.Buffer) -> ir.Stmt:
    loops = [ir.Var(f"i{axis}", ir.INT32) for axis in range(len(source.shape))]
    indices: tuple[ir.PrimExpr, ...] = tuple(loops)
    body: ir.Stmt = ir.BufferStore(destination, ir.BufferLoad(source, indices), indices)
    for var, extent in zip(reversed(loops), reversed(source.shape), strict=True):
        body = ir.For(var, ir.const(0), extent, ir.ForKind.SERIAL, body)
    return body
