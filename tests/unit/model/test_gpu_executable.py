"""Models on a GPU, down to a driver that is none: addresses, graphs, copies, refusals.

What kernels compute is checked on the emulator and on real GPUs; here they are Python's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentError, DeviceError, GraphError, RuntimeFailure
from tilewright.graph import GraphBuilder, TensorType
from tilewright.graph.external import add_external
from tilewright.model import CompiledModel, compile_model, served_by
from tilewright.model.compiled import results_of
from tilewright.model.gpu_api import GpuTuning
from tilewright.model.gpu_executable import GpuExecutable
from tilewright.runtime import cuda, ndarray as nd
from tilewright.target import Target
from tilewright.testing.fake_gpu import FakeDriver, NoDriver, installed
from tilewright.testing.sums_on_gpu import (
    COUNT,
    add,
    driver_of_sums,
    expected,
    floats,
    random,
    sums,
)

pytest.importorskip("cuda.bindings.nvrtc")


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    fake = driver_of_sums()
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
    assert all(step.share == pytest.approx(1 / 3) for step in steps)
    # 768 bytes from the cache of an H200, at twice the speed of its memory.
    assert steps[0].roofline_share == pytest.approx(768 / (2 * 4.9167e12) / 0.5e-3, rel=0.01)
    assert steps[0].bound == "memory"
    assert steps.seconds == pytest.approx(1.5e-3)
    assert "1.50 ms a run on NVIDIA H200" in str(steps)


def test_inputs_by_name_and_arrays_for_outputs(model: GpuExecutable) -> None:
    x = random(3)
    out = [nd.empty(info.shape, info.dtype, cuda(0)) for info in model.program.outputs]
    made = model.run({"x": x}, out=out)
    assert all(one is other for one, other in zip(made, out, strict=True))
    for found, wanted in zip(made, expected(x.numpy()), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_wrong_outputs(model: GpuExecutable) -> None:
    with pytest.raises(ArgumentError, match=r"main has 5 outputs .*, got 1 array for them"):
        model(random(1), out=[random(2)])
    out: list[Any] = [nd.empty(i.shape, i.dtype, cuda(0)) for i in model.program.outputs]
    out[1] = np.zeros(COUNT, "float32")
    with pytest.raises(
        ArgumentError, match=r"output .*: the array is on cpu, expected it on cuda:0"
    ):
        model(random(1), out=out)


def test_every_kernel_is_checked(model: GpuExecutable, gpu: FakeDriver) -> None:
    x = random(1)
    report = model.check(sums(), x)
    assert report.is_right
    assert len(report.kernels) == 3
    assert model.check(sums(), x.numpy()).is_right

    def wrong_once(shape: tuple[int, ...], arguments: list[int]) -> None:
        add(shape, arguments)
        result = floats(arguments[2])
        result += result[1] == x.numpy()[1] + 101  # just the second kernel

    gpu.kernels = {"main_kernel": wrong_once}
    wrong = model.check(sums(), x)
    assert not wrong.is_right
    assert [check.is_right for check in wrong.kernels] == [True, False, True]
    assert str(wrong).startswith("wrong kernel: ")


def test_it_is_a_compiled_model_as_those_of_the_cpu(model: GpuExecutable) -> None:
    on_gpu: CompiledModel = model
    on_cpu: CompiledModel = compile_model(sums())
    x = random(5).numpy()
    for ours, theirs in zip(results_of(on_gpu, [x]), results_of(on_cpu, [x]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert on_gpu.memory_bytes == 3 * 4 * COUNT  # two constants, and what lies between
    with pytest.raises(RuntimeFailure) as caught:
        model.export_library("sums.so")
    assert str(caught.value) == (
        "cannot export sums.so: libraries for C have kernels for the CPU, and these are for a GPU; "
        "save() writes a file that tilewright.model.load runs"
    )


def test_what_serves_the_kernels(model: GpuExecutable) -> None:
    assert served_by(model).summary() == "1 kernel: 1 without a record"


def test_operators_that_run_on_the_cpu_are_refused() -> None:
    builder = GraphBuilder()
    kind = TensorType((COUNT,), "float32")
    x = builder.input("x", kind)
    (y,) = add_external(builder, "torch", "{}", [x], [("y", kind)], "fancy")
    with pytest.raises(GraphError) as caught:
        compile_model(builder.graph([y]), "nvidia/nvidia-h200")
    assert str(caught.value) == (
        "main has no kernels for fancy, which run on the CPU; a model for a GPU needs kernels for "
        "all of its operators"
    )


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
    assert str(caught.value) == "main takes 1 input (x: float32[64]), got 0"


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
    tasks = GpuTuning(graph, Target("nvidia/nvidia-h200")).tasks
    weights = {task.task_name: task.weight for task in tasks}
    assert weights == {"fused_nn_softmax": 1}
