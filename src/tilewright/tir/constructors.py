"""Nodes as users of TVM make them: numbers for expressions, lists for tuples, TVM's parameters.

The classes of `ir` take their fields as they are, which is what passes want. What is offered here
under the same names converts first, and is the same class for `isinstance`:
`isinstance(node, tir.For)` holds for every `ir.For`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tilewright import ir
from tilewright.errors import IRError
from tilewright.ir.script_forms import ITER_TYPES
from tilewright.script.exprs import Ramp, Select, range_between

Converter = Callable[[Any], Any]


class NodeConstructor(type):
    """The class of the names below: a call converts its arguments and makes the node."""

    node: type[ir.Node]
    make: Callable[..., ir.Node]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("span", None)  # where in a source file: we do not keep it
        return cls.make(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)

    def __subclasscheck__(cls, subclass: type) -> bool:
        node = subclass.node if isinstance(subclass, NodeConstructor) else subclass
        return issubclass(node, cls.node)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.node, name)


def constructor(
    node: type[ir.Node],
    parameters: str = "",
    make: Callable[..., ir.Node] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Any:
    """A name for `node` that takes TVM's `parameters`; `field=parameter` where they differ."""
    if make is None:
        make = _by_fields(node, parameters.split() or list(node.__struct_fields__))
    own = {"node": node, "make": staticmethod(make), "__doc__": node.__doc__}
    return NodeConstructor(node.__name__, (), {**own, **(constants or {})})


def _by_fields(node: type[ir.Node], parameters: Sequence[str]) -> Callable[..., ir.Node]:
    """A constructor that converts each argument to the type of its field."""
    fields = {field.name: field for field in msgspec.structs.fields(node)}
    names = [parameter.rpartition("=")[2] for parameter in parameters]
    targets = [parameter.partition("=")[0] for parameter in parameters]
    converters = {name: _converter(fields[name].type) for name in targets}

    def make(*args: Any, **kwargs: Any) -> ir.Node:
        if len(args) > len(names):
            raise TypeError(f"{node.__name__} takes {', '.join(names)}, got {len(args)} arguments")
        given = dict(zip(names, args, strict=False))
        for word, value in kwargs.items():
            name = names[targets.index(word)] if word in targets else word
            if name not in names or name in given:
                problem = "given twice" if name in given else "not known"
                known = ", ".join(names)
                raise TypeError(f"{node.__name__} takes {known}; {name!r} is {problem}")
            given[name] = value
        values = {
            target: converters[target](given[name])
            for target, name in zip(targets, names, strict=True)
            if given.get(name) is not None
        }
        return node(**values)

    return make


def _converter(kind: Any) -> Converter:
    """From what a user writes to the type of a field."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _converter(next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        item = _converter(arguments[0])
        return lambda values: tuple(map(item, values))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict
    return _CONVERTERS.get(kind, lambda value: value)


def _text(value: Any) -> str:
    return str(value.value) if isinstance(value, ir.StringImm) else str(value)


def as_range(value: Any) -> ir.Range:
    """A range as it is, or the pair of its begin and end."""
    return value if isinstance(value, ir.Range) else range_between(*value)


def _iter_var(dom: Any, var: Any, iter_type: int, thread_tag: str = "") -> ir.IterVar:
    domain = None if dom is None else as_range(dom)
    if isinstance(var, str):
        var = ir.Var(var, ir.INT32 if domain is None else domain.extent.dtype)
    return ir.IterVar(domain, var, ir.IterType(iter_type), thread_tag)


def _variable(kind: type[ir.Var]) -> Callable[..., ir.Var]:
    def make(name: str, dtype: Any = "int32", type_annotation: Any = None) -> ir.Var:
        if isinstance(dtype, ir.PointerType):
            return kind(name, ir.HANDLE, dtype)
        return kind(name, ir.DType(dtype), type_annotation)

    return make


def _pointer_type(element_type: Any, storage_scope: str = "global") -> ir.PointerType:
    return ir.PointerType(ir.DType(element_type), storage_scope or "global")


def _binary(kind: type[ir.BinaryOp]) -> Callable[..., ir.BinaryOp]:
    def make(a: Any, b: Any) -> ir.BinaryOp:
        return kind(*ir.match_types(a, b))

    return make


def _buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> ir.BufferStore:
    stored = ir.const(value, buffer.dtype) if isinstance(value, (int, float)) else value
    condition = None if predicate is None else ir.convert(predicate)
    return ir.BufferStore(buffer, ir.convert(stored), _converter(EXPRS)(indices), condition)


def _seq_stmt(seq: Sequence[ir.Stmt]) -> ir.SeqStmt:
    if not all(isinstance(item, ir.Stmt) for item in seq):
        raise IRError(f"SeqStmt takes statements, got {seq!r}")
    return ir.SeqStmt(tuple(seq))


EXPRS = tuple[ir.PrimExpr, ...]
_CONVERTERS: Mapping[Any, Converter] = {
    ir.PrimExpr: ir.convert,
    ir.DType: ir.DType,
    ir.Range: as_range,
    ir.ForKind: ir.ForKind,
    str: _text,
}


def _call(dtype: Any, op: Any, args: Any) -> ir.Call:
    operator = ir.Op.get(op) if isinstance(op, str) else op
    return ir.Call(ir.DType(dtype), operator, _converter(EXPRS)(args))


_BINARY = (
    ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max,
    ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or,
)  # fmt: skip
_BY_FIELDS = (
    ir.Allocate, ir.AllocateConst, ir.AssertStmt, ir.AttrStmt, ir.Block, ir.BlockRealize,
    ir.Broadcast, ir.BufferLoad, ir.BufferRegion, ir.Cast, ir.CommReducer, ir.DeclBuffer,
    ir.Evaluate, ir.IfThenElse, ir.Let, ir.LetStmt, ir.MatchBufferRegion, ir.Not, ir.Shuffle,
    ir.While,
)  # fmt: skip

# What `tir` offers under the names of the classes.
CONSTRUCTORS: Mapping[str, Any] = {
    made.node.__name__: made
    for made in (
        constructor(ir.Range, make=range_between),
        constructor(
            ir.IterVar, make=_iter_var, constants={**ITER_TYPES, "DimInfo": ITER_TYPES["Opaque"]}
        ),
        constructor(ir.PointerType, make=_pointer_type),
        constructor(ir.Var, make=_variable(ir.Var)),
        constructor(ir.SizeVar, make=_variable(ir.SizeVar)),
        constructor(ir.Select, make=Select),
        constructor(ir.Ramp, make=Ramp),
        constructor(ir.Call, make=_call),
        constructor(ir.BufferStore, make=_buffer_store),
        constructor(ir.SeqStmt, make=_seq_stmt),
        constructor(ir.For, "loop_var min=min_val extent kind body thread_binding annotations"),
        constructor(ir.PrimFunc, "params body ret_type buffer_map attrs"),
        constructor(ir.Reduce, "combiner source=src axis=rdom condition value_index init"),
        *(constructor(kind, make=_binary(kind)) for kind in _BINARY),
        *(constructor(kind) for kind in _BY_FIELDS),
    )
}
