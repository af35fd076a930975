"""Layouts that follow an access, as TVM suggests them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.ir import For, ForKind, Var, const, decl_buffer, no_op
from tilewright.schedule.analysis import suggest_index_map

Access = Callable[..., Sequence[Any]]


def loops(extents: Sequence[int]) -> list[For]:
    zero = const(0)
    return [
        For(Var(name, zero.dtype), zero, const(extent), ForKind.SERIAL, no_op())
        for name, extent in zip("ijkl", extents, strict=False)
    ]


CASES: list[tuple[tuple[int, ...], Access, tuple[int, ...], str, str]] = [
    (
        (8, 256),
        lambda i, j: [i // 16 * 4 + j // 16, i % 16 * 16 + j % 16],
        (32, 64),
        "lambda i0, i1: (i0 // 4, i1 // 16, i0 % 4, i1 % 16,)",
        "lambda i0, i1, i2, i3: (i0 * 4 + i2, i1 * 16 + i3,)",
    ),
    (
        (8,),
        lambda i, j: [j % 4 * 2 + i],
        (2, 32),
        "lambda i0: (i0 % 2, i0 // 2,)",
        "lambda i0, i1: (i1 * 2 + i0,)",
    ),
    (
        (64, 64),
        lambda i, j, k, l: [i * 8 + k, j * 8 + l],
        (8, 8, 8, 8),
        "lambda i0, i1: (i0 // 8, i1 // 8, i0 % 8, i1 % 8,)",
        "lambda i0, i1, i2, i3: (i0 * 8 + i2, i1 * 8 + i3,)",
    ),
    (
        (64, 64),
        lambda i, j, k, l: [j * 8 + l, i * 8 + k],
        (8, 8, 8, 8),
        "lambda i0, i1: (i1 // 8, i0 // 8, i1 % 8, i0 % 8,)",
        "lambda i0, i1, i2, i3: (i1 * 8 + i3, i0 * 8 + i2,)",
    ),
]


@pytest.mark.parametrize(("shape", "access", "extents", "forward", "backward"), CASES)
def test_layout_follows_the_loops(
    shape: tuple[int, ...], access: Access, extents: tuple[int, ...], forward: str, backward: str
) -> None:
    nest = loops(extents)
    indices = access(*(loop.loop_var for loop in nest))
    found = suggest_index_map(decl_buffer(shape), indices, nest)
    assert found is not None
    assert str(found) == forward
    assert found.inverse_index_map is not None
    assert str(found.inverse_index_map) == backward
    data = np.arange(np.prod(shape)).reshape(shape)
    moved = found.map_ndarray(data)
    np.testing.assert_array_equal(found.inverse_index_map.map_ndarray(moved), data)


def test_no_layout_for_other_accesses() -> None:
    nest = loops((8, 8))
    i, j = (loop.loop_var for loop in nest)
    assert suggest_index_map(decl_buffer((64,)), [i * j], nest) is None
    assert suggest_index_map(decl_buffer((128,)), [i * 8 + j], nest) is None
    assert suggest_index_map(decl_buffer((i,)), [j], nest) is None
