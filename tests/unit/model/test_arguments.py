"""Calls of models: by name, with other libraries' arrays, into given arrays, from two threads."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tilewright import nd
from tilewright.errors import ArgumentError, GraphError
from tilewright.graph import parse_graph
from tilewright.model import CompiledModel, Executable, compile_model
from tilewright.model.frame import Arrays
from tilewright.runtime import threads as pool

_TEXT = """
def net(image: float32[2, 3], scale: float32[3]):
    bias = constant(float32[3])
    scaled = multiply(image, scale)
    moved = add(scaled, bias)
    index = argmax(moved, axis=1)
    return moved, index
"""
_IMAGE = np.arange(6, dtype=np.float32).reshape(2, 3)
_SCALE = np.array([1, -1, 2], np.float32)
_BIAS = np.array([0.5, 1, 1.5], np.float32)
_MOVED = _IMAGE * _SCALE + _BIAS


@pytest.fixture(scope="module")
def net() -> CompiledModel:
    return compile_model(parse_graph(_TEXT, {"bias": _BIAS}))


def test_by_position_by_name_and_both(net: CompiledModel) -> None:
    ways = [
        net(_IMAGE, _SCALE),
        net(_IMAGE, scale=_SCALE),
        net(scale=_SCALE, image=_IMAGE),
        net.run({"scale": _SCALE, "image": _IMAGE}),
        net(nd.array(_IMAGE), _SCALE, threads=1),
    ]
    for moved, index in ways:
        np.testing.assert_array_equal(moved, _MOVED)
        np.testing.assert_array_equal(index, _MOVED.argmax(axis=1))


@pytest.mark.parametrize(
    ("inputs", "named", "message"),
    [
        ([], {}, "net takes 2 inputs (image: float32[2, 3], scale: float32[3]), got 0"),
        ([], {"imaeg": 1, "scale": 2}, "net has no input 'imaeg'; did you mean 'image'?"),
        ([], {"zzzz": 1}, "net has no input 'zzzz'; known: image, scale"),
        ([], {"image": _IMAGE}, "net: inputs are missing: scale: float32[3]"),
        ([_IMAGE], {"image": _IMAGE}, "net: input image is given by position and by name"),
        ([_IMAGE, _SCALE, 1], {}, "net takes 2 inputs (image: float32[2, 3], scale: float32[3]), "
         "got 3"),
        ([_IMAGE, _IMAGE], {}, "input scale: expected float32[3], got float32[2, 3]"),
        ([_IMAGE, [1.0, 2.0, 3.0]], {}, "input scale: expected float32[3], got float64[3]"),
    ],
)  # fmt: skip
def test_wrong_inputs(
    net: CompiledModel, inputs: list[Any], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        net(*inputs, **named)
    assert str(caught.value) == message


def test_given_outputs_are_written_in_place(net: CompiledModel) -> None:
    moved, index = nd.empty((2, 3), "float32"), nd.empty((2,), "int32")
    made = net(_IMAGE, _SCALE, out=[moved, index])
    assert made == (moved, index)
    np.testing.assert_array_equal(moved.numpy(), _MOVED)
    np.testing.assert_array_equal(index.numpy(), _MOVED.argmax(axis=1))


def test_outputs_that_are_strided_or_overlap_an_input(net: CompiledModel) -> None:
    wide, index = np.zeros((2, 6), np.float32), np.zeros(2, np.int32)
    net(_IMAGE, _SCALE, out=[wide[:, ::2], index])
    np.testing.assert_array_equal(wide[:, ::2], _MOVED)
    np.testing.assert_array_equal(wide[:, 1::2], 0)
    image = nd.array(_IMAGE).numpy()
    net(image, _SCALE, out=[image, index])
    np.testing.assert_array_equal(image, _MOVED)


def _read_only() -> np.ndarray[Any, Any]:
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ([_IMAGE], "net has 2 outputs (moved: float32[2, 3], index: int32[2]), got 1 array for "
         "them"),
        ([_SCALE, np.zeros(2, np.int32)], "output moved: expected float32[2, 3], got float32[3]"),
        ([_read_only(), np.zeros(2, np.int32)], "output moved: the array cannot be written to"),
    ],
)  # fmt: skip
def test_wrong_outputs(net: CompiledModel, out: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        net(_IMAGE, _SCALE, out=out)
    assert str(caught.value) == message


def test_tensors_of_pytorch_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    executable = compile_model(
        parse_graph("def main(x: float32[64]):\n    y = negative(x)\n    return x, y\n")
    )
    x = torch.arange(64, dtype=torch.float32)
    same, y = torch.empty(64), torch.empty(64)
    seen: list[int] = []
    assert isinstance(executable, Executable)
    frame = executable._frames[0]
    run = frame.run

    def watched(arrays: Arrays, times: list[int] | None = None) -> None:
        seen.extend(a.ctypes.data for a in (*arrays.inputs, *arrays.outputs))
        run(arrays, times)

    frame.run = watched  # type: ignore[method-assign]
    assert executable(x, out=[same, y])[1] is y
    assert torch.equal(y, -x)
    assert torch.equal(same, x)
    assert seen == [x.data_ptr(), same.data_ptr(), y.data_ptr()]
    (_, made) = executable(x)
    assert torch.equal(torch.from_dlpack(made), -x)
    with pytest.raises(ArgumentError, match="does not share its memory"):
        executable(x.requires_grad_())


# --- threads ------------------------------------------------------------------------------------

_LARGE = """
def main(x: float32[256, 256]):
    w = constant(float32[256, 256])
    a = nn.dense(x, w)
    b = nn.relu(a)
    c = nn.dense(b, w)
    return c
"""


def test_runs_of_several_python_threads_do_not_mix() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((256, 256)).astype(np.float32) / 16
    executable = compile_model(parse_graph(_LARGE, {"w": w}))
    inputs = [rng.standard_normal((256, 256)).astype(np.float32) for _ in range(4)]
    expected = [executable(x)[0] for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            (made,) = executable(inputs[number], threads=1 + number % 2)
            if not np.allclose(made, expected[number], rtol=1e-4, atol=1e-4):
                wrong.append(number)

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(work, range(4)))
    assert wrong == []
    assert isinstance(executable, Executable)
    assert len(executable._frames) <= 4


def test_the_number_of_threads_is_for_one_call(net: CompiledModel) -> None:
    before = pool.num_threads()
    net(_IMAGE, _SCALE, threads=1)
    assert pool.num_threads() == before
    for count, message in [
        (0, "threads: expected a number of threads from 1 to 256, got 0"),
        ("two", "threads: expected a whole number of threads, got 'two'"),
    ]:
        with pytest.raises(ArgumentError) as caught:
            net(_IMAGE, _SCALE, threads=count)
        assert str(caught.value) == message


# --- memory -------------------------------------------------------------------------------------


def test_constants_are_not_kept_beside_their_packed_form() -> None:
    class Weight(np.ndarray[Any, Any]):
        """Can be referred to weakly."""

    w = np.zeros((256, 256), np.float32).view(Weight)
    gone = weakref.ref(w)
    graph = parse_graph(_LARGE, {"w": w})
    executable = compile_model(graph)
    (value,) = executable.graph.constants
    with pytest.raises(GraphError) as caught:
        executable.graph.constants[value]
    assert str(caught.value) == (
        "the model has constant w in packed form only; take it from the graph that was compiled"
    )
    del w, graph
    gc.collect()
    assert gone() is None
    assert "w = constant(float32[256, 256])" in executable.graph.script()
