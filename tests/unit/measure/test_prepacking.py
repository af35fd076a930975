# mypy: disable-error-code="valid-type, no-untyped-def"
"""Weights with a layout of their own: packed once, outside of what is measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.driver import build
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.measure import LocalRunner
from tilewright.measure.prepacking import separate_packing
from tilewright.records import RunnerInput, args_info_of
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.annotations import LAYOUT_REWRITE_PREPROC


@T.prim_func
def dense(
    A: T.Buffer((8, 16), "float32"),
    W: T.Buffer((32, 16), "float32"),
    C: T.Buffer((8, 32), "float32"),
):
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "layout_free_buffers": [1]})
    for i, j, k in T.grid(8, 32, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vj, vk]


def with_packed_weight() -> IRModule:
    sch = Schedule(dense)
    copy = sch.cache_read(sch.get_block("C"), 1, "global")
    sch.annotate(copy, LAYOUT_REWRITE_PREPROC, True)
    sch.transform_layout(sch.get_block("C"), ("read", 1), lambda j, k: (j // 8, k, j % 8))
    return sch.mod


def test_packing_becomes_a_function() -> None:
    separated = separate_packing(with_packed_weight())
    assert list(separated.functions) == ["main", "pack.1"]
    infos = args_info_of(separated)
    assert [info.shape for info in infos] == [(8, 16), (4, 16, 8), (8, 32)]
    module = build(separated)
    rng = np.random.default_rng(0)
    a, w = rng.random((8, 16), np.float32), rng.random((32, 16), np.float32)
    packed, c = np.zeros((4, 16, 8), "float32"), np.zeros((8, 32), "float32")
    module["pack.1"](w, packed)
    np.testing.assert_array_equal(packed, w.reshape(4, 8, 16).transpose(0, 2, 1))
    module["main"](a, packed, c)
    np.testing.assert_allclose(c, a @ w.T, rtol=1e-5)


def test_programs_without_packing_stay_as_they_are() -> None:
    mod = as_module(dense)
    assert separate_packing(mod) is mod


def test_weight_that_is_also_read_as_it_was() -> None:
    """Then the kernel needs both, and packs for itself."""
    sch = Schedule(dense)
    copy = sch.cache_read(sch.get_block("C"), 1, "global")
    sch.annotate(copy, LAYOUT_REWRITE_PREPROC, True)
    sch.cache_read(copy, 0, "global")
    assert separate_packing(sch.mod) is sch.mod


def test_measured_and_checked(
    runner: LocalRunner, artifact: Callable[[PrimFunc | IRModule], str]
) -> None:
    infos = args_info_of(as_module(dense))
    given = RunnerInput(artifact(with_packed_weight()), "llvm", infos, artifact(dense))
    (future,) = runner.run([given])
    assert future.result().failure is None, future.result().error_msg
    assert future.result().checked
