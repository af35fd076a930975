"""Terms that are zero by construction are not added, below loops marked `skip_zero_terms`.

A transposed convolution multiplies weights with a zero wherever its input was stretched:
`acc = acc + if_then_else(on_grid, x, 0) * w`. Under the annotation this becomes
`if on_grid: acc = acc + x * w`, which is the same unless a skipped weight is infinite or not a
number (zero times which would be no number either). Unrolled, the tests are constants, and three
quarters of the work of a stride of two vanish.

Each part of a condition goes to the innermost loop that it depends on. Inside a tile that is
written out it is marked `likely`, so that the loops around it are cut: a padded convolution then
tests nothing but in the tiles at its borders.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.ir.annotation_keys import SKIP_ZERO_TERMS
from tilewright.ir.intrinsics import likely
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import IF_THEN_ELSE, StmtRewriter, is_element
from tilewright.lowering.widen_expr import conjuncts

_WRITTEN_OUT = (ir.ForKind.UNROLLED, ir.ForKind.VECTORIZED)


def _guarded(term: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr] | None:
    """(condition, term) of a product with a factor that is zero unless the condition holds."""
    if not isinstance(term, ir.Mul):
        return None
    for factor, other in ((term.a, term.b), (term.b, term.a)):
        match factor:
            case ir.Call(
                op=op, args=(condition, value, ir.IntImm(value=0) | ir.FloatImm(value=0.0))
            ) if op is IF_THEN_ELSE:
                left = factor is term.a
                return condition, ir.multiply(value, other) if left else ir.multiply(other, value)
    return None


class _Skipper(StmtRewriter):
    def __init__(self) -> None:
        self._marked = 0
        self._guards: set[ir.IfThenElse] = set()  # those that may still move outwards

    def visit_for(self, node: ir.For) -> ir.Stmt:
        is_marked = SKIP_ZERO_TERMS in node.annotations
        self._marked += is_marked
        loop: ir.Stmt = self.generic_visit(node)
        self._marked -= is_marked
        assert isinstance(loop, ir.For)
        if is_marked:
            notes = {key: note for key, note in loop.annotations.items() if key != SKIP_ZERO_TERMS}
            loop = ir.replace(loop, annotations=notes)
        return self._around(loop) if self._marked or is_marked else loop

    def _around(self, loop: ir.For) -> ir.Stmt:
        """A loop with only those parts of the guard below it inside that change in it."""
        guard = loop.body
        if not isinstance(guard, ir.IfThenElse) or guard not in self._guards:
            return loop
        parts = conjuncts(guard.condition)
        changing = [part for part in parts if ir.uses_var(part, lambda var: var is loop.loop_var)]
        body = guard.then_case
        if changing:
            inside = ir.logical_and(*changing)
            body = ir.IfThenElse(likely(inside) if loop.kind in _WRITTEN_OUT else inside, body)
        loop = ir.replace(loop, body=body)
        others = [part for part in parts if part not in set(changing)]
        return self._guarded(ir.logical_and(*others), loop) if others else loop

    def _guarded(self, condition: ir.PrimExpr, body: ir.Stmt) -> ir.Stmt:
        guard = ir.IfThenElse(condition, body)
        self._guards.add(guard)
        return guard

    def visit_if_then_else(self, node: ir.IfThenElse) -> ir.Stmt:
        made: ir.Stmt = self.generic_visit(node)
        match made:
            case ir.IfThenElse(
                condition=condition, then_case=ir.IfThenElse() as guard, else_case=None
            ) if guard in self._guards:
                inside = ir.IfThenElse(condition, guard.then_case)
                return self._guarded(guard.condition, inside)
        return made

    def visit_decl_buffer(self, node: ir.DeclBuffer) -> ir.Stmt:
        made = self.generic_visit(node)
        guard = made.body
        if not isinstance(guard, ir.IfThenElse) or guard not in self._guards:
            return made
        return self._guarded(guard.condition, ir.replace(made, body=guard.then_case))

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.Stmt:
        match node.value:
            case ir.Add(a=old, b=term) if self._marked and is_element(old, node):
                found = _guarded(term)
                if found is not None:
                    condition, plain = found
                    return self._guarded(condition, ir.replace(node, value=ir.add(old, plain)))
        return node


@function_pass
def SkipZeroTerms(func: ir.PrimFunc) -> ir.PrimFunc:
    """Do not add what is zero by construction, where the schedule allows it."""
    return func.with_body(_Skipper().rewrite(func.body))
