"""Quotients and remainders of one number, recognised after the remainder was simplified.

`(a * 32 + b) // 15` and `(a * 2 + b) % 15` are the two parts of `a * 32 + b`: multiples of the
divisor change no remainder. Written with one dividend, they are an iterator map.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import ir
from tilewright.arith.analyzer import Analyzer


def with_common_dividends(indices: Sequence[ir.PrimExpr]) -> list[ir.PrimExpr] | None:
    """The indices with remainders of what others are quotients of; None if nothing changes."""
    dividends: dict[int, list[ir.PrimExpr]] = {}

    def collect(node: object) -> None:
        match node:
            case ir.FloorDiv(a=dividend, b=ir.IntImm(value=divisor)) if divisor > 0:
                dividends.setdefault(divisor, []).append(dividend)

    for index in indices:
        ir.post_order_visit(index, collect)
    rewriter = _Remainders(dividends)
    changed = [rewriter.rewrite(index) for index in indices] if dividends else indices
    same = all(new is old for new, old in zip(changed, indices, strict=True))
    return None if same else list(changed)


class _Remainders(ir.Rewriter):
    def __init__(self, dividends: dict[int, list[ir.PrimExpr]]) -> None:
        self._dividends = dividends
        self._form_of = Analyzer().linear_form

    def visit_floor_mod(self, node: ir.FloorMod) -> ir.PrimExpr:
        made: ir.FloorMod = self.generic_visit(node)
        if not isinstance(made.b, ir.IntImm):
            return made
        divisor = made.b.value
        known = [
            dividend
            for dividend in self._dividends.get(divisor, ())
            if self._form_of(dividend).is_congruent(self._form_of(made.a), divisor)
        ]
        if not known or any(ir.structural_equal(dividend, made.a) for dividend in known):
            return made
        return ir.floormod(known[0], divisor)
