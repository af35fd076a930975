"""Bindings of blocks to the loops around them: substituted and simplified.

Blocks with iterators mention loop variables at most in the domains of these, so a loop
transformation has to rewrite little more than the bindings (`BlockRealize`) below it. Blocks
without iterators may use the loops around them anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright import arith, ir
from tilewright.ir.visit import Substituter
from tilewright.schedule.state import StmtSRef
from tilewright.schedule.state.scope import domains_of, loops_from

Domains = dict[ir.Var, ir.Range]


def domains_above(loop: StmtSRef) -> Domains:
    """The domains of the loops around a loop, up to the nearest block, outermost first."""
    return domains_of(loops_from(loop.parent))


class BindingRewriter(Substituter):
    """Substitutes loop variables in everything below a loop and tidies the bindings it changed.

    `simple` gives for a variable the value to use where a binding is that variable and nothing
    else: it must be in normal form already, which saves the simplification. `normal` holds the
    bindings that are known to be in normal form; if loops are only renamed, they stay so.
    """

    def __init__(
        self,
        values: Mapping[ir.Var, ir.PrimExpr],
        simple: Mapping[ir.Var, ir.PrimExpr],
        domains: Domains,
        *,
        preserve_unit_iters: bool,
        predicate: ir.PrimExpr | None = None,
        normal: set[ir.PrimExpr] | None = None,
    ) -> None:
        super().__init__(values.get)
        self._normal = set() if normal is None else normal
        self._only_renames = all(type(value) is ir.Var for value in values.values())
        self._values = values
        self._simple = simple
        self._domains = domains
        self._preserve_unit_iters = preserve_unit_iters
        self._predicate = predicate
        self.reuse: dict[ir.Block, ir.Block] = {}  # blocks that changed, and what became of them

    def visit_for(self, loop: ir.For) -> ir.For:
        self._domains[loop.loop_var] = ir.Range(self._bound(loop.min), self._bound(loop.extent))
        if type(loop.min) is type(loop.extent) is ir.IntImm and not loop.annotations:
            return ir.map_statements(loop, self.visit)  # nothing else has variables
        return ir.map_children(loop, self.visit)

    def _bound(self, bound: ir.PrimExpr) -> ir.PrimExpr:
        return bound if type(bound) is ir.IntImm else self.rewrite(bound)

    def visit_block_realize(self, realize: ir.BlockRealize) -> ir.BlockRealize:
        tidy = not self._preserve_unit_iters  # any iterator may sit on a loop of one iteration
        values: list[ir.PrimExpr] = []
        for value in realize.iter_values:
            if type(value) is ir.Var:
                values.append(self._simple.get(value, value))
            elif ir.uses_var(value, self._values.__contains__):
                renamed = self._only_renames and value in self._normal
                value = self.rewrite(value)
                values.append(value)
                if renamed:
                    self._normal.add(value)
                else:
                    tidy = True
            else:
                values.append(value)
        predicate = realize.predicate
        if type(predicate) is not ir.IntImm:
            predicate = self.rewrite(predicate)
        if self._predicate is not None:
            predicate = ir.logical_and(predicate, self._predicate)
        if tidy:
            values = simplify_bindings(
                values, self._domains, predicate, preserve_unit_iters=self._preserve_unit_iters
            )
            self._normal.update(values)
        return ir.BlockRealize(tuple(values), predicate, self._block(realize.block))

    def _block(self, block: ir.Block) -> ir.Block:
        if block.iter_vars:
            iter_vars = ir.map_tuple(block.iter_vars, self._iterator)
            changed = (
                block if iter_vars is block.iter_vars else ir.replace(block, iter_vars=iter_vars)
            )
        elif ir.uses_var(block, self._values.__contains__):
            changed = self._opaque(block)
        else:
            return block
        if changed is not block:
            self.reuse[block] = changed
        return changed

    def _iterator(self, iter_var: ir.IterVar) -> ir.IterVar:
        domain = iter_var.dom
        return (
            iter_var
            if domain is None or type(domain.extent) is ir.IntImm
            else self.rewrite(iter_var)
        )

    def _opaque(self, block: ir.Block) -> ir.Block:
        """A block without iterators; what guards the block guards what is inside it, too."""
        guard, self._predicate = self._predicate, None
        changed = self.rewrite(block)
        self._predicate = guard
        return changed


def simplify_bindings(
    values: Sequence[ir.PrimExpr],
    domains: Mapping[ir.Var, ir.Range],
    predicate: ir.PrimExpr = ir.TRUE,
    *,
    preserve_unit_iters: bool = True,
) -> list[ir.PrimExpr]:
    """Bindings as sums of loop variables in descending order; unchanged if they are none."""
    return arith.iter_map_simplify(
        values, domains, predicate, arith.IterMapLevel.SURJECTIVE, not preserve_unit_iters
    )
