"""Minima and maxima; the identities that mirror each other are written once for both."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.arith.pattern import Pattern, Rule, consts, exprs, maximum, minimum, rule
from tilewright.arith.rules.table import Domain, RuleTable

x, y, z = exprs("x y z")
c1, c2, c3 = consts("c1 c2 c3")
Extremum = Callable[..., Pattern]


def _for_both(rules: Callable[[Extremum, Extremum], tuple[Rule, ...]]) -> tuple[Rule, ...]:
    """Rules that hold for minima, and for maxima with both exchanged."""
    return (*rules(minimum, maximum), *rules(maximum, minimum))


def _order(best: Extremum, worst: Extremum) -> tuple[Rule, ...]:
    def before(a: Pattern, b: Pattern) -> Pattern:
        return a <= b if best is minimum else b <= a

    return (
        rule(best(c1, x), best(x, c1)),
        rule(best(x, y), x, when=before(x, y)),
        rule(best(x, y), y, when=before(y, x)),
        # nested
        rule(best(best(x, c1), c2), best(x, best(c1, c2))),
        rule(best(best(x, y), x), best(x, y)),
        rule(best(worst(x, y), x), x),
        rule(best(best(x, c1), y), best(best(x, y), c1)),
        rule(best(worst(x, y), best(x, y)), best(x, y)),
        rule(best(worst(x, y), worst(x, z)), worst(best(y, z), x)),
        rule(best(worst(x, c1), c2), c2, when=before(c2, c1)),
    )


ORDER = RuleTable("order", Domain.INTEGER, _for_both(_order))
SAME = RuleTable("idempotence", Domain.VALUE, _for_both(lambda best, worst: (rule(best(x, x), x),)))


def _linear(best: Extremum, worst: Extremum) -> tuple[Rule, ...]:
    return (
        rule(best(x + c1, x), x, when=c1 >= 0 if best is minimum else c1 < 0),
        rule(best(x + c1, x), x + c1, when=c1 < 0 if best is minimum else c1 >= 0),
        rule(best(x + c1, x + c2), x + best(c1, c2)),
        rule(best(x + c1, y + c1), best(x, y) + c1),
        rule(best(x + c1, c2), best(x, c2 - c1) + c1),
        rule(best(c1 - x, c2), c1 - worst(x, c1 - c2)),
        rule(best(x + y, x + z), best(y, z) + x),
        rule(best(x + y, x), best(y, 0) + x),
        rule(best(x - y, x - z), x - worst(y, z)),
        rule(best(x - y, z - y), best(x, z) - y),
        rule(best(x * c1, y * c1), best(x, y) * c1, when=c1 > 0),
        rule(best(x * c1, y * c1), worst(x, y) * c1, when=c1 < 0),
        rule(best(x * c1, c2), best(x, c2 // c1) * c1, when=(c1 > 0) & (c2 % c1 == 0)),
        rule(best(x // c1, y // c1), best(x, y) // c1, when=c1 > 0),
    )


LINEAR = RuleTable("minima of sums and multiples", Domain.INDEX, _for_both(_linear))

ROUNDING = RuleTable(
    "minima with rounded values",
    Domain.INDEX,
    (
        rule(minimum((x // c1) * c1, x), (x // c1) * c1, when=c1 > 0),
        rule(maximum((x // c1) * c1, x), x, when=c1 > 0),
        rule(minimum(((x + c1) // c2) * c2, x), x, when=(c2 > 0) & (c1 + 1 >= c2)),
        rule(
            maximum(((x + c1) // c2) * c2, x),
            ((x + c1) // c2) * c2,
            when=(c2 > 0) & (c1 + 1 >= c2),
        ),
        rule(
            maximum(((x + c1) // c2) * c2, maximum(x, y)),
            maximum(((x + c1) // c2) * c2, y),
            when=(c2 > 0) & (c1 + 1 >= c2),
        ),
        rule(minimum((x // c1) * c1 + c2, x), x, when=(c1 > 0) & (c2 + 1 >= c1)),
        rule(
            maximum((x // c1) * c1 + c2, x),
            (x // c1) * c1 + c2,
            when=(c1 > 0) & (c2 + 1 >= c1),
        ),
    ),
)

MIN_MAX = (SAME, LINEAR, ROUNDING, ORDER)
