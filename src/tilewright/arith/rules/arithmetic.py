"""Sums, differences and products."""

from __future__ import annotations

from tilewright.arith.pattern import consts, exprs, maximum, minimum, rule, truncdiv
from tilewright.arith.rules.table import Domain, RuleTable

x, y, z = exprs("x y z")
c1, c2, c3 = consts("c1 c2 c3")

NEUTRAL = RuleTable(
    "neutral elements",
    Domain.VALUE,
    (
        rule(x + 0, x),
        rule(0 + x, x),
        rule(x - 0, x),
        rule(x * 1, x),
        rule(1 * x, x),
        rule(truncdiv(x, 1), x),
    ),
)

RING = RuleTable(
    "ring",
    Domain.INTEGER,
    (
        rule(c1 + x, x + c1),
        rule(c1 * x, x * c1),
        rule(x * 0, 0),
        rule(x - x, 0),
        # constants move to the right end
        rule((x + c1) + c2, x + (c1 + c2)),
        rule((x + c1) + y, (x + y) + c1),
        rule((x + c1) - y, (x - y) + c1),
        rule(x - (y + c1), (x - y) + (0 - c1)),
        rule((c1 - x) + c2, (c1 + c2) - x),
        rule((c1 - x) + y, (y - x) + c1),
        rule(c1 - (x + c2), (c1 - c2) - x),
        rule(c1 - (c2 - x), x + (c1 - c2)),
        rule(x - (c1 - y), (x + y) + (0 - c1)),
        # cancellation
        rule((x - y) + y, x),
        rule((x + y) - x, y),
        rule(x - (x + y), 0 - y),
        rule((x - y) - x, 0 - y),
        rule(x - (x - y), y),
        rule((x + y) - (x + z), y - z),
        rule((x - y) + (y - z), x - z),
        # like terms
        rule(x + x, x * 2),
        rule(x * c1 + x, x * (c1 + 1)),
        rule(x * c1 + x * c2, x * (c1 + c2)),
        rule(x * c1 - x, x * (c1 - 1)),
        rule(x - x * c1, x * (1 - c1)),
        rule(x * c1 - x * c2, x * (c1 - c2)),
        rule(x * y + x * z, (y + z) * x),
        rule(x * y - x * z, (y - z) * x),
        # negative factors become differences
        rule(0 - x * c1, x * (0 - c1)),
        rule(0 - (x - y), y - x),
        rule(x * c1 + y, y - x * (0 - c1), when=c1 < 0),
        rule(x - y * c1, x + y * (0 - c1), when=c1 < 0),
        # products
        rule((x * c1) * c2, x * (c1 * c2)),
        rule((x * c1) * y, (x * y) * c1),
        rule((x + c1) * c2, x * c2 + c1 * c2),
        rule((c1 - x) * c2, c1 * c2 - x * c2),
        rule((x - y) * c1, (y - x) * (0 - c1), when=c1 < 0),
    ),
)

EUCLID = RuleTable(
    "recombination of quotient and remainder",
    Domain.INTEGER,
    (
        rule((x // y) * y + x % y, x),
        rule(x - (x // y) * y, x % y),
        rule((x // y) * y - x, 0 - x % y),
    ),
)

SCALED_EUCLID = RuleTable(
    "scaled recombination",
    Domain.INDEX,
    (
        rule((x // c1) * c2 + (x % c1) * c3, x * c3, when=(c1 != 0) & (c2 == c1 * c3)),
        rule((x // c1) * c2 + x % c1, x, when=(c1 != 0) & (c1 == c2)),
    ),
)

OF_MIN_MAX = RuleTable(
    "sums with minima",
    Domain.INDEX,
    (
        rule(minimum(x, y) + maximum(x, y), x + y),
        rule(minimum(x, y - z) + z, minimum(x + z, y)),
        rule(maximum(x, y - z) + z, maximum(x + z, y)),
        rule(minimum(x, y) - x, minimum(y - x, 0)),
        rule(maximum(x, y) - x, maximum(y - x, 0)),
        rule(minimum(x + y, z) - x, minimum(z - x, y)),
        rule(maximum(x + y, z) - x, maximum(z - x, y)),
        rule(x - minimum(x, y), maximum(x - y, 0)),
        rule(x - maximum(x, y), minimum(x - y, 0)),
    ),
)

ARITHMETIC = (NEUTRAL, RING, EUCLID, SCALED_EUCLID, OF_MIN_MAX)
