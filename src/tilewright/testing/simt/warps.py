"""Runs kernels whose warps have roles: they take turns in a random order.

What is asynchronous happens late: a product reads shared memory where the first warp of its group
waits for it, a bulk copy lands when nobody else can go on, or at a random time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.testing.simt.device_functions import DEVICE_FUNCTIONS
from tilewright.testing.simt.in_step import TAGS
from tilewright.testing.simt.products import WARPS, WarpGroup
from tilewright.testing.simt.scheduler import Scheduler
from tilewright.testing.simt.shared_memory import SharedMemory
from tilewright.testing.simt.threads import RaceError
from tilewright.testing.simt.warp import LANES, BlockState, Warp


def run_warps(
    kernel: ir.PrimFunc, sizes: Mapping[str, int], params: Mapping[ir.Var, Any], seed: int
) -> None:
    """Launch a kernel, one block after another; `seed` gives the order of turns."""
    shape = tuple(sizes.get(tag, 1) for tag in TAGS)
    per_block = math.prod(shape[3:])
    places = np.indices(shape).reshape(6, -1, per_block)
    random = np.random.default_rng(seed)
    for number in range(places.shape[1]):
        block = _block(per_block, sizes.get("tir.use_dyn_shared_memory", 0), random)
        warps = [
            Warp(
                block,
                first // LANES,
                dict(zip(TAGS, places[:, number, first : first + LANES], strict=True)),
                params,
                DEVICE_FUNCTIONS,
            )
            for first in range(0, per_block, LANES)
        ]
        block.scheduler.run({warp.name: warp.run(kernel.body) for warp in warps})
        block.shared.check_end()
        block.scheduler.finish()


def _block(threads: int, size: int, random: np.random.Generator) -> BlockState:
    if threads % LANES:
        raise RaceError(f"a block of {threads} threads is no number of warps")
    # Shared memory begins at a multiple of 16, and kernels must not rely on more.
    shared = SharedMemory(size, 1024 + 16 * int(random.integers(64)))
    count = -(-threads // (LANES * WARPS))
    groups = {number: WarpGroup(shared) for number in range(count)}
    return BlockState(threads, shared, Scheduler(random), groups)
