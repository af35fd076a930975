"""Arithmetic on index expressions: bounds, simplification, iterator maps, regions, index maps."""

from tilewright.arith.analyzer import Analyzer as Analyzer
from tilewright.arith.bound_deducer import deduce_bound as deduce_bound
from tilewright.arith.bounds import (
    NEG_INF as NEG_INF,
    POS_INF as POS_INF,
    ConstIntBound as ConstIntBound,
)
from tilewright.arith.index_map import IndexMap as IndexMap
from tilewright.arith.interval import *  # noqa: F403 - its `__all__`
from tilewright.arith.iter_map import *  # noqa: F403 - its `__all__`
from tilewright.arith.iter_map_detect import (
    detect_iter_map as detect_iter_map,
    inverse_affine_iter_map as inverse_affine_iter_map,
    iter_map_simplify as iter_map_simplify,
    normalize_to_iter_sum as normalize_to_iter_sum,
)
from tilewright.arith.modular import ModularSet as ModularSet
from tilewright.arith.region import *  # noqa: F403 - its `__all__`
from tilewright.arith.subspace import subspace_divide as subspace_divide
