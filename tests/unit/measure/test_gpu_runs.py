# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call"
"""Candidates for a GPU, on a driver that is none: a CPU says what their results are to be."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tilewright.errors import DeviceError
from tilewright.ir import PrimFunc
from tilewright.measure.arguments import TensorSpec
from tilewright.measure.artifact import write_artifact
from tilewright.measure.evaluator import AdaptiveProtocol
from tilewright.measure.run_task import CandidateRuns, RunHooks, RunReport, RunRequest, Step
from tilewright.measure.tolerance import Rounding
from tilewright.runtime import ndarray
from tilewright.script import tir as T
from tilewright.testing import fake_gpu
from tilewright.testing.fake_gpu import FakeDriver, FakeStatus
from tilewright.testing.launched_modules import scale_twice, uncompiled

INFOS = (TensorSpec("float32", (512,)),) * 2
PROTOCOL = AdaptiveProtocol()


@T.prim_func
def times_six(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    for i in range(512):
        with T.block("B"):
            v = T.axis.spatial(512, i)
            B[v] = A[v] * T.float32(6)


@T.prim_func
def times_seven(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    for i in range(512):
        with T.block("B"):
            v = T.axis.spatial(512, i)
            B[v] = A[v] * T.float32(7)


def floats(address: int, count: int) -> Any:
    pointer = ctypes.c_uint64.from_address(address).value
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(pointer))


def scale_kernel(shape: tuple[int, ...], arguments: list[int]) -> None:
    a, b, factor, _ = arguments
    floats(b, 512)[:] = floats(a, 512) * ctypes.c_float.from_address(factor).value


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    fake = FakeDriver(parameter_count=4)
    fake.kernels = {"scale_kernel": scale_kernel, "dependent_kernel": scale_kernel}
    with fake_gpu.installed(fake):
        yield fake


@pytest.fixture
def candidate(gpu: FakeDriver, tmp_path: Path) -> str:
    """The artefact of a program for the GPU."""
    path = tmp_path / "candidate.twa"
    write_artifact(path, uncompiled(scale_twice), Rounding())
    return str(path)


def perform(kind: Any, *requests: RunRequest, rounds: int = 0) -> RunReport:
    encoded = CandidateRuns().perform(Step(kind, list(requests), rounds))
    if kind == "again":
        return msgspec.msgpack.decode(encoded, type=list[RunReport])[0]
    return msgspec.msgpack.decode(encoded, type=RunReport)


def test_a_right_candidate(candidate: str, artifact: Callable[[PrimFunc], str]) -> None:
    request = RunRequest(candidate, INFOS, 1, PROTOCOL, reference=artifact(times_six))
    for kind in ("run", "again"):
        report = perform(kind, request, rounds=3)
        assert (report.failure, report.message) == ("", "")
        assert report.checked
        assert all(secs > 0 for secs in report.run_secs)


def test_a_wrong_candidate(candidate: str, artifact: Callable[[PrimFunc], str]) -> None:
    request = RunRequest(candidate, INFOS, 1, PROTOCOL, reference=artifact(times_seven))
    for kind in ("run", "again"):
        report = perform(kind, request, rounds=3)
        assert report.failure == "wrong_result"
        assert report.message.startswith(
            "the result differs from that of the untransformed function: "
        )


def behind_the_end(shape: tuple[int, ...], arguments: list[int]) -> None:
    scale_kernel(shape, arguments)
    floats(arguments[1], 513)[512] = 1


def into_the_input(shape: tuple[int, ...], arguments: list[int]) -> None:
    scale_kernel(shape, arguments)
    floats(arguments[0], 512)[7] += 1


@pytest.mark.parametrize(
    ("name", "kernel", "message"),
    [
        (
            "dependent_kernel",
            behind_the_end,
            "it wrote out of bounds of argument 1, 0 bytes behind its end",
        ),
        ("scale_kernel", into_the_input, "it changed argument 0, which is an input"),
    ],
)
def test_writes_elsewhere(
    name: str,
    kernel: Any,
    message: str,
    candidate: str,
    gpu: FakeDriver,
    artifact: Callable[[PrimFunc], str],
) -> None:
    gpu.kernels[name] = kernel
    request = RunRequest(candidate, INFOS, 1, PROTOCOL, reference=artifact(times_six))
    report = perform("run", request)
    assert report.failure == "wrong_result"
    assert report.message.endswith(f"untransformed function: {message}")


def test_times_are_those_of_the_gpu(candidate: str) -> None:
    report = perform("run", RunRequest(candidate, INFOS, 1, PROTOCOL))
    (secs,) = report.run_secs
    assert secs == pytest.approx(2 * 0.5e-3)  # two kernels of half a millisecond each
    assert not report.checked


def test_arguments_of_the_users_own(candidate: str, gpu: FakeDriver) -> None:
    seen = []

    def allocate(device: Any, infos: Any, count: int) -> Any:

        seen.append((device.name, infos, count))
        return [[ndarray.array(np.ones(512, "float32"), device) for _ in infos]]

    request = RunRequest(candidate, INFOS, 1, PROTOCOL, hooks=RunHooks(f_alloc_argument=allocate))
    report = perform("run", request)
    assert report.failure == ""
    assert seen == [("cuda", [["TENSOR", "float32", [512]]] * 2, 1)]


def test_a_gpu_that_is_lost_is_no_failure_of_the_candidate(candidate: str, gpu: FakeDriver) -> None:
    gpu.failures["cuStreamSynchronize"] = FakeStatus.CUDA_ERROR_ILLEGAL_ADDRESS
    gpu.failures["cuCtxSynchronize"] = FakeStatus.CUDA_ERROR_ILLEGAL_ADDRESS
    gpu.failures["cuEventSynchronize"] = FakeStatus.CUDA_ERROR_ILLEGAL_ADDRESS
    for kind in ("look", "run", "again"):
        with pytest.raises(DeviceError) as error:
            perform(kind, RunRequest(candidate, INFOS, 1, PROTOCOL), rounds=2)
        assert error.value.is_lost
