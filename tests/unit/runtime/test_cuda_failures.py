"""GPUs that are missing, old, full or failing: one line that says what is wrong."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import tilewright as tw
from tilewright.codegen.cuda import loading
from tilewright.errors import ArgumentError, DeviceError
from tilewright.native import cuda_memory
from tilewright.native.cuda_driver import load_bindings
from tilewright.runtime import cuda, ndarray as nd
from tilewright.testing import fake_gpu
from tilewright.testing.fake_gpu import FakeDriver, FakeStatus, NoDriver
from tilewright.testing.faults import double
from tilewright.testing.launched_modules import scale, uncompiled


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    fake = FakeDriver(parameter_count=4)
    with fake_gpu.installed(fake):
        yield fake


# --- launches that fail --------------------------------------------------------------------------

LAUNCH = "scale_kernel cannot be launched with 1 × 1 × 1 blocks of 256 × 1 × 1 threads: "


@pytest.mark.parametrize(
    ("attributes", "kernel", "status", "reason"),
    [
        (
            {"MAX_THREADS_PER_BLOCK": 128},
            {},
            FakeStatus.CUDA_ERROR_INVALID_VALUE,
            "a block has 256 threads, NVIDIA H200 allows 128",
        ),
        (
            {},
            {"SHARED_SIZE_BYTES": 300000},
            FakeStatus.CUDA_ERROR_INVALID_VALUE,
            "a block has 300000 bytes of shared memory, NVIDIA H200 allows 232448",
        ),
        (
            {},
            {"NUM_REGS": 300},
            FakeStatus.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            "a block has 76800 registers, NVIDIA H200 allows 65536",
        ),
        (
            {},
            {},
            FakeStatus.CUDA_ERROR_INVALID_VALUE,
            "CUDA_ERROR_INVALID_VALUE (invalid value)",
        ),
        (
            {"MAX_THREADS_PER_BLOCK": 128},
            {},
            FakeStatus.CUDA_ERROR_ILLEGAL_ADDRESS,
            "CUDA_ERROR_ILLEGAL_ADDRESS (illegal address); this process cannot use the GPU any "
            "more, start it again",
        ),
    ],
)
def test_launches_that_fail(
    gpu: FakeDriver,
    attributes: dict[str, int],
    kernel: dict[str, int],
    status: FakeStatus,
    reason: str,
) -> None:
    a, b = (nd.zeros((8,), "float32", cuda()) for _ in range(2))
    gpu.attributes |= attributes
    gpu.kernel_attributes |= kernel
    gpu.failures["cuLaunchKernel"] = status
    with pytest.raises(DeviceError) as caught:
        uncompiled(scale)["scale"](a, b, 1.0)
    assert str(caught.value) == LAUNCH + reason
    assert caught.value.is_lost == (status == FakeStatus.CUDA_ERROR_ILLEGAL_ADDRESS)


# --- what is missing -----------------------------------------------------------------------------


DEVICES_MISSING = {
    "package": (
        DeviceError("the package cuda-bindings is missing; `pip install x` installs it"),
        "the package cuda-bindings is missing; `pip install x` installs it",
    ),
    "driver": (
        NoDriver(),
        "no NVIDIA driver was found; install one that supports CUDA 12.0 or later",
    ),
    "old": (
        FakeDriver(version=11080),
        "the NVIDIA driver supports CUDA 11.8, expected 12.0 or later; update the driver",
    ),
    "no device": (FakeDriver(device_count=0), "the NVIDIA driver finds no GPU"),
    "broken": (
        FakeDriver(failures={"cuInit": FakeStatus.CUDA_ERROR_NO_DEVICE}),
        "the NVIDIA driver does not start: CUDA_ERROR_NO_DEVICE (no device)",
    ),
}


@pytest.mark.parametrize("case", DEVICES_MISSING)
def test_what_is_missing(case: str) -> None:
    fake, reason = DEVICES_MISSING[case]
    with fake_gpu.installed(fake):
        assert not cuda().exist
        cuda().sync()
        with pytest.raises(ArgumentError) as caught:
            nd.empty((3,), "float32", cuda())
        assert str(caught.value) == f"empty: cannot place an array on cuda:0: {reason}"
        module = uncompiled(scale)
        with pytest.raises(DeviceError) as failed:
            module["scale"]
        assert str(failed.value) == f"scale() cannot run: {reason}"
        assert nd.zeros((3,)).numpy().tolist() == [0, 0, 0]
        assert tw.build(double).get_source()


@pytest.mark.usefixtures("gpu")
def test_a_wrong_number() -> None:
    with pytest.raises(ArgumentError) as caught:
        nd.empty((3,), "float32", cuda(5))
    assert str(caught.value) == (
        "empty: cannot place an array on cuda:5: there is no cuda:5; this machine has cuda:0"
    )


def test_a_wrong_number_of_several(gpu: FakeDriver) -> None:
    gpu.device_count = 4
    assert cuda(3).exist
    assert cuda(4).why_missing == "there is no cuda:4; this machine has cuda:0 to cuda:3"


def test_code_for_another_gpu(gpu: FakeDriver) -> None:
    gpu.attributes |= {"COMPUTE_CAPABILITY_MAJOR": 8}
    gpu.name = "NVIDIA A100"
    with pytest.raises(DeviceError) as caught:
        uncompiled(scale)["scale"]
    assert str(caught.value) == (
        "scale() cannot run: it was compiled for sm_90a, but cuda:0 is NVIDIA A100 (sm_80); build "
        "it for target='cuda' on this machine"
    )


def test_code_that_the_driver_does_not_load(gpu: FakeDriver) -> None:
    gpu.failures["cuLibraryLoadData"] = FakeStatus.CUDA_ERROR_NO_BINARY_FOR_GPU
    with pytest.raises(DeviceError) as caught:
        uncompiled(scale)["scale"]
    assert str(caught.value) == (
        "scale() cannot run: the driver, which supports CUDA 13.0, does not load machine code of "
        "NVRTC 13.0: CUDA_ERROR_NO_BINARY_FOR_GPU (no binary for gpu); update the driver"
    )


def test_the_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_module(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", no_module)
    with pytest.raises(DeviceError) as caught:
        load_bindings("nvrtc")
    assert str(caught.value) == (
        "the package cuda-bindings is missing; `pip install 'tilewright[cuda]'` installs it"
    )


@pytest.mark.usefixtures("gpu")
def test_what_lives_longer_than_the_modules_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    array, module = nd.empty(4, device=cuda()), uncompiled(scale)
    module["scale"]  # loads it
    for gone in (cuda_memory, loading):
        monkeypatch.setattr(gone, "sys", None)
    del array, module
    gc.collect()  # pytest reports what a finalizer raises
