"""How blocks are bound to the loops around them: substituting and simplifying those bindings.

Blocks never mention loop variables themselves, so a loop transformation only has to rewrite the
bindings (`BlockRealize`) below it; the blocks, and the references to them, stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.arith import IterMapLevel, iter_map_simplify
from tilewright.ir import (
    TRUE,
    BlockRealize,
    For,
    IntImm,
    PrimExpr,
    Range,
    SeqStmt,
    Stmt,
    Var,
    logical_and,
    map_tuple,
    replace,
    substitute,
    uses_var,
)
from tilewright.schedule.sref import StmtSRef

Domains = dict[Var, Range]


def domains_above(loop: StmtSRef) -> Domains:
    """The domains of the loops around a loop, up to the nearest block, outermost first."""
    domains: list[tuple[Var, Range]] = []
    parent = loop.parent
    while parent is not None and type(parent.stmt) is For:
        domains.append((parent.stmt.loop_var, Range(parent.stmt.min, parent.stmt.extent)))
        parent = parent.parent
    return dict(reversed(domains))


class BindingRewriter:
    """Substitutes loop variables in everything below a loop and tidies the bindings it changed.

    `simple` gives for a variable the value to use where a binding is that variable and nothing
    else: it must be in normal form already, which saves the simplification. `normal` holds the
    bindings that are known to be in normal form; if loops are only renamed, they stay so.
    """

    def __init__(
        self,
        values: Mapping[Var, PrimExpr],
        simple: Mapping[Var, PrimExpr],
        domains: Domains,
        *,
        preserve_unit_iters: bool,
        predicate: PrimExpr | None = None,
        normal: set[PrimExpr] | None = None,
    ) -> None:
        self._normal = set() if normal is None else normal
        self._only_renames = all(type(value) is Var for value in values.values())
        self._values = values
        self._simple = simple
        self._domains = domains
        self._preserve_unit_iters = preserve_unit_iters
        self._predicate = predicate

    def rewrite(self, stmt: Stmt) -> Stmt:
        """`stmt` with the variables replaced."""
        kind = type(stmt)
        if kind is For:
            return self._loop(stmt)  # type: ignore[arg-type]
        if kind is BlockRealize:
            return self._realize(stmt)  # type: ignore[arg-type]
        if kind is SeqStmt:
            items: tuple[Stmt, ...] = stmt.seq  # type: ignore[attr-defined]
            changed = map_tuple(items, self.rewrite)
            return stmt if changed is items else SeqStmt(changed)
        return substitute(stmt, self._values)

    def _loop(self, loop: For) -> Stmt:
        begin, extent = self._bound(loop.min), self._bound(loop.extent)
        self._domains[loop.loop_var] = Range(begin, extent)
        body = self.rewrite(loop.body)
        if body is loop.body and begin is loop.min and extent is loop.extent:
            return loop
        return replace(loop, min=begin, extent=extent, body=body)

    def _bound(self, bound: PrimExpr) -> PrimExpr:
        return bound if type(bound) is IntImm else substitute(bound, self._values)

    def _realize(self, realize: BlockRealize) -> Stmt:
        tidy = not self._preserve_unit_iters  # any iterator may sit on a loop of one iteration
        values: list[PrimExpr] = []
        for value in realize.iter_values:
            if type(value) is Var:
                values.append(self._simple.get(value, value))
            elif uses_var(value, self._values.__contains__):
                renamed = self._only_renames and value in self._normal
                value = substitute(value, self._values)
                values.append(value)
                if renamed:
                    self._normal.add(value)
                else:
                    tidy = True
            else:
                values.append(value)
        predicate = realize.predicate
        if type(predicate) is not IntImm:
            predicate = substitute(predicate, self._values)
        if self._predicate is not None:
            predicate = logical_and(predicate, self._predicate)
        if tidy:
            values = simplify_bindings(
                values, self._domains, predicate, preserve_unit_iters=self._preserve_unit_iters
            )
            self._normal.update(values)
        return BlockRealize(tuple(values), predicate, realize.block)


def simplify_bindings(
    values: Sequence[PrimExpr],
    domains: Mapping[Var, Range],
    predicate: PrimExpr = TRUE,
    *,
    preserve_unit_iters: bool = True,
) -> list[PrimExpr]:
    """Bindings as sums of loop variables in descending order; unchanged if they are none."""
    return iter_map_simplify(
        values, domains, predicate, IterMapLevel.SURJECTIVE, not preserve_unit_iters
    )
