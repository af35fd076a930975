"""Comparisons. `>` and `>=` become `<` and `<=`; constants gather on one side."""

from __future__ import annotations

from tilewright.arith.pattern import Pattern, Rule, consts, exprs, maximum, minimum, rule
from tilewright.arith.rules.table import Domain, RuleTable

x, y, z = exprs("x y z")
c1, c2, c3 = consts("c1 c2 c3")


def _ceildiv(a: Pattern, b: Pattern) -> Pattern:
    return (a + b - 1) // b


SPELLING = RuleTable(
    "spelling",
    Domain.VALUE,
    (
        rule(x > y, y < x),
        rule(x >= y, y <= x),
        rule(x < x, False),
    ),
)

DECIDED = RuleTable(
    "decided by bounds",
    Domain.INTEGER,
    (
        rule(x <= x, True),
        rule(x == x, True),
        rule(x != x, False),
        rule(x < y, True, when=x < y),
        rule(x < y, False, when=x >= y),
        rule(x <= y, True, when=x <= y),
        rule(x <= y, False, when=x > y),
        rule(x == y, False, when=x != y),
        rule(x != y, True, when=x != y),
        rule(x == y, True, when=x == y),
        rule(x != y, False, when=x == y),
        rule(c1 == x, x == c1),
        rule(c1 != x, x != c1),
        # of minima and maxima
        rule(minimum(x, y) <= x, True),
        rule(x <= maximum(x, y), True),
        rule(x < minimum(x, y), False),
        rule(maximum(x, y) < x, False),
        rule(minimum(x, c1) < c2, x < c2, when=c1 >= c2),
        rule(maximum(x, c1) < c2, x < c2, when=c1 < c2),
        rule(c1 < minimum(x, c2), c1 < x, when=c1 < c2),
        rule(c1 < maximum(x, c2), c1 < x, when=c1 >= c2),
        rule(minimum(x, c1) <= c2, x <= c2, when=c1 > c2),
        rule(maximum(x, c1) <= c2, x <= c2, when=c1 <= c2),
        rule(c1 <= minimum(x, c2), c1 <= x, when=c1 <= c2),
        rule(c1 <= maximum(x, c2), c1 <= x, when=c1 > c2),
    ),
)

EQUALITY = RuleTable(
    "equality",
    Domain.INTEGER,
    (
        rule(x + c1 == c2, x == c2 - c1),
        rule(x + c1 != c2, x != c2 - c1),
        rule(c1 - x == c2, x == c1 - c2),
        rule(c1 - x != c2, x != c1 - c2),
        rule(x + c1 == y + c2, x == y + (c2 - c1)),
        rule(x + c1 != y + c2, x != y + (c2 - c1)),
        rule(x + c1 == x, False, when=c1 != 0),
        rule(x + c1 != x, True, when=c1 != 0),
        rule(x + y == x + z, y == z),
        rule(x + y != x + z, y != z),
        rule(x - y == x - z, y == z),
        rule(x - y != x - z, y != z),
        rule(x - y == z - y, x == z),
        rule(x - y != z - y, x != z),
    ),
)

SCALED_EQUALITY = RuleTable(
    "equality of multiples",
    Domain.INDEX,
    (
        rule(x * c1 == c2, x == c2 // c1, when=(c1 != 0) & (c2 % c1 == 0)),
        rule(x * c1 != c2, x != c2 // c1, when=(c1 != 0) & (c2 % c1 == 0)),
        rule(x * c1 == c2, False, when=(c1 != 0) & (c2 % c1 != 0)),
        rule(x * c1 != c2, True, when=(c1 != 0) & (c2 % c1 != 0)),
        rule(x * c1 == y * c1, x == y, when=c1 != 0),
        rule(x * c1 != y * c1, x != y, when=c1 != 0),
    ),
)


def _ordered(strict: bool) -> tuple[Rule, ...]:
    """The rules that read alike for `<` (strict) and `<=`."""

    def before(a: Pattern, b: Pattern) -> Pattern:
        return a < b if strict else a <= b

    return (
        # constants on one side
        rule(before(x + c1, c2), before(x, c2 - c1)),
        rule(before(c1, x + c2), before(c1 - c2, x)),
        rule(before(c1 - x, c2), before(c1 - c2, x)),
        rule(before(c1, c2 - x), before(x, c2 - c1)),
        rule(before(x + c1, y + c2), before(x, y + (c2 - c1)), when=c1 <= c2),
        rule(before(x + c1, y + c2), before(x + (c1 - c2), y), when=c1 > c2),
        rule(before(x + c1, y), before(x, y + (0 - c1)), when=c1 < 0),
        rule(before(x, y + c1), before(x + (0 - c1), y), when=c1 < 0),
        # the same term on both sides
        rule(before(x + y, x + z), before(y, z)),
        rule(before(x - y, z - y), before(x, z)),
        rule(before(x - y, x - z), before(z, y)),
        # multiples
        rule(before(x * c1, y * c1), before(x, y), when=c1 > 0),
        rule(before(x * c1, y * c1), before(y, x), when=c1 < 0),
        # negated terms
        rule(before(x * c1, c2), before(0 - c2, x * (0 - c1)), when=c1 < 0),
        rule(before(c1, x * c2), before(x * (0 - c2), 0 - c1), when=c2 < 0),
    )


LESS = RuleTable(
    "less",
    Domain.INDEX,
    (
        *_ordered(strict=True),
        rule(x < y + 1, x <= y),
        rule(x + y < x, y < 0),
        rule(x < x + y, y > 0),
        rule(x - y < x, y > 0),
        rule(x < x - y, y < 0),
        rule(x * c1 < c2, x < _ceildiv(c2, c1), when=c1 > 0),
        rule(c1 < x * c2, c1 // c2 < x, when=c2 > 0),
        rule(x // c1 < c2, x < c1 * c2, when=c1 > 0),
        rule(c1 < x // c2, (c1 + 1) * c2 - 1 < x, when=c2 > 0),
        # a value and its rounding
        rule(x < (x // c1) * c1, False, when=c1 > 0),
        rule(x < (x // c1) * c1 + c2, True, when=(c1 > 0) & (c2 >= c1)),
        rule((x // c1) * c1 < x + c2, True, when=(c1 > 0) & (c2 > 0)),
        rule(((x + c1) // c2) * c2 < x, False, when=(c2 > 0) & (c1 + 1 >= c2)),
        rule(((x + c1) // c2) * c2 < x + c3, True, when=(c2 > 0) & (c3 > c1)),
    ),
)

LESS_EQUAL = RuleTable(
    "less or equal",
    Domain.INDEX,
    (
        *_ordered(strict=False),
        rule(x + 1 <= y, x < y),
        rule(x <= y - 1, x < y),
        rule(x + y <= x, y <= 0),
        rule(x <= x + y, y >= 0),
        rule(x - y <= x, y >= 0),
        rule(x <= x - y, y <= 0),
        rule(x * c1 <= c2, x <= c2 // c1, when=c1 > 0),
        rule(c1 <= x * c2, _ceildiv(c1, c2) <= x, when=c2 > 0),
        rule(x // c1 <= c2, x <= (c2 + 1) * c1 - 1, when=c1 > 0),
        rule(c1 <= x // c2, c1 * c2 <= x, when=c2 > 0),
        rule((x // c1) * c1 <= x, True, when=c1 > 0),
        rule(x <= ((x + c1) // c2) * c2, True, when=(c2 > 0) & (c1 + 1 >= c2)),
        rule(((x + c1) // c2) * c2 <= x + c3, True, when=(c2 > 0) & (c3 >= c1)),
    ),
)

COMPARISON = (SPELLING, DECIDED, EQUALITY, SCALED_EQUALITY, LESS, LESS_EQUAL)
