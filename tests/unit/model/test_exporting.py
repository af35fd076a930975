"""Exported models: called as C calls them, by ctypes and by a compiled C program."""

from __future__ import annotations

import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.host import system_compiler
from tilewright.errors import RuntimeFailure
from tilewright.graph import parse_graph
from tilewright.model import CompiledModel, Executable, ExternalCall, compile_model
from tilewright.target import Target

_NET = """
def net(x: float32[2, 3, 8, 8], keep: bool[2, 4]):
    w = constant(float32[8, 3, 3, 3])
    v = constant(float32[4, 288])
    half = constant(float16[4])
    conv = nn.conv2d(x, w)
    active = nn.relu(conv)
    flat = reshape(active, newshape=[2, 288])
    dense = nn.dense(flat, v)
    zero = constant(float32[()])
    chosen = where(keep, dense, zero)
    return chosen, flat, half, x, chosen
"""


def _net() -> CompiledModel:
    rng = np.random.default_rng(5)
    constants: dict[str, Any] = {
        "w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "v": rng.standard_normal((4, 288)).astype(np.float32),
        "half": rng.standard_normal(4).astype(np.float16),
    }
    return compile_model(parse_graph(_NET, constants))


@pytest.fixture(scope="module")
def net() -> CompiledModel:
    return _net()


@pytest.fixture(scope="module")
def exported(net: CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return net.export_library(tmp_path_factory.mktemp("libraries") / "my-net.so")


def _addresses(arrays: list[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def _run(library: Any, net: CompiledModel, inputs: list[Any]) -> list[Any]:
    outputs = [np.empty(info.shape, info.element_type) for info in net.program.outputs]
    assert library.my_net_run(_addresses(inputs), _addresses(outputs)) == 0
    return outputs


def _inputs(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
    return [x, rng.integers(0, 2, (2, 4)).astype(bool)]


def test_the_library_computes_what_the_model_computes(
    net: CompiledModel, exported: tuple[Path, ...]
) -> None:
    library = ctypes.CDLL(str(exported[0]))
    for seed in range(3):
        inputs = _inputs(seed)
        for ours, expected in zip(_run(library, net, inputs), net(*inputs), strict=True):
            np.testing.assert_array_equal(ours, expected)
    library.my_net_set_num_threads(1)
    assert library.my_net_num_threads() == 1


def test_threads_of_a_program_do_not_disturb_each_other(
    net: CompiledModel, exported: tuple[Path, ...]
) -> None:
    library = ctypes.CDLL(str(exported[0]))
    wrong: list[int] = []

    def work(seed: int) -> None:
        inputs = _inputs(seed)
        expected = net(*inputs)
        for _ in range(50):
            made = _run(library, net, inputs)
            if not all(map(np.array_equal, made, expected)):
                wrong.append(seed)

    with ThreadPoolExecutor(3) as workers:
        list(workers.map(work, range(3)))
    assert wrong == []


def test_a_missing_array_has_a_status(exported: tuple[Path, ...]) -> None:
    library = ctypes.CDLL(str(exported[0]))
    x = np.zeros((2, 3, 8, 8), np.float32)
    inputs = (ctypes.c_void_p * 2)(x.ctypes.data, None)
    outputs = (ctypes.c_void_p * 5)(*[x.ctypes.data] * 5)
    assert library.my_net_run(inputs, outputs) == -1


def test_the_header(exported: tuple[Path, ...]) -> None:
    library, header, example = exported
    assert [path.name for path in exported] == ["my-net.so", "my-net.h", "my-net_example.c"]
    assert sorted(library.parent.iterdir()) == sorted(exported)
    text = header.read_text()
    first = " ".join(text.partition("*/")[0].replace(" * ", " ").split())
    target = Target("llvm")
    assert f", {target.mcpu} with " in first
    assert set(first.partition(" with ")[2].strip(". ").split(", ")) <= set(target.features)
    assert "avx2" in first or "avx2" not in target.features
    for line in [
        "#define MY_NET_INPUTS 2",
        "#define MY_NET_OUTPUT_BYTES {32, 2304, 8, 1536, 32}",
        " *   inputs[0] x: float32[2, 3, 8, 8], float, 1536 bytes",
        " *   outputs[2] half: float16[4], uint16_t (the bits of a float16), 8 bytes",
        "int32_t my_net_run(const void *const *inputs, void *const *outputs);",
    ]:
        assert line in text.splitlines()
    assert "my_net_run(inputs, outputs)" in example.read_text()


@pytest.mark.skipif(system_compiler.find() is None, reason="there is no C compiler")
def test_a_c_program_runs_the_model(net: CompiledModel, exported: tuple[Path, ...]) -> None:
    library, _, example = exported
    compiler = system_compiler.find()
    assert compiler is not None
    program = library.parent / "program"
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", str(example), str(library)]
    subprocess.run([*command, "-Wl,-rpath,$ORIGIN", "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, env={})
    x = (np.arange(384) % 7).astype(np.float32).reshape(2, 3, 8, 8)
    keep = (np.arange(8) % 2).astype(bool).reshape(2, 4)
    expected = net(x, keep)
    first, *shown = done.stdout.splitlines()
    assert first == "my_net_run: status 0"
    for number in (0, 1, 3, 4):
        assert float(shown[number].split()[-1]) == pytest.approx(float(expected[number].flat[0]))


def test_a_model_without_kernels(tmp_path: Path) -> None:
    text = "def main(x: float32[4]):\n    y = reshape(x, newshape=[2, 2])\n    return y\n"
    compile_model(parse_graph(text)).export_library(tmp_path / "views.so")
    library = ctypes.CDLL(str(tmp_path / "views.so"))
    x, y = np.arange(4, dtype=np.float32), np.zeros((2, 2), np.float32)
    assert library.views_run(_addresses([x]), _addresses([y])) == 0
    np.testing.assert_array_equal(y, x.reshape(2, 2))


def test_what_cannot_be_exported(net: CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        net.export_library(tmp_path / "net.dll")
    assert str(caught.value) == "cannot export net.dll: expected a name that ends in .so"
    with pytest.raises(RuntimeFailure) as caught:
        net.export_library(tmp_path / "no" / "net.so")
    assert str(caught.value) == (f"cannot export {tmp_path}/no/net.so: No such file or directory")
    graph = parse_graph("def main(x: float32[4]):\n    y = exp(x)\n    return y\n")
    call = ExternalCall("slow_exp", lambda a: a, graph.inputs, graph.outputs)
    with pytest.raises(RuntimeFailure) as caught:
        Executable(graph, [call]).export_library(tmp_path / "net.so")
    assert str(caught.value) == (
        "cannot export net.so: Python functions run slow_exp; only kernels can be saved"
    )
    assert list(tmp_path.iterdir()) == []
