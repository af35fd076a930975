"""Terms that are zero by construction are not added, below loops marked `skip_zero_terms`.

A transposed convolution multiplies weights with a zero wherever its input was stretched:
`acc = acc + if_then_else(on_grid, x, 0) * w`. Under the annotation this becomes
`if on_grid: acc = acc + x * w`, which is the same unless a skipped weight is infinite or not a
number (zero times which would be no number either). Unrolled, the tests are constants, and three
quarters of the work of a stride of two vanish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir import (
    Add,
    BufferLoad,
    BufferStore,
    Call,
    FloatImm,
    For,
    IfThenElse,
    IntImm,
    Mul,
    PrimExpr,
    PrimFunc,
    Stmt,
    add,
    multiply,
    replace,
    structural_equal,
)
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.walk import IF_THEN_ELSE, StmtRewriter
from tilewright.target import Target

SKIP_ZERO_TERMS = "skip_zero_terms"


def _is_zero(expr: PrimExpr) -> bool:
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == 0


def _guarded(term: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """(condition, term) of a product with a factor that is zero unless the condition holds."""
    if not isinstance(term, Mul):
        return None
    for factor, other in ((term.a, term.b), (term.b, term.a)):
        match factor:
            case Call(op=op, args=(condition, value, zero)) if op is IF_THEN_ELSE and _is_zero(
                zero
            ):
                left = factor is term.a
                return condition, multiply(value, other) if left else multiply(other, value)
    return None


class _Skipper(StmtRewriter):
    def __init__(self) -> None:
        self._marked = 0

    def visit_for(self, node: For) -> Stmt:
        is_marked = SKIP_ZERO_TERMS in node.annotations
        self._marked += is_marked
        result: Stmt = self.generic_visit(node)
        self._marked -= is_marked
        if not is_marked or not isinstance(result, For):
            return result
        rest = {key: note for key, note in result.annotations.items() if key != SKIP_ZERO_TERMS}
        return replace(result, annotations=rest)

    def visit_buffer_store(self, node: BufferStore) -> Stmt:
        match node.value:
            case Add(a=BufferLoad() as old, b=term) if self._marked and _same(old, node):
                found = _guarded(term)
                if found is not None:
                    condition, plain = found
                    return IfThenElse(condition, replace(node, value=add(old, plain)))
        return node


def _same(load: BufferLoad, store: BufferStore) -> bool:
    return load.buffer.data is store.buffer.data and all(
        map(structural_equal, load.indices, store.indices)
    )


@register_pass
@dataclass(frozen=True)
class SkipZeroTerms(FunctionPass):
    """Do not add what is zero by construction, where the schedule allows it."""

    name: ClassVar[str] = "SkipZeroTerms"

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        return func.with_body(_Skipper().rewrite(func.body))
