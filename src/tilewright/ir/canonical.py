"""The canonical encoding of IR as a flat list of tokens.

A bound variable becomes the number of its definition and a name never appears, so two nodes have
the same tokens exactly when they are structurally equal. `equal.py` compares and hashes the tokens.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, get_origin

import msgspec

from tilewright.errors import IRError
from tilewright.ir import nodes as ir
from tilewright.ir.function import IRModule, PrimFunc
from tilewright.ir.node import Node
from tilewright.ir.op import Op

Token: TypeAlias = str | int
Encode: TypeAlias = Callable[["Encoder", Any], None]


class Encoder:
    """Turns nodes into tokens; `_ORDERS` says in which order the fields of a class are read."""

    def __init__(self, map_free_vars: bool, map_free_buffers: bool = True) -> None:
        self.tokens: list[Token] = []
        self._map_free_vars = map_free_vars
        self._map_free_buffers = map_free_buffers
        self._numbers: dict[ir.Var, int] = {}
        self._buffers: dict[ir.Buffer, tuple[int, int | None]] = {}
        self._count = 0

    # --- values: nodes, numbers, texts and containers of them ---

    def value(self, value: Any) -> None:
        """Encode a node or anything that may stand in an attribute."""
        if isinstance(value, Node):
            self.node(value)
            return
        for kind, encode in _VALUE_ENCODERS:
            if isinstance(value, kind):
                encode(self, value)
                return
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            self.tokens.append(type(value).__qualname__)
            for field in dataclasses.fields(value):
                self.child(field.name, Encoder.value, getattr(value, field.name))
        elif any("__repr__" in base.__dict__ for base in type(value).__mro__[:-1]):
            self.text(f"{type(value).__qualname__} {value!r}")
        else:
            raise IRError(
                f"an attribute value of type {type(value).__qualname__} cannot be compared: "
                "use numbers, strings, tuples, dicts, IR nodes or dataclasses of them"
            )

    def node(self, node: Any) -> None:
        node_class = type(node)
        self.tokens.append(node_class.__name__)
        whole = _WHOLE.get(node_class)
        if whole is not None:
            whole(self, node)
            return
        for name, encode in _plans.get(node_class) or _plan_of(node_class):
            self.child(name, encode, getattr(node, name))

    def child(self, name: str, encode: Encode, value: Any) -> None:
        """Encode one field; the tracer notes where it is."""
        encode(self, value)

    def text(self, value: str) -> None:
        self.tokens.append(repr(value))

    def word(self, value: Any) -> None:
        """A value that is a token already: a dtype, an enum name, a number of lanes."""
        self.tokens.append(value)

    def items(self, values: Any, encode: Encode | None = None) -> None:
        self.tokens.append(len(values))
        encode = encode or Encoder.value
        for index, value in enumerate(values):
            self.child(f"[{index}]", encode, value)

    def mapping(self, values: Mapping[Any, Any], encode: Encode | None = None) -> None:
        self.tokens.append(len(values))
        for key in sorted(values, key=str):
            self.text(str(key))
            self.child(f"[{key!r}]", encode or Encoder.value, values[key])

    def literal(self, value: Any) -> None:
        """A Python number, or the constant node that holds it: both mean the same in attributes."""
        number = value.value if isinstance(value, (ir.IntImm, ir.FloatImm)) else value
        if isinstance(number, float):
            self.tokens.append(f"float {number.hex()}")
        else:
            self.tokens.append(f"int {int(number)}")

    def name_of(self, value: enum.Enum | Op | ir.GlobalVar) -> None:
        self.tokens.append(value.name)

    def integer(self, node: ir.IntImm) -> None:
        self.tokens.append(node.dtype)
        self.tokens.append(node.value)

    def floating(self, node: ir.FloatImm) -> None:
        self.tokens.append(node.dtype)
        self.tokens.append(node.value.hex())

    def annotation(self, values: Mapping[str, Any]) -> None:
        self.mapping(values, Encoder.attribute)

    def attribute(self, value: Any) -> None:
        if isinstance(value, (ir.IntImm, ir.FloatImm)):
            self.literal(value)
        elif isinstance(value, ir.StringImm):
            self.text(value.value)
        elif isinstance(value, Mapping):
            self.annotation(value)
        elif isinstance(value, (tuple, list)):
            self.items(value, Encoder.attribute)
        else:
            self.value(value)

    # --- variables and buffers ---

    def define(self, var: ir.Var) -> None:
        """A variable where it is bound; binding it again makes it a new one."""
        self._number(var)
        self._var_type(var)

    def _number(self, var: ir.Var) -> int:
        self._count += 1
        self._numbers[var] = self._count
        return self._count

    def _var_type(self, var: ir.Var) -> None:
        self.tokens.append(var.dtype)
        pointer = var.type_annotation
        if pointer is not None:
            self.tokens.append(pointer.element_type)
            self.tokens.append(pointer.storage_scope)

    def use(self, var: ir.Var) -> None:
        number = self._numbers.get(var)
        if number is not None:
            self.tokens.append(number)
        elif self._map_free_vars:
            self.tokens.append("free")
            self.define(var)
        else:
            self.tokens.append(f"free {id(var)}")

    def use_or_define(self, value: Any) -> None:
        """An expression where an unbound variable standing alone becomes defined, as in a shape."""
        if isinstance(value, ir.Var) and value not in self._numbers:
            self.define(value)
        else:
            self.value(value)

    def use_or_define_all(self, values: tuple[Any, ...]) -> None:
        self.items(values, Encoder.use_or_define)

    def buffer(self, buffer: ir.Buffer) -> None:
        """A buffer where it is used; the first use of a free one defines it."""
        known = self._buffers.get(buffer)
        if known is not None and known[1] == self._numbers.get(buffer.data):
            self.tokens.append(known[0])
            return
        self.tokens.append("buffer")
        if not self._map_free_buffers and buffer.data not in self._numbers:
            self.tokens.append(f"free {id(buffer.data)}")
        self.declared_buffer(buffer)

    def declared_buffer(self, buffer: ir.Buffer) -> None:
        """A buffer over memory that may be bound already."""
        self.child("data", Encoder.use_or_define, buffer.data)
        self._buffer_fields(buffer)

    def defined_buffer(self, buffer: ir.Buffer) -> None:
        """A buffer that comes with its own memory."""
        self.child("data", Encoder.define, buffer.data)
        self._buffer_fields(buffer)

    def defined_buffers(self, buffers: tuple[ir.Buffer, ...]) -> None:
        self.items(buffers, Encoder.defined_buffer)

    def _buffer_fields(self, buffer: ir.Buffer) -> None:
        self.child("dtype", Encoder.word, buffer.dtype)
        self.child("shape", Encoder.use_or_define_all, buffer.shape)
        self.child("strides", Encoder.use_or_define_all, buffer.strides)
        offset = buffer.elem_offset
        if offset is not None and not ir.is_zero(offset):
            self.child("elem_offset", Encoder.use_or_define, offset)
        self.child("data_alignment", Encoder.word, buffer.data_alignment)
        factor = 0 if buffer.offset_factor == 1 else buffer.offset_factor  # both promise nothing
        self.child("offset_factor", Encoder.word, factor)
        self.child("axis_separators", Encoder.items, buffer.axis_separators)
        self._count += 1
        self._buffers[buffer] = (self._count, self._numbers.get(buffer.data))

    # --- nodes that need more than a list of fields ---

    def defined_vars(self, variables: tuple[ir.Var, ...]) -> None:
        self.items(variables, Encoder.define)

    def attr_target(self, target: Any) -> None:
        if isinstance(target, ir.Buffer):
            self.buffer(target)
        else:
            self.value(target)

    def function(self, func: PrimFunc) -> None:
        self.child("params", Encoder.defined_vars, func.params)
        for param in func.params:
            buffer = func.buffer_map.get(param)
            self.tokens.append("scalar" if buffer is None else "buffer")
            if buffer is not None:
                self.child(f"buffer_map[{param.name}]", Encoder.defined_buffer, buffer)
        self.child("ret_type", Encoder.text, func.ret_type)
        self.child("attrs", Encoder.annotation, func.attrs)
        self.child("body", Encoder.value, func.body)

    def module(self, module: IRModule) -> None:
        self.child("attrs", Encoder.annotation, module.attrs)
        self.child("functions", Encoder.text, ", ".join(sorted(module.functions)))
        for name in sorted(module.functions):
            self.child(name, Encoder.node, module.functions[name])


_VALUE_ENCODERS: tuple[tuple[Any, Encode], ...] = (
    (ir.DType, Encoder.word),
    (enum.Enum, Encoder.name_of),
    (str, Encoder.text),
    ((bool, int, float), Encoder.literal),
    ((tuple, list), Encoder.items),
    (Mapping, Encoder.mapping),
    (type(None), lambda encoder, _: encoder.word("None")),
    (Op, Encoder.name_of),
)


# The fields of classes that define something, or are not read as they are declared. The order
# matters: a definition comes before its uses, and what is evaluated outside a scope before the
# definition.
_ORDERS: dict[type, str] = {
    ir.PointerType: "element_type storage_scope",
    ir.Let: "value var body",
    ir.Call: "dtype op args",
    ir.IterVar: "dom var iter_type thread_tag",
    ir.CommReducer: "lhs rhs result identity_element",
    ir.Reduce: "combiner axis source condition value_index init",
    ir.BufferLoad: "buffer indices predicate",
    ir.BufferRegion: "buffer region",
    ir.BufferStore: "buffer indices value predicate",
    ir.For: "loop_var min extent kind thread_binding annotations body",
    ir.LetStmt: "value var body",
    ir.AttrStmt: "node attr_key value body",
    ir.Allocate: "extents condition buffer_var dtype annotations body",
    ir.AllocateConst: "extents buffer_var dtype data annotations body",
    ir.DeclBuffer: "buffer body",
    ir.MatchBufferRegion: "source buffer",
    ir.Block: "iter_vars alloc_buffers match_buffers reads writes annotations init body",
}
# How a field of these classes is read where its type does not say it.
_FIELDS: dict[str, Encode] = {
    "var": Encoder.define,
    "loop_var": Encoder.define,
    "buffer_var": Encoder.define,
    "lhs": Encoder.defined_vars,
    "rhs": Encoder.defined_vars,
    "buffer": Encoder.buffer,
    "alloc_buffers": Encoder.defined_buffers,
    "annotations": Encoder.annotation,
    "op": Encoder.name_of,
    "node": Encoder.attr_target,
    "storage_scope": Encoder.word,
}
_VIEWS: dict[type, Encode] = {
    ir.DeclBuffer: Encoder.declared_buffer,
    ir.MatchBufferRegion: Encoder.defined_buffer,
}
_TYPES: dict[Any, Encode] = {ir.DType: Encoder.word, int: Encoder.word, str: Encoder.text}
_plans: dict[type, tuple[tuple[str, Encode], ...]] = {}
# Classes that are more than a list of fields.
_WHOLE: dict[type, Encode] = {
    ir.Var: Encoder.use,
    ir.SizeVar: Encoder.use,
    ir.IntImm: Encoder.integer,
    ir.FloatImm: Encoder.floating,
    IRModule: Encoder.module,
    ir.Buffer: Encoder.buffer,
    PrimFunc: Encoder.function,
}


def _plan_of(node_class: type) -> tuple[tuple[str, Encode], ...]:
    """The fields of a class in order, with the way each is read."""
    types = {field.name: field.type for field in msgspec.structs.fields(node_class)}
    order = _ORDERS.get(node_class)
    special = {} if order is None else _FIELDS
    if node_class in _VIEWS:
        special = {"buffer": _VIEWS[node_class]}
    names = types if order is None else order.split()
    plan = tuple((name, special.get(name) or _by_type(types[name])) for name in names)
    _plans[node_class] = plan
    return plan


def _by_type(kind: Any) -> Encode:
    if get_origin(kind) is tuple:
        return Encoder.items
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return Encoder.name_of
    return _TYPES.get(kind, Encoder.value)
