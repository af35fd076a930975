"""Masked stores into local memory become plain ones, and nothing that counts changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright.driver import lower
from tilewright.ir import PrimFunc
from tilewright.lowering.pipeline import Stages
from tilewright.script import from_source
from tilewright.testing.oracle import OracleOptions, run

# A blend reads lanes that nobody has written, and throws them away.
BLENDS = OracleOptions(track_uninitialized=False)


def program(rows: int, columns: int, stride: int, lanes: int, depth: int, scope: str) -> PrimFunc:
    """Sums of products in a tile of `rows` x `columns`, in vectors of which some lanes are off."""
    func = from_source(
        f"""
from tilewright.script import tir as T
@T.prim_func
def main(A: T.Buffer(({rows}, {depth}), "float32"), B: T.Buffer(({depth}, {columns}), "float32"),
         C: T.Buffer(({rows}, {columns}), "float32")):
    X = T.alloc_buffer(({rows}, {columns}), "float32", strides=({stride}, 1), scope="{scope}")
    for i in range({rows}):
        for j in T.vectorized({lanes}):
            with T.block("init"):
                T.where(j < {columns})
                vi, vj = T.axis.remap("SS", [i, j])
                X[vi, vj] = T.float32(0)
    for k, i in T.grid({depth}, {rows}):
        for j in T.vectorized({lanes}):
            with T.block("update"):
                T.where(j < {columns})
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                X[vi, vj] = X[vi, vj] + A[vi, vk] * B[vk, vj]
    for i in range({rows}):
        for j in T.vectorized({lanes}):
            with T.block("copy"):
                T.where(j < {columns})
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = X[vi, vj]
"""
    )
    assert isinstance(func, PrimFunc)
    return func


def staged(func: PrimFunc) -> Stages:
    return lower(func, stages=True)


def stores_to(text: str, name: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line.startswith((f"{name}_1[", f"{name}_1.vstore"))]


def test_blends_and_room_for_all_lanes() -> None:
    """The last of three rows of 13 would end in the middle of a vector of 16."""
    text = str(staged(program(3, 13, 16, 16, 2, "local")).after("BlendLocalStores"))
    stores = stores_to(text, "X")
    assert len(stores) == 2
    assert all("vstore" not in line for line in stores)
    assert "T.Select(" not in text  # nobody looks at what other lanes hold
    assert "T.allocate([48]" in text
    assert "predicate" in text  # the stores to C, and what is loaded of B


def test_lanes_of_other_rows_are_written_back() -> None:
    """Rows that are not padded overlap: what a lane beyond the end holds is the next row's."""
    func = program(3, 13, 13, 16, 2, "local")
    text = str(staged(func).after("BlendLocalStores"))
    assert all("T.Select(" in line for line in stores_to(text, "X"))
    assert "T.allocate([42]" in text


@pytest.mark.parametrize(
    ("first", "second", "blends"),
    [("j < 13", "j < 13", False), ("j < 13", "j < 14", True), ("j + k < 13", "j + k < 13", True)],
)
def test_lanes_that_other_masks_let_through_are_written_back(
    first: str, second: str, blends: bool
) -> None:
    """`X` keeps lanes of an earlier step where the mask is another one, or moves."""
    func = from_source(
        f"""
from tilewright.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 16), "float32"), C: T.Buffer((4, 16), "float32")):
    X = T.alloc_buffer((16,), "float32", scope="local")
    for k in range(4):
        for j in T.vectorized(16):
            with T.block("store"):
                vk, vj = T.axis.remap("SS", [k, j])
                T.where({first})
                X[vj] = A[vk, vj]
        for j in T.vectorized(16):
            with T.block("load"):
                vk, vj = T.axis.remap("SS", [k, j])
                T.where({second})
                C[vk, vj] = X[vj]
"""
    )
    assert isinstance(func, PrimFunc)
    stages = staged(func)
    (store,) = stores_to(str(stages.after("BlendLocalStores")), "X")
    assert ("T.Select(" in store) is blends


@pytest.mark.parametrize("scope", ["global", "shared"])
def test_other_memory_keeps_its_masks(scope: str) -> None:
    text = str(staged(program(3, 13, 16, 16, 2, scope)).after("BlendLocalStores"))
    stores = stores_to(text, "X")
    assert len(stores) == 2
    assert all("vstore" in line for line in stores)


@settings(max_examples=40)
@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 19),
    padding=st.integers(0, 6),
    more=st.integers(0, 9),
    depth=st.integers(1, 3),
)
def test_results_stay(rows: int, columns: int, padding: int, more: int, depth: int) -> None:
    func = program(rows, columns, columns + padding, columns + more, depth, "local")
    rng = np.random.default_rng(rows * columns)
    a = rng.integers(-4, 5, (rows, depth)).astype("float32")
    b = rng.integers(-4, 5, (depth, columns)).astype("float32")
    c = np.full((rows, columns), np.nan, "float32")
    run(staged(func).module, a, b, c, options=BLENDS)
    np.testing.assert_array_equal(c, a @ b)
