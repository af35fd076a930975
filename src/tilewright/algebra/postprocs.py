"""Post-processors on trees of loops, by the name of their class."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from tilewright import ir
from tilewright.algebra.blocks import child_stages, tensorize, tensorize_packed
from tilewright.algebra.choices import Choices
from tilewright.algebra.expr import is_more_than_one, negate
from tilewright.algebra.gpu_kernels import (
    KernelLimits,
    LegalityCheck,
    cooperative_fetch,
    kernel_checks,
    require_bound,
)
from tilewright.algebra.loop_tree import (
    LoopTree,
    StageNode,
    is_spatial,
    loops_of,
    types_of,
)
from tilewright.algebra.packed_layouts import pack
from tilewright.algebra.parallel_vector import rewrite_parallel_vectorize_unroll
from tilewright.algebra.reductions import decompose_reduction
from tilewright.errors import ScheduleError
from tilewright.ir.annotation_keys import AUTO_TENSORIZE, AUTO_TENSORIZE_INIT
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc
from tilewright.space.layout_free import layout_free_buffers
from tilewright.space.postprocs.rewrite_cooperative_fetch import RewriteCooperativeFetch
from tilewright.space.postprocs.rewrite_tensorize import RewriteTensorize
from tilewright.space.postprocs.verify_gpu_code import VerifyGPUCode


@dataclass(frozen=True)
class PostprocContext:
    """All that post-processors need beside a tree; what they verify is put into `checks`."""

    sch: Schedule  # after the steps that were carried out on the program
    func: ir.PrimFunc
    choices: Choices
    postproc: Postproc
    checks: list[LegalityCheck]


TILE_KERNELS = "tiles that instructions and shared memory allow"  # a reason of refusals
Rewrite = Callable[[LoopTree, PostprocContext], None]


def _constant_extents(tree: LoopTree, context: PostprocContext) -> None:
    """Extents that depend on where a region begins are refused."""
    for holds in tree.constant_extents:
        if holds != 1:
            check = LegalityCheck(holds, negate(holds), 0, "loops with constant extents")
            context.checks.append(check)


def _reductions(tree: LoopTree, context: PostprocContext) -> None:
    """Decompose every reduction at its outermost reduction loop."""
    for stage in tree.stages():
        if stage.block.init is None or stage.does != "all" or _over_threads(stage):
            continue
        for loop in loops_of(stage):
            if types_of(loop, tree.stages_below(loop)) <= {ir.IterType.DATA_PAR}:
                continue
            reduces = is_more_than_one(loop.extent) if loop.is_fused else 1
            key = (stage.name, "reduces", len(loops_of(loop)))
            if context.choices.decide(key, reduces):
                _pass_on_intrinsics(stage, decompose_reduction(tree, stage, loop))
                break


def _pass_on_intrinsics(stage: StageNode, init: StageNode) -> None:
    """The initialisation gets the intrinsic meant for it instead of the one of its block."""
    if AUTO_TENSORIZE in stage.annotations:
        init.annotations[AUTO_TENSORIZE] = stage.annotations.pop(AUTO_TENSORIZE_INIT, "")
        init.annotations.pop(AUTO_TENSORIZE_INIT, None)


def _over_threads(stage: StageNode) -> bool:
    reducing = {
        digit
        for iter_var, terms in zip(stage.block.iter_vars, stage.bindings, strict=True)
        if not is_spatial(iter_var)
        for digit in terms
    }
    return any(loop.tag and not reducing.isdisjoint(loop.digits) for loop in loops_of(stage))


def _tensorize(tree: LoopTree, context: PostprocContext) -> None:
    """Blocks that do not fit the instruction that they are marked with stay as they are."""
    assert isinstance(context.postproc, RewriteTensorize)
    for stage in tree.stages():
        name = stage.annotations.pop(AUTO_TENSORIZE, None)
        if name:
            try:
                tensorize(tree, stage, name, preserve=True)
            except ScheduleError:
                _tensorize_packed(tree, stage, name, context)
        elif name is not None and context.postproc.vectorize_init_loop:
            _vectorize_only_loop(stage)


def _tensorize_packed(
    tree: LoopTree, stage: StageNode, name: str, context: PostprocContext
) -> None:
    """Pack the operand whose layout is free, and try again."""
    read = {region.buffer for region in stage.block.reads}
    for buffer in layout_free_buffers(context.func):
        if buffer in read:
            reader = pack(tree, context.func, buffer, context.choices)
            with contextlib.suppress(ScheduleError):
                if reader is not None:
                    tensorize_packed(stage, name, reader, buffer)


def _vectorize_only_loop(stage: StageNode) -> None:
    (child,) = child_stages(stage)
    (loop,) = loops_of(child)
    loop.kind = ir.ForKind.VECTORIZED


def _layout(tree: LoopTree, context: PostprocContext) -> None:
    """Buffers whose layout is free are stored in the order in which they are read."""
    for buffer in layout_free_buffers(context.func):
        if buffer not in tree.packed:
            pack(tree, context.func, buffer, context.choices)


def _parallel_vector(tree: LoopTree, context: PostprocContext) -> None:
    rewrite_parallel_vectorize_unroll(tree, context.choices)


def _fetches(tree: LoopTree, context: PostprocContext) -> None:
    assert isinstance(context.postproc, RewriteCooperativeFetch)
    cooperative_fetch(tree, context.postproc.thread_warp_size)


def _unbound(tree: LoopTree, context: PostprocContext) -> None:
    require_bound(tree)


def _gpu_limits(tree: LoopTree, context: PostprocContext) -> None:
    postproc = context.postproc
    assert isinstance(postproc, VerifyGPUCode)
    limits = KernelLimits(
        postproc.max_threads_per_block,
        postproc.max_shared_memory_per_block,
        postproc.thread_warp_size,
    )
    context.checks.extend(kernel_checks(tree, limits))


def _tile_kernels(tree: LoopTree, context: PostprocContext) -> None:
    """What instructions and memory allow is asked of the program, which all steps have made."""
    fits = int(context.postproc.apply(context.sch))
    if not fits:
        context.checks.append(LegalityCheck(fits, 1, 0, TILE_KERNELS))


_REWRITES: dict[str, Rewrite] = {
    "DisallowDynamicLoop": _constant_extents,
    "RewriteCooperativeFetch": _fetches,
    "RewriteUnboundBlock": _unbound,
    "VerifyGPUCode": _gpu_limits,
    "RewriteParallelVectorizeUnroll": _parallel_vector,
    "RewriteReductionBlock": _reductions,
    "RewriteTensorize": _tensorize,
    "RewriteLayout": _layout,
    "VerifyTileKernels": _tile_kernels,
}
# Those that look at whole programs: decisions have values when they do.
_OF_PROGRAMS = frozenset({"VerifyTileKernels"})


def reads_programs(postproc: Postproc) -> bool:
    """True for a post-processor that asks for programs, not for loops."""
    return type(postproc).__name__ in _OF_PROGRAMS


def rewrite_of(name: str) -> Rewrite | None:
    """What a post-processor does, if it is known."""
    return _REWRITES.get(name)
