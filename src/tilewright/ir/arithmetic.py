"""Building expressions: operand types are matched, constants are folded, mistakes are explained.

Python's operators on expressions end up here.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tilewright.errors import IRError
from tilewright.ir import expr as ir
from tilewright.ir.dtype import BOOL, FLOAT32, INT32, INT64, DType, max_value_of, min_value_of
from tilewright.ir.op import Op
from tilewright.ir.operators import ExprLike, ExprOperators, builders
from tilewright.support.names import named

__all__ = [
    "int_imm", "TRUE", "FALSE", "is_zero", "is_one", "is_true", "const", "wrapped_const",
    "wrap_int", "convert", "cast", "match_types", "common_dtype", "constant_value", "add",
    "subtract", "multiply", "divide", "floordiv", "floormod", "truncdiv", "truncmod", "minimum",
    "maximum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "conjuncts", "logical_or", "logical_not", "bitwise",
]  # fmt: skip


@functools.lru_cache(maxsize=4096)
def int_imm(dtype: DType, value: int) -> ir.IntImm:
    """The shared node of an integer constant."""
    return ir.IntImm(dtype, value)


TRUE: ir.PrimExpr = int_imm(BOOL, 1)
FALSE: ir.PrimExpr = int_imm(BOOL, 0)


def is_zero(expr: object) -> bool:
    """True for the integer constant 0 of any type."""
    return isinstance(expr, ir.IntImm) and expr.value == 0


def is_one(expr: object) -> bool:
    """True for the integer constant 1 of any type."""
    return isinstance(expr, ir.IntImm) and expr.value == 1


def is_true(condition: object) -> bool:
    """True for a condition that is known to hold."""
    return isinstance(condition, ir.IntImm) and bool(condition.value)


_SMALL = 1 << 31


def const(value: int | float | bool, dtype: str | None = None) -> ir.PrimExpr:
    """A constant; Python ints become int32, floats float32, unless `dtype` says otherwise."""
    if (dtype is INT32 or dtype is INT64) and type(value) is int and -_SMALL <= value < _SMALL:
        return int_imm(dtype, value)  # nearly all of them
    if dtype is None:
        dtype = _literal_dtype(value)
    kind = DType(dtype)
    if kind.lanes > 1:
        return ir.Broadcast(const(value, kind.element_of), kind.lanes)
    if kind.is_handle:
        raise IRError(f"a constant of type handle cannot be made from {value!r}")
    if not _fits(value, kind):
        low, high = min_value_of(kind), max_value_of(kind)
        raise IRError(
            f"the constant {value!r} does not fit dtype {kind!s}, whose values are "
            f"{'numbers' if kind.is_float else 'integers'} from {low} to {high}"
        )
    return ir.FloatImm(kind, float(value)) if kind.is_float else int_imm(kind, int(value))


def _fits(value: int | float | bool, kind: DType) -> bool:
    """True if a scalar type can hold `value`; floats are rounded, and have infinities."""
    if not kind.is_float:
        whole = isinstance(value, int) or value.is_integer()
        return whole and min_value_of(kind) <= value <= max_value_of(kind)
    if abs(value) <= max_value_of(kind):
        return True
    if isinstance(value, float) and not math.isfinite(value):
        return True
    return kind.bits > 8 and not math.isinf(_round_to(float(value), kind))


def wrapped_const(value: int, dtype: DType) -> ir.PrimExpr:
    """The constant that an integer computation with the result `value` leaves in `dtype`."""
    if dtype.lanes > 1:
        return ir.Broadcast(wrapped_const(value, dtype.element_of), dtype.lanes)
    return int_imm(dtype, wrap_int(value, dtype))


def _literal_dtype(value: int | float | bool) -> DType:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT32 if -_SMALL <= value < _SMALL else INT64
    return FLOAT32


def wrap_int(value: int, dtype: DType) -> int:
    """`value` modulo the range of an integer type, as the hardware computes it."""
    if dtype.is_bool:
        return int(value != 0)
    value &= (1 << dtype.bits) - 1
    if dtype.is_int and value >= 1 << (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def convert(value: Any) -> ir.PrimExpr:
    """A Python value as an expression; expressions pass through."""
    if isinstance(value, ir.PrimExpr):
        return value
    if isinstance(value, (bool, int, float)):
        return const(value)
    if isinstance(value, str):
        return ir.StringImm(value)
    if isinstance(value, ir.IterVar):
        return value.var
    if isinstance(value, ExprOperators):
        return value.asobject()
    scalar = getattr(value, "item", None)  # NumPy scalars
    if scalar is not None:
        return const(scalar())
    raise IRError(f"cannot use {value!r} of type {type(value).__name__} as an expression")


def cast(dtype: str, value: ExprLike) -> ir.PrimExpr:
    """`value` as `dtype`; no node is made when it has that type already."""
    target, expr = DType(dtype), convert(value)
    source = expr.dtype
    if target is source:
        return expr
    if target.lanes != source.lanes:
        if source.lanes != 1:
            raise IRError(f"cannot cast {source!s} to {target!s}: the number of lanes differs")
        return ir.Broadcast(cast(target.element_of, expr), target.lanes)
    match expr:
        case ir.IntImm() if target.is_integral or target.is_bool:
            return wrapped_const(expr.value, target)
        case ir.IntImm() | ir.FloatImm() if target.is_float and _fits(expr.value, target):
            return const(expr.value, target)
        case ir.Broadcast():
            return ir.Broadcast(cast(target.element_of, expr.value), expr.lanes)
    return ir.Cast(target, expr)


def match_types(a: ExprLike, b: ExprLike) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    """Both operands in one type.

    A Python literal takes the type of the other operand where its value fits, so `x + 1` never
    widens `x`. Otherwise floats win over integers, more bits over fewer, and signed over unsigned.
    """
    left = a if isinstance(a, ir.PrimExpr) else _adapt_literal(a, b)
    right = b if isinstance(b, ir.PrimExpr) else _adapt_literal(b, a)
    if left.dtype is right.dtype:
        return left, right
    common = common_dtype(left.dtype, right.dtype)
    return cast(common, left), cast(common, right)


def _adapt_literal(literal: ExprLike, other: ExprLike) -> ir.PrimExpr:
    if isinstance(other, ir.PrimExpr) and isinstance(literal, (bool, int, float)):
        kind = other.dtype
        fits = kind.is_float or (kind.is_bool and isinstance(literal, bool))
        if not fits and kind.is_integral and isinstance(literal, int):
            fits = wrap_int(literal, kind) == literal
        if fits:
            return const(literal, kind)
    return convert(literal)


def common_dtype(a: DType, b: DType) -> DType:
    """The type in which values of two types are combined."""
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
Build: TypeAlias = Callable[[ExprLike, ExprLike], ir.PrimExpr]


def constant_value(expr: ir.PrimExpr) -> Number | None:
    """The number behind a scalar constant, or None."""
    kind = type(expr)  # final classes: faster than isinstance
    if kind is ir.IntImm or kind is ir.FloatImm:
        value: Number = expr.value  # type: ignore[attr-defined]
        return value
    return None


def _fold(
    node: type[ir.BinaryOp], fold: Fold, a: ir.PrimExpr, b: ir.PrimExpr, result: DType
) -> ir.PrimExpr:
    """`fold` of two constants, or else the node."""
    x, y, kind = constant_value(a), constant_value(b), a.dtype
    if x is None or y is None or (kind.bits == 8 and kind.is_float):
        return node(a, b)
    if kind.is_float:
        x, y = _round_to(float(x), kind), _round_to(float(y), kind)
    value = fold(x, y)
    if result.is_float:
        return ir.FloatImm(result, _round_to(float(value), result))
    return wrapped_const(int(value), result)


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


def _number(expr: ir.PrimExpr) -> Number | None:
    """The number behind a constant, scalar or broadcast, or None."""
    return constant_value(expr.value if type(expr) is ir.Broadcast else expr)


def add(a: ExprLike, b: ExprLike) -> ir.PrimExpr:
    x, y = match_types(a, b)
    p, q = _number(x), _number(y)
    if q == 0:
        return x
    if p == 0:
        return y
    if p is None or q is None:
        return ir.Add(x, y)
    return _fold(ir.Add, lambda p, q: p + q, x, y, x.dtype)


def subtract(a: ExprLike, b: ExprLike) -> ir.PrimExpr:
    x, y = match_types(a, b)
    if _number(y) == 0:
        return x
    return _fold(ir.Sub, lambda p, q: p - q, x, y, x.dtype)


def multiply(a: ExprLike, b: ExprLike) -> ir.PrimExpr:
    x, y = match_types(a, b)
    p, q = _number(x), _number(y)
    if q == 1:
        return x
    if p == 1:
        return y
    if (p == 0 or q == 0) and x.dtype.is_integral:
        return const(0, x.dtype)
    if p is None or q is None:
        return ir.Mul(x, y)
    return _fold(ir.Mul, lambda p, q: p * q, x, y, x.dtype)


def divide(a: ExprLike, b: ExprLike) -> ir.PrimExpr:
    """The `/` of floats; integers must say which division they mean."""
    x, y = match_types(a, b)
    if not x.dtype.is_float:
        raise IRError(
            f"`/` on integers ({x} / {y}) is ambiguous: use `//` (floordiv), T.truncdiv, "
            "or cast to a float type"
        )
    if _number(y) == 1:
        return x
    return _fold(ir.Div, _quotient, x, y, x.dtype)


def _quotient(p: Number, q: Number) -> float:
    """`p / q` as the hardware has it, zeros included (a tiny constant is one after rounding)."""
    if q:
        return p / q
    return math.nan if p == 0 or math.isnan(p) else math.copysign(math.inf, p) * math.copysign(1, q)


def _trunc_quotient(p: Number, q: Number) -> int:
    quotient = abs(int(p)) // abs(int(q))
    return quotient if (p < 0) == (q < 0) else -quotient


def _integer_division(name: str, node: type[ir.BinaryOp], fold: Fold) -> Build:
    def build(a: ExprLike, b: ExprLike) -> ir.PrimExpr:
        x, y = match_types(a, b)
        if not x.dtype.is_integral:
            raise IRError(f"{node.__name__} needs integers, got {x.dtype!s} in `{x}` and `{y}`")
        p, q = _number(x), _number(y)
        if q == 0:
            raise IRError(f"division by zero in {node.__name__}({x}, {y})")
        if q == 1:
            return x if node in (ir.Div, ir.FloorDiv) else const(0, x.dtype)
        if p == 0:
            return x
        if p is None or q is None:
            return node(x, y)
        return _fold(node, fold, x, y, x.dtype)

    return named(build, name)


floordiv = _integer_division("floordiv", ir.FloorDiv, lambda p, q: p // q)
floormod = _integer_division("floormod", ir.FloorMod, lambda p, q: p % q)
truncdiv = _integer_division("truncdiv", ir.Div, _trunc_quotient)
truncmod = _integer_division("truncmod", ir.Mod, lambda p, q: p - q * _trunc_quotient(p, q))


def minimum(a: ExprLike, b: ExprLike) -> ir.PrimExpr:
    """The smaller of two values, NaN where one of them is."""
    x, y = match_types(a, b)
    return x if x is y else _fold(ir.Min, lambda p, q: p if p < q or p != p else q, x, y, x.dtype)


def maximum(a: ExprLike, b: ExprLike) -> ir.PrimExpr:
    """The larger of two values, NaN where one of them is."""
    x, y = match_types(a, b)
    return x if x is y else _fold(ir.Max, lambda p, q: p if p > q or p != p else q, x, y, x.dtype)


def _comparison(name: str, node: type[ir.CmpOp], fold: Fold) -> Build:
    def build(a: ExprLike, b: ExprLike) -> ir.PrimExpr:
        x, y = match_types(a, b)
        return _fold(node, fold, x, y, BOOL)

    return named(build, name)


equal = _comparison("equal", ir.EQ, lambda p, q: p == q)
not_equal = _comparison("not_equal", ir.NE, lambda p, q: p != q)
less = _comparison("less", ir.LT, lambda p, q: p < q)
less_equal = _comparison("less_equal", ir.LE, lambda p, q: p <= q)
greater = _comparison("greater", ir.GT, lambda p, q: p > q)
greater_equal = _comparison("greater_equal", ir.GE, lambda p, q: p >= q)


def _as_bool(value: ExprLike) -> ir.PrimExpr:
    expr = convert(value)
    if not expr.dtype.is_bool:
        raise IRError(f"expected a bool, got {expr.dtype!s} in `{expr}`")
    return expr


def logical_and(*conditions: ExprLike) -> ir.PrimExpr:
    """All of `conditions`; constants are folded away."""
    return _joined(ir.And, 1, conditions)


def _joined(node: type[ir.CmpOp], neutral: int, conditions: Iterable[ExprLike]) -> ir.PrimExpr:
    result = TRUE if neutral else FALSE
    for condition in map(_as_bool, conditions):
        known, new = _number(result), _number(condition)
        if known == 1 - neutral or new == neutral:
            continue
        decided = new == 1 - neutral or known == neutral
        result = condition if decided else node(result, condition)
    return result


def conjuncts(condition: ir.PrimExpr) -> list[ir.PrimExpr]:
    """The conditions that `logical_and` joined, in order; none if they always hold."""
    if isinstance(condition, ir.And):
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [] if is_true(condition) else [condition]


def logical_or(*conditions: ExprLike) -> ir.PrimExpr:
    """Any of `conditions`; constants are folded away."""
    return _joined(ir.Or, 0, conditions)


def logical_not(value: ExprLike) -> ir.PrimExpr:
    expr = _as_bool(value)
    if isinstance(expr, ir.IntImm):
        return const(not expr.value, BOOL)
    return expr.a if isinstance(expr, ir.Not) else ir.Not(expr)


_BITWISE_FOLDS: dict[str, Callable[[int, int], int]] = {
    "tir.bitwise_and": lambda p, q: p & q,
    "tir.bitwise_or": lambda p, q: p | q,
    "tir.bitwise_xor": lambda p, q: p ^ q,
    "tir.shift_left": lambda p, q: p << q,
    "tir.shift_right": lambda p, q: p >> q,
}


def bitwise(op_name: str, a: ExprLike, b: ExprLike) -> ir.PrimExpr:
    """A bitwise operator or shift by its registered name."""
    x, y = match_types(a, b)
    if not (x.dtype.is_integral or x.dtype.is_bool):
        raise IRError(f"{op_name} needs integers, got {x.dtype!s} in `{x}` and `{y}`")
    if isinstance(y, ir.IntImm) and "shift" in op_name and not 0 <= y.value < y.dtype.bits:
        raise IRError(f"{op_name} of {x.dtype!s} by {y.value}: expected 0 to {y.dtype.bits - 1}")
    if isinstance(x, ir.IntImm) and isinstance(y, ir.IntImm):
        return wrapped_const(_BITWISE_FOLDS[op_name](x.value, y.value), x.dtype)
    return ir.Call(x.dtype, Op.get(op_name), (x, y))


def _bitwise(name: str) -> Build:
    return named(lambda x, y: bitwise(f"tir.{name}", x, y), name)


bitwise_and = _bitwise("bitwise_and")
bitwise_or = _bitwise("bitwise_or")
bitwise_xor = _bitwise("bitwise_xor")
shift_left = _bitwise("shift_left")
shift_right = _bitwise("shift_right")


def bitwise_not(x: ExprLike) -> ir.PrimExpr:
    """The complement of an integer, or the negation of a bool."""
    expr = convert(x)
    if expr.dtype.is_bool:
        return logical_not(expr)
    if not expr.dtype.is_integral:
        raise IRError(f"`~` needs integers or bools, got {expr.dtype!s} in `{expr}`")
    return ir.Call(expr.dtype, Op.get("tir.bitwise_not"), (expr,))


# Node class -> what the operation evaluates to, or builds where it cannot be evaluated yet.
FOLDERS: dict[type[ir.BinaryOp], Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]] = {
    ir.Add: add,
    ir.Sub: subtract,
    ir.Mul: multiply,
    ir.Div: lambda a, b: divide(a, b) if a.dtype.is_float else truncdiv(a, b),
    ir.Mod: truncmod,
    ir.FloorDiv: floordiv,
    ir.FloorMod: floormod,
    ir.Min: minimum,
    ir.Max: maximum,
    ir.EQ: equal,
    ir.NE: not_equal,
    ir.LT: less,
    ir.LE: less_equal,
    ir.GT: greater,
    ir.GE: greater_equal,
    ir.And: logical_and,
    ir.Or: logical_or,
}
DIVISIONS = frozenset({ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod})


def fold_binary(node_class: type[ir.BinaryOp], a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
    """`node_class(a, b)` with constants folded; a division by zero stays for the run to meet."""
    if node_class in DIVISIONS and type(b) is ir.IntImm and b.value == 0:
        return node_class(a, b)
    return FOLDERS[node_class](a, b)


def _reflected(build: Build) -> Build:
    return lambda expr, other: build(other, expr)


def _set_operators() -> None:
    on_both_sides: dict[str, Build] = {
        "add": add,
        "sub": subtract,
        "mul": multiply,
        "truediv": divide,
        "floordiv": floordiv,
        "mod": floormod,
        "and": bitwise_and,
        "or": bitwise_or,
        "xor": bitwise_xor,
        "lshift": shift_left,
        "rshift": shift_right,
    }
    for name, build in on_both_sides.items():
        setattr(ExprOperators, f"__{name}__", build)
        setattr(ExprOperators, f"__r{name}__", _reflected(build))
    others: dict[str, Callable[..., ir.PrimExpr]] = {
        "__lt__": less,
        "__le__": less_equal,
        "__gt__": greater,
        "__ge__": greater_equal,
        "equal": equal,
        "__invert__": bitwise_not,
        # Not `0 - x`, which would lose the sign of a zero.
        "__neg__": lambda expr: multiply(expr, -1),
    }
    for name, build_other in others.items():
        setattr(ExprOperators, name, build_other)
    builders.convert, builders.cast = convert, cast
    builders.equal, builders.not_equal = equal, not_equal


_set_operators()
