# mypy: disable-error-code="valid-type, no-untyped-def"
"""`tensorize` with operands that have no dimensions: one element of a buffer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tilewright as tw
from tilewright.ir import PrimFunc
from tilewright.ir.tensor_intrin import TensorIntrin, _registry
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def dot(x: T.handle, w: T.handle, y: T.handle):
    X = T.match_buffer(x, (4,), offset_factor=1)
    W = T.match_buffer(w, (4,), offset_factor=1)
    Y = T.match_buffer(y, (), offset_factor=1)
    with T.block("root"):
        T.reads(Y[()], X[0:4], W[0:4])
        T.writes(Y[()])
        for k in range(4):
            with T.block("sum"):
                vk = T.axis.reduce(4, k)
                Y[()] = Y[()] + X[vk] * W[vk]


@T.prim_func
def by_elements(x: T.handle, w: T.handle, y: T.handle):
    X = T.match_buffer(x, (4,), offset_factor=1)
    W = T.match_buffer(w, (4,), offset_factor=1)
    Y = T.match_buffer(y, (), offset_factor=1)
    with T.block("root"):
        T.reads(Y[()], X[0:4], W[0:4])
        T.writes(Y[()])
        Y[()] = Y[()] + X[0] * W[0] + X[1] * W[1] + X[2] * W[2] + X[3] * W[3]


@T.prim_func
def by_pointers(x: T.handle, w: T.handle, y: T.handle):
    X = T.match_buffer(x, (4,), offset_factor=1)
    W = T.match_buffer(w, (4,), offset_factor=1)
    Y = T.match_buffer(y, (), offset_factor=1)
    with T.block("root"):
        T.reads(Y[()], X[0:4], W[0:4])
        T.writes(Y[()])
        T.evaluate(T.call_extern("int32", "dot", Y.data, Y.elem_offset, X.data, W.data))


@T.prim_func
def rows(X: T.Buffer((8, 8)), W: T.Buffer((8, 8)), Y: T.Buffer((8, 8))):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("sum"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]


@pytest.fixture(params=[by_elements, by_pointers])
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    TensorIntrin.register("test.scalar", dot, request.param)
    yield "test.scalar"
    del _registry["test.scalar"]


def test_one_element_is_an_operand(name: str) -> None:
    sch = Schedule(rows, debug_mask="all")
    _, inner = sch.split(sch.get_loops("sum")[2], [None, 4])
    sch.tensorize(inner, name)
    assert "T.match_buffer(Y[vi_o, vj_o], (), offset_factor=1)" in sch.mod.script()
    verify_trace_roundtrip(sch, rows)
    implementation: PrimFunc | None = getattr(TensorIntrin.get(name), "impl", None)
    if implementation is by_elements:
        assert_same_result(rows, sch.mod)
        x, w, y = np.random.default_rng(0).random((3, 8, 8), np.float32)
        expected = y + x @ w.T
        tw.build(sch.mod)(x, w, y)
        np.testing.assert_allclose(y, expected, rtol=1e-5)
