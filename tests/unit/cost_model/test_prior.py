"""The prior ranks what is obviously worse behind what is obviously better."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tilewright import te
from tilewright.cost_model.prior import AnalyticPrior, Machine, estimate
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.records import MeasureCandidate
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing import te_workload

MACHINE = Machine(
    cores=2,
    vector_bytes=64,
    registers=32,
    l1_bytes=32 << 10,
    l2_bytes=1 << 20,
    l3_bytes=32 << 20,
)


def seconds(sch: Schedule, machine: Machine = MACHINE) -> float:
    func = sch.mod["main"]
    assert isinstance(func, PrimFunc)
    return estimate(func, machine)


def product(n: int, m: int, k: int) -> IRModule:
    return as_module(te.create_prim_func(list(te_workload.matmul(n, m, k))))


def tiled(
    size: int = 256,
    rows: int = 8,
    columns: int = 32,
    *,
    kinds: str = "parallel vectorize",
    is_local: bool = True,
    is_swapped: bool = False,
) -> Schedule:
    """A product in register tiles, each trait of which can be switched off."""
    sch = Schedule(product(size, size, size))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, columns])
    sch.reorder(i0, j0, k, j1, i1) if is_swapped else sch.reorder(i0, j0, k, i1, j1)
    if is_local:
        copy = sch.cache_write(block, 0, "local")
        sch.reverse_compute_at(copy, j0)
        *_, lanes = sch.get_loops(copy)
        sch.vectorize(lanes)
    if "parallel" in kinds:
        sch.parallel(i0)
    if "vectorize" in kinds:
        sch.vectorize(i1 if is_swapped else j1)
        sch.unroll(j1 if is_swapped else i1)
    return sch


# --- products -----------------------------------------------------------------------------------


def test_vectors_are_faster() -> None:
    assert seconds(tiled()) * 4 < seconds(tiled(kinds="parallel"))


def test_rows_that_share_a_place_in_the_cache() -> None:
    """Twelve rows, 4 kB apart, are more than the eight lines that fit there."""
    fast = replace(
        MACHINE, l2_bytes_per_cycle=1e9, l3_bytes_per_cycle=1e9, memory_bytes_per_cycle=1e9
    )
    even, shared = (
        [seconds(tiled(size, rows), fast) / size**3 for rows in (8, 12)] for size in (1008, 1024)
    )
    assert shared[1] > 1.1 * even[1]
    assert shared[0] < 1.05 * even[0]


def test_rows_far_apart_share_a_part_of_the_second_cache() -> None:
    slow = replace(MACHINE, l3_bytes_per_cycle=1.0)

    def flop_seconds(size: int) -> float:
        sch = tiled(size, columns=64, kinds="vectorize")
        i0, j0, *_ = sch.get_loops(sch.get_block("C"))
        sch.reorder(j0, i0)  # tiles of rows use the same 64 columns
        return seconds(sch, slow) / size**3

    # 1024 rows of 256 bytes, 4096 bytes apart, in a cache of 1 MB: a sixteenth of it has room.
    assert flop_seconds(1024) > 2 * flop_seconds(1024 + 64)
    assert flop_seconds(512) < 1.2 * flop_seconds(512 + 64)  # an eighth of it, where they fit


def test_two_cores_are_faster() -> None:
    assert seconds(tiled()) * 1.5 < seconds(tiled(kinds="vectorize"))


def test_vectors_along_rows_gather() -> None:
    assert seconds(tiled()) * 2 < seconds(tiled(is_swapped=True))


def test_accumulators_that_do_not_fit_are_spilled() -> None:
    fitting, spilled = tiled(rows=8, columns=32), tiled(rows=16, columns=64)
    assert seconds(fitting) * 1.2 < seconds(spilled)


def test_too_few_accumulators_wait_for_each_other() -> None:
    assert seconds(tiled(rows=8, columns=32)) * 1.5 < seconds(tiled(rows=1, columns=16))


def test_accumulators_outside_registers() -> None:
    """A loop over columns inside the one over the reduction moves the accumulators."""
    outside = tiled(is_local=False, kinds="")
    block = outside.get_block("C")
    i0, j0, k, i1, j1 = outside.get_loops(block)
    outside.reorder(i0, k, j0, i1, j1)
    outside.parallel(i0)
    outside.vectorize(j1)
    outside.unroll(i1)
    assert seconds(tiled()) * 1.5 < seconds(outside)


def test_blocks_that_stay_in_the_cache() -> None:
    """Half a megabyte of B for each row, or for eight of them."""
    many = [tiled(size=1024, rows=rows, columns=64) for rows in (1, 6)]
    assert seconds(many[1]) * 1.5 < seconds(many[0])


def test_uneven_tasks_leave_a_core_idle() -> None:
    even, uneven = (tiled(size=96, rows=rows) for rows in (8, 32))
    assert seconds(even) < seconds(uneven)  # 12 tasks, or 3


def test_ragged_tiles_cost_what_they_hold() -> None:
    """The last tile of 197 columns has 5 of 64; it does not cost as much as a whole one."""

    def columns(width: int) -> float:
        sch = Schedule(product(192, 197, 192))
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        j0, j1 = sch.split(j, [None, width])
        i0, i1 = sch.split(i, [None, 6])
        sch.reorder(i0, j0, k, i1, j1)
        sch.cache_write(block, 0, "local")
        sch.unroll(i1)
        sch.vectorize(j1)
        return seconds(sch)

    assert columns(64) < 1.15 * columns(32)


# --- other nests --------------------------------------------------------------------------------


def row_sums(width: int) -> Schedule:
    sch = Schedule(as_module(te.create_prim_func(list(te_workload.norm_bmn(64, 16, 256)))))
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, loops[1])
    if width:
        sch.annotate(loops[1], "vector_reduction", width)
    return sch


def test_reductions_in_vectors() -> None:
    plain, narrow, wide = (seconds(row_sums(width)) for width in (0, 16, 64))
    assert wide < narrow < plain


def test_transposed_reads() -> None:
    def copied(is_transposed: bool) -> float:
        a = te.placeholder((512, 512), name="A")
        shape = (512, 512)
        b = te.compute(shape, lambda i, j: a[j, i] if is_transposed else a[i, j], name="B")
        sch = Schedule(as_module(te.create_prim_func([a, b])))
        j = sch.get_loops(sch.get_block("B"))[1]
        _, lanes = sch.split(j, [None, 16])
        sch.vectorize(lanes)
        return seconds(sch)

    assert copied(False) * 3 < copied(True)


def test_regions_cost_something() -> None:
    """Twenty parallel loops that are started one after the other, or one around them."""
    sch = Schedule(product(20, 16, 4))
    i, j, _ = sch.get_loops(sch.get_block("C"))
    other = sch.copy()
    sch.parallel(j)
    other.parallel(i)
    assert seconds(other) + 15e-6 < seconds(sch)


# --- machines and candidates --------------------------------------------------------------------


def test_machines_of_targets() -> None:
    avx512 = Machine.of(Target("llvm -mcpu=skylake-avx512 -num-cores=8"))
    assert (avx512.cores, avx512.vector_bytes, avx512.registers) == (8, 64, 32)
    avx2 = Machine.of(Target("llvm -mcpu=haswell -num-cores=4"))
    assert (avx2.cores, avx2.vector_bytes, avx2.registers) == (4, 32, 16)
    assert Machine.of(None).cores == 1


def test_processors_that_multiply_two_vectors_a_cycle() -> None:
    def twice(name: str) -> float:
        return Machine.of(Target(f"llvm -mcpu={name}")).vectors_per_cycle

    assert [twice(name) for name in ("znver4", "znver5", "sapphirerapids")] == [1.0, 2.0, 2.0]
    one = replace(MACHINE, l2_bytes_per_cycle=1e9, l3_bytes_per_cycle=1e9)
    assert seconds(tiled(), replace(one, vectors_per_cycle=2.0)) < 0.7 * seconds(tiled(), one)


def test_scores_are_logarithms_of_seconds() -> None:
    sketches = [tiled(), tiled(kinds="")]
    context = SimpleNamespace(target=Target("llvm -mcpu=skylake-avx512 -num-cores=2"))
    machine = Machine.of(context.target)
    scores = AnalyticPrior().score(context, [MeasureCandidate(sch, ()) for sch in sketches])
    expected = np.log2([seconds(sch, machine) for sch in sketches])
    np.testing.assert_allclose(scores, expected)
    assert scores[0] < scores[1]


@pytest.mark.parametrize("name", sorted(te_workload.CONFIGS))
def test_every_workload_has_a_price(name: str) -> None:
    func = te_workload.create_te_workload(name, 0)
    assert 1e-7 < estimate(func, MACHINE) < 100.0
