"""State of the parser while it is inside a function, a block or a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
