"""Schedule rules, one file each; importing this package makes them known by name."""

from tilewright.space.rules.add_rfactor import AddRFactor as AddRFactor
from tilewright.space.rules.apply_custom_rule import ApplyCustomRule as ApplyCustomRule
from tilewright.space.rules.auto_bind import AutoBind as AutoBind
from tilewright.space.rules.auto_inline import AutoInline as AutoInline
from tilewright.space.rules.column_reduction import ReduceColumns as ReduceColumns
from tilewright.space.rules.cross_thread_reduction import (
    CrossThreadReduction as CrossThreadReduction,
)
from tilewright.space.rules.halo_tiling import HaloTiling as HaloTiling
from tilewright.space.rules.independent_slices import IndependentSlices as IndependentSlices
from tilewright.space.rules.inline_constant_scalars import (
    InlineConstantScalars as InlineConstantScalars,
)
from tilewright.space.rules.multi_level_tiling import MultiLevelTiling as MultiLevelTiling
from tilewright.space.rules.multi_level_tiling_tensor_core import (
    MultiLevelTilingTensorCore as MultiLevelTilingTensorCore,
)
from tilewright.space.rules.multi_level_tiling_wide_vector import (
    MultiLevelTilingWideVector as MultiLevelTilingWideVector,
)
from tilewright.space.rules.multi_level_tiling_with_intrin import (
    MultiLevelTilingWithIntrin as MultiLevelTilingWithIntrin,
)
from tilewright.space.rules.parallelize_vectorize_unroll import (
    ParallelizeVectorizeUnroll as ParallelizeVectorizeUnroll,
)
from tilewright.space.rules.random_compute_location import (
    RandomComputeLocation as RandomComputeLocation,
)
from tilewright.space.rules.register_tiling import RegisterTiling as RegisterTiling
from tilewright.space.rules.reuse import ReuseType as ReuseType
from tilewright.space.rules.row_fusion import FuseRows as FuseRows
from tilewright.space.rules.spatial_pass import SpatialPass as SpatialPass
from tilewright.space.rules.tensor_tiling import TensorTiling as TensorTiling
from tilewright.space.rules.vector_reduction import ReduceInVectors as ReduceInVectors
from tilewright.space.rules.wide_accumulators import WideAccumulators as WideAccumulators
