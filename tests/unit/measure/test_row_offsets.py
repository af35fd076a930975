# mypy: disable-error-code="valid-type, no-untyped-def"
"""Arguments that say where rows begin."""

from __future__ import annotations

import numpy as np

from tilewright.ir import as_module
from tilewright.measure.arguments import TensorSpec, random_values
from tilewright.measure.row_offsets import row_offsets_in
from tilewright.script import tir as T


@T.prim_func
def sparse(
    begin: T.Buffer((41,), "int32"),
    columns: T.Buffer((160,), "int32"),
    values: T.Buffer((150,), "float32"),
    x: T.Buffer((32,), "float32"),
    y: T.Buffer((40,), "float32"),
):
    for i in range(40):
        with T.block("y"):
            vi = T.axis.spatial(40, i)
            y[vi] = T.float32(0)
            for k in range(begin[vi + 1] - begin[vi]):
                y[vi] = y[vi] + values[begin[vi] + k] * x[columns[begin[vi] + k]]


@T.prim_func
def lengths(count: T.Buffer((8,), "int32"), x: T.Buffer((8, 9)), y: T.Buffer((8,))):
    for i in range(8):
        with T.block("y"):
            vi = T.axis.spatial(8, i)
            y[vi] = T.float32(0)
            for k in range(count[vi]):
                y[vi] = y[vi] + x[vi, k]


def test_offsets_rise_to_the_shortest_array_that_they_cut() -> None:
    assert row_offsets_in(as_module(sparse)) == {0: 150}
    assert row_offsets_in(as_module(lengths)) == {}


def test_their_values() -> None:
    spec = TensorSpec("int32", (41,), 150)
    values = random_values(spec, np.random.default_rng(0))
    assert values.dtype == np.int32
    assert (values[0], values[-1]) == (0, 150)
    assert (np.diff(values) >= 0).all()
    assert np.count_nonzero(np.diff(values)) > 20
    assert random_values(TensorSpec("int32", (0,), 5), np.random.default_rng(0)).size == 0
