"""The expression grammar of TensorIR.

Constructors take fields as they are; the functions at the end (`add`, `floordiv`, ...), which
Python's operators call, match the operand types first and fold constants.
"""

from __future__ import annotations

import enum
import functools
import math
import struct
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, Union

from msgspec.structs import force_setattr

from tilewright.errors import IRError
from tilewright.ir.dtype import BOOL, FLOAT32, HANDLE, INT32, INT64, DType
from tilewright.ir.node import Node
from tilewright.ir.op import Op

ExprLike: TypeAlias = Union["ExprOperators", int, float, bool]


class ExprOperators(Node, frozen=True):
    """Python's operators, for expressions and for whatever `convert` turns into one."""

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to `dtype`."""
        return cast(dtype, self)

    def asobject(self) -> PrimExpr:
        """The expression that this object stands for."""
        raise NotImplementedError(type(self).__name__)

    def equal(self, other: ExprLike) -> PrimExpr:
        return equal(self, other)

    def __add__(self, other: ExprLike) -> PrimExpr:
        return add(self, other)

    def __radd__(self, other: ExprLike) -> PrimExpr:
        return add(other, self)

    def __sub__(self, other: ExprLike) -> PrimExpr:
        return subtract(self, other)

    def __rsub__(self, other: ExprLike) -> PrimExpr:
        return subtract(other, self)

    def __mul__(self, other: ExprLike) -> PrimExpr:
        return multiply(self, other)

    def __rmul__(self, other: ExprLike) -> PrimExpr:
        return multiply(other, self)

    def __truediv__(self, other: ExprLike) -> PrimExpr:
        return divide(self, other)

    def __rtruediv__(self, other: ExprLike) -> PrimExpr:
        return divide(other, self)

    def __floordiv__(self, other: ExprLike) -> PrimExpr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: ExprLike) -> PrimExpr:
        return floordiv(other, self)

    def __mod__(self, other: ExprLike) -> PrimExpr:
        return floormod(self, other)

    def __rmod__(self, other: ExprLike) -> PrimExpr:
        return floormod(other, self)

    def __neg__(self) -> PrimExpr:
        # Not `0 - x`, which would lose the sign of a zero.
        return multiply(self, -1)

    def __lt__(self, other: ExprLike) -> PrimExpr:
        return less(self, other)

    def __le__(self, other: ExprLike) -> PrimExpr:
        return less_equal(self, other)

    def __gt__(self, other: ExprLike) -> PrimExpr:
        return greater(self, other)

    def __ge__(self, other: ExprLike) -> PrimExpr:
        return greater_equal(self, other)

    def __eq__(self, other: object) -> PrimExpr:  # type: ignore[override]
        if isinstance(other, (ExprOperators, int, float)):
            return equal(self, other)
        return NotImplemented

    def __ne__(self, other: object) -> PrimExpr:  # type: ignore[override]
        if isinstance(other, (ExprOperators, int, float)):
            return not_equal(self, other)
        return NotImplemented

    # Two nodes with one hash are one node, so sets and dicts never ask `==`.
    __hash__ = object.__hash__

    def __and__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.bitwise_and", self, other)

    def __rand__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.bitwise_and", other, self)

    def __or__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.bitwise_or", self, other)

    def __ror__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.bitwise_or", other, self)

    def __xor__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.bitwise_xor", self, other)

    def __rxor__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.bitwise_xor", other, self)

    def __lshift__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.shift_left", self, other)

    def __rlshift__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.shift_left", other, self)

    def __rshift__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.shift_right", self, other)

    def __rrshift__(self, other: ExprLike) -> PrimExpr:
        return bitwise("tir.shift_right", other, self)

    def __invert__(self) -> PrimExpr:
        value = convert(self)
        if value.dtype.is_bool:
            return logical_not(value)
        return Call(value.dtype, Op.get("tir.bitwise_not"), (value,))

    def __bool__(self) -> bool:
        raise IRError(
            f"the symbolic expression `{self}` has no truth value while the program is being built;"
            " use T.if_then_else / T.Select for a value that depends on it, `is` to compare nodes"
        )


class PrimExpr(ExprOperators, frozen=True):
    """An expression that yields a scalar, a vector or a handle."""

    @property
    def dtype(self) -> DType:
        raise NotImplementedError(type(self).__name__)


class PointerType(Node, frozen=True):
    """What a handle variable points to."""

    element_type: DType
    storage_scope: str = "global"


class Var(PrimExpr, frozen=True):
    """A variable; two variables are the same only if they are the same object."""

    name: str
    dtype: DType = INT32
    type_annotation: PointerType | None = None

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            force_setattr(self, "dtype", DType(self.dtype))


class SizeVar(Var, frozen=True):
    """A variable that is known to be non-negative, such as a symbolic shape."""


class IntImm(PrimExpr, frozen=True):
    """An integer or boolean constant."""

    dtype: DType
    value: int

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            force_setattr(self, "dtype", DType(self.dtype))

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)


class FloatImm(PrimExpr, frozen=True):
    """A floating-point constant."""

    dtype: DType
    value: float

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            force_setattr(self, "dtype", DType(self.dtype))

    def __float__(self) -> float:
        return self.value


class StringImm(PrimExpr, frozen=True):
    """A string constant, used in annotations and calls."""

    value: str

    @property
    def dtype(self) -> DType:
        return HANDLE


class Cast(PrimExpr, frozen=True):
    """`value` converted to `dtype`."""

    child_fields: ClassVar[tuple[str, ...]] = ("value",)
    dtype: DType
    value: PrimExpr

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            force_setattr(self, "dtype", DType(self.dtype))


class BinaryOp(PrimExpr, frozen=True):
    """An operation on two operands of one type."""

    child_fields: ClassVar[tuple[str, ...]] = ("a", "b")
    a: PrimExpr
    b: PrimExpr

    @property
    def dtype(self) -> DType:
        return self.a.dtype


class Add(BinaryOp, frozen=True):
    pass


class Sub(BinaryOp, frozen=True):
    pass


class Mul(BinaryOp, frozen=True):
    pass


class Div(BinaryOp, frozen=True):
    """Division: exact for floats, towards zero for integers."""


class Mod(BinaryOp, frozen=True):
    """Remainder of the division towards zero."""


class FloorDiv(BinaryOp, frozen=True):
    pass


class FloorMod(BinaryOp, frozen=True):
    pass


class Min(BinaryOp, frozen=True):
    pass


class Max(BinaryOp, frozen=True):
    pass


class CmpOp(BinaryOp, frozen=True):
    """A comparison; yields bool, lane by lane."""

    @property
    def dtype(self) -> DType:
        return BOOL.with_lanes(self.a.dtype.lanes)


class EQ(CmpOp, frozen=True):
    pass


class NE(CmpOp, frozen=True):
    pass


class LT(CmpOp, frozen=True):
    pass


class LE(CmpOp, frozen=True):
    pass


class GT(CmpOp, frozen=True):
    pass


class GE(CmpOp, frozen=True):
    pass


class And(CmpOp, frozen=True):
    """Logical and of two bools; the right side is evaluated only if the left one holds."""


class Or(CmpOp, frozen=True):
    """Logical or of two bools; the right side is evaluated only if the left one does not hold."""


class Not(PrimExpr, frozen=True):
    """Logical negation."""

    child_fields: ClassVar[tuple[str, ...]] = ("a",)
    a: PrimExpr

    @property
    def dtype(self) -> DType:
        return self.a.dtype


class Select(PrimExpr, frozen=True):
    """Both values are evaluated, then one is chosen, lane by lane."""

    child_fields: ClassVar[tuple[str, ...]] = ("condition", "true_value", "false_value")
    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    @property
    def dtype(self) -> DType:
        return self.true_value.dtype


class Ramp(PrimExpr, frozen=True):
    """The vector `base, base + stride, base + 2 * stride, ...`."""

    child_fields: ClassVar[tuple[str, ...]] = ("base", "stride")
    base: PrimExpr
    stride: PrimExpr
    lanes: int

    @property
    def dtype(self) -> DType:
        base = self.base.dtype
        return base.with_lanes(base.lanes * self.lanes)


class Broadcast(PrimExpr, frozen=True):
    """A vector with `value` in every lane."""

    child_fields: ClassVar[tuple[str, ...]] = ("value",)
    value: PrimExpr
    lanes: int

    @property
    def dtype(self) -> DType:
        value = self.value.dtype
        return value.with_lanes(value.lanes * self.lanes)


class Shuffle(PrimExpr, frozen=True):
    """A vector made of the chosen lanes of the concatenated `vectors`."""

    child_fields: ClassVar[tuple[str, ...]] = ("vectors", "indices")
    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    @property
    def dtype(self) -> DType:
        return self.vectors[0].dtype.with_lanes(len(self.indices))


class Let(PrimExpr, frozen=True):
    """`body` with `var` standing for `value`."""

    child_fields: ClassVar[tuple[str, ...]] = ("value", "body")
    var: Var
    value: PrimExpr
    body: PrimExpr

    @property
    def dtype(self) -> DType:
        return self.body.dtype


class GlobalVar(PrimExpr, frozen=True):
    """The name of another function of the module, as the target of a call."""

    name: str

    @property
    def dtype(self) -> DType:
        return HANDLE


class Call(PrimExpr, frozen=True):
    """A call of a builtin operator or of another function of the module."""

    child_fields: ClassVar[tuple[str, ...]] = ("args",)
    dtype: DType
    op: Op | GlobalVar
    args: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        if type(self.args) is not tuple:
            force_setattr(self, "args", tuple(self.args))
        if type(self.dtype) is not DType:
            force_setattr(self, "dtype", DType(self.dtype))


class Range(Node, frozen=True):
    """The integers from `min` up to, not including, `min + extent`."""

    child_fields: ClassVar[tuple[str, ...]] = ("min", "extent")
    min: PrimExpr
    extent: PrimExpr

    @staticmethod
    def from_min_extent(begin: ExprLike, extent: ExprLike) -> Range:
        return Range(convert(begin), convert(extent))


class IterType(enum.IntEnum):
    """What an iterator is for; the values are those of TVM."""

    DATA_PAR = 0  # spatial
    THREAD_INDEX = 1
    COMM_REDUCE = 2
    ORDERED = 3  # scan
    OPAQUE = 4


class IterVar(ExprOperators, frozen=True):
    """A variable with a domain and a purpose; in arithmetic it stands for its variable."""

    child_fields: ClassVar[tuple[str, ...]] = ("dom",)
    dom: Range | None
    var: Var
    iter_type: IterType
    thread_tag: str = ""


class CommReducer(Node, frozen=True):
    """A commutative, associative combiner over tuples of values, with its identity."""

    child_fields: ClassVar[tuple[str, ...]] = ("result", "identity_element")
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]


class Reduce(PrimExpr, frozen=True):
    """A reduction in a tensor expression; it never reaches a PrimFunc."""

    child_fields: ClassVar[tuple[str, ...]] = ("source", "axis", "condition", "init")
    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int = 0
    init: tuple[PrimExpr, ...] = ()

    @property
    def dtype(self) -> DType:
        return self.source[self.value_index].dtype


# --- construction with type matching and constant folding ---


def const(value: int | float | bool, dtype: str | None = None) -> PrimExpr:
    """A constant; Python ints become int32, floats float32, unless `dtype` says otherwise."""
    if dtype is None:
        dtype = _literal_dtype(value)
    kind = DType(dtype)
    if kind.lanes > 1:
        return Broadcast(const(value, kind.element_of), kind.lanes)
    if kind.is_float:
        return FloatImm(kind, float(value))
    if kind.is_handle:
        raise IRError(f"a constant of type handle cannot be made from {value!r}")
    if isinstance(value, float) and not value.is_integer():
        raise IRError(f"the constant {value!r} does not fit dtype {kind!s}")
    return int_imm(kind, wrap_int(int(value), kind))


def _literal_dtype(value: int | float | bool) -> DType:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT32 if -(2**31) <= value < 2**31 else INT64
    return FLOAT32


@functools.lru_cache(maxsize=4096)
def int_imm(dtype: DType, value: int) -> IntImm:
    """The shared node of an integer constant."""
    return IntImm(dtype, value)


def wrap_int(value: int, dtype: DType) -> int:
    """`value` modulo the range of an integer type, as the hardware computes it."""
    if dtype.is_bool:
        return int(value != 0)
    value &= (1 << dtype.bits) - 1
    if dtype.is_int and value >= 1 << (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def convert(value: Any) -> PrimExpr:
    """A Python value as an expression; expressions pass through."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, int, float)):
        return const(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, ExprOperators):
        return value.asobject()
    scalar = getattr(value, "item", None)  # NumPy scalars
    if scalar is not None:
        return const(scalar())
    raise IRError(f"cannot use {value!r} of type {type(value).__name__} as an expression")


def cast(dtype: str, value: ExprLike) -> PrimExpr:
    """`value` as `dtype`; no node is made when it has that type already."""
    target, expr = DType(dtype), convert(value)
    source = expr.dtype
    if target is source:
        return expr
    if target.lanes != source.lanes:
        if source.lanes != 1:
            raise IRError(f"cannot cast {source!s} to {target!s}: the number of lanes differs")
        return Broadcast(cast(target.element_of, expr), target.lanes)
    match expr:
        case IntImm() if target.is_float or target.is_integral or target.is_bool:
            return const(expr.value, target)
        case FloatImm() if target.is_float:
            return const(expr.value, target)
        case Broadcast():
            return Broadcast(cast(target.element_of, expr.value), expr.lanes)
    return Cast(target, expr)


def match_types(a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    """Both operands in one type.

    A Python literal takes the type of the other operand where its value fits, so `x + 1` never
    widens `x`. Otherwise floats win over integers, more bits over fewer, and signed over unsigned.
    """
    left = a if isinstance(a, PrimExpr) else _adapt_literal(a, b)
    right = b if isinstance(b, PrimExpr) else _adapt_literal(b, a)
    if left.dtype is right.dtype:
        return left, right
    common = _common_dtype(left.dtype, right.dtype)
    return cast(common, left), cast(common, right)


def _adapt_literal(literal: ExprLike, other: ExprLike) -> PrimExpr:
    if isinstance(other, PrimExpr) and isinstance(literal, (bool, int, float)):
        kind = other.dtype
        if kind.is_float or (isinstance(literal, int) and _int_fits(literal, kind)):
            return const(literal, kind)
    return convert(literal)


def _int_fits(literal: int, kind: DType) -> bool:
    if kind.is_bool:
        return isinstance(literal, bool)
    return kind.is_integral and wrap_int(literal, kind) == literal


def _common_dtype(a: DType, b: DType) -> DType:
    if a.lanes != b.lanes and 1 not in (a.lanes, b.lanes):
        raise IRError(f"operands have different numbers of lanes: {a!s} and {b!s}")
    if a.is_handle or b.is_handle:
        raise IRError(f"no common type of {a!s} and {b!s}")
    lanes, x, y = max(a.lanes, b.lanes), a.element_of, b.element_of
    if x is y:
        return x.with_lanes(lanes)
    if x.is_float != y.is_float:
        return (x if x.is_float else y).with_lanes(lanes)
    if x.is_float and x.bits == y.bits:  # float16 beside bfloat16, or two kinds of float8
        return FLOAT32.with_lanes(lanes)
    if x.bits != y.bits and x.code == y.code:
        return (x if x.bits > y.bits else y).with_lanes(lanes)
    if x.is_float or x.is_bool or y.is_bool:
        return (x if x.bits > y.bits else y).with_lanes(lanes)
    return DType(f"int{max(x.bits, y.bits)}").with_lanes(lanes)


Number: TypeAlias = int | float
Fold: TypeAlias = Callable[[Number, Number], Number]


def constant_value(expr: PrimExpr) -> Number | None:
    """The number behind a scalar constant, or None."""
    if isinstance(expr, (IntImm, FloatImm)):
        return expr.value
    return None


def _fold(node: type[BinaryOp], fold: Fold, a: PrimExpr, b: PrimExpr, result: DType) -> PrimExpr:
    """`fold` of two constants, or else the node."""
    x, y, kind = constant_value(a), constant_value(b), a.dtype
    if x is None or y is None or (kind.bits == 8 and kind.is_float):
        return node(a, b)
    if kind.is_float:
        x, y = _round_to(float(x), kind), _round_to(float(y), kind)
    value = fold(x, y)
    return const(_round_to(float(value), result) if result.is_float else value, result)


def _round_to(value: float, dtype: DType) -> float:
    """`value` as the nearest number of a float type of at least 16 bits."""
    if dtype == "bfloat16":
        return _round_to_bfloat16(value)
    code = {"float32": "f", "float16": "e"}.get(dtype)
    if code is None:
        return value
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _round_to_bfloat16(value: float) -> float:
    if value == 0 or not math.isfinite(value):
        return value
    step = math.ldexp(1.0, max(math.frexp(value)[1], -125) - 8)
    rounded = round(value / step) * step  # to even on a tie
    return rounded if abs(rounded) <= 3.3895313892515355e38 else math.copysign(math.inf, value)


def _is_const(expr: PrimExpr, value: int) -> bool:
    """True for the constant `value`, scalar or broadcast."""
    if isinstance(expr, Broadcast):
        expr = expr.value
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == value


def add(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    if _is_const(y, 0):
        return x
    if _is_const(x, 0):
        return y
    return _fold(Add, lambda p, q: p + q, x, y, x.dtype)


def subtract(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    if _is_const(y, 0):
        return x
    return _fold(Sub, lambda p, q: p - q, x, y, x.dtype)


def multiply(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    if _is_const(y, 1):
        return x
    if _is_const(x, 1):
        return y
    if x.dtype.is_integral and (_is_const(x, 0) or _is_const(y, 0)):
        return const(0, x.dtype)
    return _fold(Mul, lambda p, q: p * q, x, y, x.dtype)


def divide(a: ExprLike, b: ExprLike) -> PrimExpr:
    """The `/` of floats; integers must say which division they mean."""
    x, y = match_types(a, b)
    if not x.dtype.is_float:
        raise IRError(
            f"`/` on integers ({x} / {y}) is ambiguous: use `//` (floordiv), T.truncdiv, "
            "or cast to a float type"
        )
    if _is_const(y, 1):
        return x
    if _is_const(y, 0):
        return Div(x, y)
    return _fold(Div, lambda p, q: p / q, x, y, x.dtype)


def _trunc_quotient(p: Number, q: Number) -> int:
    quotient = abs(int(p)) // abs(int(q))
    return quotient if (p < 0) == (q < 0) else -quotient


def _integer_division(node: type[BinaryOp], fold: Fold, a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    if not x.dtype.is_integral:
        raise IRError(f"{node.__name__} needs integers, got {x.dtype!s} in `{x}` and `{y}`")
    if _is_const(y, 0):
        raise IRError(f"division by zero in {node.__name__}({x}, {y})")
    if _is_const(y, 1):
        return x if node in (Div, FloorDiv) else const(0, x.dtype)
    if _is_const(x, 0):
        return x
    return _fold(node, fold, x, y, x.dtype)


def floordiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _integer_division(FloorDiv, lambda p, q: p // q, a, b)


def floormod(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _integer_division(FloorMod, lambda p, q: p % q, a, b)


def truncdiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _integer_division(Div, _trunc_quotient, a, b)


def truncmod(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _integer_division(Mod, lambda p, q: p - q * _trunc_quotient(p, q), a, b)


def minimum(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    return x if x is y else _fold(Min, min, x, y, x.dtype)


def maximum(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    return x if x is y else _fold(Max, max, x, y, x.dtype)


def _compare(node: type[CmpOp], fold: Fold, a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    return _fold(node, fold, x, y, BOOL)


def equal(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _compare(EQ, lambda p, q: p == q, a, b)


def not_equal(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _compare(NE, lambda p, q: p != q, a, b)


def less(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _compare(LT, lambda p, q: p < q, a, b)


def less_equal(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _compare(LE, lambda p, q: p <= q, a, b)


def greater(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _compare(GT, lambda p, q: p > q, a, b)


def greater_equal(a: ExprLike, b: ExprLike) -> PrimExpr:
    return _compare(GE, lambda p, q: p >= q, a, b)


def _as_bool(value: ExprLike) -> PrimExpr:
    expr = convert(value)
    if not expr.dtype.is_bool:
        raise IRError(f"expected a bool, got {expr.dtype!s} in `{expr}`")
    return expr


def logical_and(*conditions: ExprLike) -> PrimExpr:
    """All of `conditions`; constants are folded away."""
    result = TRUE
    for condition in map(_as_bool, conditions):
        if _is_const(result, 0) or _is_const(condition, 1):
            continue
        decided = _is_const(condition, 0) or _is_const(result, 1)
        result = condition if decided else And(result, condition)
    return result


def logical_or(*conditions: ExprLike) -> PrimExpr:
    """Any of `conditions`; constants are folded away."""
    result = FALSE
    for condition in map(_as_bool, conditions):
        if _is_const(result, 1) or _is_const(condition, 0):
            continue
        decided = _is_const(condition, 1) or _is_const(result, 0)
        result = condition if decided else Or(result, condition)
    return result


def logical_not(value: ExprLike) -> PrimExpr:
    expr = _as_bool(value)
    if isinstance(expr, IntImm):
        return const(not expr.value, BOOL)
    return expr.a if isinstance(expr, Not) else Not(expr)


_BITWISE_FOLDS: dict[str, Callable[[int, int], int]] = {
    "tir.bitwise_and": lambda p, q: p & q,
    "tir.bitwise_or": lambda p, q: p | q,
    "tir.bitwise_xor": lambda p, q: p ^ q,
    "tir.shift_left": lambda p, q: p << q,
    "tir.shift_right": lambda p, q: p >> q,
}


def bitwise(op_name: str, a: ExprLike, b: ExprLike) -> PrimExpr:
    """A bitwise operator or shift by its registered name."""
    x, y = match_types(a, b)
    if not (x.dtype.is_integral or x.dtype.is_bool):
        raise IRError(f"{op_name} needs integers, got {x.dtype!s} in `{x}` and `{y}`")
    if isinstance(y, IntImm) and "shift" in op_name and not 0 <= y.value < y.dtype.bits:
        raise IRError(f"{op_name} of {x.dtype!s} by {y.value}: expected 0 to {y.dtype.bits - 1}")
    if isinstance(x, IntImm) and isinstance(y, IntImm):
        return const(_BITWISE_FOLDS[op_name](x.value, y.value), x.dtype)
    return Call(x.dtype, Op.get(op_name), (x, y))


TRUE: PrimExpr = int_imm(BOOL, 1)
FALSE: PrimExpr = int_imm(BOOL, 0)
