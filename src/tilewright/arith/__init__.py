"""Arithmetic on index expressions: bounds, simplification, iterator maps, regions, index maps."""

from tilewright.arith.analyzer import Analyzer as Analyzer
from tilewright.arith.bounds import NEG_INF as NEG_INF
from tilewright.arith.bounds import POS_INF as POS_INF
from tilewright.arith.bounds import ConstIntBound as ConstIntBound
from tilewright.arith.iter_map import IterMapExpr as IterMapExpr
from tilewright.arith.iter_map import IterMapLevel as IterMapLevel
from tilewright.arith.iter_map import IterMapResult as IterMapResult
from tilewright.arith.iter_map import IterMark as IterMark
from tilewright.arith.iter_map import IterSplitExpr as IterSplitExpr
from tilewright.arith.iter_map import IterSumExpr as IterSumExpr
from tilewright.arith.iter_map import normalize_iter_map_to_expr as normalize_iter_map_to_expr
from tilewright.arith.iter_map_detect import detect_iter_map as detect_iter_map
from tilewright.arith.iter_map_detect import iter_map_simplify as iter_map_simplify
from tilewright.arith.iter_map_detect import normalize_to_iter_sum as normalize_to_iter_sum
from tilewright.arith.iter_map_inverse import inverse_affine_iter_map as inverse_affine_iter_map
from tilewright.arith.modular import ModularSet as ModularSet
from tilewright.arith.subspace import subspace_divide as subspace_divide
