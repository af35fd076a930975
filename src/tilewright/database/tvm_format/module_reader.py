"""Modules as TVM writes them: graphs of objects in JSON, of 0.14 as well as of today.

Objects whose names moved are found by the last part of the name (`tir.Block`, `tirx.SBlock`). What
only the other program needs, such as types of Relax, is not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import ScheduleError, StoredDataError
from tilewright.ir import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    DType,
    Evaluate,
    For,
    ForKind,
    GlobalVar,
    IfThenElse,
    IntImm,
    IRModule,
    IterType,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    Op,
    PointerType,
    PrimFunc,
    Ramp,
    Range,
    SeqStmt,
    Shuffle,
    SizeVar,
    StringImm,
    Var,
    While,
)
from tilewright.ir.json import checked_node
from tilewright.schedule.trace.tvm_objects import EXPR_MAKERS, Maker, ObjectGraph
from tilewright.support.decoding import decoding

Fields = Mapping[str, Any]


def read_module(text: str | bytes) -> IRModule:
    """The module in a graph of objects."""
    with decoding("the module that TVM wrote is damaged", StoredDataError):
        document = json.loads(text)  # TVM writes infinities as they are, which msgspec refuses
        graph = ObjectGraph(document["nodes"], _MAKERS, "a module")
        try:
            found = graph.object_at(document.get("root_index", document.get("root")))
        except ScheduleError as error:
            raise StoredDataError(str(error)) from error
        if not isinstance(found, IRModule):
            raise StoredDataError(f"expected a module from TVM, got {type(found).__name__}")
        return checked_node(found)


# --- containers and attributes ------------------------------------------------------------------


def _value(graph: ObjectGraph, content: Any) -> Any:
    return content


def _map(graph: ObjectGraph, content: Any) -> dict[Any, Any]:
    """Positions of keys and values in turn; 0.14 writes texts as keys by themselves."""
    if isinstance(content, Mapping):
        return {key: graph.object_at(position) for key, position in content.items()}
    items = [graph.object_at(position) for position in content or ()]
    return dict(zip(items[::2], items[1::2], strict=True))


def _dict_attrs(graph: ObjectGraph, fields: Fields) -> dict[str, Any]:
    values = graph.object_at(fields["__dict__"]) or {}
    named = {str(key).replace("tirx.", "tir.", 1): value for key, value in values.items()}
    # How TVM of today tells functions with blocks from lowered ones.
    named.pop("s_tir", None)
    return named


def _annotations(graph: ObjectGraph, position: Any) -> dict[str, Any]:
    values = graph.object_at(position) or {}
    return {str(key): _plain(value) for key, value in values.items()}


def _plain(value: Any) -> Any:
    """Texts and integers of annotations are plain values in our IR."""
    if isinstance(value, StringImm):
        return value.value
    if isinstance(value, IntImm) and not value.dtype.is_bool:
        return value.value
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


# --- variables, buffers, expressions ------------------------------------------------------------


def _variable(kind: type[Var]) -> Maker:
    def make(graph: ObjectGraph, fields: Fields) -> Var:
        pointer = graph.object_at(fields.get("type_annotation", 0))
        return kind(
            str(graph.object_at(fields["name"])),
            DType(fields["dtype"]),
            pointer if isinstance(pointer, PointerType) else None,
        )

    return make


def _prim_type(graph: ObjectGraph, fields: Fields) -> DType:
    return DType(fields["dtype"])


def _pointer_type(graph: ObjectGraph, fields: Fields) -> PointerType | None:
    element = graph.object_at(fields["element_type"])
    if not isinstance(element, DType):
        return None
    return PointerType(element, str(graph.object_at(fields["storage_scope"])) or "global")


def _buffer(graph: ObjectGraph, fields: Fields) -> Buffer:
    offset = graph.object_at(fields["elem_offset"])
    factor = int(fields["offset_factor"])
    if isinstance(offset, IntImm) and offset.value == 0:
        # TVM writes down what is meant when nothing is said.
        offset, factor = None, 0 if factor == 1 else factor
    separators = graph.object_at(fields.get("axis_separators", 0)) or ()
    return Buffer(
        graph.object_at(fields["data"]),
        DType(fields["dtype"]),
        graph.object_at(fields["shape"]),
        graph.object_at(fields["strides"]),
        offset,
        str(graph.object_at(fields["name"])),
        int(fields["data_alignment"]),
        factor,
        tuple(int(separator) for separator in separators),
    )


def _call(graph: ObjectGraph, fields: Fields) -> Call:
    operator = graph.object_at(fields["op"])
    if not isinstance(operator, Op | GlobalVar):
        raise TypeError(f"object {fields['op']} is no operator")
    return Call(DType(fields["dtype"]), operator, graph.object_at(fields["args"]))


def _lanes(graph: ObjectGraph, fields: Fields) -> int:
    """A number in 0.14, a constant of its own today."""
    lanes = fields["lanes"]
    return int(lanes) if isinstance(lanes, str) else int(graph.object_at(lanes))


def _ramp(graph: ObjectGraph, fields: Fields) -> Ramp:
    base, stride = graph.expr_at(fields["base"]), graph.expr_at(fields["stride"])
    return Ramp(base, stride, _lanes(graph, fields))


def _broadcast(graph: ObjectGraph, fields: Fields) -> Broadcast:
    return Broadcast(graph.expr_at(fields["value"]), _lanes(graph, fields))


def _iter_var(graph: ObjectGraph, fields: Fields) -> IterVar:
    return IterVar(
        graph.object_at(fields["dom"]),
        graph.object_at(fields["var"]),
        IterType(int(fields["iter_type"])),
        str(graph.object_at(fields["thread_tag"]) or ""),
    )


def _global_var(graph: ObjectGraph, fields: Fields) -> GlobalVar:
    return GlobalVar(str(graph.object_at(fields["name_hint"])))


# --- statements ---------------------------------------------------------------------------------


def _fields_of(node_class: Callable[..., Any], *names: str) -> Maker:
    """A node whose arguments are objects under these names; a missing one is None."""

    def make(graph: ObjectGraph, fields: Fields) -> Any:
        return node_class(*(graph.object_at(fields.get(name, 0)) for name in names))

    return make


def _for(graph: ObjectGraph, fields: Fields) -> For:
    step = graph.object_at(fields.get("step", 0))
    if step is not None and not (isinstance(step, IntImm) and step.value == 1):
        raise ScheduleError("a module with a loop in steps cannot be read")
    return For(
        graph.object_at(fields["loop_var"]),
        graph.object_at(fields["min"]),
        graph.object_at(fields["extent"]),
        ForKind(int(fields["kind"])),
        graph.object_at(fields["body"]),
        graph.object_at(fields["thread_binding"]),
        _annotations(graph, fields["annotations"]),
    )


def _block(graph: ObjectGraph, fields: Fields) -> Block:
    return Block(
        graph.object_at(fields["iter_vars"]),
        graph.object_at(fields["reads"]),
        graph.object_at(fields["writes"]),
        str(graph.object_at(fields["name_hint"])),
        graph.object_at(fields["body"]),
        graph.object_at(fields["init"]),
        graph.object_at(fields["alloc_buffers"]),
        graph.object_at(fields["match_buffers"]),
        _annotations(graph, fields["annotations"]),
    )


def _attr_stmt(graph: ObjectGraph, fields: Fields) -> AttrStmt:
    return AttrStmt(
        graph.object_at(fields["node"]),
        str(graph.object_at(fields["attr_key"])),
        graph.object_at(fields["value"]),
        graph.object_at(fields["body"]),
    )


def _assert_stmt(graph: ObjectGraph, fields: Fields) -> AssertStmt:
    message = graph.object_at(fields["message"])
    text = message.value if isinstance(message, StringImm) else str(message)
    return AssertStmt(graph.object_at(fields["condition"]), text, graph.object_at(fields["body"]))


# --- functions and modules ----------------------------------------------------------------------


def _prim_func(graph: ObjectGraph, fields: Fields) -> PrimFunc:
    returned = graph.object_at(fields["ret_type"])
    attrs = {key: _plain(value) for key, value in graph.object_at(fields["attrs"]).items()}
    return PrimFunc(
        graph.object_at(fields["params"]),
        graph.object_at(fields["body"]),
        graph.object_at(fields["buffer_map"]),
        attrs,
        str(returned) if isinstance(returned, DType) else "void",
    )


def _module(graph: ObjectGraph, fields: Fields) -> IRModule:
    functions: Mapping[GlobalVar, PrimFunc] = graph.object_at(fields["functions"])
    attrs = graph.object_at(fields.get("attrs", 0)) or {}
    made = {}
    for var, func in functions.items():
        if not isinstance(func, PrimFunc):
            raise TypeError(f"the function {var.name} is no PrimFunc")
        made[var.name] = func
    return IRModule(made, {key: _plain(value) for key, value in attrs.items()})


def _nothing(graph: ObjectGraph, content: Any) -> None:
    return None


_MAKERS: Mapping[str, Maker] = {
    **EXPR_MAKERS,
    "bool": _value,
    "int": _value,
    "float": _value,
    "Map": _map,
    "DictAttrs": _dict_attrs,
    "Var": _variable(Var),
    "SizeVar": _variable(SizeVar),
    "PrimType": _prim_type,
    "PointerType": _pointer_type,
    "TupleType": _nothing,
    "Buffer": _buffer,
    "BufferLoad": _fields_of(BufferLoad, "buffer", "indices", "predicate"),
    "BufferRegion": _fields_of(BufferRegion, "buffer", "region"),
    "MatchBufferRegion": _fields_of(MatchBufferRegion, "buffer", "source"),
    "Range": _fields_of(Range, "min", "extent"),
    "IterVar": _iter_var,
    "Call": _call,
    "Ramp": _ramp,
    "Broadcast": _broadcast,
    "Shuffle": _fields_of(Shuffle, "vectors", "indices"),
    "GlobalVar": _global_var,
    "BufferStore": _fields_of(BufferStore, "buffer", "value", "indices", "predicate"),
    "For": _for,
    "While": _fields_of(While, "condition", "body"),
    "IfThenElse": _fields_of(IfThenElse, "condition", "then_case", "else_case"),
    "LetStmt": _fields_of(LetStmt, "var", "value", "body"),
    "AttrStmt": _attr_stmt,
    "AssertStmt": _assert_stmt,
    "SeqStmt": _fields_of(SeqStmt, "seq"),
    "Evaluate": _fields_of(Evaluate, "value"),
    "Block": _block,
    "SBlock": _block,
    "BlockRealize": _fields_of(BlockRealize, "iter_values", "predicate", "block"),
    "SBlockRealize": _fields_of(BlockRealize, "iter_values", "predicate", "block"),
    "PrimFunc": _prim_func,
    "IRModule": _module,
}
