"""Vector accesses that run over the rows of a buffer: allowed where the rows follow each other."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import pytest

from tilewright.driver import lower
from tilewright.errors import LowerError
from tilewright.script import tir as T


@T.prim_func
def whole_tile(A: T.Buffer((3, 4, 4), "int8"), B: T.Buffer((16,), "int8")) -> None:
    for n in range(3):
        with T.block("tile"):
            vn = T.axis.spatial(3, n)
            T.reads(A[vn, 0:4, 0:4])
            T.writes(B[0:16])
            tile = T.match_buffer(A[vn, 0:4, 0:4], (4, 4), "int8", offset_factor=1)
            B[0:16] = tile[0, T.ramp(0, 1, 16)]


def test_rows_of_a_tile_are_read_in_one_piece() -> None:
    assert "A_1[n * 16:n * 16 + 16]" in lower(whole_tile)["whole_tile"].script()


def test_rows_with_gaps_are_refused() -> None:
    @T.prim_func
    def gaps(A: T.Buffer((4, 8), "int8"), B: T.Buffer((16,), "int8")) -> None:
        with T.block("tile"):
            T.reads(A[0:4, 0:4])
            T.writes(B[0:16])
            tile = T.match_buffer(A[0:4, 0:4], (4, 4), "int8", offset_factor=1)
            B[0:16] = tile[0, T.ramp(0, 1, 16)]

    with pytest.raises(LowerError) as caught:
        lower(gaps)
    assert str(caught.value) == (
        "match_buffer tile is accessed across its rows, which do not follow each other in A; "
        "declare its strides, or match a contiguous region"
    )


def test_rows_end_with_the_buffer() -> None:
    @T.prim_func
    def too_long(A: T.Buffer((4, 4), "int8"), B: T.Buffer((16,), "int8")) -> None:
        B[0:16] = A[1, T.ramp(0, 1, 16)]

    with pytest.raises(LowerError) as caught:
        lower(too_long)
    assert "reads A outside its bounds: index `T.Ramp(4, 1, 16)` of dimension 0 reaches 19" in str(
        caught.value
    )
