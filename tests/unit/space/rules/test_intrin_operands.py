"""Blocks are made to fit an instruction: copies, padding, order; and what is not touched."""

from __future__ import annotations

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.ir import PrimFunc
from tilewright.ir.annotation_keys import AUTO_TENSORIZE, LAYOUT_REWRITE_PREPROC
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import Schedule
from tilewright.schedule.tensor.tiling import tile_with_tensor_intrin
from tilewright.space.rules import MultiLevelTilingWithIntrin
from tilewright.space.tensor.fit import adapt_to_intrin, is_tensorizable
from tilewright.testing.contraction_forms import FORMS
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

VNNI = "dot_16x4_vnni"
BYTES = ("uint8", "int8", "int32")


def vnni() -> TensorIntrin:
    found = TensorIntrin.get(VNNI)
    assert found is not None
    return found


def adapted(func: PrimFunc) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    assert adapt_to_intrin(sch, sch.get_block("C"), vnni())
    return sch


def shapes(sch: Schedule) -> dict[str, list[int]]:
    """The shapes of the buffers that the block works on."""
    block = sch.get_sref(sch.get_block("C")).block
    return {
        region.buffer.name: [int(str(extent)) for extent in region.buffer.shape]
        for region in (*block.reads, *block.writes)
    }


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("plain", {"A": [64, 128], "B_global": [2, 32, 16, 4], "C": [64, 32]}),
        ("right_transposed", {"A": [64, 128], "B_global": [2, 32, 16, 4], "C": [64, 32]}),
        ("left_transposed", {"A_global": [64, 32, 4], "B_global": [2, 32, 16, 4], "C": [64, 32]}),
        (
            "result_transposed",
            {"A": [64, 128], "B_global": [2, 32, 16, 4], "C_global": [2, 64, 16]},
        ),
        ("batched", {"A": [3, 64, 128], "B_global": [3, 2, 32, 16, 4], "C": [3, 64, 32]}),
        ("packed", {"A": [64, 128], "B": [2, 32, 16, 4], "C": [64, 32]}),
        ("ragged", {"A_global": [50, 64], "B_global": [3, 16, 16, 4], "C_global": [50, 48]}),
        (
            "convolution",
            {"A": [2, 10, 18, 16], "B_global": [2, 3, 3, 4, 16, 4], "C": [2, 8, 16, 32]},
        ),
        (
            "blocked_channels",
            {"A": [1, 4, 10, 10, 16], "B": [2, 4, 3, 3, 4, 16, 4], "C": [1, 2, 8, 8, 16]},
        ),
    ],
)
def test_operands_are_copied_where_they_must_be(form: str, expected: dict[str, list[int]]) -> None:
    func = FORMS[form](*BYTES)
    sch = adapted(func)
    assert shapes(sch) == expected
    verify_trace_roundtrip(sch, func)
    block = sch.get_block("C")
    tile = tile_with_tensor_intrin(sch, block, VNNI)
    assert tile is not None
    assert is_tensorizable(sch, sch.blockize(tile), vnni())


def test_without_it_the_instruction_does_not_fit() -> None:
    sch = Schedule(FORMS["plain"](*BYTES))
    tile = tile_with_tensor_intrin(sch, sch.get_block("C"), VNNI)
    assert tile is not None
    assert not is_tensorizable(sch, sch.blockize(tile), vnni())


def test_results_stay_the_same() -> None:
    func = FORMS["ragged"](*BYTES)
    assert_same_result(func, adapted(func).mod)


def test_iterators_and_loops_in_any_order() -> None:
    sch = adapted(FORMS["other_iterator_order"](*BYTES))
    block = sch.get_block("C")
    assert [v.var.name for v in sch.get_sref(block).block.iter_vars] == ["vi", "vj", "vk"]
    names = [sch.get_sref(loop).loop.loop_var.name for loop in sch.get_loops(block)]
    assert names == ["i", "j", "k"]
    assert shapes(sch) == {"A": [64, 128], "B_global": [2, 32, 16, 4], "C": [64, 32]}


@pytest.mark.parametrize("form", ["depthwise", "factors_swapped"])
def test_other_computations_do_not_fit(form: str) -> None:
    sch = Schedule(FORMS[form](*BYTES))
    assert not adapt_to_intrin(sch, sch.get_block("C"), vnni())


def test_constants_are_packed_once() -> None:
    func = FORMS["ragged"](*BYTES).with_attr("layout_free_buffers", [1])
    sch = adapted(func)
    marked = {
        sref.name
        for sref in sch.state.srefs.values()
        if sref.is_block and LAYOUT_REWRITE_PREPROC in sref.block.annotations
    }
    assert marked == {"B_global"}


@pytest.mark.parametrize("adapt", [True, False])
def test_the_rule_lets_plain_sketches_compete(adapt: bool) -> None:
    rule = MultiLevelTilingWithIntrin(VNNI, "SSRSRS", adapt_operands=adapt)
    sch = Schedule(FORMS["ragged"](*BYTES))
    made = rule.apply(sch, sch.get_block("C"))
    waiting = [
        any(
            AUTO_TENSORIZE in sref.block.annotations
            for sref in each.state.srefs.values()
            if sref.is_block
        )
        for each in made
    ]
    assert waiting == ([True, False] if adapt else [False])
    assert made[-1] is sch
