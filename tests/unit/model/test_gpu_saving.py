"""Models for a GPU in files: saved without one, loaded where one of their architecture is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tilewright import driver, ir
from tilewright.errors import RuntimeFailure
from tilewright.graph import GraphBuilder, TensorType
from tilewright.model import compile_model, load, saving
from tilewright.model.gpu_executable import GpuExecutable
from tilewright.model.kernels import KernelCall, ModelKernel, groups_of, program_of
from tilewright.model.program import Packing
from tilewright.runtime import cuda
from tilewright.script import from_source
from tilewright.testing.fake_gpu import FakeDriver, NoDriver, installed
from tilewright.testing.sums_on_gpu import COUNT, driver_of_sums, expected, floats, random, sums

pytest.importorskip("cuda.bindings.nvrtc")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written on a machine without a GPU."""
    with installed(NoDriver()):
        model = compile_model(sums(), "nvidia/nvidia-h200")
        return model.save(tmp_path_factory.mktemp("models") / "sums.twm")


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    fake = driver_of_sums()
    with installed(fake):
        yield fake


def test_a_loaded_model_runs_as_the_saved_one(saved: Path, gpu: FakeDriver) -> None:
    model, x = load(saved), random(1)
    for found, wanted in zip(model(x), expected(x.numpy()), strict=True):
        assert found.device == cuda(0)
        np.testing.assert_array_equal(found.numpy(), wanted)
    assert model.device == cuda(0)
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert [step.name for step in model.profile(x)] == ["fused_add"] * 3
    assert len(list(model.trace(x))) == 3


def refusal(path: Path) -> str:
    with pytest.raises(RuntimeFailure) as caught:
        load(path)
    return str(caught.value).removeprefix(f"cannot load {path}: ")


def test_without_a_gpu_it_says_what_is_missing(saved: Path) -> None:
    with installed(NoDriver()):
        assert refusal(saved) == (
            "its kernels run on an NVIDIA GPU (sm_90a), and no NVIDIA driver was found; install "
            "one that supports CUDA 12.0 or later"
        )


def test_another_architecture_is_refused(saved: Path) -> None:
    other = FakeDriver(name="NVIDIA A100")
    other.attributes |= {"COMPUTE_CAPABILITY_MAJOR": 8}
    with installed(other):
        assert refusal(saved) == (
            "it was compiled for sm_90a, but cuda:0 is NVIDIA A100 (sm_80); compile it for this "
            "machine"
        )
    assert not [call for call in other.calls if call[0] == "cuLibraryLoadData"]


def test_damage_is_seen(saved: Path, tmp_path: Path, gpu: FakeDriver) -> None:
    data, copy = saved.read_bytes(), tmp_path / "damaged.twm"
    kernels = data.index(b"\x7fELF")
    for at in (20, 100, kernels, kernels + 500, len(data) - COUNT):
        copy.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        assert refusal(copy)
    copy.write_bytes(data[:-100])
    assert "the file was cut off or changed" in refusal(copy)


# --- constants that the GPU packs ---------------------------------------------------------------

_SUM = """
@T.prim_func
def main(x: T.Buffer((64,), "float32"), w: T.Buffer((64,), "float32"),
         y: T.Buffer((64,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.thread_binding(64, thread="threadIdx.x"):
        y[i] = x[i] + w[i]
"""
_PACK = """
@T.prim_func
def pack(w: T.Buffer((8, 8), "float32"), packed: T.Buffer((64,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.thread_binding(64, thread="threadIdx.x"):
        packed[i] = w[7 - i // 8, i % 8]
"""


def turned(shape: tuple[int, ...], arguments: list[int]) -> None:
    source, target = map(floats, arguments[:2])
    target[:] = source.reshape(8, 8)[::-1].reshape(-1)


def as_function(text: str) -> ir.PrimFunc:
    func = from_source(text)
    assert isinstance(func, ir.PrimFunc)
    return func


def packing_model() -> GpuExecutable:
    """`x + w`, by a kernel that takes the rows of `w` from the last to the first."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType((COUNT,), "float32"))
    w = builder.constant(np.arange(COUNT, dtype="float32"))
    graph = builder.graph([builder.call("add", x, w)])
    (group,) = groups_of(graph)
    functions = {"main": as_function(_SUM), "main.pack.1": as_function(_PACK)}
    module = ir.IRModule(
        {name: f.with_attr("global_symbol", name) for name, f in functions.items()}
    )
    compiled = driver.load(driver.compile_only(module, "nvidia/nvidia-h200"))
    kernel = ModelKernel(program_of(group, graph), compiled)
    return GpuExecutable(graph, [KernelCall(kernel, group, (*group.inputs, *group.outputs))])


def test_constants_are_packed_on_the_gpu_once(tmp_path: Path, gpu: FakeDriver) -> None:
    gpu.kernels["main_pack_1_kernel"] = turned
    made = packing_model()
    assert made.program.packings == (Packing(0, 1, 0),)
    assert made.memory_bytes == 4 * COUNT
    path = made.save(tmp_path / "packs.twm")
    x = random(2)
    want = x.numpy() + np.arange(COUNT, dtype="float32").reshape(8, 8)[::-1].reshape(-1)
    for model in (made, load(path)):
        for _ in range(2):
            np.testing.assert_array_equal(model(x)[0].numpy(), want)
    launched = [call[1] for call in gpu.calls if call[0] == "cuLaunchKernel"]
    assert launched.count("main_pack_1_kernel") == 2


def test_packings_of_a_file_are_checked(tmp_path: Path, gpu: FakeDriver) -> None:
    made = packing_model()
    program = dataclasses.replace(made.program, packings=(Packing(0, 1, 7),))
    path = saving.save(
        tmp_path / "bad.twm", dataclasses.replace(made._plan, program=program), made.graph.script()
    )
    assert refusal(path) == "its steps reach outside of its memory; save it again"
