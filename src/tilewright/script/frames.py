"""State of the parser inside a function, a block or a loop, and the names that it sees there."""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilewright import ir


@dataclasses.dataclass
class BlockFrame:
    """A block under construction."""

    name: str
    no_realize: bool = False
    iter_vars: list[ir.IterVar] = dataclasses.field(default_factory=list)
    iter_values: list[ir.PrimExpr] = dataclasses.field(default_factory=list)
    predicate: ir.PrimExpr | None = None
    reads: tuple[ir.BufferRegion, ...] | None = None
    writes: tuple[ir.BufferRegion, ...] | None = None
    annotations: dict[str, Any] = dataclasses.field(default_factory=dict)
    alloc_buffers: list[ir.Buffer] = dataclasses.field(default_factory=list)
    match_buffers: list[ir.MatchBufferRegion] = dataclasses.field(default_factory=list)
    init: ir.Stmt | None = None

    def block(self, body: ir.Stmt) -> ir.Block:
        """The block; regions that were not given are left empty."""
        return ir.Block(
            tuple(self.iter_vars),
            self.reads or (),
            self.writes or (),
            self.name,
            body,
            self.init,
            tuple(self.alloc_buffers),
            tuple(self.match_buffers),
            self.annotations,
        )

    def realize(self, block: ir.Block) -> ir.Stmt:
        """The statement that runs the block."""
        if self.no_realize:
            return block
        predicate = ir.TRUE if self.predicate is None else self.predicate
        return ir.BlockRealize(tuple(self.iter_values), predicate, block)


@dataclasses.dataclass
class FunctionFrame:
    """A function under construction."""

    name: str
    params: list[ir.Var] = dataclasses.field(default_factory=list)
    buffer_map: dict[ir.Var, ir.Buffer] = dataclasses.field(default_factory=dict)
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    root_buffers: list[ir.Buffer] = dataclasses.field(default_factory=list)
    buffers: list[ir.Buffer] = dataclasses.field(default_factory=list)  # all that were declared


def plain_value(value: Any) -> Any:
    """An annotation value as Python data: constants of the default types become numbers."""
    match value:
        case ir.IntImm(dtype="bool"):
            return bool(value.value)
        case ir.IntImm(dtype="int32") | ir.StringImm():
            return value.value
        case ir.FloatImm(dtype="float32"):
            return value.value
        case list() | tuple():
            return tuple(map(plain_value, value))
        case Mapping():
            return {str(plain_value(key)): plain_value(item) for key, item in value.items()}
    return value


class Environment:
    """Nested scopes over the names that Python provides."""

    def __init__(self, outer: Mapping[str, Any]) -> None:
        self._names: ChainMap[str, Any] = ChainMap({}, dict(outer))  # the innermost scope first
        self._ended: dict[str, str] = {}  # names whose scope is over, and why they are gone

    @contextmanager
    def scope(self, ended_because: str = "") -> Iterator[None]:
        """Names defined inside are gone afterwards."""
        self._names = self._names.new_child()
        yield
        for name in self._names.maps[0]:
            self._ended[name] = ended_because
        self._names = self._names.parents

    def define(self, name: str, value: Any) -> None:
        self._names[name] = value
        self._ended.pop(name, None)

    def assign(self, name: str, value: Any) -> None:
        """Give a Python-level name a new value in the scope that has it."""
        for scope in self._names.maps[:-1]:
            if name in scope:
                scope[name] = value
                return
        self.define(name, value)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def lookup(self, name: str) -> Any:
        return self._names[name]

    def ended(self, name: str) -> str | None:
        """Why a name that existed before is not visible any more."""
        return self._ended.get(name) or None

    def own_names(self) -> list[str]:
        """The names that the script itself defined, for hints."""
        return [name for scope in reversed(self._names.maps[:-1]) for name in scope]

    def flattened(self) -> dict[str, Any]:
        """All visible names, for code that Python itself evaluates."""
        return dict(self._names)
