"""Products in every form: which loops an instruction takes over, and what folds onto what."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.ir import PrimFunc
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
)
from tilewright.testing.contraction_forms import FORMS

DOT = ("dot_16x4_vnni", ("uint8", "int8", "int32"))
TILE = ("wmma_sync_16x16x16_f16f16f32", ("float16", "float16", "float32"))


class Answer(NamedTuple):
    """Positions of the loops that stand for those of the description, and the fused iterators."""

    loops: list[int] | None
    folded: str | None
    paddings: list[int] | None = None  # without padding, no loops are found


PLAIN_DOT, PLAIN_TILE = [1, 2], [0, 1, 2]
SAME = "vi, vj, vk"
ONTO_A_DOT_PRODUCT = {
    "plain": Answer(PLAIN_DOT, SAME),
    "one_tile": Answer(PLAIN_DOT, SAME),
    "ragged": Answer(PLAIN_DOT, SAME, [0, 11, 3]),
    "other_loop_order": Answer([1, 0], SAME),
    "other_iterator_order": Answer(None, SAME),  # their order must be that of the description
    "factors_swapped": Answer(PLAIN_DOT, None),
    "batched": Answer([2, 3], "vn, vi, vj, vk"),
    "shared_weights": Answer([2, 3], "vn, vi, vj, vk"),
    "right_transposed": Answer(PLAIN_DOT, SAME),
    "left_transposed": Answer(PLAIN_DOT, SAME),
    "result_transposed": Answer(PLAIN_DOT, SAME),
    "packed": Answer(PLAIN_DOT, SAME),
    "convolution": Answer([3, 6], "vn, vh, vw, vo, vr * 48 + vs * 16 + vi"),
    "strided_convolution": Answer([3, 6], "vn, vh, vw, vo, vr * 48 + vs * 16 + vi"),
    "im2col": Answer(PLAIN_DOT, SAME),
    "blocked_channels": Answer(
        [4, 9], "vn, vh, vw, vo * 16 + vb, vr * 192 + vs * 64 + vc * 16 + vf * 4 + vt"
    ),
    "depthwise": Answer([2, 4], None, [0, 0, 0, 0, 1]),
}
ONTO_A_TILE = {
    "plain": Answer(PLAIN_TILE, SAME),
    "one_tile": Answer(PLAIN_TILE, SAME),
    "ragged": Answer(PLAIN_TILE, SAME, [14, 11, 3]),
    "other_loop_order": Answer([2, 1, 0], SAME),
    "other_iterator_order": Answer(None, SAME),
    "factors_swapped": Answer(PLAIN_TILE, "vj, vi, vk"),
    "batched": Answer([1, 2, 3], "vn, vi, vj, vk"),
    "shared_weights": Answer([1, 2, 3], "vn * 64 + vi, vj, vk"),
    "right_transposed": Answer(PLAIN_TILE, SAME),
    "left_transposed": Answer(PLAIN_TILE, SAME),
    "result_transposed": Answer(PLAIN_TILE, SAME),
    "packed": Answer(PLAIN_TILE, SAME),
    "convolution": Answer([2, 3, 6], "vn * 128 + vh * 16 + vw, vo, vr * 48 + vs * 16 + vi"),
    "strided_convolution": Answer([2, 3, 6], "vn * 128 + vh * 16 + vw, vo, vr * 48 + vs * 16 + vi"),
    "im2col": Answer(PLAIN_TILE, SAME),
    "blocked_channels": Answer(
        [3, 4, 9],
        "vn * 64 + vh * 8 + vw, vo * 16 + vb, vr * 192 + vs * 64 + vc * 16 + vf * 4 + vt",
        [0, 0, 0, 8, 0, 0, 0, 0, 0, 12],
    ),
    "depthwise": Answer([1, 2, 4], None, [0, 0, 0, 0, 13]),
}


def loops_found(
    func: PrimFunc, desc: PrimFunc, allow_padding: bool
) -> tuple[list[int], list[int] | None] | None:
    """The position of the loop that stands for each loop of the description, and paddings."""
    sch = Schedule(func)
    block = sch.get_block("C")
    info = get_tensorize_loop_mapping(sch, block, desc, allow_padding)
    if info is None:
        return None
    positions = {sch.get_sref(loop): index for index, loop in enumerate(sch.get_loops(block))}
    pairs = {
        info.desc_loop_indexer[theirs]: positions[own] for own, theirs in info.loop_map.items()
    }
    assert sorted(pairs) == list(range(len(info.desc_loop_indexer)))
    return [pairs[index] for index in sorted(pairs)], info.block_iter_paddings


def folded(func: PrimFunc, desc: PrimFunc) -> str | None:
    """The outputs of the index map, as text."""
    sch = Schedule(func)
    info = get_auto_tensorize_mapping_info(sch, sch.get_block("C"), desc)
    if info is None:
        return None
    (mapping,) = info.mappings
    return ", ".join(str(index) for index in mapping.final_indices)


CASES = [
    pytest.param(name, instruction, answer, id=f"{instruction[0]}-{name}")
    for instruction, answers in ((DOT, ONTO_A_DOT_PRODUCT), (TILE, ONTO_A_TILE))
    for name, answer in answers.items()
]


@pytest.mark.parametrize(("name", "instruction", "answer"), CASES)
def test_form(name: str, instruction: tuple[str, tuple[str, str, str]], answer: Answer) -> None:
    intrin = TensorIntrin.get(instruction[0])
    assert intrin is not None
    func = FORMS[name](*instruction[1])
    found = None if answer.loops is None else (answer.loops, answer.paddings)
    assert loops_found(func, intrin.desc, allow_padding=True) == found
    without = None if answer.paddings is not None else found
    assert loops_found(func, intrin.desc, allow_padding=False) == without
    assert folded(func, intrin.desc) == answer.folded


def test_all_forms_have_answers() -> None:
    assert set(ONTO_A_DOT_PRODUCT) == set(ONTO_A_TILE) == set(FORMS)
