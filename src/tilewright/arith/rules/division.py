"""Floor division and remainder, the workhorses of loop transformations; and the truncating kind."""

from __future__ import annotations

from tilewright.arith.pattern import consts, exprs, rule, truncdiv, truncmod
from tilewright.arith.rules.table import Domain, RuleTable

x, y, z = exprs("x y z")
c1, c2, c3 = consts("c1 c2 c3")

UNIT = RuleTable(
    "division by one",
    Domain.INTEGER,
    (
        rule(x // 1, x),
        rule(x % 1, 0),
        rule(x // x, 1),
        rule(x % x, 0),
        rule(truncmod(x, 1), 0),
    ),
)

QUOTIENT = RuleTable(
    "floor division",
    Domain.INDEX,
    (
        # nothing left to divide
        rule(x // c1, 0, when=(c1 > 0) & (x >= 0) & (x < c1)),
        rule(x // c1, -1, when=(c1 > 0) & (0 - c1 <= x) & (x < 0)),
        # nested quotients
        rule((x // c1) // c2, x // (c1 * c2), when=(c1 > 0) & (c2 > 0)),
        rule((x // c1 + c2) // c3, (x + c1 * c2) // (c1 * c3), when=(c1 > 0) & (c3 > 0)),
        # one factor divides the other
        rule((x * c1) // c2, x * (c1 // c2), when=(c2 != 0) & (c1 % c2 == 0)),
        rule((x * c1) // c2, x // (c2 // c1), when=(c1 > 0) & (c2 > 0) & (c2 % c1 == 0)),
        rule((x * c1 + y) // c2, x * (c1 // c2) + y // c2, when=(c2 != 0) & (c1 % c2 == 0)),
        rule((x * c1 - y) // c2, x * (c1 // c2) + (0 - y) // c2, when=(c2 != 0) & (c1 % c2 == 0)),
        rule((y - x * c1) // c2, y // c2 - x * (c1 // c2), when=(c2 != 0) & (c1 % c2 == 0)),
        rule((x * c1 + c2) // c3, x * (c1 // c3) + c2 // c3, when=(c3 != 0) & (c1 % c3 == 0)),
        rule(
            (x * c1 + y) // c2,
            x // (c2 // c1),
            when=(c1 > 0) & (c2 > 0) & (c2 % c1 == 0) & (y >= 0) & (y < c1),
        ),
        rule(
            (x * c1 + c2) // c3,
            (x + c2 // c1) // (c3 // c1),
            when=(c1 > 0) & (c3 > 0) & (c3 % c1 == 0),
        ),
        rule((x + c1) // c2, x // c2 + c1 // c2, when=(c2 != 0) & (c1 % c2 == 0)),
        # symbolic divisors
        rule((x * y) // y, x),
        rule((x * y + z) // y, x + z // y),
        rule((x + y) // y, x // y + 1),
        rule((x - y) // y, x // y - 1),
    ),
)

REMAINDER = RuleTable(
    "floor remainder",
    Domain.INDEX,
    (
        rule(x % c1, x, when=(c1 > 0) & (x >= 0) & (x < c1)),
        rule(x % c1, x + c1, when=(c1 > 0) & (0 - c1 <= x) & (x < 0)),
        # factors of the dividend
        rule((x * c1) % c2, 0, when=(c2 != 0) & (c1 % c2 == 0)),
        rule((x * c1) % c2, (x * (c1 % c2)) % c2, when=(c2 > 0) & (c1 >= c2)),
        rule((x * c1) % c2, (x % (c2 // c1)) * c1, when=(c1 > 1) & (c2 > c1) & (c2 % c1 == 0)),
        rule((x * c1 + y) % c2, y % c2, when=(c2 != 0) & (c1 % c2 == 0)),
        rule((y - x * c1) % c2, y % c2, when=(c2 != 0) & (c1 % c2 == 0)),
        rule((x * c1 + y) % c2, (x * (c1 % c2) + y) % c2, when=(c2 > 0) & (c1 >= c2)),
        rule(
            (x * c1 + y) % c2,
            (x % (c2 // c1)) * c1 + y,
            when=(c1 > 1) & (c2 > 0) & (c2 % c1 == 0) & (y >= 0) & (y < c1),
        ),
        rule((x + c1) % c2, (x + c1 % c2) % c2, when=(c2 > 0) & ((c1 < 0) | (c1 >= c2))),
        # nested remainders
        rule((x % c1) % c2, x % c2, when=(c2 != 0) & (c1 % c2 == 0)),
        rule((x % c1 + y) % c2, (x + y) % c2, when=(c2 != 0) & (c1 % c2 == 0)),
        # symbolic divisors
        rule((x * y) % y, 0),
        rule((x * y + z) % y, z % y),
        rule((x + y) % y, x % y),
        rule((x - y) % y, x % y),
    ),
)

TRUNCATING = RuleTable(
    "division towards zero",
    Domain.INDEX,
    (
        # on non-negative numbers both kinds agree
        rule(truncdiv(x, c1), x // c1, when=(c1 > 0) & (x >= 0)),
        rule(truncmod(x, c1), x % c1, when=(c1 > 0) & (x >= 0)),
        rule(truncdiv(x * c1, c2), x * (c1 // c2), when=(c2 != 0) & (c1 % c2 == 0)),
        rule(truncmod(x * c1, c2), 0, when=(c2 != 0) & (c1 % c2 == 0)),
        rule(truncdiv(truncdiv(x, c1), c2), truncdiv(x, c1 * c2), when=(c1 > 0) & (c2 > 0)),
    ),
)

DIVISION = (UNIT, QUOTIENT, REMAINDER, TRUNCATING)
