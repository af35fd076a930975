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
from tilewright.ir.annotation_keys import CLUSTER_BLOCKS
from tilewright.testing.simt.device_functions import DEVICE_FUNCTIONS
from tilewright.testing.simt.given_sums import GivenSums
from tilewright.testing.simt.in_step import TAGS
from tilewright.testing.simt.products import WARPS, WarpGroup
from tilewright.testing.simt.scheduler import Scheduler
from tilewright.testing.simt.shared_memory import SharedMemory
from tilewright.testing.simt.threads import Array, RaceError, function_name
from tilewright.testing.simt.warp import LANES, BlockState, Cluster, NamedBarrier, Warp


def run_warps(
    kernel: ir.PrimFunc, sizes: Mapping[str, int], params: Mapping[ir.Var, Any], seed: int
) -> None:
    """Launch a kernel; `seed` gives the order of turns.

    Clusters of blocks run one after another, unless they wait for each other.
    """
    shape = tuple(sizes.get(tag, 1) for tag in TAGS)
    per_block = math.prod(shape[3:])
    places = np.indices(shape).reshape(6, -1, per_block)
    random = np.random.default_rng(seed)
    size = _cluster_size(kernel)
    if places.shape[1] % size:
        raise RaceError(f"{places.shape[1]} blocks are no number of clusters of {size}")
    together = places.shape[1] if _hands_sums_over(kernel) else size
    memory = sizes.get("tir.use_dyn_shared_memory", 0)
    for first in range(0, places.shape[1], together):
        scheduler, given = Scheduler(random), GivenSums()
        blocks: list[BlockState] = []
        for _ in range(0, together, size):
            blocks += _cluster(size, per_block, memory, random, (scheduler, given)).blocks
        warps = {
            f"{warp.name} of cluster {number // size}" if together > size else warp.name: warp
            for number, block in enumerate(blocks)
            for warp in _warps(block, places[:, first + number], params)
        }
        scheduler.run({name: warp.run(kernel.body) for name, warp in warps.items()})
        for block in blocks:
            block.shared.check_end()
        given.check_end()
        scheduler.finish()


def _hands_sums_over(kernel: ir.PrimFunc) -> bool:
    calls = (call for call in ir.nodes_of(kernel.body, ir.Call) if isinstance(call.op, ir.Op))
    return any(function_name(call).startswith(("tw_give_sums", "tw_take_sums")) for call in calls)


def _cluster_size(kernel: ir.PrimFunc) -> int:
    notes = ir.nodes_of(kernel.body, ir.AttrStmt)
    return next((_number(note.value) for note in notes if note.attr_key == CLUSTER_BLOCKS), 1)


def _number(value: ir.PrimExpr) -> int:
    assert isinstance(value, ir.IntImm)
    return value.value


def _warps(block: BlockState, places: Array, params: Mapping[ir.Var, Any]) -> list[Warp]:
    return [
        Warp(
            block,
            first // LANES,
            dict(zip(TAGS, places[:, first : first + LANES], strict=True)),
            params,
            DEVICE_FUNCTIONS,
        )
        for first in range(0, block.threads, LANES)
    ]


def _cluster(
    count: int,
    threads: int,
    size: int,
    random: np.random.Generator,
    launch: tuple[Scheduler, GivenSums],
) -> Cluster:
    if threads % LANES:
        raise RaceError(f"a block of {threads} threads is no number of warps")
    cluster, (scheduler, given) = Cluster(NamedBarrier(count * threads)), launch
    # Shared memory begins at a multiple of 16, and kernels must not rely on more.
    start = 1024 + 16 * int(random.integers(64))
    for _ in range(count):
        shared = SharedMemory(size, start)
        groups = {n: WarpGroup(shared) for n in range(-(-threads // (LANES * WARPS)))}
        cluster.blocks.append(BlockState(threads, shared, scheduler, groups, cluster, given))
    return cluster
