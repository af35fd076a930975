"""Models on a GPU, down to a driver that is none: addresses, graphs, copies, refusals.

What kernels compute is checked on the emulator and on real GPUs; here they are Python's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentError, DeviceError
from tilewright.graph import Graph, GraphBuilder, TensorType
from tilewright.model import compile_model
from tilewright.model.gpu_api import gpu_tasks
from tilewright.model.gpu_executable import GpuExecutable
from tilewright.runtime import cuda, ndarray as nd
from tilewright.target import Target
from tilewright.testing.fake_gpu import FakeDriver, NoDriver, installed

pytest.importorskip("cuda.bindings.nvrtc")
COUNT = 64


def sums() -> Graph:
    """`a = x + c`, `p = a + d`, `q = a + c`: three launches of one kernel.

    Outputs are two values, a view of one, an input and a constant.
    """
    builder = GraphBuilder()
    x = builder.input("x", TensorType((COUNT,), "float32"))
    c, d = (builder.constant(np.arange(COUNT, dtype="float32") * n) for n in (1, 100))
    a = builder.call("add", x, c)
    p, q = (builder.call("add", a, other) for other in (d, c))
    seen = builder.call("reshape", q, newshape=[8, 8])
    return builder.graph([p, q, seen, x, c])


def expected(x: Any) -> list[Any]:
    c = np.arange(COUNT, dtype="float32")
    return [x + 101 * c, x + 2 * c, (x + 2 * c).reshape(8, 8), x, c]


def floats(pointer: int) -> Any:
    address = ctypes.c_uint64.from_address(pointer).value
    return np.ctypeslib.as_array((ctypes.c_float * COUNT).from_address(address))


def add(shape: tuple[int, ...], arguments: list[int]) -> None:
    left, right, result = map(floats, arguments)
    result[:] = left + right


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    fake = FakeDriver(parameter_count=3, keeps_arguments=True)
    fake.kernels = {"main_kernel": add}
    with installed(fake):
        yield fake


@pytest.fixture
def model(gpu: FakeDriver) -> GpuExecutable:
    made: Any = compile_model(sums(), "nvidia/nvidia-h200")
    assert isinstance(made, GpuExecutable)
    return made


def counted(gpu: FakeDriver, *names: str) -> int:
    return sum(call[0] in names for call in gpu.calls)


def check(model: GpuExecutable, x: Any) -> None:
    made = model(x)
    for found, wanted in zip(made, expected(x.numpy()), strict=True):
        assert found.device == cuda(0)
        np.testing.assert_array_equal(found.numpy(), wanted)


def random(seed: int) -> Any:
    values = np.random.default_rng(seed).integers(-99, 99, COUNT).astype("float32")
    return nd.array(values, cuda(0))


def test_results_and_one_graph_for_arrays_that_come_again(
    model: GpuExecutable, gpu: FakeDriver
) -> None:
    x = random(1)
    assert len({id(call.kernel) for call in model.calls}) == 1
    for _ in range(3):
        check(model, x)
    assert counted(gpu, "cuGraphInstantiate") == 1
    x.copyfrom(random(2))
    check(model, x)
    assert counted(gpu, "cuGraphInstantiate") == 1
    assert counted(gpu, "cuGraphLaunch") == 4
    # One run before the graph is made, and one into it.
    assert counted(gpu, "cuLaunchKernel") == 6


def test_arrays_that_keep_changing_are_copied(model: GpuExecutable, gpu: FakeDriver) -> None:
    kept = []
    for seed in range(14):
        kept.append(random(seed))
        kept += model(kept[-1])
        check(model, kept[-6])
    assert counted(gpu, "cuGraphInstantiate") == 9


def test_profile_names_kernels_and_times_them(model: GpuExecutable) -> None:
    steps = model.profile(random(1))
    assert [step.name for step in steps] == ["fused_add"] * 3
    assert all(step.seconds == pytest.approx(0.5e-3) for step in steps)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            lambda: np.zeros(COUNT, "float32"),
            "input x: the array is on cpu, expected it on cuda:0; "
            "tilewright.nd.array(x, tilewright.cuda()) copies it",
        ),
        (
            lambda: nd.empty((COUNT,), "float16", cuda(0)),
            "input x: expected float32[64], got float16[64]",
        ),
        (
            lambda: nd.empty((8, 8), "float32", cuda(0)),
            "input x: expected float32[64], got float32[8, 8]",
        ),
        (lambda: "no array", "input x: expected float32[64], got str"),
    ],
)
def test_inputs_are_checked(model: GpuExecutable, given: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        model(given())
    assert str(caught.value) == message


def test_the_number_of_inputs_is_checked(model: GpuExecutable) -> None:
    with pytest.raises(ArgumentError) as caught:
        model()
    assert str(caught.value) == "main takes 1 inputs (x: float32[64]), got 0"


def test_compiling_needs_no_gpu_but_running_does() -> None:
    with installed(NoDriver()):
        made = compile_model(sums(), "nvidia/nvidia-h200")
        with pytest.raises(DeviceError, match="no NVIDIA driver was found"):
            made(np.zeros(COUNT, "float32"))


def test_tasks_leave_out_kernels_that_are_written_out() -> None:
    builder = GraphBuilder()
    shape = TensorType((1, 2, 8, 32), "float16")
    q, k, v = (builder.input(name, shape) for name in "qkv")
    mixed = builder.call("nn.attention", q, k, v)
    graph = builder.graph([builder.call("nn.softmax", mixed)])
    tasks = gpu_tasks(graph, Target("nvidia/nvidia-h200"))
    weights = {task.task_name: task.weight for task in tasks}
    assert weights == {"fused_transpose": 3, "fused_transpose_1": 1, "fused_nn_softmax": 1}
