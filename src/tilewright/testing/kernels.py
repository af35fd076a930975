"""Kernels written as lowered TensorIR: building, compiling and checking them against the oracle.

`compile_lowered` takes a function that is in lowered form but for its parameters, and runs nothing
of the lowering pipeline but the calling convention: what it tests is the code generator alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.codegen.llvm.module import generate as generate_llvm
from tilewright.driver import build_lowered
from tilewright.ir import Buffer, PrimFunc, Stmt, Var, as_module, decl_buffer
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.lowering.host_abi import HostABI
from tilewright.runtime.module import Module
from tilewright.target import Target
from tilewright.testing import oracle

Array = np.ndarray[Any, Any]


def kernel(
    arguments: Sequence[Buffer | Var], body: Stmt, *, no_alias: bool = True, name: str = "main"
) -> PrimFunc:
    """A function on flat buffers and scalars."""
    params = []
    buffer_map = {}
    for argument in arguments:
        if isinstance(argument, Buffer):
            handle = Var(f"{argument.name}_handle", argument.data.dtype)
            buffer_map[handle] = argument
            params.append(handle)
        else:
            params.append(argument)
    attrs = {"global_symbol": name, "tir.noalias": no_alias}
    return PrimFunc(tuple(params), body, buffer_map, attrs)


def flat(name: str, size: int, dtype: str = "float32") -> Buffer:
    """A one-dimensional buffer."""
    return decl_buffer((size,), dtype, name)


def llvm_source(func: PrimFunc, target: Target | None = None) -> str:
    """The LLVM IR that the backend makes of a function in lowered form."""
    lowered = HostABI()(as_module(func), None)
    return generate_llvm(lowered, target or Target("llvm")).text


def compile_lowered(func: PrimFunc, target: Target | None = None) -> Module:
    """Compile a function in lowered form for this machine."""
    lowered = HostABI()(as_module(func), None)
    return build_lowered(lowered, target or Target("llvm"))


def run_both(func: PrimFunc, *args: Any) -> tuple[list[Any], list[Any]]:
    """The arguments after a run of the oracle, and after a run of the compiled code."""
    expected, actual = _copies(args), _copies(args)
    oracle.run(func, *expected)
    compile_lowered(func)(*actual)
    return expected, actual


def assert_same(func: PrimFunc, *args: Any, ulp: int = 0) -> list[Any]:
    """Compare the compiled code with the oracle and return what it computed."""
    expected, actual = run_both(func, *args)
    for position, (want, got) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(want, np.ndarray):
            assert_close(got, want, ulp, _place(func, position))
    return actual


def _place(func: PrimFunc, position: int) -> str:
    """The argument and the lines of the program that speak of it."""
    buffer = func.buffer_params()[position]
    name = func.params[position].name if buffer is None else buffer.name
    lines = [line for line in str(func).splitlines() if f"{name}[" in line]
    return "\n".join([f"argument {name} of {func.name}()", *lines[:10]])


def assert_close(actual: Array, expected: Array, ulp: int, place: str) -> None:
    """Equal bit for bit (any NaN equals any other), or within some units in the last place."""
    wrong = ~equal_within(actual, expected, ulp)
    if wrong.any():
        where = np.flatnonzero(wrong)[:5]
        raise AssertionError(
            f"{place}\ndiffers at {where.tolist()}: {actual.flat[where]} instead of "
            f"{expected.flat[where]}"
        )


def equal_within(actual: Array, expected: Array, ulp: int) -> Array:
    """For each element whether both agree."""
    if actual.dtype.name in ("int4", "uint4"):  # the upper half of their bytes means nothing
        return np.asarray(actual == expected)
    bits = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[actual.itemsize]
    a, b = actual.view(bits).astype(object), expected.view(bits).astype(object)
    if not _is_float(actual):
        return np.asarray(actual.view(bits) == expected.view(bits))
    lowest = -(1 << (8 * actual.itemsize - 1))
    a, b = np.where(a < 0, lowest - a, a), np.where(b < 0, lowest - b, b)  # bits in number order
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        both_nan = np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    near = np.abs(a - b) <= ulp if ulp else actual.view(bits) == expected.view(bits)
    return np.asarray(both_nan | near.astype(bool))


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or "float" in array.dtype.name


def _copies(args: Sequence[Any]) -> list[Any]:
    return [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]


def sample(dtype: str, size: int, seed: int = 0) -> Array:
    """Numbers of a type: small, large, negative and special ones."""
    rng = np.random.default_rng(seed)
    kind = to_numpy(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, size).astype(bool)
    if "float" not in dtype:
        bits = int(dtype.removeprefix("uint").removeprefix("int"))
        low, high = (0, 1 << bits) if dtype.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
        wide = np.uint64 if dtype.startswith("u") else np.int64
        numbers = rng.integers(low, high, size, dtype=wide, endpoint=False)
        numbers = np.where(rng.random(size) < 0.5, numbers % wide(7), numbers)
        numbers[:2] = np.array([low, high - 1], dtype=wide)[: min(2, size)]
        return numbers.astype(kind)
    values = rng.standard_normal(size) * np.exp(rng.uniform(-4, 4, size))
    return values.astype(kind)
