"""`Module.bind`: fixed arguments, and weights that are packed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.driver import build
from tilewright.errors import ArgumentError
from tilewright.runtime import load_module
from tilewright.testing.packed_programs import dense, gated, with_packed_weights

Array = npt.NDArray[Any]


def arrays() -> tuple[Array, Array, Array, Array]:
    """A, W, V and room for C."""
    rng = np.random.default_rng(0)
    a, w, v = (rng.random((rows, 16), np.float32) for rows in (8, 32, 32))
    return a, w, v, np.zeros((8, 32), np.float32)


def test_a_plain_call_sees_new_weights_and_a_bound_one_keeps_its_own() -> None:
    a, w, _, c = arrays()
    module = build(with_packed_weights())
    assert [spec.name for spec in module.signature()] == ["A", "W", "C"]
    bound = module.bind(W=w)
    before = a @ w.T
    w *= 2
    module(a, w, c)
    np.testing.assert_allclose(c, 2 * before, rtol=1e-5)
    bound(a, c)
    np.testing.assert_allclose(c, before, rtol=1e-5)


def test_bound_functions_can_be_timed_and_printed() -> None:
    a, w, _, c = arrays()
    bound = build(with_packed_weights()).bind(W=w)
    assert bound.time_evaluator(number=2, repeat=3)(a, c).mean > 0
    np.testing.assert_allclose(c, a @ w.T, rtol=1e-5)
    assert repr(bound) == "<bound main(A: float32[8, 16], C: float32[8, 32])>"
    assert [spec.name for spec in bound.signature] == ["A", "C"]


def test_without_packing_it_only_fixes_arguments() -> None:
    a, w, _, c = arrays()
    module = build(dense)
    assert module.prepacked() is None
    module.bind(A=a, W=w)(c)
    np.testing.assert_allclose(c, a @ w.T, rtol=1e-5)


def test_binding_something_else_than_the_weights_keeps_the_plain_kernel() -> None:
    a, w, _, c = arrays()
    build(with_packed_weights()).bind(A=a)(w, c)
    np.testing.assert_allclose(c, a @ w.T, rtol=1e-5)


def test_several_weights() -> None:
    a, w, v, c = arrays()
    module = build(with_packed_weights(gated, "gated"))
    assert module.entry_name == "gated"
    module.bind(W=w, V=v)(a, c)
    np.testing.assert_allclose(c, a @ (w * v).T, rtol=1e-5)
    with pytest.raises(ArgumentError) as caught:
        module.bind(W=w)
    assert str(caught.value) == "bind(): gated() packs V, too; bind all weights at once"


def test_modules_for_packed_weights() -> None:
    a, w, v, c = arrays()
    module = build(with_packed_weights(gated, "gated"), prepacked=True)
    assert list(module) == ["gated", "gated.pack.1", "gated.pack.2"]
    assert module.entry_name == "gated"
    packed = np.zeros((4, 16, 8), np.float32)
    module["gated.pack.2"](v, packed)
    module.bind(W=w)(a, packed, c)  # who packs V otherwise need not bind it
    np.testing.assert_allclose(c, a @ (w * v).T, rtol=1e-5)


def test_exported_libraries_can_be_bound(tmp_path: Path) -> None:
    a, w, _, c = arrays()
    build(with_packed_weights(), prepacked=True).export_library(tmp_path / "dense.so")
    assert "main_pack_1(" in (tmp_path / "dense.h").read_text()
    load_module(tmp_path / "dense.so").bind(W=w)(a, c)
    np.testing.assert_allclose(c, a @ w.T, rtol=1e-5)


def test_mistakes_are_named() -> None:
    a, w, _, c = arrays()
    module = build(with_packed_weights())
    with pytest.raises(ArgumentError) as caught:
        module.bind(w=w)
    assert str(caught.value) == "bind(): main() has no argument 'w'; did you mean 'W'?"
    with pytest.raises(ArgumentError) as caught:
        module.bind(W=w)(a, w, c)
    assert str(caught.value) == (
        "main() takes 2 arguments (A: float32[8, 16], C: float32[8, 32]) besides those that are "
        "bound, got 3"
    )
    with pytest.raises(ArgumentError, match=r"argument 0 \(W\): shape is \[8, 16\], expected 32"):
        module.bind(W=a)
