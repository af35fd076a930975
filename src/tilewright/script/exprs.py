"""Expression forms of script that are more than a builder of `ir`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.errors import IRError
from tilewright.ir import (
    BinaryOp,
    Broadcast as BroadcastNode,
    BufferLoad,
    Call as CallNode,
    Cast as CastNode,
    CmpOp,
    CommReducer,
    DType,
    GlobalVar as GlobalVar,
    IntImm,
    IterType,
    IterVar,
    Let as LetNode,
    Not as NotNode,
    Op,
    PrimExpr,
    Ramp as RampNode,
    Range as RangeNode,
    Select as SelectNode,
    Shuffle as ShuffleNode,
    StringImm as StringImm,
    Var,
    cast as cast_to,
    const,
    convert,
    floordiv,
    intrinsics,
    match_types,
)
from tilewright.ir.buffer import Buffer
from tilewright.ir.script_forms import call_by_name, extent_between
from tilewright.script.dtypes import as_dtype
from tilewright.script.frames import plain_value
from tilewright.target import Target

_LLVM_CALLS = {"call_llvm_intrin", "call_llvm_pure_intrin"}
# Functions of the registry take whole buffers.
_PACKED_CALLS = ("call_packed", "tvm_call_packed")
_ITER_TYPES = {
    "DataPar": IterType.DATA_PAR,
    "ThreadIndex": IterType.THREAD_INDEX,
    "CommReduce": IterType.COMM_REDUCE,
    "Ordered": IterType.ORDERED,
    "Opaque": IterType.OPAQUE,
}


def Cast(dtype: Any, value: Any) -> PrimExpr:
    """A conversion that stays in the program even where it changes nothing."""
    return CastNode(DType(as_dtype(dtype)), convert(value))


def cast(value: Any, dtype: Any) -> PrimExpr:
    """`value` as `dtype`; no conversion if it has that type."""
    return cast_to(as_dtype(dtype), value)


def Select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    left, right = match_types(true_value, false_value)
    return SelectNode(convert(condition), left, right)


def Not(value: Any) -> PrimExpr:
    return NotNode(convert(value))


def Ramp(base: Any, stride: Any, lanes: int) -> PrimExpr:
    start = convert(base)
    step = const(stride, start.dtype) if isinstance(stride, int) else convert(stride)
    return RampNode(start, step, int(lanes))


def Broadcast(value: Any, lanes: int) -> PrimExpr:
    return BroadcastNode(convert(value), int(lanes))


ramp, broadcast = Ramp, Broadcast


def Shuffle(vectors: Sequence[Any], indices: Sequence[Any]) -> PrimExpr:
    return ShuffleNode(tuple(map(convert, vectors)), tuple(map(convert, indices)))


def Let(body: Any, *, where: Mapping[Any, Any]) -> PrimExpr:
    """`body` with variables standing for values; later entries may use earlier ones."""
    result = convert(body)
    for var_, value in reversed(list(where.items())):
        if not isinstance(var_, Var):
            raise IRError(f"T.Let binds variables, {var_!r} is not one")
        result = LetNode(var_, convert(value), result)
    return result


def Range(begin: Any, end: Any) -> RangeNode:
    """The integers from `begin` to `end`, which is not included."""
    start, stop = match_types(begin, end)
    return RangeNode(start, extent_between(start, stop))


def ceildiv(lhs: Any, rhs: Any) -> PrimExpr:
    """The quotient, rounded up."""
    return floordiv(convert(lhs) + rhs - 1, rhs)


def var(dtype: Any = "int32", name: str = "") -> Var:
    """A new variable."""
    return Var(name, DType(as_dtype(dtype)))


def iter_var(var_: Var, dom: Any, iter_type: str, thread_tag: str = "") -> IterVar:
    if isinstance(dom, (tuple, list)):
        dom = Range(*dom)
    kind = _ITER_TYPES.get(iter_type)
    if kind is None:
        raise IRError(f"unknown iterator type {iter_type!r}, expected one of {list(_ITER_TYPES)}")
    return IterVar(dom, var_, kind, thread_tag)


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> CommReducer:
    """A reducer as it is printed, e.g. `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`."""
    start = tuple(map(convert, identity))
    names = list(inspect.signature(combiner).parameters)
    if len(names) != 2 * len(start):
        raise IRError(
            f"T.comm_reducer: {len(start)} identities need a combiner of {2 * len(start)} "
            f"parameters, got {len(names)}"
        )
    dtypes = [value.dtype for value in (*start, *start)]
    given = [Var(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]
    made = combiner(*given)
    result = tuple(map(convert, made if isinstance(made, (tuple, list)) else (made,)))
    return CommReducer(tuple(given[: len(start)]), tuple(given[len(start) :]), result, start)


def target(description: str | Mapping[str, object], host: Any = None) -> Target:
    """A target as the value of an attribute."""
    return Target(plain_value(description), host=host)


def llvm_lookup_intrinsic_id(name: str) -> StringImm:
    """An LLVM intrinsic; it is known by its name."""
    return StringImm(name)


def Call(dtype: Any, op: Any, args: Sequence[Any]) -> PrimExpr:
    """A call of any operator or function with an explicit result type."""
    target = Op.get(op) if isinstance(op, str) else op
    target = getattr(target, "global_var", target)
    return CallNode(DType(as_dtype(dtype)), target, tuple(as_argument(arg) for arg in args))


def call_intrin(dtype: Any, op_name: str, *args: Any) -> PrimExpr:
    """A call of a registered operator, e.g. `T.call_intrin("float32", "tir.exp", x)`."""
    return intrinsics.call_intrin(as_dtype(dtype), op_name, *map(as_argument, args))


RAW_NODES = {
    node_class.__name__: node_class
    for base in (BinaryOp, CmpOp)
    for node_class in base.__subclasses__()
    if node_class is not CmpOp
}


@functools.cache
def raw_node(name: str) -> Callable[[Any, Any], PrimExpr]:
    """`T.Add(a, b)` and its like: exactly this node, without folding or matching types."""

    def build(a: Any, b: Any) -> PrimExpr:
        return RAW_NODES[name](convert(a), convert(b))

    build.__name__ = build.__qualname__ = name
    return build


@functools.cache
def call_operator(name: str) -> Callable[..., PrimExpr]:
    """The function behind `T.<name>` for a registered operator.

    The result type may be given as the keyword `dtype`, as older scripts do.
    """

    def call(*args: Any, dtype: Any = None) -> PrimExpr:
        values = list(args) if name in _PACKED_CALLS else [as_argument(arg) for arg in args]
        if name in _LLVM_CALLS:
            values = _without_signature_size(values, has_dtype=dtype is None)
        return call_by_name(name, values, None if dtype is None else as_dtype(dtype))

    call.__name__ = call.__qualname__ = name
    return call


def _without_signature_size(values: list[Any], has_dtype: bool) -> list[Any]:
    """Older scripts give the number of arguments after the intrinsic's name, as T.uint32(n)."""
    position = 2 if has_dtype else 1
    rest = len(values) - position - 1
    count = values[position] if rest >= 0 else None
    if isinstance(count, IntImm) and count.dtype == "uint32" and count.value <= rest:
        return values[:position] + values[position + 1 :]
    return values


def as_argument(value: Any) -> Any:
    """A call argument: a buffer stands for its pointer, types and text stay as they are."""
    if isinstance(value, Buffer):
        return value.data
    if hasattr(value, "dtype") and not isinstance(value, (PrimExpr, BufferLoad)):
        return as_dtype(value) if callable(value) else value
    return value
