"""Arithmetic on index expressions: bounds, simplification, iterator maps, regions, index maps."""

from tilewright.arith.analyzer import Analyzer as Analyzer
from tilewright.arith.bounds import (
    NEG_INF as NEG_INF,
    POS_INF as POS_INF,
    ConstIntBound as ConstIntBound,
)
from tilewright.arith.modular import ModularSet as ModularSet
