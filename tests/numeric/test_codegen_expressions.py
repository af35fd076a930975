"""Every operator on every dtype and many lane counts: compiled code against the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Cast,
    Div,
    DType,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Stmt,
    Sub,
    Var,
    const,
    seq,
)
from tilewright.ir.intrinsics import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    clz,
    isfinite,
    isinf,
    isnan,
    popcount,
    shift_left,
    shift_right,
)
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.kernels import Array, assert_same, flat, kernel, sample

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 8, 16, 32, 64)]
FLOATS = ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
LANES = [1, 2, 3, 4, 7, 8, 16, 32, 64]


def grid(dtypes: list[str], quick: dict[str, tuple[int, ...]], usual: tuple[int, ...]) -> list[Any]:
    """All dtypes with all lane counts; but for a few, they run in `make fuzz` only."""
    return [
        pytest.param(
            dtype,
            lanes,
            marks=[] if lanes in quick.get(dtype, usual) else [pytest.mark.slow],
        )
        for dtype in dtypes
        for lanes in LANES
    ]


Make = Callable[[PrimExpr, PrimExpr], PrimExpr]
COMPARISONS: list[type[BinaryOp]] = [EQ, NE, LT, LE, GT, GE]
ARITHMETIC: list[type[BinaryOp]] = [Add, Sub, Mul, Min, Max]
DIVISION: list[type[BinaryOp]] = [Div]


def at(buffer: Buffer, lanes: int) -> BufferLoad:
    """The first elements of a buffer."""
    index = const(0) if lanes == 1 else Ramp(const(0), const(1), lanes)
    return BufferLoad(buffer, (index,))


class Outputs:
    """Collects expressions; each gets a buffer of its own."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.stores: list[Stmt] = []

    def add(self, value: PrimExpr) -> None:
        buffer = flat(f"out{len(self.buffers)}", value.dtype.lanes, value.dtype.element_of)
        index = const(0) if value.dtype.lanes == 1 else Ramp(const(0), const(1), value.dtype.lanes)
        self.buffers.append(buffer)
        self.stores.append(BufferStore(buffer, value, (index,)))

    def check(self, inputs: list[Buffer], arrays: list[Array], ulp: int = 0) -> None:
        func = kernel([*inputs, *self.buffers], seq(self.stores))
        empty = [np.zeros(int(b.shape[0]), to_numpy(b.dtype)) for b in self.buffers]  # type: ignore[call-overload]
        assert_same(func, *arrays, *empty, ulp=ulp)


def divisors(dtype: str, size: int) -> Array:
    """Numbers to divide by: no zeros."""
    numbers = sample(dtype, size, seed=1)
    return np.where(numbers == 0, np.ones_like(numbers), numbers).astype(numbers.dtype)


@pytest.mark.parametrize(
    ("dtype", "lanes"), grid(INTEGERS, {"int32": (1, 3, 16, 64), "uint8": (1, 7, 64)}, (1, 4))
)
def test_integers(dtype: str, lanes: int) -> None:
    a, b, s = flat("a", lanes, dtype), flat("b", lanes, dtype), flat("s", lanes, dtype)
    x, y, distance = at(a, lanes), at(b, lanes), at(s, lanes)
    outputs = Outputs()
    for node in (*ARITHMETIC, *COMPARISONS):
        outputs.add(node(x, y))
    makers: list[Make] = [bitwise_and, bitwise_or, bitwise_xor]
    for make in makers:
        outputs.add(make(x, y))
    outputs.add(shift_left(x, distance))
    outputs.add(shift_right(x, distance))
    outputs.add(bitwise_not(x))
    outputs.add(Select(LT(x, y), x, y))
    if DType(dtype).bits >= 8:
        outputs.add(popcount(x))
        outputs.add(clz(x))
    bits = DType(dtype).bits
    distances = (np.arange(lanes) % bits).astype(to_numpy(dtype))
    outputs.check([a, b, s], [sample(dtype, lanes), sample(dtype, lanes, seed=1), distances])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_of_all_signs(dtype: str) -> None:
    """The whole range of both operands, by numbers and by constants."""
    a, b = flat("a", 256, dtype), flat("b", 256, dtype)
    quotients = [flat(f"out{n}", 256, dtype) for n in range(20)]
    i = Var("i")
    x, y = BufferLoad(a, (i,)), BufferLoad(b, (i,))
    kinds: list[type[BinaryOp]] = [Div, Mod, FloorDiv, FloorMod]
    constants = (2, 3, 7, -1) if dtype.startswith("int") else (1, 2, 3, 7)
    values = [node(x, d) for d in (y, *(const(c, dtype) for c in constants)) for node in kinds]
    stores = [BufferStore(out, value, (i,)) for out, value in zip(quotients, values, strict=True)]
    body = For(i, const(0), const(256), ForKind.SERIAL, seq(stores))
    numbers = sample(dtype, 256), divisors(dtype, 256)
    numbers[1][:4] = np.array([255, 255, 1, 1]).astype(np.int8).astype(numbers[1].dtype)
    empty = [np.zeros(256, to_numpy(dtype)) for _ in quotients]
    assert_same(kernel([a, b, *quotients], body), *numbers, *empty)


@pytest.mark.parametrize("lanes", [3, 8])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
def test_divisions_of_vectors(dtype: str, lanes: int) -> None:
    a, b = flat("a", lanes, dtype), flat("b", lanes, dtype)
    x, y, three = at(a, lanes), at(b, lanes), const(3, DType(dtype).with_lanes(lanes))
    outputs = Outputs()
    for node in (Div, Mod, FloorDiv, FloorMod):
        outputs.add(node(x, y))
        outputs.add(node(x, three))
    outputs.check([a, b], [sample(dtype, lanes), divisors(dtype, lanes)])


@pytest.mark.parametrize(
    ("dtype", "lanes"), grid(FLOATS, {"float32": (1, 3, 16, 64), "float16": (1, 7, 32)}, (1, 4))
)
def test_floats(dtype: str, lanes: int) -> None:
    a, b = flat("a", lanes, dtype), flat("b", lanes, dtype)
    x, y = at(a, lanes), at(b, lanes)
    outputs = Outputs()
    for node in ARITHMETIC + COMPARISONS + DIVISION:
        outputs.add(node(x, y))
    outputs.add(Select(GE(x, y), x, y))
    for test in (isnan, isinf, isfinite):
        outputs.add(test(x))
    first = sample(dtype, lanes)
    first[:3] = np.array([np.nan, np.inf, -0.0], np.float32).astype(first.dtype)[: min(3, lanes)]
    outputs.check([a, b], [first, sample(dtype, lanes, seed=1)])


@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_special_floats_in_minimum_and_comparison(lanes: int) -> None:
    for dtype in ("float32", "float64"):
        a, b = flat("a", lanes, dtype), flat("b", lanes, dtype)
        outputs = Outputs()
        for node in (*ARITHMETIC, *COMPARISONS):
            outputs.add(node(at(a, lanes), at(b, lanes)))
        specials = np.array([np.nan, 1.0, np.nan, 0.0, -0.0, np.inf, -np.inf, 2.0], dtype)
        outputs.check([a, b], [specials[:lanes].copy(), specials[::-1][:lanes].copy()])


@pytest.mark.parametrize("lanes", [1, 2, 7, 16])
def test_bools(lanes: int) -> None:
    a, b = flat("a", lanes, "bool"), flat("b", lanes, "bool")
    x, y = at(a, lanes), at(b, lanes)
    outputs = Outputs()
    for node in (And, Or, EQ, NE, LT, GE, Min, Max):
        outputs.add(node(x, y))
    outputs.add(Not(x))
    outputs.add(Select(x, y, Not(y)))
    outputs.check([a, b], [sample("bool", lanes), sample("bool", lanes, seed=1)])


@pytest.mark.parametrize("source", ["bool", *INTEGERS, *FLOATS])
@pytest.mark.parametrize(
    "lanes", [1, pytest.param(3, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.slow)]
)
def test_casts(source: str, lanes: int) -> None:
    """Values that fit both types; what does not fit has no meaning."""
    a = flat("a", lanes, source)
    outputs = Outputs()
    for target in ["bool", *INTEGERS, *FLOATS]:
        if target != source:
            outputs.add(Cast(DType(target).with_lanes(lanes), at(a, lanes)))
    values = sample(source, lanes, seed=3)
    if source in FLOATS:
        values = np.array([0.0, 3.7, 1.0, 7.0, 2.5, 6.9, 0.3, 5.5], np.float32)
        values = np.resize(values, lanes).astype(to_numpy(source))
    outputs.check([a], [values])


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_rounding_to_small_floats(target: str, lanes: int) -> None:
    """All kinds of float32: ties, subnormals, overflows, infinities and NaN."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    every = np.arange(0, 1 << 16, 7, dtype=np.uint16)
    ties = (every.astype(np.uint32) << 16 | 0x8000).view(np.float32)
    small = (np.arange(-512, 512) / 4096.0).astype(np.float32)
    values = np.concatenate([numbers, ties, small])
    values = values[: len(values) // lanes * lanes]
    check_conversion(values, target, lanes)


def check_conversion(values: Array, target: str, lanes: int) -> None:
    size = len(values)
    a, out = flat("a", size, values.dtype.name), flat("out", size, target)
    i = Var("i")
    index = i if lanes == 1 else Ramp(i * lanes, const(1), lanes)
    value = Cast(DType(target).with_lanes(lanes), BufferLoad(a, (index,)))
    body = For(i, const(0), const(size // lanes), ForKind.SERIAL, BufferStore(out, value, (index,)))
    assert_same(kernel([a, out], body), values, np.zeros(size, to_numpy(target)))


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("target", ["float32", "float64"])
def test_widening_of_every_small_float(source: str, target: str) -> None:
    kind = to_numpy(source)
    bits = np.arange(1 << 8 * kind.itemsize, dtype=f"u{kind.itemsize}")
    check_conversion(bits.view(kind), target, 8)


@pytest.mark.parametrize("lanes", [1, 4])
def test_float64_to_float16_rounds_once(lanes: int) -> None:
    halves = np.arange(0, 1 << 16, 5, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves = halves[np.isfinite(halves)]
    middle = np.nextafter(halves.astype(np.float16), np.float16(np.inf)).astype(np.float64)
    tie = (halves + middle) / 2
    values = np.concatenate([tie, np.nextafter(tie, np.inf), np.nextafter(tie, -np.inf)])
    values = values[: len(values) // lanes * lanes]
    check_conversion(values, "float16", lanes)


@pytest.mark.parametrize("lanes", [2, 4, 7])
def test_vectors_are_made_and_taken_apart(lanes: int) -> None:
    a, b = flat("a", lanes, "int32"), flat("b", lanes, "int32")
    x, y = at(a, lanes), at(b, lanes)
    scalar = BufferLoad(a, (const(1),))
    outputs = Outputs()
    outputs.add(Broadcast(scalar, lanes))
    outputs.add(Broadcast(x, 3))
    outputs.add(Ramp(scalar, const(3), lanes))
    outputs.add(Ramp(x, y, 3))
    outputs.add(Shuffle((x,), tuple(const(i) for i in reversed(range(lanes)))))
    outputs.add(Shuffle((x, y), tuple(const(i) for i in (0, lanes, 1, 2 * lanes - 1))))
    outputs.add(Shuffle((scalar, scalar + 1), (const(1), const(0), const(1))))
    outputs.add(Shuffle((x,), (const(lanes - 1),)))
    outputs.add(Select(BufferLoad(a, (const(0),)) < 3, x, y))
    outputs.check([a, b], [sample("int32", lanes), sample("int32", lanes, seed=1)])
