"""Loops that together count through all numbers below some bound, and digits of those numbers.

Fused loops and threads make such counters: `i * 128 + thread * 4 + lane`. The quotients and
remainders by which buffers are indexed then take all values between two ends, which are known
without looking at the iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.ir import LT, Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Sub, Var

Domain = tuple[int, int]  # first value, number of values


@dataclass
class LinearSum:
    """A sum: a constant, variables with coefficients, and whatever else is added."""

    constant: int = 0
    variables: dict[Var, int] = field(default_factory=dict)
    others: list[tuple[PrimExpr, int]] = field(default_factory=list)

    @staticmethod
    def of(expr: PrimExpr) -> LinearSum:
        """The sum that an expression is."""
        made = LinearSum()
        made._add(expr, 1)
        made.variables = {var: factor for var, factor in made.variables.items() if factor}
        return made

    def _add(self, expr: PrimExpr, scale: int) -> None:
        match expr:
            case IntImm(value=value):
                self.constant += scale * value
            case Add(a=a, b=b):
                self._add(a, scale)
                self._add(b, scale)
            case Sub(a=a, b=b):
                self._add(a, scale)
                self._add(b, -scale)
            case Mul(a=a, b=IntImm(value=factor)) | Mul(a=IntImm(value=factor), b=a):
                self._add(a, scale * factor)
            case Var():
                self.variables[expr] = self.variables.get(expr, 0) + scale
            case _:
                self.others.append((expr, scale))


def ends_of_digit(
    expr: PrimExpr, domains: Mapping[Var, Domain], conditions: Sequence[PrimExpr]
) -> tuple[int, int] | None:
    """Smallest and largest value of a digit of a counter, all values between which it takes.

    Iterations where a condition is false do not count. None where `expr` is no such digit, or a
    condition none that bounds the counter.
    """
    match expr:
        case FloorDiv(a=a, b=IntImm(value=divisor)) if divisor > 0:
            inner = ends_of_digit(a, domains, conditions)
            return inner and (inner[0] // divisor, inner[1] // divisor)
        case FloorMod(a=a, b=IntImm(value=modulus)) if modulus > 0:
            inner = ends_of_digit(a, domains, conditions)
            return inner and _remainders(*inner, modulus)
    return _ends_of_counter(LinearSum.of(expr), domains, conditions)


def _remainders(low: int, high: int, modulus: int) -> tuple[int, int]:
    if low // modulus == high // modulus:
        return low % modulus, high % modulus
    return 0, modulus - 1


def _ends_of_counter(
    counter: LinearSum, domains: Mapping[Var, Domain], conditions: Sequence[PrimExpr]
) -> tuple[int, int] | None:
    if counter.others or not _is_dense(counter, domains):
        return None
    count = 1 + sum(f * (domains[var][1] - 1) for var, f in counter.variables.items())
    for condition in conditions:
        bound = _bound_on(counter, domains, condition)
        if bound is None:
            return None
        count = min(count, bound)
    return (counter.constant, counter.constant + count - 1) if count > 0 else None


def _is_dense(counter: LinearSum, domains: Mapping[Var, Domain]) -> bool:
    """True when the variables are the digits of a number, so that it takes each value once."""
    expected = 1
    for var, factor in sorted(counter.variables.items(), key=lambda item: item[1]):
        begin, count = domains.get(var, (1, 0))
        if begin != 0:
            return False
        if count > 1:
            if factor != expected:
                return False
            expected = factor * count
    return True


def _bound_on(counter: LinearSum, domains: Mapping[Var, Domain], condition: PrimExpr) -> int | None:
    """A number that the counter (without its constant) is below exactly where a condition holds."""
    if not isinstance(condition, LT) or not isinstance(condition.b, IntImm):
        return None
    left = LinearSum.of(condition.a)
    if left.others or not left.variables:
        return None
    # The condition may be on the leading digits only: the counter is then `scale` times as large.
    var, factor = next(iter(left.variables.items()))
    scale, remainder = divmod(counter.variables.get(var, 0), factor)
    if scale < 1 or remainder:
        return None
    if any(counter.variables.get(v) != scale * f for v, f in left.variables.items()):
        return None
    trailing = sum(
        f * (domains[v][1] - 1) for v, f in counter.variables.items() if v not in left.variables
    )
    return scale * (condition.b.value - left.constant) if trailing < scale else None
