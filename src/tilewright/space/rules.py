"""Schedule rules, one file each; importing this package makes them known by name."""

from tilewright.space.cpu.column_reduction import ReduceColumns as ReduceColumns
from tilewright.space.cpu.halo_tiling import HaloTiling as HaloTiling
from tilewright.space.cpu.head_attention import HeadAttention as HeadAttention
from tilewright.space.cpu.independent_slices import IndependentSlices as IndependentSlices
from tilewright.space.cpu.phase_separation import SeparatePhases as SeparatePhases
from tilewright.space.cpu.register_tiling import RegisterTiling as RegisterTiling
from tilewright.space.cpu.row_fusion import FuseRows as FuseRows
from tilewright.space.cpu.spatial_pass import SpatialPass as SpatialPass
from tilewright.space.cpu.vector_reduction import ReduceInVectors as ReduceInVectors
from tilewright.space.cpu.wide_accumulators import WideAccumulators as WideAccumulators
from tilewright.space.cpu.winograd_tiles import InWinogradTiles as InWinogradTiles
from tilewright.space.cpu.winograd_tiling import WinogradTiling as WinogradTiling
from tilewright.space.gpu.element_kernels import ElementKernels as ElementKernels
from tilewright.space.gpu.loop_kernels import LoopKernels as LoopKernels
from tilewright.space.gpu.row_kernels import RowKernels as RowKernels
from tilewright.space.gpu.thread_tiling import ThreadTiling as ThreadTiling
from tilewright.space.gpu.warp_group_tiling import WarpGroupTiling as WarpGroupTiling
from tilewright.space.tensor.tensor_tiling import TensorTiling as TensorTiling
from tilewright.space.tvm.add_rfactor import AddRFactor as AddRFactor
from tilewright.space.tvm.apply_custom_rule import ApplyCustomRule as ApplyCustomRule
from tilewright.space.tvm.auto_bind import AutoBind as AutoBind
from tilewright.space.tvm.auto_inline import AutoInline as AutoInline
from tilewright.space.tvm.cross_thread_reduction import CrossThreadReduction as CrossThreadReduction
from tilewright.space.tvm.inline_constant_scalars import (
    InlineConstantScalars as InlineConstantScalars,
)
from tilewright.space.tvm.multi_level_tiling import (
    MultiLevelTiling as MultiLevelTiling,
    ReuseType as ReuseType,
)
from tilewright.space.tvm.multi_level_tiling_tensor_core import (
    MultiLevelTilingTensorCore as MultiLevelTilingTensorCore,
)
from tilewright.space.tvm.multi_level_tiling_wide_vector import (
    MultiLevelTilingWideVector as MultiLevelTilingWideVector,
)
from tilewright.space.tvm.multi_level_tiling_with_intrin import (
    MultiLevelTilingWithIntrin as MultiLevelTilingWithIntrin,
)
from tilewright.space.tvm.parallelize_vectorize_unroll import (
    ParallelizeVectorizeUnroll as ParallelizeVectorizeUnroll,
)
from tilewright.space.tvm.random_compute_location import (
    RandomComputeLocation as RandomComputeLocation,
)
from tilewright.space.vta.scratchpad_tiling import ScratchpadTiling as ScratchpadTiling
