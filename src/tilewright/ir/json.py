"""IR as JSON and back, with sharing kept: a variable used twice is one variable again.

    {"tilewright": 1, "root": 5, "nodes": [["Var", "i", "int32", null], ...]}

A node is the name of its class and its fields in order; a node inside a field is its position in
the list, and always an earlier one. What is no node (attributes, annotations) is written as it is,
with an object of one key where JSON alone would lose the type.

The text may come from anybody: reading checks every field against its declared type, and refuses
programs that are nested so deeply, or share so much, that working on them would never end.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

from tilewright.errors import IRError, RegistryError
from tilewright.ir import function as _function  # noqa: F401 - defines all node classes below
from tilewright.ir.dtype import DType
from tilewright.ir.expr import GlobalVar
from tilewright.ir.node import Node, NodeT
from tilewright.ir.op import Op
from tilewright.support.decoding import decoding
from tilewright.support.nesting import nested_deeply
from tilewright.target import Target

# Of a program with everything that is shared written out. Our largest have a few thousand nodes;
# the simplifier, the printer and structural equality look at each of them.
MAX_NODES: Final = 1_000_000
MAX_NESTING: Final = 2_000
SCHEMA_VERSION: Final = 1
Encode = Callable[["_Writer", Any], Any]
Decode = Callable[["_Reader", Any], Any]
Check = Callable[[Any], bool]
TypeT = TypeVar("TypeT", bound=type)


@nested_deeply(IRError, "the program to save")
def save_json(node: Node) -> str:
    """A node and all below it as text."""
    writer = _Writer()
    root = writer.reference(node)
    document = {"tilewright": SCHEMA_VERSION, "root": root, "nodes": writer.nodes}
    return msgspec.json.encode(document).decode()


def load_json(text: str | bytes) -> Any:
    """The node that `save_json` wrote."""
    with decoding("not a JSON document", IRError):
        document = msgspec.json.decode(text)
    if not isinstance(document, dict) or "tilewright" not in document:
        raise IRError("not IR saved by Tilewright: the key 'tilewright' is missing")
    if document["tilewright"] != SCHEMA_VERSION:
        raise IRError(
            f"the IR was saved with schema {document['tilewright']!r}, "
            f"this version reads schema {SCHEMA_VERSION}"
        )
    with decoding("the saved IR is damaged", IRError):
        reader = _Reader(document["nodes"])
        return reader.node_at(document["root"])


def checked_node(node: NodeT) -> NodeT:
    """A node that was made from another format, through the checks of this one."""
    checked: NodeT = load_json(save_json(node))
    return checked


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
            for name, encode, _, _ in _fields(type(node)):
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
        if isinstance(value, Target):
            return {"target": self.anything(value.export())}
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
        self._extents: list[tuple[int, int]] = []  # nodes written out, and nesting, by position
        for position, record in enumerate(records):
            self._count, self._depth = 1, 0
            self.nodes.append(self._made(position, record))
            if self._count > MAX_NODES:
                told = f"it shares so much that it stands for more than {MAX_NODES:,} nodes"
                raise ValueError(told)
            if self._depth >= MAX_NESTING:
                raise ValueError(f"nodes are nested more than {MAX_NESTING:,} deep")
            self._extents.append((self._count, self._depth + 1))

    def _made(self, position: int, record: list[Any]) -> Node:
        node_class = _node_class(record[0])
        if node_class is None:
            raise ValueError(f"it has a node of unknown class {record[0]!r}")
        values = []
        for (name, _, decode, fits), value in zip(_fields(node_class), record[1:], strict=True):
            decoded = decode(self, value)
            if not fits(decoded):
                raise ValueError(f"{name} of node {position} ({record[0]}) is {_shown(value)}")
            values.append(decoded)
        return node_class(*values)

    def node_at(self, position: int) -> Any:
        """An earlier node; the one being read grows by all that it stands for."""
        if type(position) is not int or not 0 <= position < len(self._extents):
            raise ValueError(f"{_shown(position)} is not the position of an earlier node")
        count, depth = self._extents[position]
        self._count += count
        self._depth = max(self._depth, depth)
        return self.nodes[position]

    def reference(self, position: int | None) -> Any:
        return None if position is None else self.node_at(position)

    def references(self, positions: list[int]) -> tuple[Any, ...]:
        return tuple([self.node_at(position) for position in positions])

    def operator(self, value: str | int) -> Any:
        return Op.get(value) if isinstance(value, str) else self.node_at(value)

    def number(self, value: float | str) -> float:
        return float(value)

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
    "dtype": lambda reader, name: DType(name),
    "dataclass": _Reader.dataclass,
    "target": lambda reader, description: Target(reader.anything(description)),
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
def _fields(node_class: type[Node]) -> tuple[tuple[str, Encode, Decode, Check], ...]:
    """Name, encoder, decoder and check of each field of a class."""
    if _node_class(node_class.__name__) is not node_class:
        raise IRError(f"{node_class.__qualname__} is not part of TensorIR and cannot be saved")
    fields = msgspec.structs.fields(node_class)
    return tuple((field.name, *_codec(field.type), _check(field.type)) for field in fields)


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
    if get_origin(single) is tuple and _is_a(get_args(single)[0], Node):
        return _Writer.references, _Reader.references
    if _is_a(single, enum.Enum):
        return lambda writer, value: value.name, lambda reader, name: single[name]
    return _SCALARS.get(single, (_Writer.anything, _Reader.anything))


_SCALARS: dict[Any, tuple[Encode, Decode]] = {
    DType: (lambda writer, dtype: str(dtype), lambda reader, name: DType(name)),
    str: (lambda writer, text: text, lambda reader, text: text),
    int: (lambda writer, value: value, lambda reader, value: value),
    float: (_Writer.number, _Reader.number),
}


def _is_a(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _check(kind: Any) -> Check:
    """Whether a value is of a declared type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        options = [_check(part) for part in parts]
        return lambda value: any(fits(value) for fits in options)
    if origin is tuple:
        fits_item = _check(parts[0])
        return lambda value: type(value) is tuple and all(map(fits_item, value))
    if origin is abc.Mapping:
        fits_key, fits_value = map(_check, parts)
        return lambda value: (
            isinstance(value, Mapping)
            and all(map(fits_key, value))
            and all(map(fits_value, value.values()))
        )
    if kind is Any:
        return lambda value: True
    return lambda value: isinstance(value, kind)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
