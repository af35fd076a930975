"""Expression forms of script that are more than a builder of `ir`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import ir
from tilewright.errors import IRError
from tilewright.ir import GlobalVar as GlobalVar, StringImm as StringImm, intrinsics
from tilewright.ir.script_forms import ITER_TYPES, call_by_name, extent_between
from tilewright.script.dtypes import as_dtype
from tilewright.script.frames import plain_value
from tilewright.support.names import named
from tilewright.target import Target

__all__ = [
    "GlobalVar", "StringImm", "Cast", "cast", "Select", "Not", "Ramp", "Broadcast", "ramp",
    "broadcast", "Shuffle", "Let", "Range", "ceildiv", "var", "iter_var", "comm_reducer", "target",
    "llvm_lookup_intrinsic_id", "Call", "call_intrin",
]  # fmt: skip

_LLVM_CALLS = {"call_llvm_intrin", "call_llvm_pure_intrin"}
# Functions of the registry take whole buffers.
_PACKED_CALLS = ("call_packed", "tvm_call_packed")


def Cast(dtype: Any, value: Any) -> ir.PrimExpr:
    """A conversion that stays in the program even where it changes nothing."""
    return ir.Cast(ir.DType(as_dtype(dtype)), ir.convert(value))


def cast(value: Any, dtype: Any) -> ir.PrimExpr:
    """`value` as `dtype`; no conversion if it has that type."""
    return ir.cast(as_dtype(dtype), value)


def Select(condition: Any, true_value: Any, false_value: Any) -> ir.PrimExpr:
    left, right = ir.match_types(true_value, false_value)
    return ir.Select(ir.convert(condition), left, right)


def Not(value: Any) -> ir.PrimExpr:
    return ir.Not(ir.convert(value))


def Ramp(base: Any, stride: Any, lanes: int) -> ir.PrimExpr:
    start = ir.convert(base)
    step = ir.const(stride, start.dtype) if isinstance(stride, int) else ir.convert(stride)
    return ir.Ramp(start, step, int(lanes))


def Broadcast(value: Any, lanes: int) -> ir.PrimExpr:
    return ir.Broadcast(ir.convert(value), int(lanes))


ramp, broadcast = Ramp, Broadcast


def Shuffle(vectors: Sequence[Any], indices: Sequence[Any]) -> ir.PrimExpr:
    return ir.Shuffle(tuple(map(ir.convert, vectors)), tuple(map(ir.convert, indices)))


def Let(body: Any, *, where: Mapping[Any, Any]) -> ir.PrimExpr:
    """`body` with variables standing for values; later entries may use earlier ones."""
    result = ir.convert(body)
    for var_, value in reversed(list(where.items())):
        if not isinstance(var_, ir.Var):
            raise IRError(f"T.Let binds variables, {var_!r} is not one")
        result = ir.Let(var_, ir.convert(value), result)
    return result


def Range(begin: Any, end: Any) -> ir.Range:
    """The integers from `begin` to `end`, which is not included."""
    return range_between(begin, end)


def range_between(begin: Any, end: Any = None) -> ir.Range:
    """The integers from `begin` to `end`, which is not included; from zero if only one is given."""
    if end is None:
        stop = ir.convert(begin)
        return ir.Range(ir.const(0, stop.dtype), stop)
    start, stop = ir.match_types(begin, end)
    return ir.Range(start, extent_between(start, stop))


def ceildiv(lhs: Any, rhs: Any) -> ir.PrimExpr:
    """The quotient, rounded up."""
    return ir.floordiv(ir.convert(lhs) + rhs - 1, rhs)


def var(dtype: Any = "int32", name: str = "") -> ir.Var:
    """A new variable."""
    return ir.Var(name, ir.DType(as_dtype(dtype)))


def iter_var(var_: ir.Var, dom: Any, iter_type: str, thread_tag: str = "") -> ir.IterVar:
    if isinstance(dom, (tuple, list)):
        dom = Range(*dom)
    kind = ITER_TYPES.get(iter_type)
    if kind is None:
        raise IRError(f"unknown iterator type {iter_type!r}, expected one of {list(ITER_TYPES)}")
    return ir.IterVar(dom, var_, kind, thread_tag)


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> ir.CommReducer:
    """A reducer as it is printed, e.g. `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`."""
    start = tuple(map(ir.convert, identity))
    names = list(inspect.signature(combiner).parameters)
    if len(names) != 2 * len(start):
        raise IRError(
            f"T.comm_reducer: {len(start)} identities need a combiner of {2 * len(start)} "
            f"parameters, got {len(names)}"
        )
    dtypes = [value.dtype for value in (*start, *start)]
    given = [ir.Var(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]
    made = combiner(*given)
    result = tuple(map(ir.convert, made if isinstance(made, (tuple, list)) else (made,)))
    return ir.CommReducer(tuple(given[: len(start)]), tuple(given[len(start) :]), result, start)


def target(description: str | Mapping[str, object], host: Any = None) -> Target:
    """A target as the value of an attribute."""
    return Target(plain_value(description), host=host)


def llvm_lookup_intrinsic_id(name: str) -> StringImm:
    """An LLVM intrinsic; it is known by its name."""
    return StringImm(name)


def Call(dtype: Any, op: Any, args: Sequence[Any]) -> ir.PrimExpr:
    """A call of any operator or function with an explicit result type."""
    target = ir.Op.get(op) if isinstance(op, str) else op
    target = getattr(target, "global_var", target)
    return ir.Call(ir.DType(as_dtype(dtype)), target, tuple(as_argument(arg) for arg in args))


def call_intrin(dtype: Any, op_name: str, *args: Any) -> ir.PrimExpr:
    """A call of a registered operator, e.g. `T.call_intrin("float32", "tir.exp", x)`."""
    return intrinsics.call_intrin(as_dtype(dtype), op_name, *map(as_argument, args))


RAW_NODES = {
    node_class.__name__: node_class
    for base in (ir.BinaryOp, ir.CmpOp)
    for node_class in base.__subclasses__()
    if node_class is not ir.CmpOp
}


@functools.cache
def raw_node(name: str) -> Callable[[Any, Any], ir.PrimExpr]:
    """`T.Add(a, b)` and its like: exactly this node, without folding or matching types."""

    def build(a: Any, b: Any) -> ir.PrimExpr:
        return RAW_NODES[name](ir.convert(a), ir.convert(b))

    return named(build, name)


@functools.cache
def call_operator(name: str) -> Callable[..., ir.PrimExpr]:
    """The function behind `T.<name>` for a registered operator.

    The result type may be given as the keyword `dtype`, as older scripts do.
    """

    def call(*args: Any, dtype: Any = None) -> ir.PrimExpr:
        values = list(args) if name in _PACKED_CALLS else [as_argument(arg) for arg in args]
        if name in _LLVM_CALLS:
            values = _without_signature_size(values, has_dtype=dtype is None)
        return call_by_name(name, values, None if dtype is None else as_dtype(dtype))

    return named(call, name)


def _without_signature_size(values: list[Any], has_dtype: bool) -> list[Any]:
    """Older scripts give the number of arguments after the intrinsic's name, as T.uint32(n)."""
    position = 2 if has_dtype else 1
    rest = len(values) - position - 1
    count = values[position] if rest >= 0 else None
    if isinstance(count, ir.IntImm) and count.dtype == "uint32" and count.value <= rest:
        return values[:position] + values[position + 1 :]
    return values


def as_argument(value: Any) -> Any:
    """A call argument: a buffer stands for its pointer, types and text stay as they are."""
    if isinstance(value, ir.Buffer):
        return value.data
    if hasattr(value, "dtype") and not isinstance(value, (ir.PrimExpr, ir.BufferLoad)):
        return as_dtype(value) if callable(value) else value
    return value
