"""Random block programs, tiled and annotated at random: lowering, C and LLVM against the oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tilewright as tw
from tilewright.driver import lower
from tilewright.ir import (
    HANDLE,
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterType,
    IterVar,
    PrimExpr,
    PrimFunc,
    Range,
    Select,
    Stmt,
    Var,
    const,
    decl_buffer,
    intrinsics,
    logical_and,
    maximum,
    minimum,
    root_realize,
    seq,
    verify_well_formed,
)
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing import oracle
from tilewright.testing.c_compiler import CompiledC
from tilewright.testing.oracle import OracleOptions

DTYPES = ["float32", "float64", "int32", "int16", "int8", "uint8", "int64"]


@dataclass(frozen=True)
class Axis:
    """One block iterator, the loops that make it up, and how they are run."""

    iterator: IterVar
    binding: PrimExpr
    loops: tuple[tuple[Var, int], ...]
    guard: PrimExpr | None


@st.composite
def axes(draw: st.DrawFn, name: str, extent: int, kind: IterType) -> Axis:
    """An axis of one loop, or split by a factor that need not divide it."""
    iterator = IterVar(Range(const(0), const(extent)), Var("v" + name), kind)
    if not draw(st.booleans()):
        var = Var(name)
        return Axis(iterator, var, ((var, extent),), None)
    factor = draw(st.integers(1, 8))
    outer, inner = Var(name + "_0"), Var(name + "_1")
    binding = outer * factor + inner
    guard = binding < extent if extent % factor else None
    return Axis(iterator, binding, ((outer, -(-extent // factor)), (inner, factor)), guard)


@st.composite
def values(draw: st.DrawFn, leaves: list[Callable[[], PrimExpr]], depth: int) -> PrimExpr:
    """Arithmetic over some leaves, all of one type."""
    if depth == 0:
        return draw(st.sampled_from(leaves))()
    a, b = draw(values(leaves, depth - 1)), draw(values(leaves, depth - 1))
    match draw(st.integers(0, 6)):
        case 0:
            return a - b
        case 1:
            return a * b
        case 2:
            return minimum(a, b)
        case 3:
            return maximum(a, b)
        case 4:
            return Select(a < b, a, b + a)
        case 5:
            return intrinsics.if_then_else(a <= b, b, a)
    return a + b


def padded(buffer: Buffer, row: PrimExpr, column: PrimExpr) -> PrimExpr:
    """An element, or zero outside the buffer."""
    rows, columns = buffer.shape
    inside = logical_and(row >= 0, row < rows, column >= 0, column < columns)
    return intrinsics.if_then_else(
        inside, BufferLoad(buffer, (row, column)), const(0, buffer.dtype)
    )


@st.composite
def leaves_of(draw: st.DrawFn, source: Buffer, vi: Var, vj: Var) -> list[Callable[[], PrimExpr]]:
    """Reads of a buffer near a point, constants and the point itself."""
    rows, columns = (int(extent) for extent in source.shape)  # type: ignore[call-overload]
    up, left = draw(st.integers(-2, 2)), draw(st.integers(-2, 2))
    factor = draw(st.integers(1, 3))
    return [
        lambda: padded(source, vi + up, vj + left),
        lambda: BufferLoad(source, (vi % rows, (vj * factor) % columns)),
        lambda: BufferLoad(source, ((vi // factor) % rows, (vi + vj) % columns)),
        lambda: const(draw(st.integers(1, 3)), source.dtype),
        lambda: (vi - vj).astype(source.dtype),
    ]


def nest(draw: st.DrawFn, loops: list[tuple[Var, int]], body: Stmt, spatial: set[Var]) -> Stmt:
    """Loops around a block; the outermost may be parallel, the innermost a vector."""
    for depth, (var, extent) in reversed(list(enumerate(loops))):
        kinds = [ForKind.SERIAL, ForKind.UNROLLED]
        if var in spatial and depth == 0:
            kinds.append(ForKind.PARALLEL)
        if var in spatial and depth == len(loops) - 1 and extent > 1:
            kinds += [ForKind.VECTORIZED, ForKind.VECTORIZED]
        body = For(var, const(0), const(extent), draw(st.sampled_from(kinds)), body)
    return body


@st.composite
def stage(draw: st.DrawFn, source: Buffer, target: Buffer, name: str) -> Stmt:
    """A block that computes `target` from `source`, perhaps as a sum."""
    rows, columns = (int(extent) for extent in target.shape)  # type: ignore[call-overload]
    parts = [
        draw(axes(name + "i", rows, IterType.DATA_PAR)),
        draw(axes(name + "j", columns, IterType.DATA_PAR)),
    ]
    vi, vj = (part.iterator.var for part in parts)
    spatial = {var for part in parts for var, _ in part.loops}
    init = None
    value = draw(values(draw(leaves_of(source, vi, vj)), draw(st.integers(0, 2))))
    if draw(st.booleans()):
        depth = int(source.shape[1])  # type: ignore[call-overload]
        parts.append(draw(axes(name + "k", depth, IterType.COMM_REDUCE)))
        vk = parts[2].iterator.var
        start = const(draw(st.integers(0, 2)), target.dtype)
        init = BufferStore(target, start, (vi, vj))
        value = BufferLoad(target, (vi, vj)) + value * padded(source, vj, vk)
    store = BufferStore(target, value, (vi, vj))
    reads = (BufferRegion.full(source),)
    writes = (BufferRegion.from_point(target, (vi, vj)),)
    block = Block(tuple(p.iterator for p in parts), reads, writes, name, store, init)
    guards = [part.guard for part in parts if part.guard is not None]
    realize = BlockRealize(
        tuple(part.binding for part in parts), logical_and(*guards) if guards else TRUE, block
    )
    loops = [loop for part in parts for loop in part.loops]
    return nest(draw, draw(st.permutations(loops)), realize, spatial)


@st.composite
def programs(draw: st.DrawFn) -> PrimFunc:
    dtype = draw(st.sampled_from(DTYPES))
    sizes = st.integers(1, 9)
    shapes = [(draw(sizes), draw(sizes)) for _ in range(3)]
    a, x, o = (decl_buffer(s, dtype, name) for s, name in zip(shapes, "AXO", strict=True))
    body = seq([draw(stage(a, x, "first")), draw(stage(x, o, "second"))])
    params = Var("a", HANDLE), Var("o", HANDLE)
    root = Block((), (), (), "root", body, None, (x,))
    attrs = {"global_symbol": "main", "tir.noalias": True}
    return PrimFunc(params, root_realize(root), dict(zip(params, (a, o), strict=True)), attrs)


def arguments(func: PrimFunc) -> list[Any]:
    rng = np.random.default_rng(11)
    arrays = []
    for buffer in func.buffer_map.values():
        shape = tuple(int(extent) for extent in buffer.shape)  # type: ignore[call-overload]
        arrays.append(rng.integers(0, 4, shape).astype(to_numpy(buffer.dtype)))
    return arrays


def after(run: Callable[..., Any], arrays: list[Any]) -> Any:
    copies = [array.copy() for array in arrays]
    run(*copies)
    return copies[-1]


QUICK = settings(max_examples=20, suppress_health_check=list(HealthCheck), derandomize=True)


@QUICK
@given(func=programs())
def test_lowering_keeps_the_meaning(func: PrimFunc) -> None:
    assert verify_well_formed(func)
    arrays = arguments(func)
    expected = after(lambda *args: oracle.run(func, *args), arrays)
    plain = OracleOptions(plain=True)
    simple = after(lambda *args: oracle.run(func, *args, options=plain), arrays)
    np.testing.assert_array_equal(simple, expected)
    for stage_ in lower(func, stages=True):
        assert verify_well_formed(stage_.module)
        actual = after(lambda *args, mod=stage_.module: oracle.run(mod, *args), arrays)
        np.testing.assert_array_equal(actual, expected, err_msg=stage_.name)


def compare_compiled(func: PrimFunc, compiler: str | None) -> None:
    arrays = arguments(func)
    expected = after(lambda *args: oracle.run(func, *args), arrays)
    # Small integers: sums of products are exact, so fused operations round nothing.
    np.testing.assert_array_equal(after(tw.build(func), arrays), expected)
    if compiler is not None:
        with tempfile.TemporaryDirectory() as folder:
            compiled = CompiledC(lower(func), Path(folder), compiler)
            np.testing.assert_array_equal(after(compiled.call, arrays), expected)


@settings(QUICK, max_examples=10)
@given(func=programs())
def test_compiled_code_agrees(func: PrimFunc, c_compiler: str) -> None:
    compare_compiled(func, c_compiler)


@pytest.mark.slow
@settings(QUICK, max_examples=1500, derandomize=False)
@given(func=programs())
def test_many_programs(func: PrimFunc) -> None:
    test_lowering_keeps_the_meaning.hypothesis.inner_test(func)  # type: ignore[attr-defined]
    compare_compiled(func, None)
