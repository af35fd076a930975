"""The identities behind the simplifier, as tables; `ALL_RULES` is what the driver compiles."""

from __future__ import annotations

from tilewright.arith.rules.arithmetic import ARITHMETIC
from tilewright.arith.rules.comparison import COMPARISON
from tilewright.arith.rules.division import DIVISION
from tilewright.arith.rules.logic import LOGIC
from tilewright.arith.rules.min_max import MIN_MAX
from tilewright.arith.rules.table import RuleTable as RuleTable
from tilewright.arith.rules.vector import VECTOR

ALL_RULES: tuple[RuleTable, ...] = (
    *ARITHMETIC,
    *DIVISION,
    *MIN_MAX,
    *COMPARISON,
    *LOGIC,
    *VECTOR,
)
