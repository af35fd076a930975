"""The emulator notices what is wrong with a tile kernel: faults are planted in good ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilewright import ir
from tilewright.ir.annotation_keys import TILE_SPLITS, TILE_STAGES
from tilewright.ir.intrinsics import bitwise_xor
from tilewright.target import Target
from tilewright.testing.simt import RaceError
from tilewright.testing.tile_kernel_runs import (
    hopper,
    ordered_product,
    results,
    tile_kernel,
    with_calls,
)

Change = Callable[[ir.Call, int], ir.Call | None]
FUNC = ordered_product((136, 72, 328), ("float16", "float32", "float16"))


@pytest.fixture(scope="module")
def kernel() -> ir.IRModule:
    """Several tiles for each block, several laps around the stages."""
    return tile_kernel(FUNC, hopper(2), annotations={TILE_STAGES: 2})


def run_often(module: ir.IRModule) -> None:
    for seed in range(6):
        found, (left, right) = results(FUNC, module, seed)
        np.testing.assert_allclose(found, left @ right, atol=0.1)


def left_out(which: int | None = None) -> Change:
    """Leave out all calls, or one of them."""
    return lambda call, number: None if which in (None, number) else call


def renamed(name: str) -> Change:
    return lambda call, _: ir.Call(call.dtype, call.op, (ir.StringImm(name), *call.args[1:]))


def with_argument(position: int, change: Callable[[ir.PrimExpr], ir.PrimExpr]) -> Change:
    def changed(call: ir.Call, _: int) -> ir.Call:
        args = list(call.args)
        args[position] = change(args[position])
        return ir.Call(call.dtype, call.op, tuple(args))

    return changed


def only(which: int, change: Change) -> Change:
    return lambda call, number: change(call, number) if number == which else call


def more(count: int) -> Callable[[ir.PrimExpr], ir.PrimExpr]:
    return lambda value: value + ir.const(count, value.dtype)


def less(count: int) -> Callable[[ir.PrimExpr], ir.PrimExpr]:
    return lambda value: value - ir.const(count, value.dtype)


FLIPPED = with_argument(2, lambda parity: bitwise_xor(parity, ir.const(1, parity.dtype)))


def test_the_kernel_itself_is_fine(kernel: ir.IRModule) -> None:
    run_often(kernel)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        # Stages go back before they have been read.
        ("tw_wgmma_wait_1", renamed("tw_wgmma_wait_2"), "memory that is still being read"),
        ("tw_wgmma_wait_1", left_out(), "memory that is still being read"),
        ("tw_wgmma_wait_0", left_out(), "sums is used before|still being read"),
        ("tw_wgmma_fence", left_out(), "follows other uses of sums without a fence"),
        ("tw_wgmma_commit", left_out(), "memory that is still being read"),
        # Barriers that are missing, or that nobody comes to.
        ("tvm_storage_sync", left_out(), "there is no barrier yet at byte"),
        ("tw_fence_barriers", left_out(), "barrier that was started without a fence since"),
        ("tw_barrier_arrive", left_out(), "nobody can go on: .*warp 4 waits for parity 0"),
        ("tw_barrier_start", with_argument(2, more(1)), "1 arrivals and 0 bytes are missing"),
        ("tw_named_barrier", left_out(0), "a thread writes to shared memory that is still being"),
        ("tw_named_barrier", left_out(1), "have not landed, or that was written without a fence"),
        ("tw_named_barrier", with_argument(2, more(32)), "128 of 160 threads are there"),
        # Byte counts and parities.
        ("tw_barrier_expect", with_argument(2, more(64)), "0 arrivals and 64 bytes are missing"),
        (
            "tw_barrier_expect",
            with_argument(2, less(4096)),
            "lands after the phase of|have not landed",
        ),
        ("tw_barrier_expect", with_argument(2, less(64)), "64 bytes more land than their barrie"),
        ("tw_barrier_wait", only(0, FLIPPED), "nobody can go on: .*warp 4 waits for parity 0"),
        ("tw_barrier_wait", only(1, FLIPPED), "have not landed"),
        ("tw_barrier_wait", left_out(0), "more threads arrive at a barrier|overwrites a tile"),
        # The way out.
        ("tw_fence_async_shared", left_out(), "written without a fence since"),
        ("tw_bulk_wait_read_0", left_out(), "a thread writes to shared memory that is still"),
        ("tw_bulk_wait_0", left_out(), "ends before its bulk stores have been waited for"),
        ("tw_bulk_commit", left_out(), "memory that is still being read"),
        ("tw_load_2d", with_argument(1, more(64)), "is no multiple of 128"),
    ],
)
def test_faults_are_noticed(kernel: ir.IRModule, name: str, change: Change, message: str) -> None:
    with pytest.raises(RaceError, match=message):
        run_often(with_calls(kernel, name, change))


def test_wrong_tiles_give_wrong_numbers(kernel: ir.IRModule) -> None:
    faulty = with_calls(kernel, "tw_wgmma_m64", with_argument(3, more(2)))
    with pytest.raises((AssertionError, RaceError)):
        run_often(faulty)


def test_a_product_needs_all_warps_of_its_group(kernel: ir.IRModule) -> None:
    def in_three_warps(node: ir.For) -> ir.Stmt:
        if node.loop_var.name != "part":
            return node
        return ir.IfThenElse(ir.less(WARP[0], 3), node)

    body = kernel["main_kernel"].body
    WARP = [let.var for let in ir.nodes_of(body, ir.LetStmt) if let.var.name == "warp"]
    changed = kernel["main_kernel"].with_body(ir.rewrite(body, {ir.For: in_three_warps}))
    with pytest.raises(RaceError, match="a product that 3 of 4 warps have started"):
        run_often(ir.IRModule({**kernel.functions, "main_kernel": changed}))


# --- blocks that share a tile --------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared() -> ir.IRModule:
    """Two groups of warps multiply in each block."""
    return tile_kernel(FUNC, hopper(), 1, annotations={TILE_STAGES: 2, TILE_SPLITS: 2})


def test_the_shared_kernel_is_fine(shared: ir.IRModule) -> None:
    run_often(shared)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        # Calls in the order of the text: those who fetch, those who multiply, all at the end.
        ("tw_cluster_barrier", left_out(0), "nobody can go on|no thread wrote before a barrier"),
        ("tw_cluster_barrier", left_out(1), "no thread wrote before a barrier"),
        ("tw_cluster_barrier", left_out(2), "reads shared memory of a block that has ended"),
        ("tw_named_barrier", left_out(), "a thread writes to shared memory that is still being"),
        ("tw_load_far_4_f32", with_argument(2, more(4)), "does not begin at a multiple of them"),
        ("tw_load_far_4_f32", with_argument(2, more(1 << 14)), "no thread wrote|outside of"),
    ],
)
def test_faults_of_shared_tiles_are_noticed(
    shared: ir.IRModule, name: str, change: Change, message: str
) -> None:
    with pytest.raises(RaceError, match=message):
        run_often(with_calls(shared, name, change))


# --- on threads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tvm_storage_sync", left_out()),
        ("tvm_storage_sync", left_out(1)),
        ("tw_copy_wait_", renamed("tw_copy_wait_7")),
        ("tw_copy_commit", left_out()),
    ],
)
def test_faults_of_kernels_on_threads_are_noticed(name: str, change: Change) -> None:
    func = ordered_product((64, 64, 96), ("float32", "float32", "float32"))
    module = tile_kernel(func, Target("nvidia/nvidia-h200"), rule="ThreadTiling")

    def check(module: ir.IRModule) -> None:
        found, (left, right) = results(func, module)
        np.testing.assert_allclose(found, left @ right, atol=1e-3)

    check(module)
    with pytest.raises((RaceError, AssertionError)):
        check(with_calls(module, name, change))
