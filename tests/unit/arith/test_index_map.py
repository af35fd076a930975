"""Index maps: application, inversion with and without padding, text, and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.arith import IndexMap
from tilewright.errors import ArithError
from tilewright.ir import Range, SizeVar, Var, const
from tilewright.ir.json import load_json, save_json

x, y, z = Var("x"), Var("y"), Var("z")
n = SizeVar("n")
Function = Callable[..., Any]


def _map(function: Function, **options: Any) -> IndexMap:
    return IndexMap.from_func(function, index_dtype="int32", **options)


@pytest.mark.parametrize(
    ("function", "shape", "new_shape", "inverse"),
    [
        (lambda i, j: [j, i], [4, 5], [5, 4], "lambda axis0, axis1: (axis1, axis0,)"),
        (lambda i: [i // 4, i % 4], [16], [4, 4], "lambda axis0, axis1: (axis0 * 4 + axis1,)"),
        (lambda i, j: [i * 16 + j], [8, 16], [128], "lambda axis0: (axis0 // 16, axis0 % 16,)"),
        (lambda i: [i], [1], [1], "lambda axis0: (axis0,)"),
        (lambda i: [15 - i], [16], [16], "lambda axis0: (15 - axis0,)"),
        (
            lambda i, j: [i // 4, j // 2, i % 4, j % 2],
            [8, 6],
            [2, 3, 4, 2],
            "lambda axis0, axis1, axis2, axis3: (axis0 * 4 + axis2, axis1 * 2 + axis3,)",
        ),
    ],
)
def test_bijective_maps(
    function: Function, shape: list[int], new_shape: list[int], inverse: str
) -> None:
    index_map = _map(function)
    assert [int(extent) for extent in index_map.map_shape(shape)] == new_shape  # type: ignore[call-overload]
    assert str(index_map.inverse(shape)) == inverse
    found, padding = index_map.non_surjective_inverse(shape)
    assert (str(found), str(padding)) == (inverse, "T.bool(False)")


@pytest.mark.parametrize(
    ("function", "shape", "inverse", "padding"),
    [
        (
            lambda i: [i // 4, i % 4],
            [14],
            "lambda axis0, axis1: (axis0 * 4 + axis1,)",
            "axis0 == 3 and 2 <= axis1",
        ),
        (
            lambda i: [(i + 2) // 4, (i + 2) % 4],
            [13],
            "lambda axis0, axis1: (axis0 * 4 + axis1 - 2,)",
            "axis0 == 0 and axis1 < 2 or axis0 == 3 and 3 <= axis1",
        ),
        (
            lambda i: [i // 8, i // 2 % 4, i % 2],
            [60],
            "lambda axis0, axis1, axis2: (axis0 * 8 + axis1 * 2 + axis2,)",
            "axis0 == 7 and 4 <= axis1 * 2 + axis2",
        ),
        (
            lambda i, j: [i // 4, j, i % 4],
            [1, 5],
            "lambda axis0, axis1, axis2: (axis0 * 4 + axis2, axis1,)",
            "1 <= axis2",
        ),
    ],
)
def test_padding_maps(function: Function, shape: list[int], inverse: str, padding: str) -> None:
    index_map = _map(function)
    found, predicate = index_map.non_surjective_inverse(shape)
    assert (str(found), str(predicate)) == (inverse, padding)
    with pytest.raises(ArithError, match="has no inverse on this shape"):
        index_map.inverse(shape)


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (lambda i: [i * 2], [4], "the map cannot be inverted: an index advances in steps of 2"),
        (lambda i, j: [i + j], [4, 4], "cannot be inverted: two iterators overlap in one index"),
        (lambda i, j: [i], [4, 4], "has no inverse: it loses the index j"),
        (lambda i, j: [i * 16 + j], [8, 10], "do not chain into one iterator"),
    ],
)
def test_maps_without_inverse(function: Function, shape: list[int], message: str) -> None:
    with pytest.raises(ArithError, match=message):
        _map(function).non_surjective_inverse(shape)


def test_map_indices_in_the_type_of_the_indices() -> None:
    index_map = IndexMap.from_func(lambda i, j: [i // 4, i % 4, j])
    assert index_map.initial_indices[0].dtype == "int64"
    assert [str(e) for e in index_map.map_indices([x * 4 + y, z])] == ["y // 4 + x", "y % 4", "z"]
    assert [str(e) for e in _map(lambda i: [i // 4]).map_indices([9])] == ["2"]


def test_map_ranges_and_symbolic_shapes() -> None:
    index_map = _map(lambda i, j: [i // 4, j + 1])
    ranges = index_map.map_ranges([Range(const(4), const(8)), Range(const(0), const(3))])
    assert [(str(r.min), str(r.extent)) for r in ranges] == [("1", "2"), ("1", "3")]
    assert [str(e) for e in _map(lambda i, j: [j, i * 2]).map_shape([n, 8])] == ["8", "n * 2"]
    assert [str(e) for e in _map(lambda i, j: [i + j]).map_shape([8, 10])] == ["17"]


def test_map_ndarray() -> None:
    array = np.arange(10).reshape(5, 2)
    blocked = _map(lambda i, j: [i // 4, j, i % 4]).map_ndarray(array)
    assert blocked.shape == (2, 2, 4)
    assert blocked[1, 1, 0] == array[4, 1]
    assert blocked[1, 0, 1:].tolist() == [0, 0, 0]


def test_separators_and_variadic_functions() -> None:
    separator = IndexMap.AXIS_SEPARATOR
    index_map, separators = IndexMap.from_func_with_separators(
        lambda i, j: [i, separator, j], index_dtype="int32"
    )
    assert (str(index_map), separators) == ("lambda i, j: (i, j,)", [1])
    assert str(_map(lambda i, *rest: [*rest, i], ndim=3)) == (
        "lambda i, rest_0, rest_1: (rest_0, rest_1, i,)"
    )
    assert str(_map(lambda *axes, k: [k, *axes], ndim=3)) == (
        "lambda axes_0, axes_1, k: (k, axes_0, axes_1,)"
    )
    assert str(_map(lambda i, *, k: (index for index in (k, i)))) == "lambda i, k: (k, i,)"
    with pytest.raises(ArithError, match="use from_func_with_separators"):
        _map(lambda i: [i, separator])


def test_padding_of_a_symbolic_extent_is_a_condition_on_it() -> None:
    blocked = _map(lambda i: [i // 4, i % 4])
    assert str(blocked.map_shape([n])) == "[(n - n % -4) // 4, 4]"
    inverse, padding = blocked.non_surjective_inverse([n])
    assert str(inverse) == "lambda axis0, axis1: (axis0 * 4 + axis1,)"
    assert str(padding) == "n % -4 != 0 and axis0 == n // 4 and n % 4 <= axis1"
    with pytest.raises(ArithError, match="an iterator of extent n cannot be divided by 4"):
        blocked.inverse([n])


def test_attached_inverse_wins() -> None:
    index_map = _map(lambda i: [i * 2], inverse_index_map=lambda a: [a // 2])
    assert str(index_map.inverse([4])) == "lambda a: (a // 2,)"
    assert str(index_map.non_surjective_inverse([4])[0]) == "lambda a: (a // 2,)"


def test_equivalence() -> None:
    blocked = _map(lambda i: [i // 4, i % 4])
    assert blocked.is_equivalent_to(_map(lambda a: [a // 4, a - a // 4 * 4]))
    assert _map(lambda i, j: [i * n + j]).is_equivalent_to(_map(lambda a, b: [b + a * n]))
    assert not blocked.is_equivalent_to(_map(lambda a: [a % 4, a // 4]))
    assert not blocked.is_equivalent_to(_map(lambda a: [a]))
    assert not blocked.is_equivalent_to(_map(lambda a, b: [a, b]))


def test_mistakes_are_named() -> None:
    index_map = _map(lambda i, j: [j, i])
    with pytest.raises(ArithError) as caught:
        index_map.map_indices([x])
    assert str(caught.value) == "lambda i, j: (j, i,) takes 2 indices, but 1 were given"
    with pytest.raises(ArithError, match="ndim must say how many indices"):
        _map(lambda *axes: list(axes))
    with pytest.raises(ArithError, match="the function takes 1 indices, but ndim is 2"):
        _map(lambda i: [i], ndim=2)
    with pytest.raises(ArithError, match="must return indices or AXIS_SEPARATOR, not None"):
        _map(lambda i: [i, None])
    with pytest.raises(ArithError, match="must return indices or AXIS_SEPARATOR, not 'i'"):
        _map(lambda i: "i")
    with pytest.raises(ArithError, match=r"the function takes \*\*named: name every index"):
        _map(lambda i, **named: [i])
    with pytest.raises(ArithError, match="the shape of the new layout is not constant"):
        _map(lambda i: [i // n]).map_ndarray(np.zeros(4))


def test_saved_as_json_and_printed_without_types() -> None:
    index_map = IndexMap.from_func(lambda i, j: [i // 16, j, i % 16])
    again = load_json(save_json(index_map))
    assert isinstance(again, IndexMap)
    assert again.is_equivalent_to(index_map)
    assert str(again) == "lambda i, j: (i // 16, j, i % 16,)"
    assert str(IndexMap.from_func(lambda i: [i // 2**40])) == (
        "lambda i: (i // T.int64(1099511627776),)"
    )
