"""The passes before CUDA C++ is generated, in order."""

from __future__ import annotations

from tilewright.lowering.base import Pass
from tilewright.lowering.check_safety import CheckSafety
from tilewright.lowering.common_subexpr_elim import CommonSubexprElim
from tilewright.lowering.compact_buffer_allocation import CompactBufferAllocation
from tilewright.lowering.context import PassContext
from tilewright.lowering.convert_blocks_to_opaque import ConvertBlocksToOpaque
from tilewright.lowering.gpu.fit_vector_loops import FitVectorLoops
from tilewright.lowering.gpu.inject_permuted_layout import InjectPermutedLayout
from tilewright.lowering.gpu.inject_ptx_async_copy import InjectPTXAsyncCopy
from tilewright.lowering.gpu.inject_software_pipeline import InjectSoftwarePipeline
from tilewright.lowering.gpu.inject_virtual_thread import InjectVirtualThread
from tilewright.lowering.gpu.lower_cross_thread_reduction import LowerCrossThreadReduction
from tilewright.lowering.gpu.lower_scans import LowerScans
from tilewright.lowering.gpu.lower_thread_allreduce import LowerThreadAllreduce
from tilewright.lowering.gpu.lower_warp_memory import LowerWarpMemory
from tilewright.lowering.gpu.manifest_shared_memory_local_stage import (
    ManifestSharedMemoryLocalStage,
)
from tilewright.lowering.gpu.merge_shared_memory_allocations import (
    MergeSharedMemoryAllocations,
)
from tilewright.lowering.gpu.move_workspaces import MoveWorkspaces
from tilewright.lowering.gpu.split_host_device import SplitHostDevice
from tilewright.lowering.gpu.spread_independent_loops import SpreadIndependentLoops
from tilewright.lowering.gpu.start_early import StartEarly
from tilewright.lowering.gpu.thread_sync import ThreadSync
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import LowerTileKernels
from tilewright.lowering.gpu.unify_thread_binding import UnifyThreadBinding
from tilewright.lowering.hoist_if_then_else import HoistIfThenElse
from tilewright.lowering.host_abi import HostABI
from tilewright.lowering.loop_partition import LoopPartition
from tilewright.lowering.lower_init_block import LowerInitBlock
from tilewright.lowering.lower_intrin import LowerIntrin
from tilewright.lowering.pipeline import buffers_to_memory
from tilewright.lowering.plan_buffer_allocation import PlanBufferAllocation
from tilewright.lowering.remove_no_op import RemoveNoOp
from tilewright.lowering.rewrite_unsafe_select import RewriteUnsafeSelect
from tilewright.lowering.simplify import Simplify
from tilewright.lowering.storage_rewrite import StorageRewrite
from tilewright.lowering.unroll_loop import UnrollLoop
from tilewright.lowering.vectorize_loop import VectorizeLoop
from tilewright.target import Target


def passes_of(context: PassContext, target: Target | None = None) -> list[Pass]:
    """All passes; `context` gives their options and the user's own passes."""
    return [
        *_blocks_to_buffers(context),
        *buffers_to_memory(context),
        *_loops(context),
        *_kernels(context),
    ]


def _blocks_to_buffers(context: PassContext) -> list[Pass]:
    """Threads are bound around kernels; each buffer is allocated where it is used, and small."""
    return [
        *context.user_passes(0),
        LowerTileKernels(),
        LowerScans(),
        SpreadIndependentLoops(),
        UnifyThreadBinding(),
        LowerCrossThreadReduction(),
        LowerInitBlock(),
        ConvertBlocksToOpaque(),
        PlanBufferAllocation(),
        ManifestSharedMemoryLocalStage(),
        CheckSafety(),
        CompactBufferAllocation(),
        InjectSoftwarePipeline(),
    ]


def _loops(context: PassContext) -> list[Pass]:
    """Loops as a thread runs them, and memory as a block of threads shares it."""
    vectorize = context.enables("vectorize")
    return [
        context.configured(LoopPartition, enable=context.enables("loop_partition")),
        *([FitVectorLoops()] if vectorize else []),
        VectorizeLoop(vectorize),
        InjectVirtualThread(),
        InjectPTXAsyncCopy(),
        InjectPermutedLayout(),
        LowerThreadAllreduce(),
        LowerWarpMemory(),
        StorageRewrite(context.enables("storage_rewrite")),
        MergeSharedMemoryAllocations(),
        ThreadSync(),
        Simplify(),
        context.configured(UnrollLoop, expand=False),
        *context.user_passes(2),
    ]


def _kernels(context: PassContext) -> list[Pass]:
    """Kernels become functions of their own, once nothing is left to do across their borders."""
    return [
        RemoveNoOp(),
        RewriteUnsafeSelect(),
        HoistIfThenElse(),
        *context.user_passes(3),
        LowerIntrin(),
        CommonSubexprElim(context.enables("cse_tir")),
        MoveWorkspaces(),
        HostABI(),
        SplitHostDevice(),
        StartEarly(),
    ]
