"""Modules as TVM 0.14 and current versions write them: graphs of objects in JSON.

Objects whose names moved are found by the last part of the name (`tir.Block`, `tirx.SBlock`). What
only the other program needs, such as types of Relax, is not looked at.
"""

from __future__ import annotations

import enum
import json
from collections import abc
from collections.abc import Mapping
from typing import Any, get_origin

import msgspec

from tilewright import ir
from tilewright.errors import ScheduleError, StoredDataError
from tilewright.ir.json import checked_node
from tilewright.schedule.trace.tvm_objects import EXPR_MAKERS, Maker, ObjectGraph
from tilewright.support.decoding import decoding

Fields = Mapping[str, Any]


def read_module(text: str | bytes) -> ir.IRModule:
    """The module in a graph of objects."""
    with decoding("the module that TVM wrote is damaged", StoredDataError):
        document = json.loads(text)  # TVM writes infinities as they are, which msgspec refuses
        graph = ObjectGraph(document["nodes"], _MAKERS, "a module")
        try:
            found = graph.object_at(document.get("root_index", document.get("root")))
        except ScheduleError as error:
            raise StoredDataError(str(error)) from error
        if not isinstance(found, ir.IRModule):
            raise StoredDataError(f"expected a module from TVM, got {type(found).__name__}")
        return checked_node(found)


# --- containers and attributes ------------------------------------------------------------------


def _map(graph: ObjectGraph, content: Any) -> dict[Any, Any]:
    """Positions of keys and values in turn; 0.14 writes texts as keys by themselves."""
    if isinstance(content, Mapping):
        return {key: graph.object_at(position) for key, position in content.items()}
    items = [graph.object_at(position) for position in content or ()]
    return dict(zip(items[::2], items[1::2], strict=True))


def _dict_attrs(graph: ObjectGraph, fields: Fields) -> dict[str, object]:
    values = graph.object_at(fields["__dict__"]) or {}
    named = {str(key).replace("tirx.", "tir.", 1): value for key, value in values.items()}
    # How TVM of today tells functions with blocks from lowered ones.
    named.pop("s_tir", None)
    return named


def _plain(value: object) -> object:
    """Texts and integers of annotations are plain values in our IR."""
    if isinstance(value, ir.StringImm):
        return value.value
    if isinstance(value, ir.IntImm) and not value.dtype.is_bool:
        return value.value
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


# --- variables, buffers, expressions ------------------------------------------------------------


def _variable(kind: type[ir.Var]) -> Maker:
    def make(graph: ObjectGraph, fields: Fields) -> ir.Var:
        pointer = graph.object_at(fields.get("type_annotation", 0))
        return kind(
            str(graph.object_at(fields["name"])),
            ir.DType(fields["dtype"]),
            pointer if isinstance(pointer, ir.PointerType) else None,
        )

    return make


def _pointer_type(graph: ObjectGraph, fields: Fields) -> ir.PointerType | None:
    element = graph.object_at(fields["element_type"])
    if not isinstance(element, ir.DType):
        return None
    return ir.PointerType(element, str(graph.object_at(fields["storage_scope"])) or "global")


def _buffer(graph: ObjectGraph, fields: Fields) -> ir.Buffer:
    offset = graph.object_at(fields["elem_offset"])
    factor = int(fields["offset_factor"])
    if isinstance(offset, ir.IntImm) and offset.value == 0:
        # TVM writes down what is meant when nothing is said.
        offset, factor = None, 0 if factor == 1 else factor
    separators = graph.object_at(fields.get("axis_separators", 0)) or ()
    return ir.Buffer(
        graph.object_at(fields["data"]),
        ir.DType(fields["dtype"]),
        graph.object_at(fields["shape"]),
        graph.object_at(fields["strides"]),
        offset,
        str(graph.object_at(fields["name"])),
        int(fields["data_alignment"]),
        factor,
        tuple(int(separator) for separator in separators),
    )


# --- nodes whose fields are ours -----------------------------------------------------------------


def _node(node_class: type[ir.Node]) -> Maker:
    """A node that has the same fields; one that may be None may be missing."""
    described = msgspec.structs.fields(node_class)

    def make(graph: ObjectGraph, fields: Fields) -> object:
        values = []
        for item in described:
            content = fields[item.name] if item.required else fields.get(item.name, 0)
            values.append(_field(graph, item.type, content))
        return node_class(*values)

    return make


def _field(graph: ObjectGraph, kind: Any, content: Any) -> Any:
    """What a field of a declared type holds: a plain value, or the position of an object."""
    if kind is ir.DType:
        return ir.DType(content)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(int(content))
    if kind is int and isinstance(content, str):  # today it is a constant of its own
        return int(content)
    found = graph.object_at(content)
    if kind is str:
        return found.value if isinstance(found, ir.StringImm) else str(found or "")
    if get_origin(kind) is abc.Mapping:
        return {str(key): _plain(value) for key, value in (found or {}).items()}
    return int(found) if kind is int else found


def _for(graph: ObjectGraph, fields: Fields) -> object:
    step = graph.object_at(fields.get("step", 0))
    if step is not None and not (isinstance(step, ir.IntImm) and step.value == 1):
        raise ScheduleError("a module with a loop in steps cannot be read")
    return _MAKE_FOR(graph, fields)


_MAKE_FOR = _node(ir.For)
_SAME_FIELDS = (
    ir.AssertStmt, ir.AttrStmt, ir.Block, ir.BlockRealize, ir.Broadcast, ir.BufferLoad,
    ir.BufferRegion, ir.BufferStore, ir.Call, ir.Evaluate, ir.IfThenElse, ir.IterVar, ir.LetStmt,
    ir.MatchBufferRegion, ir.Ramp, ir.Range, ir.SeqStmt, ir.Shuffle, ir.While,
)  # fmt: skip


# --- functions and modules ----------------------------------------------------------------------


def _prim_func(graph: ObjectGraph, fields: Fields) -> ir.PrimFunc:
    returned = graph.object_at(fields["ret_type"])
    attrs = {key: _plain(value) for key, value in graph.object_at(fields["attrs"]).items()}
    return ir.PrimFunc(
        graph.object_at(fields["params"]),
        graph.object_at(fields["body"]),
        graph.object_at(fields["buffer_map"]),
        attrs,
        str(returned) if isinstance(returned, ir.DType) else "void",
    )


def _module(graph: ObjectGraph, fields: Fields) -> ir.IRModule:
    functions: Mapping[ir.GlobalVar, ir.PrimFunc] = graph.object_at(fields["functions"])
    attrs = graph.object_at(fields.get("attrs", 0)) or {}
    made = {}
    for var, func in functions.items():
        if not isinstance(func, ir.PrimFunc):
            raise TypeError(f"the function {var.name} is no PrimFunc")
        made[var.name] = func
    return ir.IRModule(made, {key: _plain(value) for key, value in attrs.items()})


_MAKERS: Mapping[str, Maker] = {
    **EXPR_MAKERS,
    **{node_class.__name__: _node(node_class) for node_class in _SAME_FIELDS},
    "SBlock": _node(ir.Block),
    "SBlockRealize": _node(ir.BlockRealize),
    "For": _for,
    **dict.fromkeys(("bool", "int", "float"), lambda graph, content: content),
    "Map": _map,
    "DictAttrs": _dict_attrs,
    "Var": _variable(ir.Var),
    "SizeVar": _variable(ir.SizeVar),
    "PrimType": lambda graph, fields: ir.DType(fields["dtype"]),
    "PointerType": _pointer_type,
    "TupleType": lambda graph, fields: None,
    "Buffer": _buffer,
    "GlobalVar": lambda graph, fields: ir.GlobalVar(str(graph.object_at(fields["name_hint"]))),
    "PrimFunc": _prim_func,
    "IRModule": _module,
}
