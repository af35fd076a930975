"""Modules as TVM reads them: graphs of objects in JSON.

Most nodes have the same fields there, under the same names.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright import ir
from tilewright.database.tvm_format.dialects import Dialect
from tilewright.errors import DatabaseError

# The classes of nodes that TVM has, too.
_NAMES = (
    "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Not Select Cast Let "
    "IntImm FloatImm StringImm Var SizeVar Call Ramp Broadcast Range IterVar Buffer BufferLoad "
    "BufferRegion MatchBufferRegion BufferStore For While IfThenElse LetStmt AttrStmt AssertStmt "
    "SeqStmt Evaluate Block BlockRealize"
)
_KNOWN = frozenset(_NAMES.split())
_BUFFER_TYPE_DEFAULT = 1


def write_module(mod: ir.IRModule, dialect: Dialect) -> str:
    """A module as text; a program with parts that TVM does not know is an error."""
    graph = _Graph(dialect)
    root = graph.module(mod)
    return json.dumps(dialect.document(graph.nodes, root))


class _Graph:
    """The entries written so far; an object is written before what holds it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.nodes: list[object] = [dict(dialect.nothing)]
        self._positions: dict[int, int] = {}  # of nodes that may be shared, by identity
        self._texts: dict[str, int] = {}

    def _append(self, entry: dict[str, object]) -> int:
        self.nodes.append(entry)
        return len(self.nodes) - 1

    def add(self, kind: str, /, **fields: object) -> int:
        """An object with positions of others, numbers and types as fields."""
        return self._append(self.dialect.node(kind, fields))

    # --- containers and attributes ---

    def text(self, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = self._append(self.dialect.text(text))
        return self._texts[text]

    def array(self, values: Iterable[object]) -> int:
        return self._append(self.dialect.array([self.value(value) for value in values]))

    def mapping(self, values: Mapping[Any, object]) -> int:
        keys = [self.value(key) for key in values]
        return self._append(
            self.dialect.mapping(keys, [self.value(item) for item in values.values()])
        )

    def value(self, value: object) -> int:
        """A node, a plain value, or a container of them."""
        match value:
            case None:
                return 0
            case ir.Node() | ir.Op():
                return self.node(value)
            case bool() | int() | float():
                return self._number(value)
            case str():
                return self.text(value)
            case Mapping():
                return self.mapping(value)
            case tuple() | list():
                return self.array(value)
        raise DatabaseError(f"TVM has nothing like {value!r}")

    def _number(self, value: int | float) -> int:
        if self.dialect.has_plain_numbers:
            return self._append({"type": type(value).__name__, "data": value})
        if isinstance(value, float):
            return self.node(ir.FloatImm(ir.DType("float64"), value))
        return self.node(ir.IntImm(ir.BOOL if isinstance(value, bool) else ir.INT32, int(value)))

    # --- nodes ---

    def node(self, node: object) -> int:
        """The position of a node; the same node is written once."""
        position = self._positions.get(id(node))
        if position is None:
            position = self._written(node)
            if not isinstance(node, ir.IntImm | ir.FloatImm):  # these may not outlive the call
                self._positions[id(node)] = position
        return position

    def _written(self, node: Any) -> int:
        if isinstance(node, ir.Op):
            return self._append(self.dialect.operator(node.name))
        if isinstance(node, ir.GlobalVar):
            unused = dict.fromkeys(("struct_info_", "_checked_type_", "virtual_device_"), 0)
            return self.add("GlobalVar", **unused, name_hint=self.text(node.name))
        kind = type(node).__name__
        if kind not in _KNOWN:
            raise DatabaseError(f"TVM has nothing like {kind}")
        special = _SPECIAL.get(type(node))
        fields = special(self, node) if special is not None else {}
        for name in node.__struct_fields__:
            if name not in fields:
                fields[name] = self._field(getattr(node, name))
        if isinstance(node, ir.PrimExpr):
            fields["dtype"] = str(node.dtype)
        return self.add(kind, **fields)

    def _field(self, value: object) -> object:
        """Types and enumerations stand in the object itself, all else in one of its own."""
        if isinstance(value, ir.DType):
            return str(value)
        return int(value) if isinstance(value, enum.IntEnum) else self.value(value)

    def module(self, mod: ir.IRModule) -> int:
        variables = {name: ir.GlobalVar(name) for name in mod.functions}
        names = {name: self.node(variable) for name, variable in variables.items()}
        functions = [self.function(func) for func in mod.functions.values()]
        keys = [self.text(name) for name in names]
        no_attrs = self.mapping({})
        return self.add(
            "IRModule",
            functions=self._append(self.dialect.mapping(list(names.values()), functions)),
            global_var_map_=self._append(self.dialect.mapping(keys, list(names.values()))),
            source_map=self.add("SourceMap", source_map=no_attrs),
            attrs=self.attrs(mod.attrs),
            global_infos=self.mapping({}),
            global_type_var_map_=no_attrs,
            type_definitions=no_attrs,
        )

    def attrs(self, attrs: Mapping[str, object]) -> int:
        prefix = self.dialect.attr_prefix
        renamed = {key.replace("tir.", prefix, 1): value for key, value in attrs.items()}
        return self.add("DictAttrs", __dict__=self.mapping(renamed))

    def function(self, func: ir.PrimFunc) -> int:
        attrs = dict(func.attrs)
        if self.dialect.marks_blocks:
            attrs["s_tir"] = True
        returned = self.add("TupleType", fields=self.array(()))
        if func.ret_type != "void":
            returned = self.add("PrimType", dtype=func.ret_type)
        return self.add(
            "PrimFunc",
            struct_info_=0,
            _checked_type_=0,
            attrs=self.attrs(attrs),
            params=self.array(func.params),
            ret_type=returned,
            buffer_map=self.mapping(func.buffer_map),
            body=self.node(func.body),
        )


# --- fields that TVM has in another form, or besides ours ----------------------------------------


def _number(graph: _Graph, node: ir.IntImm | ir.FloatImm) -> dict[str, object]:
    return {"value": node.value}


def _var(graph: _Graph, node: ir.Var) -> dict[str, object]:
    pointer = node.type_annotation
    kind = graph.add("PrimType", dtype=str(node.dtype if pointer is None else pointer.element_type))
    if pointer is not None:
        scope = graph.text(pointer.storage_scope)
        kind = graph.add("PointerType", element_type=kind, storage_scope=scope)
    return {"type_annotation": kind}


def _buffer(graph: _Graph, node: ir.Buffer) -> dict[str, object]:
    offset = ir.IntImm(ir.INT32, 0) if node.elem_offset is None else node.elem_offset
    return {
        "elem_offset": graph.node(offset),
        "data_alignment": node.data_alignment,
        "offset_factor": node.offset_factor or 1,
        "buffer_type": _BUFFER_TYPE_DEFAULT,
        "layout": 0,
        "allocated_addr": graph.array(()),
    }


def _lanes(graph: _Graph, node: ir.Ramp | ir.Broadcast) -> dict[str, object]:
    is_node = graph.dialect.has_plain_numbers
    return {"lanes": graph.node(ir.IntImm(ir.INT32, node.lanes)) if is_node else node.lanes}


_SPECIAL: Mapping[type, Callable[[_Graph, Any], dict[str, object]]] = {
    ir.IntImm: _number,
    ir.FloatImm: _number,
    ir.Var: _var,
    ir.SizeVar: _var,
    ir.Buffer: _buffer,
    ir.Ramp: _lanes,
    ir.Broadcast: _lanes,
    ir.Call: lambda graph, node: {"attrs": 0},
    ir.For: lambda graph, node: {"step": 0},
}
