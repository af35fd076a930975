"""Minima and maxima. Each identity is written once for `min`; its mirror image follows from it."""

from __future__ import annotations

from tilewright.arith.pattern import consts, exprs, maximum, minimum, rule
from tilewright.arith.rules.table import Domain, RuleTable

x, y, z = exprs("x y z")
c1, c2, c3 = consts("c1 c2 c3")

ORDER = RuleTable(
    "order",
    Domain.INTEGER,
    (
        rule(minimum(c1, x), minimum(x, c1)),
        rule(maximum(c1, x), maximum(x, c1)),
        rule(minimum(x, y), x, when=x <= y),
        rule(minimum(x, y), y, when=y <= x),
        rule(maximum(x, y), x, when=y <= x),
        rule(maximum(x, y), y, when=x <= y),
        # nested
        rule(minimum(minimum(x, c1), c2), minimum(x, minimum(c1, c2))),
        rule(maximum(maximum(x, c1), c2), maximum(x, maximum(c1, c2))),
        rule(minimum(minimum(x, y), x), minimum(x, y)),
        rule(maximum(maximum(x, y), x), maximum(x, y)),
        rule(minimum(maximum(x, y), x), x),
        rule(maximum(minimum(x, y), x), x),
        rule(minimum(minimum(x, c1), y), minimum(minimum(x, y), c1)),
        rule(maximum(maximum(x, c1), y), maximum(maximum(x, y), c1)),
        rule(minimum(maximum(x, y), minimum(x, y)), minimum(x, y)),
        rule(maximum(maximum(x, y), minimum(x, y)), maximum(x, y)),
        rule(minimum(maximum(x, y), maximum(x, z)), maximum(minimum(y, z), x)),
        rule(maximum(minimum(x, y), minimum(x, z)), minimum(maximum(y, z), x)),
        rule(maximum(minimum(x, c1), c2), c2, when=c1 <= c2),
        rule(minimum(maximum(x, c1), c2), c2, when=c2 <= c1),
    ),
)

SAME = RuleTable(
    "idempotence",
    Domain.VALUE,
    (rule(minimum(x, x), x), rule(maximum(x, x), x)),
)

LINEAR = RuleTable(
    "minima of sums and multiples",
    Domain.INDEX,
    (
        rule(minimum(x + c1, x), x, when=c1 >= 0),
        rule(minimum(x + c1, x), x + c1, when=c1 < 0),
        rule(maximum(x + c1, x), x + c1, when=c1 >= 0),
        rule(maximum(x + c1, x), x, when=c1 < 0),
        rule(minimum(x + c1, x + c2), x + minimum(c1, c2)),
        rule(maximum(x + c1, x + c2), x + maximum(c1, c2)),
        rule(minimum(x + c1, y + c1), minimum(x, y) + c1),
        rule(maximum(x + c1, y + c1), maximum(x, y) + c1),
        rule(minimum(x + c1, c2), minimum(x, c2 - c1) + c1),
        rule(maximum(x + c1, c2), maximum(x, c2 - c1) + c1),
        rule(minimum(c1 - x, c2), c1 - maximum(x, c1 - c2)),
        rule(maximum(c1 - x, c2), c1 - minimum(x, c1 - c2)),
        rule(minimum(x + y, x + z), minimum(y, z) + x),
        rule(maximum(x + y, x + z), maximum(y, z) + x),
        rule(minimum(x + y, x), minimum(y, 0) + x),
        rule(maximum(x + y, x), maximum(y, 0) + x),
        rule(minimum(x - y, x - z), x - maximum(y, z)),
        rule(maximum(x - y, x - z), x - minimum(y, z)),
        rule(minimum(x - y, z - y), minimum(x, z) - y),
        rule(maximum(x - y, z - y), maximum(x, z) - y),
        rule(minimum(x * c1, y * c1), minimum(x, y) * c1, when=c1 > 0),
        rule(maximum(x * c1, y * c1), maximum(x, y) * c1, when=c1 > 0),
        rule(minimum(x * c1, y * c1), maximum(x, y) * c1, when=c1 < 0),
        rule(maximum(x * c1, y * c1), minimum(x, y) * c1, when=c1 < 0),
        rule(minimum(x * c1, c2), minimum(x, c2 // c1) * c1, when=(c1 > 0) & (c2 % c1 == 0)),
        rule(maximum(x * c1, c2), maximum(x, c2 // c1) * c1, when=(c1 > 0) & (c2 % c1 == 0)),
        rule(minimum(x // c1, y // c1), minimum(x, y) // c1, when=c1 > 0),
        rule(maximum(x // c1, y // c1), maximum(x, y) // c1, when=c1 > 0),
    ),
)

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
