"""`VerifyGPUCode`: candidates that no GPU of the target can run are rejected before building.

What is checked is known before lowering: threads, shared memory, widths of vectors. Of kernels that
are lowered already the same is counted in what they launch and allocate. The limits that a GPU sets
itself at run time (registers, for one) are found when a candidate is built.

Where this differs from lowering the program and looking at the result, as TVM does: buffers in
dynamic shared memory are taken to be packed as well as their lives allow; of accesses that become
vectors only those are looked at whose index moves evenly from lane to lane; lowering errors that
have nothing to do with these limits show later, as build errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.ir import PrimFunc, annotation_keys as keys
from tilewright.nest.kernels import Kernel, Leaf, kernels_of, tag_of
from tilewright.nest.loops import known_extent
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc, TaskContext, postprocs
from tilewright.space.gpu.gpu_limits import (
    MAX_SHARED_MEMORY,
    MAX_THREADS,
    WARP_SIZE,
    required_gpu_number,
)
from tilewright.space.gpu.lowered_kernels import (
    VECTOR_BYTES,
    KernelNeeds,
    lowered_kernels,
    vectors_fit,
)
from tilewright.space.gpu.shared_memory import shared_memory_bytes

_THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


@postprocs.register("VerifyGPUCode")
class VerifyGPUCode(Postproc):
    """Accept programs within the limits of the target.

    `all_shared_memory`: what a kernel may have of it if it asks for it, as ours do, and not only
    what every kernel has, which is the attribute of the target.
    """

    def __init__(self, all_shared_memory: bool = False) -> None:
        self.all_shared_memory = all_shared_memory
        self.max_shared_memory_per_block = -1
        self.max_threads_per_block = -1
        self.thread_warp_size = -1

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        name, target = type(self).__name__, context.target
        self.max_shared_memory_per_block = required_gpu_number(target, MAX_SHARED_MEMORY, name)
        if self.all_shared_memory and target is not None:
            self.max_shared_memory_per_block = target.gpu.shared_per_block
        self.max_threads_per_block = required_gpu_number(target, MAX_THREADS, name)
        self.thread_warp_size = required_gpu_number(target, WARP_SIZE, name)

    def apply(self, sch: Schedule) -> bool:
        return all(self._fits(func) for func in sch.mod.functions.values())

    def _fits(self, func: PrimFunc) -> bool:
        return all(map(self._lowered_fits, lowered_kernels(func.body))) and all(
            all(map(self._has_wanted_threads, kernel.leaves))
            and self._threads_fit(kernel)
            and vectors_fit(kernel)
            and shared_memory_bytes(kernel) <= self.max_shared_memory_per_block
            for kernel in kernels_of(func)
        )

    def _has_wanted_threads(self, leaf: Leaf) -> bool:
        """A block that says how many threads it needs gets them."""
        notes = leaf.realize.block.annotations
        low, high = notes.get(keys.THREAD_EXTENT_LOW), notes.get(keys.THREAD_EXTENT_HIGH)
        if low is None or high is None:
            return True
        extents = {
            tag_of(loop): known_extent(loop) for loop in leaf.loops if tag_of(loop) in _THREADS
        }
        if notes.get(keys.WARP_EXECUTION):
            extents["threadIdx.x"] = self.thread_warp_size
        known = [extent for extent in extents.values() if extent is not None]
        return len(known) == len(extents) and low <= math.prod(known) <= high

    def _threads_fit(self, kernel: Kernel) -> bool:
        extents: dict[str, set[float]] = {}
        for loop in {loop for leaf in kernel.leaves for loop in leaf.loops if tag_of(loop)}:
            extent = known_extent(loop)
            extents.setdefault(tag_of(loop), set()).add(math.inf if extent is None else extent)
        return self._extents_fit(extents)

    def _extents_fit(self, extents: Mapping[str, set[float]]) -> bool:
        """Each axis has one extent in the whole kernel, and a block has not too many threads."""
        if any(len(found) > 1 or math.inf in found for found in extents.values()):
            return False
        threads = math.prod(max(found) for tag, found in extents.items() if tag in _THREADS)
        return threads <= self.max_threads_per_block

    def _lowered_fits(self, kernel: KernelNeeds) -> bool:
        return (
            self._extents_fit(kernel.threads)
            and kernel.vector_bytes <= VECTOR_BYTES
            and kernel.shared_bytes <= self.max_shared_memory_per_block
        )
