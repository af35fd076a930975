"""Modular sets: every value of an expression is `coeff * k + base` for some integer `k`.

`coeff == 0` means the expression is the constant `base`; `coeff == 1` says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tilewright import ir
from tilewright.arith.bounds import dtype_bound, is_index_type

if TYPE_CHECKING:
    from tilewright.arith.facts import Facts


class ModularSet(NamedTuple):
    """The set `{coeff * k + base}` over all integers `k`; `0 <= base < coeff` where `coeff > 0`."""

    coeff: int
    base: int

    def gcd_with(self, modulus: int) -> ModularSet:
        """What is known of the value modulo `modulus`."""
        return make_modular(gcd(self.coeff, modulus), self.base)

    def contains(self, value: int) -> bool:
        return value == self.base if self.coeff == 0 else (value - self.base) % self.coeff == 0


def make_modular(coeff: int, base: int) -> ModularSet:
    coeff = abs(coeff)
    return ModularSet(coeff, base % coeff if coeff else base)


ANYTHING: Final = ModularSet(1, 0)


def _union(a: ModularSet, b: ModularSet) -> ModularSet:
    """The smallest modular set that holds both."""
    return make_modular(gcd(gcd(a.coeff, b.coeff), abs(a.base - b.base)), a.base)


def intersect_modular(a: ModularSet, b: ModularSet) -> ModularSet:
    """A modular set that holds every value of both; `a` itself where they contradict."""
    if a.coeff == 0 or b.coeff == 1:
        return a
    if b.coeff == 0 or a.coeff == 1:
        return b
    step = gcd(a.coeff, b.coeff)
    if (b.base - a.base) % step:
        return a
    inverse = pow(a.coeff // step, -1, b.coeff // step)
    shift = (b.base - a.base) // step * inverse % (b.coeff // step)
    return make_modular(a.coeff // step * b.coeff, a.base + a.coeff * shift)


def _sum(a: ModularSet, b: ModularSet) -> ModularSet:
    return make_modular(gcd(a.coeff, b.coeff), a.base + b.base)


def _difference(a: ModularSet, b: ModularSet) -> ModularSet:
    return make_modular(gcd(a.coeff, b.coeff), a.base - b.base)


def _product(a: ModularSet, b: ModularSet) -> ModularSet:
    cross = gcd(a.coeff * b.base, b.coeff * a.base)
    return make_modular(gcd(a.coeff * b.coeff, cross), a.base * b.base)


def _floordiv(facts: Facts, expr: ir.FloorDiv) -> ModularSet:
    divisor = expr.b
    if not isinstance(divisor, ir.IntImm) or divisor.value == 0:
        return ANYTHING
    a = facts.modular(expr.a)
    if a.coeff % divisor.value:
        return ANYTHING
    return make_modular(a.coeff // divisor.value, a.base // divisor.value)


def _truncdiv(facts: Facts, expr: ir.Div) -> ModularSet:
    # Towards zero and downwards agree on non-negative dividends, and on exact quotients.
    divisor = expr.b
    if not isinstance(divisor, ir.IntImm) or divisor.value == 0:
        return ANYTHING
    a = facts.modular(expr.a)
    exact = a.coeff % divisor.value == 0 and a.base % divisor.value == 0
    if exact or (divisor.value > 0 and facts.bound(expr.a)[0] >= 0):
        return _floordiv(facts, ir.FloorDiv(expr.a, expr.b))
    return ANYTHING


def _mod(facts: Facts, expr: ir.FloorMod | ir.Mod) -> ModularSet:
    divisor = expr.b
    if not isinstance(divisor, ir.IntImm) or divisor.value == 0:
        return ANYTHING
    a = facts.modular(expr.a)
    if a.coeff == 0 and isinstance(expr, ir.FloorMod):
        return ModularSet(0, a.base % divisor.value)
    return a.gcd_with(divisor.value)  # the value changes by multiples of the divisor


def _call(facts: Facts, expr: ir.Call) -> ModularSet:
    name = expr.op.name if isinstance(expr.op, ir.Op) else ""
    if name == "tir.if_then_else":
        return _union(*map(facts.modular, expr.args[1:]))
    shift = expr.args[1] if name == "tir.shift_left" else None
    if isinstance(shift, ir.IntImm) and 0 <= shift.value < 63:
        return _product(facts.modular(expr.args[0]), ModularSet(0, 1 << shift.value))
    return ANYTHING


def _cast(facts: Facts, expr: ir.Cast) -> ModularSet:
    source, value = expr.value.dtype, facts.bound(expr.value)
    whole = dtype_bound(expr.dtype)
    if not is_index_type(source) or not (whole[0] <= value[0] and value[1] <= whole[1]):
        return ANYTHING  # the cast may wrap around
    return facts.modular(expr.value)


def _pairwise(
    combine: Callable[[ModularSet, ModularSet], ModularSet],
) -> Callable[[Facts, Any], ModularSet]:
    return lambda facts, expr: combine(facts.modular(expr.a), facts.modular(expr.b))


_MODULAR_OF: dict[type, Callable[[Facts, Any], ModularSet]] = {
    ir.IntImm: lambda _, expr: ModularSet(0, expr.value),
    ir.Var: lambda facts, expr: facts.var_modular.get(expr, ANYTHING),
    ir.SizeVar: lambda facts, expr: facts.var_modular.get(expr, ANYTHING),
    ir.Add: _pairwise(_sum),
    ir.Sub: _pairwise(_difference),
    ir.Mul: _pairwise(_product),
    ir.FloorDiv: _floordiv,
    ir.FloorMod: _mod,
    ir.Div: _truncdiv,
    ir.Mod: _mod,
    ir.Min: _pairwise(_union),
    ir.Max: _pairwise(_union),
    ir.Select: lambda facts, expr: _union(
        facts.modular(expr.true_value), facts.modular(expr.false_value)
    ),
    ir.Ramp: lambda facts, expr: _sum(
        facts.modular(expr.base), _product(facts.modular(expr.stride), ANYTHING)
    ),
    ir.Broadcast: lambda facts, expr: facts.modular(expr.value),
    ir.Call: _call,
    ir.Cast: _cast,
}


def compute_modular(facts: Facts, expr: ir.PrimExpr) -> ModularSet:
    """The modular set of `expr` from those of its parts (`facts.modular` adds memory)."""
    if isinstance(expr, ir.IntImm):
        return ModularSet(0, expr.value)
    if not is_index_type(expr.dtype):
        return ANYTHING  # narrower types wrap around
    rule = _MODULAR_OF.get(type(expr))
    return ANYTHING if rule is None else rule(facts, expr)
