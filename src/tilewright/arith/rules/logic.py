"""Truth values, and choices between values."""

from __future__ import annotations

from functools import partial

from tilewright.arith.pattern import Pattern, Rule, consts, exprs, lift, op, rule
from tilewright.arith.rules.table import Domain, RuleTable

x, y, z = exprs("x y z")
c1, c2, c3 = consts("c1 c2 c3")
YES, NO = lift(True), lift(False)


def is_integer(pattern: Pattern) -> Pattern:
    """A condition: comparisons of `pattern` are comparisons of integers, without NaN."""
    return op("is_integer", pattern)


BOOLEAN = RuleTable(
    "boolean algebra",
    Domain.BOOL,
    (
        rule(YES & x, x),
        rule(x & YES, x),
        rule(NO & x, False),
        rule(x & NO, False),
        rule(YES | x, True),
        rule(x | YES, True),
        rule(NO | x, x),
        rule(x | NO, x),
        rule(x & x, x),
        rule(x | x, x),
        rule(x & ~x, False),
        rule(x | ~x, True),
        rule((x & y) & x, x & y),
        rule((x | y) | x, x | y),
        rule(x & (x | y), x),
        rule(x | (x & y), x),
        rule(~YES, False),
        rule(~NO, True),
        rule(~(~x), x),
        rule(~(x & y), ~x | ~y),
        rule(~(x | y), ~x & ~y),
    ),
)

NEGATED = RuleTable(
    "negated comparisons",
    Domain.BOOL,
    (
        rule(~(x < y), y <= x, when=is_integer(x)),
        rule(~(x <= y), y < x, when=is_integer(x)),
        rule(~(x == y), x != y, when=is_integer(x)),
        rule(~(x != y), x == y, when=is_integer(x)),
    ),
)

PAIRS = RuleTable(
    "pairs of comparisons",
    Domain.BOOL,
    (
        rule((x < y) & (y < x), False),
        rule((x < y) & (y <= x), False),
        rule((x < y) | (y <= x), True, when=is_integer(x)),
        rule((x <= y) | (y <= x), True, when=is_integer(x)),
        rule((x == y) & (x != y), False),
        rule((x == y) | (x != y), True, when=is_integer(x)),
        rule((x < y) & (x <= y), x < y),
        rule((x < y) | (x <= y), x <= y),
        rule((x < y) | (x == y), x <= y, when=is_integer(x)),
        rule((x < c1) & (x < c2), x < op("Min", c1, c2)),
        rule((x < c1) | (x < c2), x < op("Max", c1, c2)),
        rule((c1 < x) & (c2 < x), op("Max", c1, c2) < x),
        rule((c1 < x) | (c2 < x), op("Min", c1, c2) < x),
        rule((x <= c1) & (x <= c2), x <= op("Min", c1, c2)),
        rule((x <= c1) | (x <= c2), x <= op("Max", c1, c2)),
        rule((c1 <= x) & (c2 <= x), op("Max", c1, c2) <= x),
        rule((c1 <= x) | (c2 <= x), op("Min", c1, c2) <= x),
        # empty and full ranges
        rule((x < c1) & (c2 < x), False, when=c1 <= c2 + 1),
        rule((x < c1) & (c2 <= x), False, when=c1 <= c2),
        rule((x <= c1) & (c2 < x), False, when=c1 <= c2),
        rule((x <= c1) & (c2 <= x), False, when=c1 < c2),
        rule((x < c1) | (c2 < x), True, when=c2 < c1),
        rule((x < c1) | (c2 <= x), True, when=c2 <= c1),
        rule((x <= c1) | (c2 < x), True, when=c2 <= c1),
        rule((x <= c1) | (c2 <= x), True, when=c2 <= c1 + 1),
        rule((x == c1) & (x == c2), False, when=c1 != c2),
        rule((x != c1) | (x != c2), True, when=c1 != c2),
        rule((x == c1) & (x != c2), x == c1, when=c1 != c2),
        rule((x == c1) & (x < c2), x == c1, when=c1 < c2),
        rule((x == c1) & (x < c2), False, when=c1 >= c2),
        rule((x == c1) & (c2 < x), x == c1, when=c2 < c1),
        rule((x == c1) & (c2 < x), False, when=c2 >= c1),
        rule((x == c1) & (x <= c2), x == c1, when=c1 <= c2),
        rule((x == c1) & (x <= c2), False, when=c1 > c2),
        rule((x == c1) & (c2 <= x), x == c1, when=c2 <= c1),
        rule((x == c1) & (c2 <= x), False, when=c2 > c1),
    ),
)


def _choices(kind: str) -> tuple[Rule, ...]:
    choose = partial(op, kind)
    return (
        rule(choose(YES, x, y), x),
        rule(choose(NO, x, y), y),
        rule(choose(x, y, y), y),
        rule(choose(~x, y, z), choose(x, z, y)),
        rule(choose(x, choose(x, y, z), z), choose(x, y, z)),
        rule(choose(x, y, choose(x, z, y)), y),
    )


CHOICE = RuleTable("choice", Domain.VALUE, (*_choices("Select"), *_choices("if_then_else")))

LOGIC = (BOOLEAN, NEGATED, PAIRS, CHOICE)
