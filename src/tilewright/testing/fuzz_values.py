"""Random expressions for the program fuzzer: indices with known limits, and values of any type."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright import ir
from tilewright.ir.intrinsics import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    if_then_else,
    shift_left,
    shift_right,
)

FLOAT_LIMIT = 8  # stored floats are integers from -8 to 8
_DIVISIONS: tuple[type[ir.BinaryOp], ...] = (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)
_COMPARISONS: tuple[type[ir.BinaryOp], ...] = (ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE)


@dataclass(frozen=True)
class IndexRange:
    """The numbers an index may take, both ends included."""

    low: int
    high: int


@dataclass(frozen=True)
class Window:
    """A part of a buffer: `size` elements from `start`."""

    buffer: ir.Buffer
    start: ir.PrimExpr
    size: int

    def slice_of(self, var: ir.Var, count: int) -> Window:
        """The part that one of `count` iterations has for itself."""
        share = self.size // count
        return Window(self.buffer, self.start + var * share, share)


@dataclass
class ValueFuzzer:
    """Makes expressions from what is in scope."""

    rng: random.Random
    max_depth: int
    ranges: dict[ir.Var, IndexRange] = field(default_factory=dict)
    scalars: list[ir.Var] = field(default_factory=list)
    readable: list[Window] = field(default_factory=list)  # never written
    writable: list[Window] = field(default_factory=list)
    _names: int = 0

    def fresh(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    # --- indices --------------------------------------------------------------------------------

    def size_var(self) -> ir.Var:
        """The symbolic size; it is between 1 and 6."""
        return next(var for var in self.ranges if isinstance(var, ir.SizeVar))

    def index(self, depth: int = 2) -> tuple[ir.PrimExpr, IndexRange]:
        """An int32 or int64 index and its limits, which stay far from overflow."""
        var = self.rng.choice(list(self.ranges))
        if depth == 0 or self.rng.random() < 0.3:
            if self.rng.random() < 0.3:
                number = self.rng.randint(-5, 20)
                return ir.const(number), IndexRange(number, number)
            return var, self.ranges[var]
        (a, x), (b, y) = self.index(depth - 1), self.index(depth - 1)
        a, b = a.astype("int64"), b.astype("int64")
        match self.rng.randint(0, 6):
            case 0:
                return a + b, IndexRange(x.low + y.low, x.high + y.high)
            case 1:
                return a - b, IndexRange(x.low - y.high, x.high - y.low)
            case 2:
                factor = self.rng.choice([-3, 2, 5, 8])
                ends = sorted((x.low * factor, x.high * factor))
                return a * factor, IndexRange(ends[0], ends[1])
            case 3:
                divisor = self.rng.choice([2, 3, 7, 8])
                return a // divisor, IndexRange(x.low // divisor, x.high // divisor)
            case 4:
                divisor = self.rng.choice([2, 3, 7, 8])
                return a % divisor, IndexRange(0, divisor - 1)
            case 5:
                return ir.Min(a, b), IndexRange(min(x.low, y.low), min(x.high, y.high))
        return ir.Max(a, b), IndexRange(max(x.low, y.low), max(x.high, y.high))

    def place(self, size: int) -> ir.PrimExpr:
        """An index from 0 to `size - 1`."""
        index, limits = self.index()
        if limits.high - limits.low < size and self.rng.random() < 0.8:
            shift = self.rng.randint(-limits.low, size - 1 - limits.high)
            return index + shift
        if self.rng.random() < 0.5:
            return index % size
        return ir.Max(ir.Min(index, ir.const(size - 1, index.dtype)), ir.const(0, index.dtype))

    def access(self, window: Window, lanes: int) -> tuple[ir.PrimExpr, ir.PrimExpr | None]:
        """An index into a window, with a mask where the last lanes lie outside."""
        if lanes == 1:
            return window.start + self.place(window.size), None
        stride = self.rng.choice([1, 1, 1, 2, -1])
        span = abs(stride) * (lanes - 1)
        if span >= window.size:
            return self._tail(window, lanes)
        base = window.start + self.place(window.size - span) + (span if stride < 0 else 0)
        index: ir.PrimExpr = ir.Ramp(base, ir.const(stride, base.dtype), lanes)
        if self.rng.random() < 0.2:
            # Not seen to be a ramp.
            index = ir.Add(index, ir.Broadcast(ir.const(0, base.dtype), lanes))
        mask = self._mask(lanes) if self.rng.random() < 0.2 else None
        return index, mask

    def _tail(self, window: Window, lanes: int) -> tuple[ir.PrimExpr, ir.PrimExpr]:
        first = self.place(window.size)
        base = window.start + first
        rest = ir.Broadcast(ir.const(window.size, first.dtype), lanes)
        inside = ir.LT(ir.Ramp(first, ir.const(1, first.dtype), lanes), rest)
        return ir.Ramp(base, ir.const(1, base.dtype), lanes), inside

    def _mask(self, lanes: int) -> ir.PrimExpr:
        numbers = ir.Ramp(ir.const(0), ir.const(1), lanes)
        return ir.LT(numbers, ir.Broadcast(self.size_var().astype("int32"), lanes))

    # --- values ---------------------------------------------------------------------------------

    def value(self, dtype: ir.DType, depth: int | None = None) -> ir.PrimExpr:
        """An expression of a type."""
        left = self.max_depth if depth is None else depth
        if left <= 0 or self.rng.random() < 0.15:
            return self.leaf(dtype)
        if dtype.is_bool:
            return self._bool(dtype, left)
        makers: list[Callable[[ir.DType, int], ir.PrimExpr]] = [
            self._sum,
            self._sum,
            self._choice,
            self._extremum,
            self._let,
            self._shuffled,
        ]
        makers += (
            [self._product] if dtype.is_float else [self._integer, self._integer, self._divided]
        )
        if not dtype.is_float:
            makers.append(self._converted)
        return self.rng.choice(makers)(dtype, left)

    def leaf(self, dtype: ir.DType) -> ir.PrimExpr:
        lanes, element = dtype.lanes, dtype.element_of
        if self.rng.random() < 0.2:
            return self._constant(dtype)
        known = [var for var in self.scalars if var.dtype is element]
        if known and self.rng.random() < 0.4:
            return self._spread(self.rng.choice(known), lanes)
        windows = [w for w in self.readable + self.writable if w.buffer.dtype is element]
        if windows and self.rng.random() < 0.8:
            return self.load(self.rng.choice(windows), lanes)
        if element.is_float:
            number, _ = self.index(1)
            small = ir.FloorMod(number, ir.const(FLOAT_LIMIT, number.dtype))
            return self._spread(ir.Cast(element, small), lanes)
        number, _ = self.index()
        hidden = bitwise_xor(number, ir.const(self.rng.randint(0, 3), number.dtype))
        return self._spread(
            ir.Cast(element, hidden) if hidden.dtype is not element else hidden, lanes
        )

    def load(self, window: Window, lanes: int) -> ir.PrimExpr:
        if lanes > 1 and self.rng.random() < 0.3:
            return self._spread(self.load(window, 1), lanes)
        index, predicate = self.access(window, lanes)
        return ir.BufferLoad(window.buffer, (index,), predicate)

    def clamped(self, value: ir.PrimExpr) -> ir.PrimExpr:
        """Floats brought back to small integers; integers as they are."""
        if not value.dtype.is_float:
            return value
        limit = ir.const(FLOAT_LIMIT, value.dtype)
        return ir.Max(ir.Min(value, limit), ir.const(-FLOAT_LIMIT, value.dtype))

    def condition(self) -> ir.PrimExpr:
        """A scalar bool."""
        return self.value(ir.BOOL, 2)

    def _constant(self, dtype: ir.DType) -> ir.PrimExpr:
        if dtype.is_float:
            return ir.const(float(self.rng.randint(-FLOAT_LIMIT, FLOAT_LIMIT)), dtype)
        if dtype.is_bool:
            return ir.const(self.rng.random() < 0.5, dtype)
        number = self.rng.choice([0, 1, -1, 3, 100, -128, self.rng.getrandbits(63)])
        return ir.wrapped_const(number, dtype)

    def _spread(self, value: ir.PrimExpr, lanes: int) -> ir.PrimExpr:
        return value if lanes == 1 else ir.Broadcast(value, lanes)

    def _sum(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        node = self.rng.choice([ir.Add, ir.Sub])
        result: ir.PrimExpr = node(self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        return result

    def _product(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        """Of floats: factors small enough for an exact product."""
        a = self.clamped(self.value(dtype, depth - 1))
        product = ir.Mul(a, self.leaf(dtype))
        return product if self.rng.random() < 0.5 else ir.Add(product, self.leaf(dtype))

    def _choice(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        lanes = self.rng.choice([1, dtype.lanes])
        condition = self.value(ir.BOOL.with_lanes(lanes), depth - 1)
        a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        if self.rng.random() < 0.5:
            return ir.Select(condition, a, b)
        return if_then_else(condition, a, b)

    def _extremum(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        node = self.rng.choice([ir.Min, ir.Max])
        result: ir.PrimExpr = node(self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        return result

    def _let(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        var = ir.Var(self.fresh("z"), dtype.element_of)
        value = self.clamped(self.value(dtype.element_of, depth - 1))
        self.scalars.append(var)
        try:
            return ir.Let(var, value, self.value(dtype, depth - 1))
        finally:
            self.scalars.pop()

    def _shuffled(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        if dtype.lanes == 1:
            return self._sum(dtype, depth)
        # Which lanes of a shuffled vector a lazy choice evaluates is nobody's promise: use scalars.
        a, b = (self.value(dtype.element_of, depth - 1) for _ in range(2))
        first: ir.PrimExpr = ir.Broadcast(a, dtype.lanes)
        if dtype.is_integral:
            first = ir.Ramp(a, ir.const(3, a.dtype), dtype.lanes)
        vectors = (first, ir.Broadcast(b, dtype.lanes))
        order = tuple(ir.const(self.rng.randrange(2 * dtype.lanes)) for _ in range(dtype.lanes))
        return ir.Shuffle(vectors, order)

    def _integer(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        a = self.value(dtype, depth - 1)
        if self.rng.random() < 0.3:
            distance = ir.const(self.rng.randrange(dtype.bits), dtype)
            return self.rng.choice([shift_left, shift_right])(a, distance)
        b = self.value(dtype, depth - 1)
        makers: list[Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]] = [
            ir.Mul,
            bitwise_and,
            bitwise_or,
            bitwise_xor,
        ]
        return self.rng.choice(makers)(a, b)

    def _divided(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        a = self.value(dtype, depth - 1)
        node = self.rng.choice(_DIVISIONS)
        if self.rng.random() < 0.5:
            number = self.rng.choice([1, 2, 3, 7] + ([-1, -3] if dtype.is_int else []))
            return node(a, ir.const(number, dtype))
        divisor = self.value(dtype, depth - 1)
        if self.rng.random() < 0.5:
            return node(a, bitwise_or(divisor, ir.const(1, dtype)))
        return if_then_else(ir.NE(divisor, ir.const(0, dtype)), node(a, divisor), a)

    def _converted(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        """From another integer type, or from a float that is read from an input."""
        floats = [w for w in self.readable if w.buffer.dtype.is_float]
        if floats and dtype.is_int and dtype.bits >= 8 and self.rng.random() < 0.4:
            return ir.Cast(dtype, self.load(self.rng.choice(floats), dtype.lanes))
        source = ir.DType(self.rng.choice(["int8", "uint8", "int32", "uint32", "int64", "bool"]))
        wide = source.with_lanes(dtype.lanes)
        value = self.value(wide, depth - 1)
        return value if wide is dtype else ir.Cast(dtype, value)

    def _bool(self, dtype: ir.DType, depth: int) -> ir.PrimExpr:
        kind = self.rng.randint(0, 4)
        if kind == 0:
            return ir.Not(self.value(dtype, depth - 1))
        if kind == 1:
            node = self.rng.choice([ir.And, ir.Or])
            result: ir.PrimExpr = node(self.value(dtype, depth - 1), self.value(dtype, depth - 1))
            return result
        if kind == 2 and dtype.lanes == 1:
            (a, _), (b, _) = self.index(), self.index()
            return self.rng.choice(_COMPARISONS)(a.astype("int64"), b.astype("int64"))
        choices = ["int8", "uint8", "int32", "uint32", "int64", "uint64"]
        operand = ir.DType(self.rng.choice(choices)).with_lanes(dtype.lanes)
        compare = self.rng.choice(_COMPARISONS)
        return compare(self.value(operand, depth - 1), self.value(operand, depth - 1))
