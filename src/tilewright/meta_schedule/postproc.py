"""Post-processors."""

from tilewright.space.base import Postproc as Postproc
from tilewright.space.postprocs import (
    DisallowAsyncStridedMemCopy as DisallowAsyncStridedMemCopy,
    DisallowDynamicLoop as DisallowDynamicLoop,
    RewriteCooperativeFetch as RewriteCooperativeFetch,
    RewriteLayout as RewriteLayout,
    RewriteParallelVectorizeUnroll as RewriteParallelVectorizeUnroll,
    RewriteReductionBlock as RewriteReductionBlock,
    RewriteTensorize as RewriteTensorize,
    RewriteUnboundBlock as RewriteUnboundBlock,
    VerifyGPUCode as VerifyGPUCode,
    VerifyVTCMLimit as VerifyVTCMLimit,
)

PyPostproc = Postproc
create = Postproc.create
