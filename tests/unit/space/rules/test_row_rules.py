"""`FuseRows`, `ReduceInVectors`, `SpatialPass`: what each takes in, and what it leaves alone."""

from __future__ import annotations

import pytest

from tilewright import te, topi
from tilewright.ir import as_module
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.schedule import Schedule
from tilewright.space.base import ScheduleRule
from tilewright.space.rules import (
    FuseRows,
    HaloTiling,
    ReduceColumns,
    ReduceInVectors,
    SpatialPass,
    WideAccumulators,
)
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.space_generation import SpaceTask, sampling_steps
from tilewright.testing.te_workload import Tensors
from tilewright.tune.context import TuneContext

TARGET = Target("llvm -mcpu=skylake-avx512 -num-cores=4")


def applied(rule: ScheduleRule, tensors: Tensors, block: str) -> Schedule:
    module = as_module(te.create_prim_func(list(tensors)))
    rule._initialize_with_tune_context(SpaceTask(module, TARGET))
    sch = Schedule(module, seed=1)
    (made,) = rule.apply(sch, sch.get_block(block))
    return made


def is_changed(made: Schedule) -> bool:
    return TILING_STRUCTURE in made.mod.script()


def loops_around(sch: Schedule, block: str) -> list[str]:
    """Kind and extent of the loops around a block."""
    loops = [sch.get_sref(loop).loop for loop in sch.get_loops(sch.get_block(block))]
    return [f"{loop.kind.name.lower()} {loop.extent}" for loop in loops]


def choices(sketch: Schedule) -> list[list[int]]:
    """The numbers that each decision of a sketch is between."""
    assert sketch.trace is not None
    return [[int(n) for n in step.attrs[0]] for step in sampling_steps(sketch.trace)]


def mapped(shape: tuple[int, ...], indices: str = "same", dtype: str = "float32") -> Tensors:
    """Elements times two, where they are or transposed."""
    a = te.placeholder(shape, name="A", dtype=dtype)
    if indices == "same":
        return a, te.compute(shape, lambda *i: a(*i) * te.const(2, dtype), name="B")
    return a, te.compute(shape[::-1], lambda *i: a(*i[::-1]) * te.const(2, dtype), name="B")


# --- FuseRows -----------------------------------------------------------------------------------


def test_softmax_is_one_loop_over_rows() -> None:
    made = applied(FuseRows(), te_workload.softmax_mn(64, 200), "T_softmax_norm")
    text = made.mod.script()
    assert text.count("T.parallel(64)") == 1
    assert loops_around(made, "T_softmax_exp") == [
        "parallel 64",
        "serial 1",
        "serial 4",
        "vectorized 64",
    ]
    assert text.count('"vector_reduction"') == 2


def test_a_norm_reads_what_it_subtracts_from_each_element() -> None:
    a = te.placeholder((64, 200), name="A")
    g, b = (te.placeholder((200,), name=name) for name in "gb")
    tensors = (a, g, b, topi.nn.layer_norm(a, g, b, [1]))
    text = applied(FuseRows(), tensors, "T_layer_norm").mod.script()
    assert text.count("T.parallel(64)") == 1
    assert text.count('"vector_reduction"') == 2


def test_widths_of_row_reductions_fit_the_row() -> None:
    made = applied(FuseRows(), te_workload.softmax_mn(64, 50), "T_softmax_norm")
    assert choices(made) == [[16, 32], [16, 32]]


def test_few_elements_stay_on_one_thread() -> None:
    made = applied(FuseRows(), te_workload.softmax_mn(8, 64), "T_softmax_norm")
    assert is_changed(made)
    assert "T.parallel" not in made.mod.script()


@pytest.mark.parametrize(
    ("tensors", "block"),
    [
        (te_workload.softmax_mn(3, 64), "T_softmax_norm"),  # fewer rows than cores
        (te_workload.softmax_mn(64, 64), "T_softmax_exp"),  # not the result
        (te_workload.matmul(8, 16, 4), "C"),  # a reduction itself
        (te_workload.matmul_relu(8, 16, 4), "compute"),  # reduces, but not along memory
        (mapped((8, 64)), "B"),  # no reduction at all
    ],
)
def test_rows_that_are_not_fused(tensors: Tensors, block: str) -> None:
    assert not is_changed(applied(FuseRows(), tensors, block))


def test_a_product_behind_which_something_follows_may_still_be_tiled() -> None:
    data, weight = te.placeholder((32, 64), name="data"), te.placeholder((16, 64), name="weight")
    out = topi.nn.relu(topi.nn.dense(data, weight))
    module = as_module(te.create_prim_func([data, weight, out]))
    rule = FuseRows()
    rule._initialize_with_tune_context(SpaceTask(module, TARGET))
    sch = Schedule(module)
    made = rule.apply(sch, sch.get_block("compute"))
    assert [is_changed(each) for each in made] == [True, False]


# --- ReduceInVectors ----------------------------------------------------------------------------


def test_one_result_is_made_in_chunks() -> None:
    made = applied(ReduceInVectors(), te_workload.norm_bmn(1, 64, 256), "C")
    chunks, widths = choices(made)
    assert chunks == [4, 8, 16]
    assert widths == [16, 32, 64, 128]
    assert "C_rf" in made.mod.script()


def smallest(*shape: int) -> Tensors:
    """The smallest of all numbers, without an axis."""
    a = te.placeholder(shape, name="A")
    return a, topi.min(a)


def test_chunks_are_those_of_the_first_axis_longer_than_one() -> None:
    made = applied(ReduceInVectors(), smallest(1, 64, 256), "A_red")
    assert choices(made) == [[4, 8, 16], [16, 32, 64, 128]]
    loops = loops_around(made, "A_red_rf_update")
    assert loops[0].startswith("parallel ")
    assert loops[-1] == "serial 256"


@pytest.mark.parametrize("shape", [(61, 256), (1 << 14,)])
def test_one_result_without_an_axis_that_has_no_chunks(shape: tuple[int, ...]) -> None:
    made = applied(ReduceInVectors(), smallest(*shape), "A_red")
    assert choices(made) == [[16, 32, 64, 128]]
    assert "parallel" not in made.mod.script()


def test_many_results_are_rows() -> None:
    made = applied(ReduceInVectors(), te_workload.norm_bmn(64, 8, 32), "C")
    assert "C_rf" not in made.mod.script()
    assert "T.parallel(64)" in made.mod.script()


def test_lengths_shorter_than_a_vector_are_not_marked() -> None:
    made = applied(ReduceInVectors(), te_workload.norm_bmn(8, 2, 10), "C")
    assert is_changed(made)
    assert "vector_reduction" not in made.mod.script()


@pytest.mark.parametrize("block", ["T_softmax_exp", "root"])
def test_blocks_that_do_not_reduce(block: str) -> None:
    assert not is_changed(applied(ReduceInVectors(), te_workload.softmax_mn(8, 32), block))


def test_reductions_across_memory() -> None:
    assert not is_changed(applied(ReduceInVectors(), te_workload.matmul(8, 16, 4), "C"))


# --- SpatialPass --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dtype", "loops"),
    [
        ((64, 256), "float32", ["parallel 64", "serial 4", "vectorized 64"]),
        ((8, 64), "float32", ["serial 8", "vectorized 64"]),
        ((200, 61), "float32", ["parallel 200", "vectorized 64"]),
        ((200, 96), "float16", ["parallel 200", "vectorized 128"]),
        ((10000,), "float32", ["parallel 157", "vectorized 64"]),
        ((100, 100, 3), "float32", ["parallel 100", "serial 7", "vectorized 48"]),
        ((4, 8, 100, 64), "float32", ["parallel 3200", "vectorized 64"]),
        ((64, 8, 100, 64), "float32", ["parallel 64", "serial 8", "serial 100", "vectorized 64"]),
    ],
)
def test_passes(shape: tuple[int, ...], dtype: str, loops: list[str]) -> None:
    made = applied(SpatialPass(), mapped(shape, dtype=dtype), "B")
    found = [loop for loop in loops_around(made, "B") if loop != "serial 1"]
    assert found == loops


def test_transposing_passes_go_in_tiles() -> None:
    made = applied(SpatialPass(), mapped((128, 96), "transposed"), "B")
    inside = ["serial 8", "serial 2", "unrolled 8", "vectorized 8"]
    assert loops_around(made, "B") == ["parallel 12", *inside]  # 6 by 2 blocks


def test_narrow_matrices_are_transposed_as_they_come() -> None:
    made = applied(SpatialPass(), mapped((128, 5), "transposed"), "B")
    assert "T.unroll" not in made.mod.script()


@pytest.mark.parametrize("block", ["T_softmax_maxelem", "root"])
def test_blocks_that_are_no_passes(block: str) -> None:
    assert not is_changed(applied(SpatialPass(), te_workload.softmax_mn(8, 32), block))


# --- HaloTiling ---------------------------------------------------------------------------------


def blurred(rows: int, columns: int) -> Tensors:
    a = te.placeholder((rows + 2, columns + 2), name="A")
    shape = (rows + 2, columns)
    across = te.compute(shape, lambda i, j: a[i, j] + a[i, j + 1] + a[i, j + 2], name="across")
    down = te.compute(
        (rows, columns),
        lambda i, j: across[i, j] + across[i + 1, j] + across[i + 2, j],
        name="down",
    )
    return a, down


def test_tiles_have_the_rows_that_they_need_of_earlier_steps() -> None:
    module = as_module(te.create_prim_func(list(blurred(512, 128))))
    rule = HaloTiling()
    rule._initialize_with_tune_context(SpaceTask(module, TARGET))
    sch = Schedule(module, seed=1)
    tiled, untiled = rule.apply(sch, sch.get_block("down"))
    assert untiled is sch
    assert choices(tiled) == [[8, 16, 32, 64]]
    tiles, rows, *vectors = loops_around(tiled, "across")
    height = int(rows.removeprefix("serial ")) - 2
    assert tiles == f"parallel {512 // height}"
    assert vectors == ["serial 2", "vectorized 64"]


@pytest.mark.parametrize(
    "tensors",
    [
        mapped((512, 128)),  # nothing comes before
        blurred(12, 128),  # too few rows for all cores
        te_workload.softmax_mn(64, 64),  # reductions
    ],
)
def test_what_halo_tiling_leaves_alone(tensors: Tensors) -> None:
    assert not is_changed(applied(HaloTiling(), tensors, tensors[-1].op.name))


# --- ReduceColumns ------------------------------------------------------------------------------


def test_positions_of_columns_are_found_in_vectors() -> None:
    a = te.placeholder((64, 256), name="A")
    made = applied(ReduceColumns(), (a, topi.argmax(a, axis=0)), "A_red_temp")
    assert choices(made) == [[16, 32, 64]]
    blocks, depth, vector = loops_around(made, "A_red_temp_update")
    lanes = int(vector.removeprefix("vectorized "))
    assert (blocks, depth) == (f"parallel {256 // lanes}", "serial 64")


def test_rows_are_cut_into_columns() -> None:
    a = te.placeholder((64, 256), name="A")
    made = applied(ReduceColumns(), (a, topi.argmax(a, axis=1)), "A_red_temp")
    assert choices(made) == [[16, 32, 64]]
    rows, steps, vector = loops_around(made, "A_red_temp_rf_update")
    lanes = int(vector.removeprefix("vectorized "))
    assert (rows, steps) == ("parallel 64", f"serial {256 // lanes}")
    assert loops_around(made, "A_red_temp_update") == ["parallel 64", f"serial {lanes}"]


@pytest.mark.parametrize(
    ("shape", "axis"), [((64, 256), None), ((64, 250), 1), ((64, 16), 1), ((64, 8, 32), (1, 2))]
)
def test_positions_that_are_not_found_in_vectors(shape: tuple[int, ...], axis: int | None) -> None:
    a = te.placeholder(shape, name="A")
    assert not is_changed(applied(ReduceColumns(), (a, topi.argmax(a, axis=axis)), "A_red_temp"))


# --- WideAccumulators ---------------------------------------------------------------------------


def half_sum(dtype: str) -> Tensors:
    """A sum that is written in a narrow type."""
    a = te.placeholder((64, 4096), dtype, name="A")
    k = te.reduce_axis((0, 4096), name="k")
    return a, te.compute((64,), lambda i: te.sum(a[i, k], axis=k), name="B")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_sums_get_a_wide_accumulator(dtype: str) -> None:
    made = applied(WideAccumulators(), half_sum(dtype), "B")
    assert "B_global = T.alloc_buffer((64,))" in made.mod.script()
    assert f'B[v0] = T.Cast("{dtype}", B_global[v0])' in made.mod.script()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_others_keep_theirs(dtype: str) -> None:
    assert "B_global" not in applied(WideAccumulators(), half_sum(dtype), "B").mod.script()


@pytest.mark.parametrize("space", ["float16", "bfloat16"])
def test_the_default_space_has_no_other_sums(space: str) -> None:
    func = te.create_prim_func(list(half_sum(space)))
    context = TuneContext(func, target=TARGET, space_generator="tilewright")
    for sketch in context.generate_design_space():
        assert "B_global" in sketch.mod.script()
