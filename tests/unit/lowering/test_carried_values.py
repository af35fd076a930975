"""Which buffers carry values from one iteration of a loop to the next, and which stay outside."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.driver import build, lower
from tilewright.ir import BlockRealize, For, IRModule, Node, PrimFunc, as_module, children
from tilewright.lowering import get_pass
from tilewright.script import from_source
from tilewright.testing import oracle

HEAD = """
@T.prim_func
def main(A: T.Buffer((9, 9), "int32"), B: T.Buffer((9, 9), "int32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    S = T.alloc_buffer((9, 9), "int32")
"""

# Bodies in which each iteration of `i` writes what it reads of S.
PRIVATE = {
    "tile_that_does_not_divide": """
    for i in KIND(9):
        for x, y in T.grid(9, 9):
            with T.block("S"):
                vx, vy = T.axis.remap("SS", [x, y])
                S[vx, vy] = A[vx, vy] + 1
        for j0, j1 in T.grid(5, 2):
            with T.block("B"):
                vi = T.axis.spatial(9, i)
                vj = T.axis.spatial(9, j0 * 2 + j1)
                T.where(j0 * 2 + j1 < 9)
                B[vi, vj] = S[vi, vj]
""",
    "index_under_a_condition": """
    for i in KIND(9):
        for x, y in T.grid(9, 9):
            with T.block("S"):
                vx, vy = T.axis.remap("SS", [x, y])
                S[vx, vy] = A[vx, vy] + 1
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(2 <= vi, S[vi - 2, vj], 0)
""",
    "pieces_that_are_cut_at_the_end": """
    for i in KIND(9):
        for k in range(6):
            with T.block("S"):
                vk = T.axis.spatial(6, k)
                T.reads(A[vk * 2 : vk * 2 + T.max(T.min(9 - vk * 2, 2), 0), 0])
                T.writes(S[vk * 2 : vk * 2 + T.max(T.min(9 - vk * 2, 2), 0), 0])
                for x in range(T.max(T.min(9 - vk * 2, 2), 0)):
                    S[vk * 2 + x, 0] = A[vk * 2 + x, 0] + 1
            for y in range(2):
                with T.block("B"):
                    vi = T.axis.spatial(9, i)
                    vj = T.axis.spatial(9, k * 2 + y)
                    T.where(k * 2 + y < 9)
                    B[vi, vj] = S[vj, 0]
""",
    "bound_check_on_both_sides": """
    for i in KIND(9):
        for j0 in range(3):
            for x in range(4):
                with T.block("S"):
                    vi = T.axis.spatial(9, i)
                    vx = T.axis.spatial(9, j0 * 4 + x)
                    T.where(j0 * 4 + x < 9)
                    S[0, vx] = A[vi, vx] + 1
            for x in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(9, i)
                    vx = T.axis.spatial(9, j0 * 4 + x)
                    T.where(j0 * 4 + x < 9)
                    B[vi, vx] = S[0, vx]
""",
    "same_test_around_both": """
    for i in KIND(9):
        for j in range(9):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i + j < 9)
                S[0, 0] = A[vi, vj] + 1
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i + j < 9)
                B[vi, vj] = S[0, 0]
""",
    "index_that_a_test_makes_the_first": """
    for i in KIND(9):
        for j in range(5):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(j < 1)
                S[0, vj] = A[vi, vj] + 1
            for k in range(9):
                with T.block("B"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    T.where(j < 1)
                    B[vi, vk] = S[0, 0]
""",
    "pieces_of_a_fused_loop_that_does_not_divide": """
    for i in KIND(9):
        for a, f in T.grid(1, 12):
            with T.block("S"):
                vi = T.axis.spatial(9, i)
                vp = T.axis.spatial(3, (a * 3 + f // 4) * 4 + f % 4)
                T.where((a * 3 + f // 4) * 4 + f % 4 < 3)
                T.reads(A[vi, vp * 3 : vp * 3 + 3])
                T.writes(S[0, vp * 3 : vp * 3 + 3])
                source = T.match_buffer(A[vi, vp * 3 : vp * 3 + 3], (3,), "int32", offset_factor=1)
                piece = T.match_buffer(S[0, vp * 3 : vp * 3 + 3], (3,), "int32", offset_factor=1)
                for x in range(3):
                    piece[x] = source[x] + 1
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[0, vj]
""",
    "digits_of_a_sum_that_a_test_ends": """
    for i in KIND(9):
        for a, b, c in T.grid(3, 2, 3):
            with T.block("S"):
                vi = T.axis.spatial(9, i)
                ve = T.axis.spatial(9, a * 6 + b * 3 + c)
                T.where(a * 6 + b * 3 + c < 9)
                S[ve // 3 + 2, ve % 3] = A[vi, ve] + 1
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[2 + vj // 3, vj % 3]
""",
    "rows_of_a_fused_loop": """
    for i in KIND(9):
        for f in range(81):
            with T.block("S"):
                vx = T.axis.spatial(9, f // 9)
                vy = T.axis.spatial(9, f % 9)
                S[vx, vy] = A[vx, vy] + 1
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[vj, vi]
""",
    "start_of_a_reduction": """
    for i in KIND(9):
        for j, k in T.grid(9, 9):
            with T.block("S"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    S[0, vj] = 0
                S[0, vj] = S[0, vj] + A[vi, vk] * vj
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[0, vj]
""",
    "reduction_over_tiles_that_do_not_divide": """
    for i in KIND(9):
        for j0, k0, j1, k1 in T.grid(4, 2, 3, 5):
            with T.block("S"):
                vi = T.axis.spatial(9, i)
                vj = T.axis.spatial(9, j0 * 3 + j1)
                vk = T.axis.reduce(9, k0 * 5 + k1)
                T.where(j0 * 3 + j1 < 9 and k0 * 5 + k1 < 9)
                with T.init():
                    S[0, vj] = 0
                S[0, vj] = S[0, vj] + A[vi, vk] * vj
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[0, vj]
""",
    "two_halves": """
    for i in KIND(9):
        for x in range(4):
            with T.block("S0"):
                vi = T.axis.spatial(9, i)
                vx = T.axis.spatial(4, x)
                S[0, vx] = A[vi, vx] + 1
        for x in range(5):
            with T.block("S1"):
                vi = T.axis.spatial(9, i)
                vx = T.axis.spatial(9, x + 4)
                S[0, vx] = A[vi, vx] + 2
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[0, 8 - vj]
""",
}

# Bodies in which an iteration of `i` reads what an earlier one wrote.
CARRIED = {
    "written_in_another_iteration_of_an_inner_loop": """
    for i in KIND(9):
        if i == 0:
            for x in range(9):
                S[0, x] = 7
        for j in range(9):
            S[0, j] = A[i, j] + 1
            B[i, j] = S[0, 8]
""",
    "written_by_some_iterations": """
    for i in KIND(9):
        with T.block("S"):
            T.where(i < 1)
            for x, y in T.grid(9, 9):
                S[x, y] = A[x, y] + 1
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[vi, vj]
""",
    "triangle": """
    for i in KIND(9):
        for x in range(9):
            with T.block("S"):
                vi, vx = T.axis.remap("SS", [i, x])
                T.where(i + x < 9)
                S[0, vx] = A[vi, vx] + 1
        for j in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[0, vj]
""",
    "diagonal": """
    for i in KIND(9):
        if i == 0:
            for x, y in T.grid(9, 9):
                S[x, y] = x + y
        for x in range(9):
            S[x, x] = A[i, x] + 1
        for j in range(9):
            B[i, j] = S[j, 8 - j]
""",
    "start_that_a_test_skips": """
    for i in KIND(9):
        for k in range(9):
            if i == 0 or k >= 3:
                if k == 0:
                    S[0, 0] = 0
                S[0, 0] = S[0, 0] + A[i, k]
            B[i, k] = S[0, 0]
""",
    "gap_between_two_parts": """
    for i in KIND(9):
        if i == 0:
            for x in range(9):
                S[0, x] = 7
        for x in range(4):
            S[0, x] = A[i, x]
        for x in range(4):
            S[0, x + 5] = A[i, x]
        for j in range(9):
            B[i, j] = S[0, j]
""",
}


def program(body: str, kind: str = "range") -> PrimFunc:
    func = from_source(HEAD + body.replace("KIND", kind))
    assert isinstance(func, PrimFunc)
    return func


def is_allocated_inside(func: PrimFunc) -> bool:
    """True if planning moved the allocation of S from the root into the loop over `i`."""
    planned = lower(func, stages=True).after("PlanBufferAllocation")["main"]
    root = planned.body
    assert isinstance(root, BlockRealize)
    assert isinstance(root.block.body, For)
    assert root.block.body.loop_var.name == "i"
    return not root.block.alloc_buffers


def check_numbers(func: PrimFunc) -> None:
    a = np.arange(81, dtype="int32").reshape(9, 9) % 11
    expected, actual = np.zeros((9, 9), "int32"), np.zeros((9, 9), "int32")
    oracle.run(func, a, expected)
    build(func)(a, actual)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("kind", ["range", "T.parallel"])
@pytest.mark.parametrize("name", PRIVATE)
def test_a_buffer_for_each_iteration(name: str, kind: str) -> None:
    func = program(PRIVATE[name], kind)
    assert is_allocated_inside(func)
    check_numbers(func)


@pytest.mark.parametrize("name", CARRIED)
def test_one_buffer_for_all_iterations(name: str) -> None:
    func = program(CARRIED[name])
    assert not is_allocated_inside(func)
    check_numbers(func)


FETCHED_BY_THREADS = """
@T.prim_func
def main(A: T.Buffer((4, 32), "int32"), B: T.Buffer((4, 32), "int32")):
    S = T.alloc_buffer((32,), "int32", scope="SCOPE")
    for block in T.thread_binding(4, thread="blockIdx.x"):
        for lane in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("S"):
                vb, vx = T.axis.remap("SS", [block, lane])
                S[vx] = A[vb, vx]
            with T.block("B"):
                vb, vx = T.axis.remap("SS", [block, lane])
                B[vb, vx] = S[INDEX]
"""


@pytest.mark.parametrize(
    ("scope", "index", "loop"),
    [
        ("shared", "31 - vx", "block"),  # threads see what the others wrote
        ("local", "vx", "lane"),
    ],
)
def test_threads_of_a_block_run_together(scope: str, index: str, loop: str) -> None:
    func = from_source(FETCHED_BY_THREADS.replace("SCOPE", scope).replace("INDEX", index))
    assert _allocating_loops(func) == {loop: ["S"]}


FETCHED_BY_WARPS = """
@T.prim_func
def main(A: T.Buffer((4, 8, 8), "int32"), B: T.Buffer((4, 8, 8), "int32")):
    S = T.alloc_buffer((8, 8), "int32", scope="SCOPE")
    for block in T.thread_binding(4, thread="blockIdx.x"):
        for warp in T.thread_binding(2, thread="threadIdx.y"):
            for k in range(8):
                for x in range(2):
                    with T.block("S"):
                        vb, vk = T.axis.remap("SS", [block, k])
                        vx = T.axis.spatial(8, warp * 4 + x)
                        S[vk, vx] = A[vb, vk, vx]
                for x in range(2):
                    with T.block("B"):
                        vb, vk = T.axis.remap("SS", [block, k])
                        vx = T.axis.spatial(8, warp * 4 + x)
                        B[vb, vk, vx] = S[vk, vx]
"""


@pytest.mark.parametrize(
    ("scope", "loop"),
    [("wmma.matrix_b", "k"), ("warp", "k"), ("local", "k"), ("shared", "block")],
)
def test_warps_see_what_others_wrote_in_shared_memory_only(scope: str, loop: str) -> None:
    assert _allocating_loops(from_source(FETCHED_BY_WARPS.replace("SCOPE", scope))) == {loop: ["S"]}


def _allocating_loops(func: PrimFunc | IRModule) -> dict[str, list[str]]:
    planned = get_pass("PlanBufferAllocation")(get_pass("ConvertBlocksToOpaque")(as_module(func)))
    return {
        node.loop_var.name: [buffer.name for buffer in node.body.block.alloc_buffers]
        for node in _nodes(planned["main"].body)
        if isinstance(node, For) and isinstance(node.body, BlockRealize)
        if node.body.block.alloc_buffers
    }


def _nodes(node: Node) -> list[Node]:
    return [node, *(found for child in children(node) for found in _nodes(child))]
