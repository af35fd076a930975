"""Vectors: operations move below `Broadcast`, and `Ramp` stays a ramp where it can."""

from __future__ import annotations

from tilewright.arith.pattern import Rule, broadcast, consts, exprs, lift, op, ramp, rule, select
from tilewright.arith.rules.table import Domain, RuleTable

x, y, z, w = exprs("x y z w")
c1, c2, n = consts("c1 c2 n")

YES, NO = lift(True), lift(False)
_LANE_BY_LANE = ("Add", "Sub", "Mul", "Min", "Max")
_INTEGER_ONLY = ("FloorDiv", "FloorMod", "Div", "Mod")
_COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def _below_broadcast(kinds: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(
        rule(op(kind, broadcast(x, n), broadcast(y, n)), broadcast(op(kind, x, y), n))
        for kind in kinds
    )


UNIFORM = RuleTable(
    "operations on uniform vectors",
    Domain.VALUE,
    (
        *_below_broadcast(_LANE_BY_LANE + _COMPARISONS + ("Div",)),
        rule(select(broadcast(YES, n), x, y), x),
        rule(select(broadcast(NO, n), x, y), y),
    ),
)
UNIFORM_INTEGER = RuleTable(
    "integer operations on uniform vectors", Domain.INTEGER, _below_broadcast(_INTEGER_ONLY[:2])
)
UNIFORM_BOOL = RuleTable(
    "truth values of uniform vectors",
    Domain.BOOL,
    (*_below_broadcast(("And", "Or")), rule(~broadcast(x, n), broadcast(~x, n))),
)

NEUTRAL = RuleTable(
    "neutral vectors",
    Domain.VALUE,
    (
        rule(x + broadcast(0, n), x),
        rule(x - broadcast(0, n), x),
        rule(x * broadcast(1, n), x),
    ),
)

LINEAR_RAMP = RuleTable(
    "linear operations on ramps",
    Domain.INDEX,
    (
        rule(ramp(x, y, n) + ramp(z, w, n), ramp(x + z, y + w, n)),
        rule(ramp(x, y, n) + broadcast(z, n), ramp(x + z, y, n)),
        rule(ramp(x, y, n) - ramp(z, w, n), ramp(x - z, y - w, n)),
        rule(ramp(x, y, n) - broadcast(z, n), ramp(x - z, y, n)),
        rule(broadcast(x, n) - ramp(y, z, n), ramp(x - y, 0 - z, n)),
        rule(ramp(x, y, n) * broadcast(z, n), ramp(x * z, y * z, n)),
    ),
)

DIVIDED_RAMP = RuleTable(
    "division of ramps",
    Domain.INDEX,
    (
        rule(
            ramp(x, c1, n) // broadcast(c2, n),
            ramp(x // c2, c1 // c2, n),
            when=(c2 > 0) & (c1 % c2 == 0),
        ),
        rule(
            ramp(x, c1, n) % broadcast(c2, n),
            broadcast(x % c2, n),
            when=(c2 > 0) & (c1 % c2 == 0),
        ),
        # all lanes fall between two multiples of the divisor
        rule(
            ramp(x, c1, n) // broadcast(c2, n),
            broadcast(x // c2, n),
            when=(c2 > 0) & (c1 > 0) & (x % c2 < c2 - c1 * (n - 1)),
        ),
        rule(
            ramp(x, c1, n) % broadcast(c2, n),
            ramp(x % c2, c1, n),
            when=(c2 > 0) & (c1 > 0) & (x % c2 < c2 - c1 * (n - 1)),
        ),
    ),
)

VECTOR = (UNIFORM, UNIFORM_INTEGER, UNIFORM_BOOL, NEUTRAL, LINEAR_RAMP, DIVIDED_RAMP)
