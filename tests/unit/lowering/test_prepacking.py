"""Weights with a layout of their own: their packing becomes a function."""

from __future__ import annotations

import numpy as np

from tilewright.driver import build
from tilewright.ir import IRModule, as_module
from tilewright.ir.annotation_keys import LAYOUT_REWRITE_PREPROC
from tilewright.lowering.prepacking import packed_weights, packing_of, separate_packing
from tilewright.records import args_info_of
from tilewright.schedule import Schedule
from tilewright.testing.packed_programs import dense, gated, with_packed_weights


def test_packing_becomes_a_function() -> None:
    separated = separate_packing(with_packed_weights())
    assert list(separated.functions) == ["main", "main.pack.1"]
    infos = args_info_of(separated)
    assert [info.shape for info in infos] == [(8, 16), (4, 16, 8), (8, 32)]
    module = build(separated)
    rng = np.random.default_rng(0)
    a, w = rng.random((8, 16), np.float32), rng.random((32, 16), np.float32)
    packed, c = np.zeros((4, 16, 8), "float32"), np.zeros((8, 32), "float32")
    module["main.pack.1"](w, packed)
    np.testing.assert_array_equal(packed, w.reshape(4, 8, 16).transpose(0, 2, 1))
    module["main"](a, packed, c)
    np.testing.assert_allclose(c, a @ w.T, rtol=1e-5)


def test_each_function_has_its_own_packing() -> None:
    both = IRModule(
        {
            "first": with_packed_weights(dense)["main"],
            "plain": dense,
            "second": with_packed_weights(gated)["main"],
        }
    )
    names = ["first", "plain", "second", "first.pack.1", "second.pack.1", "second.pack.2"]
    assert list(separate_packing(both).functions) == names
    assert [packing_of(name) for name in names[2:4]] == [None, ("first", 1)]
    assert packing_of("a.pack.b") is None


def test_names_of_packed_weights() -> None:
    assert packed_weights(with_packed_weights(gated)["main"]) == ["W", "V"]
    assert packed_weights(dense) == []


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
    assert packed_weights(sch.mod["main"]) == []
