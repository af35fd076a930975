"""A `Select` with a load that might fault becomes `if_then_else`, which loads what it chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.ir import (
    BufferLoad,
    Call,
    PrimExpr,
    PrimFunc,
    Rewriter,
    Select,
    Visitor,
    map_children,
)
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.walk import IF_THEN_ELSE
from tilewright.lowering.widen_expr import is_inside
from tilewright.target import Target


class _UnsafeFinder(Visitor):
    """Looks for loads at positions that are not known to lie inside the buffer."""

    def __init__(self) -> None:
        self.found = False

    def visit_buffer_load(self, node: BufferLoad) -> None:
        if node.predicate is None and not is_inside(node.buffer, node.indices):
            self.found = True

    def visit_call(self, node: Call) -> None:
        # The branches of if_then_else are protected by its condition.
        for arg in node.args[:1] if node.op is IF_THEN_ELSE else node.args:
            self.visit(arg)


def _is_unsafe(expr: PrimExpr) -> bool:
    finder = _UnsafeFinder()
    finder.visit(expr)
    return finder.found


class _SelectRewriter(Rewriter):
    def visit_int_imm(self, node: Any) -> Any:
        return node

    def visit_select(self, node: Select) -> PrimExpr:
        node = map_children(node, self.visit)
        if node.condition.dtype.lanes > 1:
            return node  # lanes are protected by the masks of their loads
        if not (_is_unsafe(node.true_value) or _is_unsafe(node.false_value)):
            return node
        args = (node.condition, node.true_value, node.false_value)
        return Call(node.dtype, IF_THEN_ELSE, args)


@register_pass
@dataclass(frozen=True)
class RewriteUnsafeSelect(FunctionPass):
    """Protect loads in the branches of selections."""

    name: ClassVar[str] = "RewriteUnsafeSelect"

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        return func.with_body(_SelectRewriter().rewrite(func.body))
