"""Post-processors, one file each; importing this package makes them known by name."""

from tilewright.space.postprocs.disallow_async_strided_mem_copy import (
    DisallowAsyncStridedMemCopy as DisallowAsyncStridedMemCopy,
)
from tilewright.space.postprocs.disallow_dynamic_loop import (
    DisallowDynamicLoop as DisallowDynamicLoop,
)
from tilewright.space.postprocs.rewrite_cooperative_fetch import (
    RewriteCooperativeFetch as RewriteCooperativeFetch,
)
from tilewright.space.postprocs.rewrite_layout import RewriteLayout as RewriteLayout
from tilewright.space.postprocs.rewrite_parallel_vectorize_unroll import (
    RewriteParallelVectorizeUnroll as RewriteParallelVectorizeUnroll,
)
from tilewright.space.postprocs.rewrite_reduction_block import (
    RewriteReductionBlock as RewriteReductionBlock,
)
from tilewright.space.postprocs.rewrite_tensorize import RewriteTensorize as RewriteTensorize
from tilewright.space.postprocs.rewrite_unbound_block import (
    RewriteUnboundBlock as RewriteUnboundBlock,
)
from tilewright.space.postprocs.verify_gpu_code import VerifyGPUCode as VerifyGPUCode
from tilewright.space.postprocs.verify_tile_kernels import VerifyTileKernels as VerifyTileKernels
from tilewright.space.postprocs.verify_vtcm_limit import VerifyVTCMLimit as VerifyVTCMLimit
from tilewright.space.vta.verify_scratchpads import VerifyScratchpads as VerifyScratchpads
