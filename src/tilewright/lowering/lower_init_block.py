"""`init` of a reduction block becomes an `if` on its reduction iterators before the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir import (
    Block,
    IfThenElse,
    IterType,
    PrimExpr,
    PrimFunc,
    Stmt,
    equal,
    logical_and,
    replace,
    seq,
)
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.walk import StmtRewriter, is_true
from tilewright.target import Target


def first_reduction_step(block: Block) -> PrimExpr:
    """The condition that every reduction iterator of a block stands at its first value."""
    reducers = [it for it in block.iter_vars if it.iter_type == IterType.COMM_REDUCE]
    return logical_and(*(equal(it.var, it.dom.min) for it in reducers if it.dom is not None))


class _InitLowerer(StmtRewriter):
    def visit_block(self, block: Block) -> Stmt:
        block = self.generic_visit(block)
        if block.init is None:
            return block
        condition = first_reduction_step(block)
        guarded = block.init if is_true(condition) else IfThenElse(condition, block.init)
        return replace(block, init=None, body=seq((guarded, block.body)))


@register_pass
@dataclass(frozen=True)
class LowerInitBlock(FunctionPass):
    """Run the init of each reduction block in its first reduction step."""

    name: ClassVar[str] = "LowerInitBlock"

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        return func.with_body(_InitLowerer().rewrite(func.body))
