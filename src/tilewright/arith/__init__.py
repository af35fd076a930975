"""Arithmetic on index expressions: bounds, simplification, iterator maps, regions, index maps."""

from tilewright.arith.analyzer import Analyzer as Analyzer
from tilewright.arith.bound_deducer import deduce_bound as deduce_bound
from tilewright.arith.bounds import (
    NEG_INF as NEG_INF,
    POS_INF as POS_INF,
    ConstIntBound as ConstIntBound,
)
from tilewright.arith.index_map import IndexMap as IndexMap
from tilewright.arith.interval import (
    EVERYTHING as EVERYTHING,
    NEGATIVE_INFINITY as NEGATIVE_INFINITY,
    NOTHING as NOTHING,
    POSITIVE_INFINITY as POSITIVE_INFINITY,
    IntervalSet as IntervalSet,
)
from tilewright.arith.iter_map import (
    IterMapExpr as IterMapExpr,
    IterMapLevel as IterMapLevel,
    IterMapResult as IterMapResult,
    IterMark as IterMark,
    IterSplitExpr as IterSplitExpr,
    IterSumExpr as IterSumExpr,
    normalize_iter_map_to_expr as normalize_iter_map_to_expr,
)
from tilewright.arith.iter_map_detect import (
    detect_iter_map as detect_iter_map,
    iter_map_simplify as iter_map_simplify,
    normalize_to_iter_sum as normalize_to_iter_sum,
)
from tilewright.arith.iter_map_inverse import inverse_affine_iter_map as inverse_affine_iter_map
from tilewright.arith.modular import ModularSet as ModularSet
from tilewright.arith.region import (
    covers as covers,
    estimate_region_lower_bound as estimate_region_lower_bound,
    estimate_region_strict_bound as estimate_region_strict_bound,
    estimate_region_upper_bound as estimate_region_upper_bound,
    eval_set as eval_set,
    intersect as intersect,
    region_intersect as region_intersect,
    region_union as region_union,
    to_range as to_range,
    union as union,
)
from tilewright.arith.subspace import subspace_divide as subspace_divide
