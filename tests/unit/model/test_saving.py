"""Models in files: they run as before, map their constants, and bad files are refused in words."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tilewright.byoc import ExternalFunction, ExternalPart, external_backends
from tilewright.errors import ArgumentError, GraphError, RuntimeFailure
from tilewright.graph import parse_graph
from tilewright.model import (
    CompiledModel,
    Executable,
    ExternalCall,
    LoadedModel,
    RunnableModel,
    compile_model,
    load,
    planning,
)
from tilewright.runtime.cpu_device import aligned_memory

_NET = """
def net(x: float32[2, 3, 8, 8], keep: bool[2, 4]):
    w = constant(float32[8, 3, 3, 3])
    b = constant(float32[8, 1, 1])
    v = constant(float32[4, 288])
    half = constant(float16[4])
    conv = nn.conv2d(x, w)
    moved = add(conv, b)
    active = nn.relu(moved)
    flat = reshape(active, newshape=[2, 288])
    dense = nn.dense(flat, v)
    small = cast(dense, dtype="float16")
    scaled = multiply(small, half)
    zero = constant(float16[()])
    chosen = where(keep, scaled, zero)
    return chosen, flat, half, x, chosen
"""


def _constants() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "b": rng.standard_normal((8, 1, 1)).astype(np.float32),
        "v": rng.standard_normal((4, 288)).astype(np.float32),
        "half": rng.standard_normal(4).astype(np.float16),
    }


def _inputs() -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
    return x, rng.integers(0, 2, (2, 4)).astype(bool)


@pytest.fixture(scope="module")
def net() -> CompiledModel:
    return compile_model(parse_graph(_NET, _constants()))


@pytest.fixture(scope="module")
def saved(net: CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return net.save(tmp_path_factory.mktemp("models") / "net.tilewright")


def _assert_same(loaded: RunnableModel, net: CompiledModel) -> None:
    for ours, expected in zip(loaded(*_inputs()), net(*_inputs()), strict=True):
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(ours, expected)


def test_a_loaded_model_runs_as_the_saved_one(net: CompiledModel, saved: Path) -> None:
    loaded = load(saved)
    _assert_same(loaded, net)
    assert loaded.graph.script() == net.graph.script()
    assert loaded.memory_bytes == net.memory_bytes
    assert [step.name for step in loaded.profile(*_inputs())] == [
        step.name for step in net.program.steps
    ]
    with pytest.raises(ArgumentError, match=r"^input x: expected float32\[2, 3, 8, 8\], got"):
        loaded(np.zeros(3), np.zeros(3))
    with pytest.raises(GraphError, match=r"^the model has constant w in packed form only; take"):
        loaded.graph.constants[next(iter(loaded.graph.constants))]


def test_files_do_not_depend_on_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packers leave padding (here 8 filters in a vector of 16) as it is; it has to be zero."""

    def poisoned(shape: tuple[int, ...], dtype: Any) -> Any:
        array = aligned_memory(shape, dtype)
        array[...] = 77
        return array

    monkeypatch.setattr(planning, "aligned_memory", poisoned)
    text = """
def main(x: float32[2, 3, 32, 32]):
    w = constant(float32[8, 3, 3, 3])
    y = nn.conv2d(x, w, strides=2, padding=1)
    return y
"""
    executable = compile_model(parse_graph(text, {"w": np.ones((8, 3, 3, 3), np.float32)}))
    assert isinstance(executable, Executable)
    assert {float(number) for array in executable._constants for number in array.flat} <= {0, 1}


def test_constants_are_mapped_and_aligned(saved: Path) -> None:
    model = load(saved)
    assert isinstance(model, LoadedModel)
    for array in model._constants:
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert array.ctypes.data % 64 == 0


def test_several_models_at_once(net: CompiledModel, saved: Path, tmp_path: Path) -> None:
    """Each has code of its own, though all are loaded from files that are closed at once."""
    models = []
    for op in ("negative", "exp", "abs"):
        text = f"def main(x: float32[4]):\n    y = {op}(x)\n    return y\n"
        models.append(load(compile_model(parse_graph(text)).save(tmp_path / op)))
    x = np.array([-1, 0, 1, 2], np.float32)
    negative, exp, absolute = (model(x)[0] for model in models)
    np.testing.assert_array_equal(negative, -x)
    np.testing.assert_allclose(exp, np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(absolute, np.abs(x))
    _assert_same(load(saved), net)


def test_a_model_without_kernels(tmp_path: Path) -> None:
    text = "def main(x: float32[4]):\n    y = reshape(x, newshape=[2, 2])\n    return y\n"
    loaded = load(compile_model(parse_graph(text)).save(tmp_path / "views"))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(loaded(x)[0], x.reshape(2, 2))


def test_a_file_can_be_replaced_while_its_model_runs(net: CompiledModel, tmp_path: Path) -> None:
    path = net.save(tmp_path / "net")
    loaded = load(path)
    text = "def main(x: float32[4]):\n    y = exp(x)\n    return y\n"
    compile_model(parse_graph(text)).save(path)
    _assert_same(loaded, net)
    assert [info.name for info in load(path).program.inputs] == ["x"]
    assert [file.name for file in tmp_path.iterdir()] == ["net"]


_CHILD = """
import sys
from pathlib import Path
from tilewright.codegen.llvm import compiler
def refused(*args, **options):
    raise AssertionError("compiled")
compiler.compile_ir = refused
import tilewright.codegen.host.native as native
native.compile_ir = native.load_permanently = refused
from tilewright.model import load
import numpy as np
from tilewright.runtime import threads
model = load(Path(sys.argv[1]))
made = model(np.ones((2, 3, 8, 8), np.float32), np.ones((2, 4), bool))
print(float(np.abs(made[0].astype(np.float64)).sum()), threads.num_threads() >= 1)
names = ("graph", "schedule", "space", "tune")
print(*(name for name in names if f"tilewright.{name}" in sys.modules))
"""


def test_a_fresh_process_compiles_nothing(net: CompiledModel, saved: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(saved)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = net(np.ones((2, 3, 8, 8), np.float32), np.ones((2, 4), bool))
    expected = float(np.abs(made[0].astype(np.float64)).sum())
    assert done.stdout.split() == [str(expected), "True"]


# --- bad files ----------------------------------------------------------------------------------


def _refusal(path: Path) -> str:
    with pytest.raises(RuntimeFailure) as caught:
        load(path)
    start = f"cannot load {path}: "
    assert str(caught.value).startswith(start)
    return str(caught.value)[len(start) :]


def _changed(saved: Path, path: Path, change: Callable[[bytearray], None]) -> Path:
    data = bytearray(saved.read_bytes())
    change(data)
    path.write_bytes(data)
    return path


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "model"
    assert _refusal(path) == "No such file or directory"
    assert _refusal(tmp_path) == "Is a directory"
    path.write_bytes(b"")
    assert _refusal(path) == "it is empty"
    for data in (b"x", b"\x80\x04pickle" * 30, b"tilewright model"):
        path.write_bytes(data)
        assert _refusal(path) == "it is not a model written by Executable.save"


def test_every_changed_byte_is_found(saved: Path, tmp_path: Path) -> None:
    """In the head, the description, the kernels, the runtime and the constants."""
    data = saved.read_bytes()
    _, _, _, length, size = struct.unpack_from("<16sIIQQ", data)
    start = -(-(64 + length) // 4096) * 4096
    description = msgspec.json.decode(data[64 : 64 + length])
    blocks = [
        description["code"]["kernels"], description["code"]["runtime"],
        description["constants_block"],
    ]  # fmt: skip
    places = [20, 64, 64 + length // 2, 63 + length]
    places += [start + b["offset"] + at for b in blocks for at in (0, b["size"] // 2)]
    places += [start + b["offset"] + b["size"] - 1 for b in blocks]
    assert max(places) == size - 1
    for place in places:

        def change(data: bytearray, place: int = place) -> None:
            data[place] ^= 1

        assert _refusal(_changed(saved, tmp_path / "bad", change)) == (
            "the file is damaged or was changed after it was saved; save it again"
        )


@pytest.mark.parametrize("share", [0.002, 0.01, 0.3, 0.9, 0.9999])
def test_files_that_were_cut_off(saved: Path, tmp_path: Path, share: float) -> None:
    data = saved.read_bytes()
    path = tmp_path / "short"
    path.write_bytes(data[: int(len(data) * share)])
    assert _refusal(path) == (
        f"it has {int(len(data) * share)} bytes, expected {len(data)}; the file was cut off or "
        "changed"
    )


def test_another_format(saved: Path, tmp_path: Path) -> None:
    path = _changed(saved, tmp_path / "new", lambda data: struct.pack_into("<I", data, 16, 9))
    assert _refusal(path) == ("it has format 9, this version of Tilewright reads 1; save it again")


def _with_description(saved: Path, path: Path, change: Callable[[Any], None]) -> Path:
    def apply(data: bytearray) -> None:
        marker, kind, _, length, size = struct.unpack_from("<16sIIQQ", data)
        description = msgspec.json.decode(data[64 : 64 + length])
        description["graph"] = ""  # makes room
        change(description)
        text = msgspec.json.encode(description).ljust(length)
        assert len(text) == length
        data[64 : 64 + length] = text
        struct.pack_into("<16sIIQQ", data, 0, marker, kind, zlib.crc32(text), length, size)

    return _changed(saved, path, apply)


def test_another_processor(saved: Path, tmp_path: Path) -> None:
    def change(description: Any) -> None:
        description["machine"]["features"] = ["avx99"]
        description["machine"]["cpu"] = "future"

    assert _refusal(_with_description(saved, tmp_path / "other", change)).startswith(
        "it was compiled for future with avx99, which this machine's "
    )

    def foreign(description: Any) -> None:
        description["machine"]["triple"] = "arm-unknown-linux"
        description["machine"]["features"] = []

    assert _refusal(_with_description(saved, tmp_path / "arm", foreign)).startswith(
        "it was compiled for arm-unknown-linux, this machine is x86_64"
    )


def test_a_description_that_says_something_else(saved: Path, tmp_path: Path) -> None:
    def without(description: Any) -> None:
        del description["program"]["steps"]

    assert _refusal(_with_description(saved, tmp_path / "less", without)).startswith(
        "its description: Object missing required field `steps`"
    )

    def beyond(description: Any) -> None:
        description["constants_block"]["offset"] = 61440

    assert "damaged" in _refusal(_with_description(saved, tmp_path / "far", beyond))

    def outside(description: Any) -> None:
        description["constants_at"][-1] = 99999

    assert _refusal(_with_description(saved, tmp_path / "out", outside)) == (
        "its constants: TypeError('buffer is too small for requested array')"
    )


def _set(*path: Any, value: Any) -> Callable[[Any], None]:
    def change(description: Any) -> None:
        for key in path[:-1]:
            description = description[key]
        description[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("program", "steps", 0, "kernel", value=9),
        _set("program", "steps", 0, "kernel", value=-2),
        _set("program", "arena_bytes", value=0),
        _set("program", "steps", 0, "arguments", 0, "index", value=9),
        _set("program", "steps", 0, "arguments", value=[]),
        _set("program", "results", value=[]),
    ],
)
def test_steps_that_reach_outside(
    saved: Path, tmp_path: Path, change: Callable[[Any], None]
) -> None:
    assert _refusal(_with_description(saved, tmp_path / "bad", change)) == (
        "its steps reach outside of its memory; save it again"
    )


# --- what cannot be saved -----------------------------------------------------------------------


def test_nothing_is_left_behind_when_saving_fails(net: CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        net.save(tmp_path / "missing" / "net")
    assert str(caught.value) == (f"cannot save {tmp_path}/missing/net: No such file or directory")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RuntimeFailure, match=r"^cannot save .*folder: Is a directory$"):
        net.save(tmp_path / "folder")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_leaves_the_old_file(
    net: CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net"
    path.write_bytes(b"old")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RuntimeFailure) as caught:
        net.save(path)
    assert str(caught.value) == f"cannot save {path}: No space left on device"
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["net"]


@external_backends.register("test.scaling")
def _scaling(part: ExternalPart) -> ExternalFunction:
    """Multiplies by a number in the program, and by the constants."""

    def run(arrays: Sequence[Any]) -> list[Any]:
        return [arrays[0] * np.float32(part.program) * part.constants[1]]

    return run


_EXTERNAL = """
def main(x: float32[4]):
    w = constant(float32[4])
    a = exp(x)
    b = external(a, w, backend="test.scaling", program="2.5", results=[["float32", [4]]])
    c = add(b, w)
    return c
"""


def test_steps_that_a_library_runs_are_saved_as_what_they_are(tmp_path: Path) -> None:
    w, x = np.arange(4, dtype=np.float32), np.linspace(-1, 1, 4, dtype=np.float32)
    graph = parse_graph(_EXTERNAL, {"w": w})
    executable = compile_model(graph)
    expected = np.exp(x) * np.float32(2.5) * w + w
    assert executable.check(graph, x).is_right
    loaded = load(executable.save(tmp_path / "model"))
    for model in (executable, loaded):
        np.testing.assert_allclose(model(x)[0], expected, rtol=1e-6)
    with pytest.raises(RuntimeFailure) as caught:
        executable.export_library(tmp_path / "model.so")
    assert str(caught.value) == (
        "cannot export model.so: Python functions run test.scaling(b); only kernels can be saved"
    )


def test_external_steps_cannot_be_saved(tmp_path: Path) -> None:
    graph = parse_graph("def main(x: float32[4]):\n    y = exp(x)\n    return y\n")
    (node,) = graph.nodes
    call = ExternalCall("reference_exp", lambda a: [np.exp(a[0])], graph.inputs, node.outputs)
    with pytest.raises(RuntimeFailure) as caught:
        Executable(graph, [call]).save(tmp_path / "net")
    assert str(caught.value) == (
        "cannot save net: Python functions run reference_exp; only kernels can be saved"
    )
    assert list(tmp_path.iterdir()) == []
