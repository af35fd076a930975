"""IR as JSON and back, with sharing kept: a variable used twice is one variable again.

    {"tilewright": 1, "root": 5, "nodes": [["Var", "i", "int32", null], ...]}

A node is the name of its class and its fields in order; a node inside a field is its position in
the list, and always an earlier one. What is no node (attributes, annotations) is written as it is,
with an object of one key where JSON alone would lose the type.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

from tilewright.errors import IRError, RegistryError
from tilewright.ir import function as _function  # noqa: F401 - defines all node classes below
from tilewright.ir.dtype import DType
from tilewright.ir.expr import GlobalVar
from tilewright.ir.node import Node, NodeT
from tilewright.ir.op import Op

SCHEMA_VERSION: Final = 1
Encode = Callable[["_Writer", Any], Any]
Decode = Callable[["_Reader", Any], Any]
TypeT = TypeVar("TypeT", bound=type)


def save_json(node: Node) -> str:
    """A node and all below it as text."""
    writer = _Writer()
    root = writer.reference(node)
    document = {"tilewright": SCHEMA_VERSION, "root": root, "nodes": writer.nodes}
    return msgspec.json.encode(document).decode()


def load_json(text: str | bytes) -> Any:
    """The node that `save_json` wrote."""
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise IRError(f"not a JSON document: {error}") from None
    if not isinstance(document, dict) or "tilewright" not in document:
        raise IRError("not IR saved by Tilewright: the key 'tilewright' is missing")
    if document["tilewright"] != SCHEMA_VERSION:
        raise IRError(
            f"the IR was saved with schema {document['tilewright']}, "
            f"this version reads schema {SCHEMA_VERSION}"
        )
    try:
        return _Reader(document["nodes"]).nodes[document["root"]]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise IRError(f"the saved IR is damaged: {error!r}") from error


_TypeT = TypeVar("_TypeT")
_dataclasses: dict[str, type] = {}


def register_json_type(dataclass: type[_TypeT]) -> type[_TypeT]:
    """Allow instances of a frozen dataclass as attribute values in saved and printed IR."""
    name = dataclass.__name__
    if _dataclasses.setdefault(name, dataclass) is not dataclass:
        raise RegistryError(f"another type called {name!r} is already registered for JSON")
    return dataclass


def registered_json_type(name: str) -> type | None:
    """The dataclass that was registered under its name."""
    return _dataclasses.get(name)


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self._positions: dict[int, int] = {}
        self._alive: list[Node] = []  # ids stay unique while the nodes live

    def reference(self, node: Node | None) -> int | None:
        """The position of a node in the list; it is written there at first sight."""
        if node is None:
            return None
        position = self._positions.get(id(node))
        if position is None:
            record: list[Any] = [type(node).__name__]
            for name, encode, _ in _fields(type(node)):
                record.append(encode(self, getattr(node, name)))
            position = self._positions[id(node)] = len(self.nodes)
            self.nodes.append(record)
            self._alive.append(node)
        return position

    def references(self, nodes: tuple[Node, ...]) -> list[int | None]:
        return [self.reference(node) for node in nodes]

    def operator(self, op: Op | GlobalVar) -> str | int | None:
        return op.name if isinstance(op, Op) else self.reference(op)

    def number(self, value: float) -> float | str:
        return value if math.isfinite(value) else str(value)

    def name_of(self, value: enum.Enum) -> str:
        return value.name

    def text(self, value: str) -> str:
        return str(value)

    def plain(self, value: Any) -> Any:
        return value

    def anything(self, value: Any) -> Any:
        """A value of a field that may hold anything."""
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, Node):
            return {"node": self.reference(value)}
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, (tuple, list)):
            return [self.anything(item) for item in value]
        if isinstance(value, Mapping):
            pairs = [[self.anything(key), self.anything(item)] for key, item in value.items()]
            return {"map": pairs}
        if isinstance(value, DType):
            return {"dtype": str(value)}
        if type(value).__name__ in _dataclasses and dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            fields = [self.anything(getattr(value, name)) for name in names]
            return {"dataclass": [type(value).__name__, *fields]}
        raise IRError(
            f"a value of type {type(value).__qualname__} cannot be saved as JSON; "
            "if it is a frozen dataclass, pass its type to tilewright.ir.json.register_json_type"
        )


class _Reader:
    def __init__(self, records: list[list[Any]]) -> None:
        self.nodes: list[Any] = []
        for record in records:
            node_class = _node_class(record[0])
            if node_class is None:
                raise IRError(f"the saved IR has a node of unknown class {record[0]!r}")
            codecs = _fields(node_class)
            values = (
                decode(self, value)
                for (_, _, decode), value in zip(codecs, record[1:], strict=True)
            )
            self.nodes.append(node_class(*values))

    def reference(self, position: int | None) -> Any:
        return None if position is None else self.nodes[position]

    def references(self, positions: list[int]) -> tuple[Any, ...]:
        return tuple([self.nodes[position] for position in positions])

    def operator(self, value: str | int) -> Any:
        return Op.get(value) if isinstance(value, str) else self.nodes[value]

    def number(self, value: float | str) -> float:
        return float(value)

    def plain(self, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    def dtype(self, value: str) -> DType:
        return DType(value)

    def anything(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(self.anything(item) for item in value)
        if not isinstance(value, dict):
            return value
        ((tag, content),) = value.items()
        return _TAGS[tag](self, content)

    def mapping(self, pairs: list[list[Any]]) -> dict[Any, Any]:
        return {self.anything(key): self.anything(item) for key, item in pairs}

    def dataclass(self, content: list[Any]) -> Any:
        kind = _dataclasses.get(content[0])
        if kind is None:
            raise IRError(f"the saved IR needs the type {content[0]!r}, which is not registered")
        return kind(*(self.anything(item) for item in content[1:]))


_TAGS: dict[str, Decode] = {
    "node": _Reader.reference,
    "float": _Reader.number,
    "map": _Reader.mapping,
    "dtype": _Reader.dtype,
    "dataclass": _Reader.dataclass,
}


@functools.cache
def _node_classes() -> dict[str, type[Node]]:
    """Every class of node that this package defines, by name."""

    def below(node_class: type[Node]) -> Iterator[type[Node]]:
        for derived in node_class.__subclasses__():
            yield derived
            yield from below(derived)

    return {each.__name__: each for each in below(Node) if each.__module__.startswith(__package__)}


_registered: dict[str, type[Node]] = {}


def register_node_class(node_class: type[NodeT]) -> type[NodeT]:
    """Let nodes of a class defined outside of the IR be saved, too."""
    _registered[node_class.__name__] = node_class
    return node_class


def _node_class(name: str) -> type[Node] | None:
    return _node_classes().get(name) or _registered.get(name)


@functools.cache
def _fields(node_class: type[Node]) -> tuple[tuple[str, Encode, Decode], ...]:
    """Name, encoder and decoder of each field of a class."""
    if _node_class(node_class.__name__) is not node_class:
        raise IRError(f"{node_class.__qualname__} is not part of TensorIR and cannot be saved")
    fields = msgspec.structs.fields(node_class)
    return tuple((field.name, *_codec(field.type)) for field in fields)


def _codec(kind: Any) -> tuple[Encode, Decode]:
    """How values of a declared type are written and read."""
    options = get_args(kind) if get_origin(kind) in (types.UnionType, Union) else (kind,)
    options = tuple(option for option in options if option is not type(None))
    if Op in options:
        return _Writer.operator, _Reader.operator
    if all(_is_a(option, Node) for option in options):
        return _Writer.reference, _Reader.reference
    (single, *others) = options
    if others:
        return _Writer.anything, _Reader.anything
    if get_origin(single) is tuple:
        return _tuple_codec(get_args(single)[0])
    if _is_a(single, enum.Enum):
        return _Writer.name_of, lambda reader, name: single[name]
    return _SCALARS.get(single, (_Writer.anything, _Reader.anything))


def _tuple_codec(element: Any) -> tuple[Encode, Decode]:
    if _is_a(element, Node):
        return _Writer.references, _Reader.references
    if element is int:
        return _Writer.plain, _Reader.plain
    return _Writer.anything, _Reader.anything


_SCALARS: dict[Any, tuple[Encode, Decode]] = {
    DType: (_Writer.text, _Reader.dtype),
    str: (_Writer.plain, _Reader.plain),
    int: (_Writer.plain, _Reader.plain),
    float: (_Writer.number, _Reader.number),
}


def _is_a(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)
