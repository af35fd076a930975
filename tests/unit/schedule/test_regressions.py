# mypy: disable-error-code="valid-type, no-untyped-def"
"""Schedules that once computed something else; each was found by the schedule fuzzer."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.schedule.conditions.checks import has_affine_binding
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def three_stages(A: T.Buffer((8, 4), "int32"), D: T.Buffer((8,), "int32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    B = T.alloc_buffer((8,), "int32")
    C = T.alloc_buffer((8,), "int32")
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * 2
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] + 1


def test_a_consumer_does_not_run_before_its_producer() -> None:
    """A block without producers in the program could be moved past its consumers."""
    sch = Schedule(three_stages, error_render_level="fast")
    loop = sch.get_loops("D")[0]
    with pytest.raises(ScheduleError) as failure:
        sch.reverse_compute_at("B", loop)
    assert str(failure.value) == (
        "ScheduleError: reverse_compute_at: 'C' read what block 'B' writes, and run before loop "
        "'i'; choose a loop that comes before all consumers"
    )


def test_a_guard_on_one_loop_stays_when_it_becomes_a_block() -> None:
    """The bound of a single loop made its iterator shorter, but not the loop."""
    sch = Schedule(three_stages)
    loops = sch.split(sch.get_loops("D")[0], [None, 11])
    sch.blockize(loops[1], preserve_unit_iters=False)
    assert "T.where(i_1 < 8)" in sch.mod.script()
    assert_same_result(three_stages, sch.mod)
    verify_trace_roundtrip(sch, three_stages, debug_mask=1)


def test_a_guarded_reduction_becomes_a_block() -> None:
    sch = Schedule(three_stages)
    outer, _ = sch.split(sch.get_loops("B")[0], [9, 1])
    sch.blockize(outer)
    assert_same_result(three_stages, sch.mod)


@pytest.mark.parametrize("factors", [[1, None, 5], [1, 1, 11], [None, 1, 3], [2, 1, 6]])
def test_guarded_splits_with_unit_factors_stay_affine(
    factors: list[int | None], matmul: PrimFunc
) -> None:
    """A loop of one iteration between the others broke the chain of a guarded split."""
    sch = Schedule(three_stages, debug_mask="all")
    sch.split(sch.get_loops("C")[0], factors)
    block = sch.get_sref(sch.get_block("C"))
    sch.state.info(block).affine_binding = None
    assert has_affine_binding(sch.state, block)
    assert_same_result(three_stages, sch.mod)


def test_a_reduction_starts_first(matmul: PrimFunc) -> None:
    """Parts of fused spatial and reduction loops in another order: `init` came too late."""
    sch = Schedule(matmul, error_render_level="fast")
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(sch.fuse(j, k), [None, 9])
    with pytest.raises(ScheduleError) as failure:
        sch.reorder(inner, outer)
    assert str(failure.value) == (
        "ScheduleError: reorder: block 'C' would not start its reduction first: loops "
        "'j_k_fused_0', 'j_k_fused_1' are each part of a spatial and of a reduction iterator; keep "
        "those loops in their order, or decompose the reduction"
    )
    sch.reorder(outer, inner, i)
    assert_same_result(matmul, sch.mod)


def test_elements_that_are_computed_again_are_not_added_to() -> None:
    """Windows overlap: under a loop of the sum, the second visit went on from the first."""

    @T.prim_func
    def windows(A: T.Buffer((4, 3), "int32"), B: T.Buffer((4,), "int32")):
        for i, a, k in T.grid(3, 2, 3):
            with T.block("B"):
                vi = T.axis.spatial(4, i + a)
                vk = T.axis.reduce(3, k)
                with T.init():
                    B[vi] = 0
                B[vi] = B[vi] + A[vi, vk]

    sch = Schedule(windows, error_render_level="fast")
    i, a, k = sch.get_loops("B")
    with pytest.raises(ScheduleError) as failure:
        sch.reorder(k, i, a)
    assert str(failure.value) == (
        "ScheduleError: reorder: block 'B' would add to an element again without starting anew: "
        "several iterations inside loop 'k' compute the same element; keep the loops of its "
        "reduction inside of those that compute elements again"
    )
    sch.reorder(k, a)
    sch.reorder(a, k, i)
    assert_same_result(windows, sch.mod)


def test_the_cache_of_a_part_is_a_part() -> None:
    """The cache was thought to hold all values of the iterators, which a part does not take."""

    @T.prim_func
    def parts(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1

    sch = Schedule(parts)
    sch.loop_partition(sch.get_loops("B")[0], [3, None])
    sch.cache_write("B_i1", 0, "global")
    assert_same_result(parts, sch.mod)


def test_parallel_iterations_have_results_of_their_own() -> None:
    """A stage inside a loop that it does not depend on, read elsewhere too: a race."""

    @T.prim_func
    def shared(
        A: T.Buffer((8,), "int32"), C: T.Buffer((4, 8), "int32"), D: T.Buffer((8,), "int32")
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((8,), "int32")
        for i in range(4):
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vj] = A[vj] + 1
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vj]
        for j in range(8):
            with T.block("D"):
                vj = T.axis.spatial(8, j)
                D[vj] = B[vj]

    sch = Schedule(shared, error_render_level="fast")
    loop = sch.get_loops("B")[0]
    with pytest.raises(ScheduleError) as failure:
        sch.parallel(loop)
    assert str(failure.value) == (
        "ScheduleError: parallel: all iterations of loop 'i' write the same elements of 'B' in "
        "block 'B', and 'B' is used outside of the loop; move the block out of the loop"
    )
    sch.unroll(loop)


def test_an_iterator_that_says_nothing_about_the_results_makes_no_iteration_independent() -> None:
    """The common block of a partition is bound to all loops around it and writes the same."""

    @T.prim_func
    def beside(A: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in range(5):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                B[vi] = A[vi] + 1
        for i in range(5):
            with T.block("C"):
                vi = T.axis.spatial(5, i)
                C[vi] = A[vi] * 2

    sch = Schedule(beside, error_render_level="fast")
    sch.reverse_compute_at("C", sch.get_loops("B")[0], preserve_unit_loops=True)
    sch.loop_partition(sch.get_loops("C")[-1], [3, None])
    (common,) = (name for name in ("C_i_common", "C_ax0_common") if name in sch.mod.script())
    with pytest.raises(ScheduleError, match="write the same elements of 'C' in block"):
        sch.parallel(sch.get_loops(common)[0])


def test_a_part_of_a_program_reads_what_it_declares() -> None:
    @T.prim_func
    def largest(A: T.Buffer((3, 9), "int32"), B: T.Buffer((9,), "int32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for j, k in T.grid(9, 3):
            with T.block("B"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    B[vj] = -1
                B[vj] = T.max(B[vj], A[vk, vj])

    sch = Schedule(largest, error_render_level="fast")
    sch.loop_partition(sch.get_loops("B")[0], [None, 4], preserve_unit_iters=False)
    with pytest.raises(ScheduleError) as failure:
        sch.reindex("B_j1", ("read", 0))
    assert str(failure.value) == (
        "ScheduleError: reindex: the copy for all values of the iterators of block 'B_j1' would "
        "read more than block 'B_j1_partition' around it says; reindex before the program is cut "
        "into parts"
    )


def test_what_parallel_iterations_have_for_themselves_is_not_padded_outside() -> None:
    @T.prim_func
    def private(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((8,))
        for i in range(8):
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vj] = A[vj] + 1.0
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]

    sch = Schedule(private, error_render_level="fast")
    sch.parallel(sch.get_loops("C")[0])
    with pytest.raises(ScheduleError) as failure:
        sch.transform_layout("B", ("write", 0), lambda i: (i // 3, i % 3), pad_value=0.0)
    assert str(failure.value) == (
        "ScheduleError: transform_layout: all iterations of the parallel loop 'i' would write what "
        "block 'B' writes; make the loop parallel only where each iteration writes elements of its "
        "own"
    )


def test_parallel_iterations_read_their_own_copies_by_stored_indices() -> None:
    @T.prim_func
    def product(A: T.Buffer((9, 4), "float32"), C: T.Buffer((5, 4), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j, k, m in T.grid(5, 4, 3, 3):
            with T.block("C"):
                vi, vj, vk, vm = T.axis.remap("SSRR", [i, j, k, m])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vk * 3 + vm, vj]

    sch = Schedule(product)
    sch.read_at(sch.get_loops("C")[2], "C", 0, "global")
    sch.parallel(sch.get_loops("C")[0])
    sch.cache_index("C", "local", cse_thresh=1)
    assert "A_global[index_var_0[" in sch.mod.script()
    a, found = np.random.default_rng(0).random((9, 4), np.float32), np.empty((5, 4), np.float32)
    tw.build(sch.mod)(a, found)
    np.testing.assert_allclose(found, np.broadcast_to(a.sum(axis=0), (5, 4)), rtol=1e-5)


@pytest.mark.parametrize("primitive", ["compute_at", "compute_inline"])
def test_results_of_a_parallel_iteration_stay_in_it(primitive: str) -> None:
    """The only reader of what each iteration makes for itself left the loop: a race."""

    @T.prim_func
    def own_results(A: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((8,), "int32")
        C = T.alloc_buffer((8,), "int32")
        for i in T.parallel(8):
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vj] = A[vj] + 1
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi] * 2
        for i in range(8):
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = C[vi] + 1

    sch = Schedule(own_results, error_render_level="fast")
    where = sch.get_loops("D") if primitive == "compute_at" else []
    with pytest.raises(ScheduleError) as failure:
        getattr(sch, primitive)("C", *where)
    assert str(failure.value) == (
        f"ScheduleError: {primitive}: each iteration of the parallel loop 'i' runs all of block "
        "'B' for itself, and block 'C' would read its result outside of the loop; move block 'B' "
        "out of the loop first, or make the loop serial"
    )
    sch.reverse_compute_inline("D")
    assert_same_result(own_results, sch.mod)


@T.prim_func
def gather(A: T.Buffer((4, 2), "float32"), B: T.Buffer((2, 2), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    for i, j in T.grid(2, 2):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi * 2, vj]


def test_copies_do_not_use_indices_before_they_are_computed() -> None:
    sch = Schedule(gather, error_render_level="fast")
    sch.cache_index("B", "global", 0)
    with pytest.raises(ScheduleError) as failure:
        sch.reindex_cache_read("B", 0, "local", lambda i, j: (j, i))
    assert str(failure.value) == (
        "ScheduleError: reindex_cache_read: block 'B' accesses buffer 'A' at places that it reads "
        "from other buffers, which may not be filled yet; all its loads and stores must use the "
        "same indices over the block's iterators"
    )
    assert_same_result(gather, sch.mod)


def test_a_copy_back_is_complete_in_every_iteration() -> None:
    """Under a guard of outer loops nothing was written, but copied all the same."""
    sch = Schedule(three_stages, error_render_level="fast")
    outer, _ = sch.split(sch.get_loops("C")[0], [9, 1], preserve_unit_iters=False)
    loop = sch.add_unit_loop(sch.get_block("C"))
    assert outer is not loop
    with pytest.raises(ScheduleError) as failure:
        sch.write_at(loop, "C", 0, "local")
    assert str(failure.value) == (
        "ScheduleError: write_at: the blocks under loop 'u' may leave parts of 'C' unwritten; the "
        "region that is copied back must be written completely in each iteration"
    )


def test_the_initialization_obeys_the_guard() -> None:
    """The guard spans a loop outside and one inside of where the initialization goes."""
    sch = Schedule(three_stages)
    i, _ = sch.get_loops("B")
    _, inner = sch.split(i, [9, 1], preserve_unit_iters=False)
    sch.decompose_reduction("B", inner)
    assert "T.where(i_0 < 8)" in sch.mod.script()
    assert_same_result(three_stages, sch.mod)


def test_what_is_allowed_does_not_depend_on_what_was_refused() -> None:
    """Flags were computed when first asked for; a refused step in between asked earlier."""

    def run(refused_step: bool) -> str:
        sch = Schedule(three_stages, error_render_level="fast")
        if refused_step:
            with pytest.raises(ScheduleError):
                sch.compute_at("D", sch.get_loops("C")[0])
        sch.split(sch.split(sch.get_loops("C")[0], [None, 3])[0], [2, None, 5])
        sch.fuse(*sch.get_loops("B"))
        flags = [
            (info.affine_binding, info.region_cover)
            for block, info in sch.state.infos.items()
            if block.parent is not None
        ]
        return f"{sch.mod}\n{flags}"

    assert run(refused_step=True) == run(refused_step=False)
