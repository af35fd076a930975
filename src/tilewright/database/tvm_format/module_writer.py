"""Modules as TVM reads them: graphs of objects in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright.database.tvm_format.dialects import Dialect
from tilewright.errors import DatabaseError
from tilewright.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
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
    Cast,
    Div,
    DType,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    GlobalVar,
    IfThenElse,
    IntImm,
    IRModule,
    IterVar,
    Let,
    LetStmt,
    MatchBufferRegion,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Op,
    Or,
    PrimFunc,
    Ramp,
    Range,
    Select,
    SeqStmt,
    SizeVar,
    StringImm,
    Sub,
    Var,
    While,
)

_BUFFER_TYPE_DEFAULT = 1
_INT32, _BOOL = DType("int32"), DType("bool")


def write_module(mod: IRModule, dialect: Dialect) -> str:
    """A module as text; a program with parts that TVM does not know is an error."""
    graph = _Graph(dialect)
    root = graph.module(mod)
    return json.dumps(dialect.document(graph.nodes, root))


class _Graph:
    """The entries written so far; an object is written before what holds it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.nodes: list[Any] = [dict(dialect.nothing)]
        self._positions: dict[int, int] = {}  # of nodes that may be shared, by identity
        self._texts: dict[str, int] = {}

    def _append(self, entry: dict[str, Any]) -> int:
        self.nodes.append(entry)
        return len(self.nodes) - 1

    def add(self, kind: str, /, **fields: Any) -> int:
        """An object with positions of others, numbers and types as fields."""
        return self._append(self.dialect.node(kind, fields))

    # --- containers and attributes ---

    def text(self, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = self._append(self.dialect.text(text))
        return self._texts[text]

    def array(self, values: Iterable[Any]) -> int:
        return self._append(self.dialect.array([self.value(value) for value in values]))

    def mapping(self, values: Mapping[Any, Any]) -> int:
        keys = [self.value(key) for key in values]
        return self._append(
            self.dialect.mapping(keys, [self.value(item) for item in values.values()])
        )

    def value(self, value: Any) -> int:
        """A node, a plain value, or a container of them."""
        match value:
            case None:
                return 0
            case Node() | Op():
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

    def _number(self, value: Any) -> int:
        if self.dialect.has_plain_numbers:
            return self._append({"type": type(value).__name__, "data": value})
        if isinstance(value, float):
            return self.node(FloatImm(DType("float64"), value))
        return self.node(IntImm(_BOOL if isinstance(value, bool) else _INT32, int(value)))

    # --- nodes ---

    def node(self, node: Any) -> int:
        """The position of a node; the same node is written once."""
        position = self._positions.get(id(node))
        if position is None:
            write = _WRITERS.get(type(node))
            if write is None:
                raise DatabaseError(f"TVM has nothing like {type(node).__name__}")
            position = write(self, node)
            if not isinstance(node, IntImm | FloatImm):  # these may not outlive the call
                self._positions[id(node)] = position
        return position

    def module(self, mod: IRModule) -> int:
        variables = {name: GlobalVar(name) for name in mod.functions}
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

    def attrs(self, attrs: Mapping[str, Any]) -> int:
        prefix = self.dialect.attr_prefix
        renamed = {key.replace("tir.", prefix, 1): value for key, value in attrs.items()}
        return self.add("DictAttrs", __dict__=self.mapping(renamed))

    def function(self, func: PrimFunc) -> int:
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


# --- one function a class -----------------------------------------------------------------------


def _int_imm(graph: _Graph, node: IntImm) -> int:
    return graph.add("IntImm", dtype=str(node.dtype), value=node.value)


def _float_imm(graph: _Graph, node: FloatImm) -> int:
    return graph.add("FloatImm", dtype=str(node.dtype), value=node.value)


def _string_imm(graph: _Graph, node: StringImm) -> int:
    return graph.add("StringImm", dtype="handle", value=graph.text(node.value))


def _var(graph: _Graph, node: Var) -> int:
    pointer = node.type_annotation
    kind = graph.add("PrimType", dtype=str(node.dtype if pointer is None else pointer.element_type))
    if pointer is not None:
        scope = graph.text(pointer.storage_scope)
        kind = graph.add("PointerType", element_type=kind, storage_scope=scope)
    return graph.add(
        "SizeVar" if isinstance(node, SizeVar) else "Var",
        dtype=str(node.dtype),
        name=graph.text(node.name),
        type_annotation=kind,
    )


def _buffer(graph: _Graph, node: Buffer) -> int:
    offset = node.elem_offset
    return graph.add(
        "Buffer",
        data=graph.node(node.data),
        dtype=str(node.dtype),
        shape=graph.array(node.shape),
        strides=graph.array(node.strides),
        axis_separators=graph.array(node.axis_separators),
        elem_offset=graph.node(IntImm(_INT32, 0) if offset is None else offset),
        name=graph.text(node.name),
        data_alignment=node.data_alignment,
        offset_factor=node.offset_factor or 1,
        buffer_type=_BUFFER_TYPE_DEFAULT,
        layout=0,
        allocated_addr=graph.array(()),
    )


def _typed(*names: str) -> Callable[[_Graph, Any], int]:
    """An expression: its type, and what stands under these names."""

    def write(graph: _Graph, node: Any) -> int:
        fields = {name: graph.value(getattr(node, name)) for name in names}
        return graph.add(type(node).__name__, dtype=str(node.dtype), **fields)

    return write


def _plain(*names: str) -> Callable[[_Graph, Any], int]:
    """A node with nothing but what stands under these names."""

    def write(graph: _Graph, node: Any) -> int:
        fields = {name: graph.value(getattr(node, name)) for name in names}
        return graph.add(type(node).__name__, **fields)

    return write


def _operator(graph: _Graph, node: Op) -> int:
    return graph._append(graph.dialect.operator(node.name))


def _call(graph: _Graph, node: Call) -> int:
    op, args = graph.node(node.op), graph.array(node.args)
    return graph.add("Call", dtype=str(node.dtype), op=op, args=args, attrs=0)


def _lanes(graph: _Graph, lanes: int) -> int:
    return graph.node(IntImm(_INT32, lanes)) if graph.dialect.has_plain_numbers else lanes


def _ramp(graph: _Graph, node: Ramp) -> int:
    base, stride = graph.node(node.base), graph.node(node.stride)
    lanes = _lanes(graph, node.lanes)
    return graph.add("Ramp", dtype=str(node.dtype), base=base, stride=stride, lanes=lanes)


def _broadcast(graph: _Graph, node: Broadcast) -> int:
    value, lanes = graph.node(node.value), _lanes(graph, node.lanes)
    return graph.add("Broadcast", dtype=str(node.dtype), value=value, lanes=lanes)


def _global_var(graph: _Graph, node: GlobalVar) -> int:
    name = graph.text(node.name)
    return graph.add(
        "GlobalVar", struct_info_=0, _checked_type_=0, virtual_device_=0, name_hint=name
    )


def _iter_var(graph: _Graph, node: IterVar) -> int:
    return graph.add(
        "IterVar",
        dom=graph.value(node.dom),
        var=graph.node(node.var),
        iter_type=int(node.iter_type),
        thread_tag=graph.text(node.thread_tag),
    )


def _for(graph: _Graph, node: For) -> int:
    return graph.add(
        "For",
        loop_var=graph.node(node.loop_var),
        min=graph.node(node.min),
        extent=graph.node(node.extent),
        kind=int(node.kind),
        body=graph.node(node.body),
        thread_binding=graph.value(node.thread_binding),
        annotations=graph.mapping(node.annotations),
        step=0,
    )


_BINARY = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)
_COMPARISONS = (EQ, NE, LT, LE, GT, GE, And, Or)
_WRITERS: Mapping[type, Callable[[_Graph, Any], int]] = {
    **{kind: _typed("a", "b") for kind in (*_BINARY, *_COMPARISONS)},
    IntImm: _int_imm,
    FloatImm: _float_imm,
    StringImm: _string_imm,
    Var: _var,
    SizeVar: _var,
    Buffer: _buffer,
    Op: _operator,
    GlobalVar: _global_var,
    Call: _call,
    Ramp: _ramp,
    Broadcast: _broadcast,
    IterVar: _iter_var,
    Not: _typed("a"),
    Cast: _typed("value"),
    Select: _typed("condition", "true_value", "false_value"),
    Let: _typed("var", "value", "body"),
    BufferLoad: _typed("buffer", "indices", "predicate"),
    Range: _plain("min", "extent"),
    BufferRegion: _plain("buffer", "region"),
    MatchBufferRegion: _plain("buffer", "source"),
    BufferStore: _plain("buffer", "value", "indices", "predicate"),
    For: _for,
    While: _plain("condition", "body"),
    IfThenElse: _plain("condition", "then_case", "else_case"),
    LetStmt: _plain("var", "value", "body"),
    AttrStmt: _plain("node", "attr_key", "value", "body"),
    AssertStmt: _plain("condition", "message", "body"),
    SeqStmt: _plain("seq"),
    Evaluate: _plain("value"),
    Block: _plain(
        "iter_vars",
        "reads",
        "writes",
        "name_hint",
        "alloc_buffers",
        "match_buffers",
        "annotations",
        "init",
        "body",
    ),
    BlockRealize: _plain("iter_values", "predicate", "block"),
}
