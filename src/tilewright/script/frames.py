"""State of the parser while it is inside a function, a block or a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    FloatImm,
    IntImm,
    IterVar,
    MatchBufferRegion,
    PrimExpr,
    Stmt,
    StringImm,
    Var,
)
from tilewright.ir.stmt import Enclose, enclosed


def fold(items: Sequence[Stmt | Enclose]) -> Stmt:
    """Statements and bindings in order; what the user wrote stays, even where it does nothing."""
    return enclosed(items, keeps_no_ops=True)


@dataclasses.dataclass
class BlockFrame:
    """A block under construction."""

    name: str
    no_realize: bool = False
    iter_vars: list[IterVar] = dataclasses.field(default_factory=list)
    iter_values: list[PrimExpr] = dataclasses.field(default_factory=list)
    predicate: PrimExpr | None = None
    reads: tuple[BufferRegion, ...] | None = None
    writes: tuple[BufferRegion, ...] | None = None
    annotations: dict[str, Any] = dataclasses.field(default_factory=dict)
    alloc_buffers: list[Buffer] = dataclasses.field(default_factory=list)
    match_buffers: list[MatchBufferRegion] = dataclasses.field(default_factory=list)
    init: Stmt | None = None

    def block(self, body: Stmt) -> Block:
        """The block; regions that were not given are left empty."""
        return Block(
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

    def realize(self, block: Block) -> Stmt:
        """The statement that runs the block."""
        if self.no_realize:
            return block
        predicate = TRUE if self.predicate is None else self.predicate
        return BlockRealize(tuple(self.iter_values), predicate, block)


@dataclasses.dataclass
class FunctionFrame:
    """A function under construction."""

    name: str
    params: list[Var] = dataclasses.field(default_factory=list)
    buffer_map: dict[Var, Buffer] = dataclasses.field(default_factory=dict)
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    root_buffers: list[Buffer] = dataclasses.field(default_factory=list)
    buffers: list[Buffer] = dataclasses.field(default_factory=list)  # all that were declared


def plain_value(value: Any) -> Any:
    """An annotation value as Python data: constants of the default types become numbers."""
    match value:
        case IntImm(dtype="bool"):
            return bool(value.value)
        case IntImm(dtype="int32") | StringImm():
            return value.value
        case FloatImm(dtype="float32"):
            return value.value
        case list() | tuple():
            return tuple(map(plain_value, value))
        case Mapping():
            return {str(plain_value(key)): plain_value(item) for key, item in value.items()}
    return value
