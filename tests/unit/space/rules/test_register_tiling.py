"""`RegisterTiling`: which blocks it takes, how large its tiles are, what goes around them."""

from __future__ import annotations

import re

import pytest

from tilewright import te
from tilewright.driver import lower
from tilewright.ir import as_module
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.lowering.prepacking import packed_weights
from tilewright.schedule import Schedule
from tilewright.space.cpu.cpu_rule import VectorShape
from tilewright.space.layout_free import with_bound_weights
from tilewright.space.rules import RegisterTiling
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.space_generation import SpaceTask, sampling_steps, with_decisions
from tilewright.testing.te_workload import Tensors

AVX512 = "llvm -mcpu=skylake-avx512 -num-cores=2"
AVX2 = "llvm -mcpu=haswell -num-cores=2"


def tiled(tensors: Tensors, block: str, target: str = AVX512) -> list[Schedule]:
    """What the rule makes of a block."""
    module = as_module(te.create_prim_func(list(tensors)))
    rule = RegisterTiling()
    rule._initialize_with_tune_context(SpaceTask(module, Target(target)))
    sch = Schedule(module, seed=1)
    return rule.apply(sch, sch.get_block(block))


def is_left_alone(tensors: Tensors, block: str) -> bool:
    (made,) = tiled(tensors, block)
    return TILING_STRUCTURE not in made.mod.script()


def widths(sketches: list[Schedule]) -> list[int]:
    """Columns of the tiles of sketches."""
    found = [re.findall(r"_init in T\.vectorized\((\d+)\)", sch.mod.script()) for sch in sketches]
    return [int(numbers[0]) for numbers in found]


def choices(sketch: Schedule) -> list[list[int]]:
    """The numbers that each decision of a sketch is between."""
    assert sketch.trace is not None
    return [[int(n) for n in inst.attrs[0]] for inst in sampling_steps(sketch.trace)]


# --- vectors ------------------------------------------------------------------------------------


def test_registers_of_targets() -> None:
    assert VectorShape.of(Target(AVX512)) == VectorShape(512, 32)
    assert VectorShape.of(Target(AVX2)) == VectorShape(256, 16)
    assert VectorShape.default() == VectorShape(128, 16)


@pytest.mark.parametrize(
    ("shape", "vectors", "rows"),
    [
        (VectorShape(512, 32), 4, 6),
        (VectorShape(512, 32), 3, 9),
        (VectorShape(512, 32), 2, 14),
        (VectorShape(256, 16), 4, 2),
        (VectorShape(256, 16), 2, 6),
        (VectorShape(128, 16), 1, 14),
    ],
)
def test_tiles_leave_registers_for_operands(shape: VectorShape, vectors: int, rows: int) -> None:
    sch = Schedule(te.create_prim_func(list(te_workload.matmul(64, 64, 64))))
    lanes = shape.lanes(32)
    block = sch.get_sref(sch.get_block("C")).block
    assert shape.tile_rows(block, vectors * lanes, lanes) == rows
    assert rows * vectors + vectors + 1 <= shape.registers


@pytest.mark.parametrize(
    ("columns", "target", "expected"),
    [
        (192, AVX512, [32, 48, 64]),
        (64, AVX512, [32, 64]),
        (48, AVX512, [48]),
        (16, AVX512, [16]),
        (61, AVX512, [32, 64]),
        (48, AVX2, [16, 24]),
    ],
)
def test_widths_that_waste_little(columns: int, target: str, expected: list[int]) -> None:
    made = tiled(te_workload.matmul(32, columns, 8), "C", target)
    assert sorted(widths(made)) == expected


def test_vectors_do_not_cross_groups() -> None:
    tensors = te_workload.conv2d_nhwc(1, 7, 7, 8, 64, 3, 1, 1, groups=4)
    assert set(widths(tiled(tensors, "conv2d_nhwc"))) == {16}


# --- rows ---------------------------------------------------------------------------------------


def test_row_tiles_and_blocks() -> None:
    (made,) = tiled(te_workload.matmul(192, 48, 16), "C")
    rows, blocks, steps = choices(made)
    assert rows == [4, 6, 8]  # they divide, and are enough to hide latencies
    assert blocks == [1, 2, 4, 8, 16, 32]
    assert steps == [1, 2, 4]


def test_untiled_rows_may_be_one_task_each() -> None:
    made = tiled(te_workload.conv2d_nhwc(1, 14, 14, 8, 32, 3, 1, 1), "conv2d_nhwc")
    assert [1, 2, 4, 8, 14] in choices(made[0])


def test_blocks_need_not_divide() -> None:
    """A block too large, or a tile: there is one condition for both, and so memory stays local."""
    tensors = te_workload.matmul(29, 32, 4)
    (made,) = tiled(tensors, "C")
    rows, blocks = choices(made)[:2]
    module = as_module(te.create_prim_func(list(tensors)))
    for tile in range(len(rows)):
        for block in range(len(blocks)):
            chosen = with_decisions(
                module,
                made,
                [("SampleCategorical", number) for number in (tile, block)],
            )
            assert chosen is not None
            size = rows[tile] * 32
            assert f"T.allocate([{size}]" in str(lower(chosen.mod, Target(AVX512)))


def test_rows_of_one_ragged_tile_are_padded() -> None:
    made = [sch.mod.script() for sch in tiled(te_workload.matmul(6, 61, 4), "C")]
    whole = [text for text in made if "vectorized(64)" in text]
    assert whole
    assert all('"buffer_dim_align": [[0, 0, 64, 0]]' in text for text in whole)
    assert all("vectorized(61)" not in text for text in made)


# --- around the tile ----------------------------------------------------------------------------


def test_epilogue_takes_results_from_registers() -> None:
    (made,) = tiled(te_workload.matmul_relu(16, 48, 8), "C")
    text = made.mod.script()
    assert 'C_local = T.alloc_buffer((16, 48), scope="local")' in text
    assert "compute[v_i0, v_i1] = T.max(C_local[v_i0, v_i1], T.float32(0))" in text
    assert text.count("T.parallel") == 1


def test_padding_beside_or_before() -> None:
    """Before them it is too small to be parallel itself."""
    made = tiled(te_workload.conv2d_nhwc(1, 14, 14, 8, 32, 3, 1, 1), "conv2d_nhwc")
    texts = [sch.mod.script() for sch in made]
    first = [text.index("PadInput[v_i0") < text.index("T.parallel") for text in texts]
    assert len(texts) == 2
    assert first == [True, False]


def test_short_windows_need_no_padding() -> None:
    """Where a pass over the input would count, zeros are left out instead of being stored."""
    tensors = te_workload.depthwise_conv2d_nhwc(1, 28, 28, 32, 3, 1, 1)
    inline = [sch for sch in tiled(tensors, "depth_conv2d_nhwc") if "PadInput" not in str(sch.mod)]
    assert len(inline) == 1
    text = str(lower(inline[0].mod, Target(AVX512), stages=True).after("LoopPartition"))
    assert "for w_0 in range(1, " in text  # the tiles between the borders
    loops = [line.strip() for line in text.splitlines() if "if " in line]
    assert len(loops) == 3
    assert len(set(loops)) == 1  # rows outside are skipped; the columns are not tested any more


@pytest.mark.parametrize("window", [5, 7])
def test_windows_of_single_channels_are_written_out(window: int) -> None:
    """Rows of results share what they load for neighbours in the window."""
    tensors = te_workload.depthwise_conv2d_nhwc(1, 28, 28, 32, window, 1, window // 2)
    made = tiled(tensors, "depth_conv2d_nhwc")
    inline = [sch for sch in made if "PadInput" not in str(sch.mod)]
    assert len(inline) == 1
    assert f"in T.unroll({window})" in inline[0].mod.script()


def test_longer_reductions_are_padded() -> None:
    made = tiled(te_workload.conv2d_nhwc(1, 14, 14, 8, 32, 3, 1, 1), "conv2d_nhwc")
    assert all("PadInput" in sch.mod.script() for sch in made)


def test_large_right_operands_are_packed() -> None:
    made = [sch.mod.script() for sch in tiled(te_workload.matmul(128, 512, 256), "C")]
    packed = ["B_global" in text for text in made]
    assert packed.count(True) == packed.count(False) == 3
    assert not any(
        "B_global" in sch.mod.script() for sch in tiled(te_workload.matmul(8, 512, 256), "C")
    )


def test_transposed_producers_go_in_tiles() -> None:
    made = tiled(te_workload.transpose_batch_matmul(1, 32, 2, 16), "C")
    texts = [sch.mod.script() for sch in made]
    assert all("query_T" not in text for text in texts)  # read where it is
    assert all(re.search(r"T\.unroll\(8\):\s+for \w+ in T\.vectorized\(8\)", t) for t in texts)


# --- blocks that are left alone -----------------------------------------------------------------


def dense(rows: int, columns: int, depth: int, **attrs: object) -> Tensors:
    """A product with a matrix that lies across the vectors of the result."""
    a, w = te.placeholder((rows, depth), name="A"), te.placeholder((columns, depth), name="W")
    k = te.reduce_axis((0, depth), name="k")
    named = {name: [w] for name in attrs}
    c = te.compute(
        (rows, columns), lambda i, j: te.sum(a[i, k] * w[j, k], axis=k), name="C", attrs=named
    )
    return a, w, c


def test_a_right_operand_that_lies_across_is_packed() -> None:
    sketches = tiled(dense(64, 64, 16), "C")
    assert widths(sketches) == [32, 64]
    for sketch in sketches:
        script = sketch.mod.script()
        assert "W_global = T.alloc_buffer((" in script
        assert re.search(r"W_global\[[^]]+\] = W\[v0, v1\]", script)
        assert packed_weights(sketch.mod["main"]) == []


def test_where_few_rows_use_it_other_rules_may_try() -> None:
    *sketches, untouched = tiled(dense(8, 64, 16), "C")
    assert widths(sketches) == [32, 64]
    assert TILING_STRUCTURE not in untouched.mod.script()


def test_weights_that_lie_across_are_packed_once() -> None:
    sketches = tiled(dense(64, 64, 16, layout_free_placeholders=True), "C")
    assert [packed_weights(sketch.mod["main"]) for sketch in sketches] == [["W"], ["W"]]


@pytest.mark.parametrize(
    ("columns", "depth", "packed"),
    [(256, 64, [True]), (256, 8, [False]), (32, 512, [False])],
    ids=["many panels", "few bytes", "one panel"],
)
def test_bound_weights_are_stored_in_one_way(columns: int, depth: int, packed: list[bool]) -> None:
    """Nobody waits for the packing, so there is nothing to weigh."""
    func = te.create_prim_func(list(te_workload.matmul(64, columns, depth)))
    func = func.with_attr("layout_free_buffers", [1])
    sch = Schedule(with_bound_weights(as_module(func)), seed=1)
    rule = RegisterTiling()
    rule._initialize_with_tune_context(SpaceTask(sch.mod, Target(AVX512)))
    made = rule.apply(sch, sch.get_block("C"))
    assert [32] * len(packed) == [width for width in widths(made) if width == 32]
    assert all(["B_global" in sketch.mod.script()] == packed for sketch in made)


def test_gathered_operands() -> None:
    a, b, c = (
        te.placeholder((rows, 6), name=name) for rows, name in ((8, "A"), (10, "B"), (10, "C"))
    )
    k = te.reduce_axis((0, 6), name="k")
    d = te.compute((8, 10), lambda i, j: te.sum(a[i, k] * b[j, k] * c[j, k], axis=k), name="D")
    assert is_left_alone((a, b, c, d), "D")
    e = te.compute((10,), lambda j: te.sum(b[j, k] * c[0, k], axis=k), name="E")
    assert is_left_alone((b, c, e), "E")  # no rows that would use a copy


def test_producers_that_reduce() -> None:
    a, b, c = te_workload.matmul(8, 16, 4)
    d = te.placeholder((16, 32), name="D")
    k = te.reduce_axis((0, 16), name="k")
    e = te.compute((8, 32), lambda i, j: te.sum(c[i, k] * d[k, j], axis=k), name="E")
    assert is_left_alone((a, b, d, e), "E")


@pytest.mark.parametrize("block", ["T_softmax_exp", "T_softmax_maxelem", "root"])
def test_other_blocks(block: str) -> None:
    assert is_left_alone(te_workload.softmax_mn(8, 32), block)


def test_tiled_blocks() -> None:
    module = as_module(te.create_prim_func(list(te_workload.matmul(8, 32, 4))))
    sch = Schedule(module)
    block = sch.get_block("C")
    sch.annotate(block, TILING_STRUCTURE, "SSRSRS")
    assert RegisterTiling().apply(sch, block) == [sch]
