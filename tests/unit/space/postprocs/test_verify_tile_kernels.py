"""VerifyTileKernels: candidates of which no kernel can be made are rejected."""

from __future__ import annotations

import pytest

from tilewright.schedule import Schedule
from tilewright.space.postprocs.verify_tile_kernels import VerifyTileKernels
from tilewright.testing.tile_programs import (
    THREAD_FORM,
    TILE_FORM,
    product,
    sketches_of,
    tile_func,
)

STAGES = '"tilewright.tile_stages": 2'


@pytest.mark.parametrize(
    ("text", "change", "is_accepted"),
    [
        (TILE_FORM, (STAGES, STAGES), True),
        (TILE_FORM, (STAGES, STAGES.replace("2", "13")), True),
        (TILE_FORM, (STAGES, STAGES.replace("2", "14")), False),  # more shared memory than exists
        (TILE_FORM, (STAGES, f'{STAGES}, "tilewright.tile_consumers": 2'), False),
        (TILE_FORM, ("A[vi, vk]", "A[vi, vk] + T.float16(1)"), False),
        (THREAD_FORM, (STAGES, STAGES), True),
        (THREAD_FORM, ('thread_rows": 8', 'thread_rows": 6'), False),
    ],
)
def test_forms(text: str, change: tuple[str, str], is_accepted: bool) -> None:
    sch = Schedule(tile_func(text, [change]))
    assert VerifyTileKernels().apply(sch) is is_accepted


def test_programs_without_tiles_are_accepted() -> None:
    assert VerifyTileKernels().apply(Schedule(product((8, 8, 8), ("float32", "float32"))))


@pytest.mark.parametrize(
    ("rule", "dtypes"),
    [("WarpGroupTiling", ("float16", "float32")), ("ThreadTiling", ("float32", "float32"))],
)
def test_all_sketches_are_accepted(rule: str, dtypes: tuple[str, str]) -> None:
    for sketch in sketches_of(product((300, 200, 104), dtypes), rule):
        assert VerifyTileKernels().apply(sketch)
