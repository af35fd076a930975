"""Commands on files of ONNX: good ones, and damaged or hostile ones, which give one line each."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

TARGET = ("--target", "llvm -num-cores=2")
COMMANDS = [("inspect",), ("tune", "--trials", "1"), ("bench",), ("check",), ("build",)]


def model(
    nodes: list[Any] | None = None,
    shape: tuple[int | str, ...] = (4, 8),
    weight: Any = None,
    opset: int = 20,
) -> Any:
    """A product and an activation, or other nodes."""
    array = np.ones((8, 8), np.float32) if weight is None else weight
    made = helper.make_graph(
        nodes or [
            helper.make_node("MatMul", ["x", "w"], ["h"], name="fc"),
            helper.make_node("Relu", ["h"], ["y"], name="act"),
        ],
        "main",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, list(shape))],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, "w")],
    )  # fmt: skip
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    )  # fmt: skip


def write(made: Any, name: str = "m.onnx") -> None:
    Path(name).write_bytes(made.SerializeToString())


def test_openvino_computes_in_single_precision(command: Any) -> None:
    """By itself it takes bfloat16 where the processor has it, and is no fair rival then."""
    pytest.importorskip("openvino")
    write(model(shape=(64, 64), weight=np.random.default_rng(0).random((64, 64), np.float32)))
    lines = command("bench", "m.onnx", "--against", "openvino", *TARGET).lines
    (row,) = [line for line in lines if line.startswith("openvino ")]
    assert row.endswith(" agree")


def test_a_good_file(command: Any, made_up_runner: Any) -> None:
    write(model())
    assert "unsupported operators: none" in command("inspect", "m.onnx").lines
    assert re.search(
        r"^m agrees with (onnxruntime|plain loops)$",
        command("check", "m.onnx", *TARGET).out,
        re.MULTILINE,
    )
    lines = command("tune", "m.onnx", "--trials", "4", "--seed", "1", *TARGET).lines
    assert "saved as m.twm" in lines
    assert re.match(
        r"tilewright +\S+ \S+ +1\.00 +agree", command("bench", "m.twm", *TARGET).lines[2]
    )


def test_dimensions_are_bound(command: Any) -> None:
    write(model(shape=("rows", 8)))
    done = command("inspect", "m.onnx", status=2)
    assert done.err == (
        "error: input x has dimension 'rows', whose size is not known: give --dim rows=1 or "
        "--shape x=AxBxC\n"
    )
    assert "input x: float32[3, 8]" in command("inspect", "m.onnx", "--dim", "rows=3").lines
    assert "input x: float32[5, 8]" in command("inspect", "m.onnx", "--shape", "x=5x8").lines


def test_operators_that_are_not_known(command: Any) -> None:
    """They are listed; a reference computes them where it can."""
    write(model([helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain="acme")]))
    done = command("inspect", "m.onnx", status=2)
    (line,) = done.err.splitlines()
    assert "Frobnicate" in line


def _noise() -> None:
    Path("m.onnx").write_bytes(b"\xff" * 100)


def _truncated() -> None:
    whole = model().SerializeToString()
    Path("m.onnx").write_bytes(whole[: len(whole) // 2])


def _empty() -> None:
    Path("m.onnx").write_bytes(b"")


def _folder() -> None:
    Path("m.onnx").mkdir()


def _external(place: str) -> Callable[[], None]:
    def make() -> None:
        made = model()
        tensor = made.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": place, "offset": "0", "length": "256"}.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        write(made)

    return make


def _short_data() -> None:
    Path("w.bin").write_bytes(b"\0" * 12)
    _external("w.bin")()


def _nan() -> None:
    write(model(weight=np.full((8, 8), np.nan, np.float32)))


def _cycle() -> None:
    write(
        model(
            [
                helper.make_node("Add", ["x", "b"], ["a"], name="first"),
                helper.make_node("Relu", ["a"], ["b"], name="second"),
                helper.make_node("Relu", ["b"], ["y"], name="third"),
            ]
        )
    )


def _changed(change: Callable[[Any], object]) -> Callable[[], None]:
    def make() -> None:
        made = model()
        change(made)
        write(made)

    return make


def _negative(made: Any) -> None:
    made.graph.initializer[0].dims[0] = -3


def _unknown_type(made: Any) -> None:
    made.graph.initializer[0].data_type = 99


def _node(op: str, *inputs: str, **attributes: Any) -> Callable[[], None]:
    node = helper.make_node(op, list(inputs), ["y"], name="n", **attributes)
    return lambda: write(model([node], shape=(1, 3, 8, 8), weight=np.ones((4, 5, 3, 3), "f4")))


AT = r"MatMul \(fc\): "  # the node that the tensor is read by

BAD: dict[str, tuple[Callable[[], None], str]] = {
    "noise": (_noise, r"m\.onnx cannot be read as an ONNX model: .+"),
    "truncated": (_truncated, r"m\.onnx cannot be read as an ONNX model: .+"),
    "empty": (_empty, r"m\.onnx cannot be read as an ONNX model: it has no graph of operators"),
    "folder": (_folder, r"there is no file m\.onnx"),
    "outside": (
        _external("../w.bin"),
        AT + r"tensor w: '\.\./w\.bin' is not inside the folder of .+",
    ),
    "absolute": (
        _external("/etc/passwd"),
        AT + r"tensor w: '/etc/passwd' is not inside the folder .+",
    ),
    "missing data": (_external("w.bin"), AT + r"tensor w: its data file w\.bin is missing"),
    "short data": (_short_data, AT + r"tensor w needs 256 bytes at 0 of w\.bin, which has 12"),
    "unknown version": (lambda: write(model(opset=99)), r"the model uses version 99 of ONNX's .+"),
    "NaN": (_nan, r"MatMul \(fc\): its weight 'w' contains NaN"),
    "cycle": (_cycle, r"Add \(first\).* 'b'.*"),
    "wrong shapes": (
        lambda: write(model(shape=(4, 9))),
        r"MatMul \(fc\): nn\.matmul of float32\[4, 9\], float32\[8, 8\]: .+",
    ),
    "wrong channels": (_node("Conv", "x", "w"), r"Conv \(n\): nn\.conv2d of .*differ: 3 and 5"),
    "wrong axis": (_node("Softmax", "x", axis=7), r"Softmax \(n\): .*axis 7 is out of range.*"),
    "no such value": (_node("Relu", "z"), r"Relu \(n\) reads 'z', which nothing before it makes"),
    "negative shape": (_changed(_negative), AT + r"tensor w is damaged: its shape is \[-3, 8\]"),
    "unknown type": (_changed(_unknown_type), AT + r"tensor w has elements of type number 99, .+"),
    "no outputs": (_changed(lambda m: m.graph.ClearField("output")), r"the model has no outputs.+"),
    "no version": (
        _changed(lambda m: m.ClearField("opset_import")),
        r"m\.onnx .+ which version .+",
    ),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda each: str(each[0]))
def test_one_line_and_nothing_left(command: Any, arguments: tuple[str, ...], what: str) -> None:
    make, message = BAD[what]
    make()
    before = {path.name for path in Path().iterdir()}
    first, *rest = arguments
    done = command(first, "m.onnx", *rest, status=2)
    (line,) = done.err.splitlines()
    assert re.fullmatch(f"error: {message}", line), line
    assert {path.name for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shape", "z=4x8"], "there is no input 'z'; the model has x"),
        (["--shape", "x=4x8x1"], "input x has 2 axes, --shape says 4, 8, 1"),
        (["--shape", "x=5x8"], "input x has an extent of 4, --shape says 5, 8"),
    ],
)
def test_shapes_that_do_not_fit(command: Any, options: list[str], message: str) -> None:
    write(model())
    assert command("inspect", "m.onnx", *options, status=2).err == f"error: {message}\n"


@pytest.mark.parametrize("cut", [0, 10, 40, 100, -1])
def test_damaged_saved_models(command: Any, cut: int) -> None:
    write(model())
    command("build", "m.onnx", *TARGET)
    whole = Path("m.twm").read_bytes()
    Path("m.twm").write_bytes(whole[:cut])
    (line,) = command("bench", "m.twm", *TARGET, status=2).err.splitlines()
    assert line.startswith("error: ")
    assert "m.twm" in line
