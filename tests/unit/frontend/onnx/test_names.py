"""Inputs and outputs are called what the model calls them, whatever characters that takes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.byoc.partition import partition_graph
from tilewright.byoc.regions import PartRegion
from tilewright.errors import ArgumentError
from tilewright.frontend.onnx import import_onnx
from tilewright.frontend.sources import is_model, load_graph
from tilewright.graph.passes.half_precision import to_float16
from tilewright.model import compile_model, load

onnx = pytest.importorskip("onnx")
helper = onnx.helper

MakeModel = Callable[..., bytes]
X = np.arange(6, dtype="float32").reshape(2, 3)
W = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.fixture
def product(make_model: MakeModel) -> bytes:
    nodes = [
        helper.make_node("Gemm", ["x:0", "w.1"], ["t"]),
        helper.make_node("Relu", ["t"], ["out/*y*/:0"]),
    ]
    return make_model(nodes, {"x:0": [2, 3], "w.1": [3, 4]}, ["out/*y*/:0"])


def _names(model: Any) -> tuple[list[str], list[str]]:
    program = model.program
    return [one.name for one in program.inputs], [one.name for one in program.outputs]


def test_a_model_has_the_names_of_its_source(product: bytes, tmp_path: Path) -> None:
    graph = import_onnx(product)
    model = compile_model(graph)
    expected = ["x:0", "w.1"], ["out/*y*/:0"]
    assert _names(model) == expected
    model.save(tmp_path / "net.twm")
    again = load(tmp_path / "net.twm")
    assert _names(again) == expected
    for one in (model, again):
        for made in (one.run({"w.1": W, "x:0": X}), one(x_0=X, w_1=W), one(X, w_1=W)):
            np.testing.assert_allclose(made[0], X @ W)
    for other in (to_float16(graph), partition_graph(graph, [PartRegion(graph.nodes)])):
        assert [name for name, _ in other.named_inputs] == expected[0]
        assert [name for name, _ in other.named_outputs] == expected[1]
    report = model.check(graph, X, W, reference=lambda given: {"out/*y*/:0": given["x:0"] @ W})
    assert report.is_right, report


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"x:0": X, "x_0": X, "w.1": W}, "main: input x:0 is given by two names"),
        ({"x0": X, "w.1": W}, "main has no input 'x0'; did you mean 'x:0'?"),
        ({"x:0": X}, "main: inputs are missing: w.1: float32[3, 4]"),
        ({"x:0": X.T, "w.1": W}, "input x:0: expected float32[2, 3], got float32[3, 2]"),
    ],
)
def test_wrong_names(product: bytes, named: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        compile_model(import_onnx(product)).run(named)
    assert str(error.value) == message


def test_names_that_become_one_have_no_keyword(make_model: MakeModel) -> None:
    node = helper.make_node("Sub", ["a.b", "a_b"], ["y"])
    model = compile_model(import_onnx(make_model([node], {"a.b": [3], "a_b": [3]}, ["y"])))
    one, two = np.arange(3, dtype="float32"), np.full(3, 3, "float32")
    np.testing.assert_array_equal(model.run({"a_b": one, "a.b": two})[0], two - one)
    with pytest.raises(ArgumentError, match=re.escape("inputs are missing: a.b: float32[3]")):
        model(a_b=one)


def test_names_do_not_end_the_comment_of_a_header(product: bytes, tmp_path: Path) -> None:
    compile_model(import_onnx(product)).export_library(tmp_path / "net.so")
    header = (tmp_path / "net.h").read_text()
    assert " *   inputs[0] x:0: float32[2, 3], float, 24 bytes\n" in header
    assert " *   outputs[0] out/ *y* /:0: float32[2, 4], float, 32 bytes\n" in header
    command = ["cc", "-Wall", "-Werror", "-fsyntax-only", str(tmp_path / "net.h")]
    subprocess.run(command, check=True)


def test_a_model_in_memory(product: bytes) -> None:
    loaded = onnx.load_model_from_string(product)
    assert is_model(loaded)
    assert (
        import_onnx(loaded).script() == load_graph(loaded).script() == import_onnx(product).script()
    )
