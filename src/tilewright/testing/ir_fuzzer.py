"""Random programs in lowered form, whose accesses are in bounds and whose results are exact.

Every program is made from a seed. Floats hold small integers, so no order of operations and no
fused multiply-add changes a result: two implementations must agree bit for bit. Values that an
iteration of a parallel loop writes lie in a window of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.fuzz_values import IndexRange, ValueFuzzer, Window
from tilewright.testing.kernels import flat, kernel, sample

BUFFER_SIZE = 96
_INTEGERS = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int4",
    "bool",
)
_FLOATS = ("float32", "float64")
_SMALL_FLOATS = ("float16", "bfloat16")


@dataclass(frozen=True)
class FuzzOptions:
    """What programs may contain."""

    small_floats: bool = True
    parallel: bool = True
    statements: int = 12  # about how many stores there are
    depth: int = 3  # of expressions


@dataclass(frozen=True)
class FuzzCase:
    """A program and what to call it with."""

    func: ir.PrimFunc
    arguments: tuple[Any, ...]


def random_case(seed: int, options: FuzzOptions = FuzzOptions()) -> FuzzCase:
    """The program of a seed."""
    return _ProgramFuzzer(random.Random(seed), options).case(seed)


class _ProgramFuzzer:
    def __init__(self, rng: random.Random, options: FuzzOptions) -> None:
        self.rng = rng
        self.options = options
        self.values = ValueFuzzer(rng, options.depth)
        self.budget = options.statements
        self.in_parallel = False

    def case(self, seed: int) -> FuzzCase:
        dtypes = [*_INTEGERS, *_FLOATS, *(_SMALL_FLOATS if self.options.small_floats else ())]
        inputs = [flat(f"in{n}", BUFFER_SIZE, self.rng.choice(dtypes)) for n in range(2)]
        outputs = [flat(f"out{n}", BUFFER_SIZE, self.rng.choice(dtypes)) for n in range(3)]
        n = ir.SizeVar("n")
        self.values.ranges[n] = IndexRange(1, 6)
        self.values.readable = [Window(buffer, ir.const(0), BUFFER_SIZE) for buffer in inputs]
        self.values.writable = [Window(buffer, ir.const(0), BUFFER_SIZE) for buffer in outputs]
        body = self.block(depth=0)
        func = kernel([*inputs, *outputs, n], body)
        buffers = enumerate([*inputs, *outputs])
        arrays = [fuzz_data(str(buffer.dtype), seed + number) for number, buffer in buffers]
        return FuzzCase(func, (*arrays, self.rng.randint(1, 6)))

    # --- statements -----------------------------------------------------------------------------

    def block(self, depth: int) -> ir.Stmt:
        """A few statements in a row."""
        return ir.seq([self.statement(depth) for _ in range(self.rng.randint(1, 3))])

    def statement(self, depth: int) -> ir.Stmt:
        self.budget -= 1
        if depth >= 4 or self.budget <= 0:
            return self.store()
        makers: list[tuple[int, Callable[[int], ir.Stmt]]] = [
            (4, self.serial_loop),
            (2, self.branch),
            (2, self.let),
            (1, self.allocation),
            (1, self.counted_while),
            (3, lambda _: self.store()),
        ]
        if self.options.parallel and not self.in_parallel:
            makers.append((2, self.parallel_loop))
        choices = [make for weight, make in makers for _ in range(weight)]
        return self.rng.choice(choices)(depth)

    def serial_loop(self, depth: int) -> ir.Stmt:
        begin, extent = self.rng.choice([0, 0, 0, -3, 5]), self.rng.randint(0, 6)
        kind = self.rng.choice([ir.ForKind.SERIAL, ir.ForKind.SERIAL, ir.ForKind.UNROLLED])
        symbolic = self.rng.random() < 0.25
        var = ir.Var(self.name("i"), ir.DType(self.rng.choice(["int32", "int32", "int64"])))
        size: ir.PrimExpr = ir.const(extent, var.dtype)
        if symbolic:
            size, extent = self.values.size_var().astype(var.dtype), 6
        with self.bound(var, IndexRange(begin, max(begin, begin + extent - 1))):
            return ir.For(var, ir.const(begin, var.dtype), size, kind, self.block(depth + 1))

    def parallel_loop(self, depth: int) -> ir.Stmt:
        count = self.rng.choice([2, 3, 5])
        var = ir.Var(self.name("p"))
        before = self.values.writable
        self.in_parallel = True
        windows = [window.slice_of(var, count) for window in before if window.size >= 16 * count]
        self.values.writable = windows
        try:
            if not windows:
                return self.store_to(self.rng.choice(before))
            with self.bound(var, IndexRange(0, count - 1)):
                return ir.For(
                    var, ir.const(0), ir.const(count), ir.ForKind.PARALLEL, self.block(depth + 1)
                )
        finally:
            self.values.writable = before
            self.in_parallel = False

    def branch(self, depth: int) -> ir.Stmt:
        condition = self.values.condition()
        otherwise = self.block(depth + 1) if self.rng.random() < 0.5 else None
        return ir.IfThenElse(condition, self.block(depth + 1), otherwise)

    def let(self, depth: int) -> ir.Stmt:
        if self.rng.random() < 0.5:
            index, limits = self.values.index()
            var = ir.Var(self.name("x"), index.dtype)
            with self.bound(var, limits):
                return ir.LetStmt(var, index, self.block(depth + 1))
        dtype = ir.DType(self.rng.choice(["int32", "float32", "int8", "uint16", "bool"]))
        value = self.values.value(dtype)
        var = ir.Var(self.name("y"), dtype)
        self.values.scalars.append(var)
        try:
            return ir.LetStmt(var, value, self.block(depth + 1))
        finally:
            self.values.scalars.pop()

    def allocation(self, depth: int) -> ir.Stmt:
        """Memory of our own, filled before it is used; large ones go to the heap."""
        dtype = ir.DType(self.rng.choice(["int32", "float32", "int8", "float64", "bool"]))
        size = self.rng.choice([16, 40, 40000])
        pointer = ir.Var(self.name("memory"), ir.DType("handle"), ir.PointerType(dtype))
        buffer = ir.decl_buffer((size,), dtype, pointer.name, data=pointer)
        window = Window(buffer, ir.const(0), min(size, BUFFER_SIZE))
        fill = ir.Var(self.name("f"))
        with self.bound(fill, IndexRange(0, window.size - 1)):
            first = ir.BufferStore(buffer, self.values.clamped(self.values.value(dtype)), (fill,))
        self.values.writable = [*self.values.writable, window]
        try:
            body = self.block(depth + 1)
        finally:
            self.values.writable = self.values.writable[:-1]
        prepare = ir.For(fill, ir.const(0), ir.const(window.size), ir.ForKind.SERIAL, first)
        return ir.Allocate(pointer, dtype, (ir.const(size),), ir.TRUE, ir.seq([prepare, body]))

    def counted_while(self, depth: int) -> ir.Stmt:
        """A loop that ends by a counter in memory."""
        pointer = ir.Var(
            self.name("counter"), ir.DType("handle"), ir.PointerType(ir.DType("int32"))
        )
        counter = ir.decl_buffer((1,), "int32", pointer.name, data=pointer)
        value = ir.BufferLoad(counter, (ir.const(0),))
        step = ir.BufferStore(counter, value + 1, (ir.const(0),))
        again = ir.While(value < self.rng.randint(0, 3), ir.seq([self.block(depth + 1), step]))
        start = ir.BufferStore(counter, ir.const(0), (ir.const(0),))
        return ir.Allocate(
            pointer, ir.DType("int32"), (ir.const(1),), ir.TRUE, ir.seq([start, again])
        )

    def store(self) -> ir.Stmt:
        return self.store_to(self.rng.choice(self.values.writable))

    def store_to(self, window: Window) -> ir.Stmt:
        lanes = self.rng.choice([1, 1, 1, 2, 3, 4, 8, 16])
        index, predicate = self.values.access(window, lanes)
        dtype = window.buffer.dtype.with_lanes(lanes)
        value = self.values.clamped(self.values.value(dtype))
        return ir.BufferStore(window.buffer, value, (index,), predicate)

    # --- names ----------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        return self.values.fresh(stem)

    @contextmanager
    def bound(self, var: ir.Var, limits: IndexRange) -> Iterator[None]:
        """`var` stands for numbers within limits."""
        self.values.ranges[var] = limits
        try:
            yield
        finally:
            del self.values.ranges[var]


def fuzz_data(dtype: str, seed: int) -> np.ndarray[Any, Any]:
    """Integers of all sizes, and floats that hold small integers."""
    if "float" not in dtype:
        return sample(dtype, BUFFER_SIZE, seed)
    return np.random.default_rng(seed).integers(-8, 9, BUFFER_SIZE).astype(to_numpy(dtype))
