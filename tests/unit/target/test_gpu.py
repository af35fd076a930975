"""GPUs of targets: detected, or known by model, tag and architecture."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from tilewright.errors import TargetError
from tilewright.target import Target
from tilewright.target.gpu import full_arch
from tilewright.testing import fake_gpu
from tilewright.testing.fake_gpu import FakeDriver

H200_ATTRS = {
    "arch": "sm_90a",
    "l2_cache_size_bytes": 62914560,
    "max_num_threads": 1024,
    "max_shared_memory_per_block": 49152,
    "max_threads_per_block": 1024,
    "registers_per_block": 65536,
    "thread_warp_size": 32,
}
ANY_ATTRS = {**H200_ATTRS, "arch": "sm_80"}
del ANY_ATTRS["l2_cache_size_bytes"]


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    fake = FakeDriver(memory_bytes=150 * 10**9)
    with fake_gpu.installed(fake):
        yield fake


@pytest.fixture
def no_gpu() -> Iterator[None]:
    with fake_gpu.installed(FakeDriver(device_count=0)):
        yield


def test_architectures() -> None:
    wanted = {"sm_80": "sm_80", "sm_89": "sm_89", "sm_90": "sm_90a", "sm_90a": "sm_90a"}
    assert {arch: full_arch(arch) for arch in wanted} == wanted


@pytest.mark.usefixtures("gpu")
def test_everything_is_detected() -> None:
    target = Target("cuda")
    assert dict(target.attrs) == {**H200_ATTRS, "model": "NVIDIA H200"}
    found = target.gpu
    assert (found.model, found.arch) == ("NVIDIA H200", "sm_90a")
    assert (found.multiprocessors, found.clock_mhz, found.l2_bytes) == (132, 1980, 62914560)
    assert (found.memory_bytes, found.bytes_per_second) == (150 * 10**9, 2 * 3201 * 10**6 * 768)
    assert (found.threads_per_multiprocessor, found.blocks_per_multiprocessor) == (2048, 32)
    assert (found.shared_per_multiprocessor, found.shared_per_block) == (233472, 232448)
    assert found.registers_per_multiprocessor == 65536
    assert Target(target.export()) == Target(str(target)) == target
    assert Target("cuda -arch=sm_90").gpu is found
    assert Target("cuda -max_threads_per_block=256").max_num_threads == 256


def test_clocks_that_the_driver_does_not_tell(gpu: FakeDriver) -> None:
    gpu.attributes |= {"CLOCK_RATE": 0, "MEMORY_CLOCK_RATE": 0}
    assert Target("cuda").gpu.clock_mhz == 1980
    assert Target("cuda").gpu.bytes_per_second == 4800 * 10**9


@pytest.mark.usefixtures("gpu")
def test_others_are_not_detected() -> None:
    assert dict(Target("cuda -arch=sm_75").attrs) == {**ANY_ATTRS, "arch": "sm_75"}
    assert Target("cuda -arch=sm_80").gpu.model == "NVIDIA A100-SXM4-40GB"
    assert Target("nvidia/nvidia-h100").gpu.l2_bytes == 52428800


def test_a_detected_target_elsewhere(gpu: FakeDriver) -> None:
    target = Target("cuda")
    sent = pickle.dumps(target)
    with fake_gpu.installed(FakeDriver(device_count=0)):
        there = pickle.loads(sent)
        assert there == target
        assert there.gpu.model == "NVIDIA H200"
        assert there.gpu.bytes_per_second == 4800 * 10**9


@pytest.mark.usefixtures("no_gpu")
def test_what_tags_say() -> None:
    target = Target("nvidia/nvidia-h200")
    assert dict(target.attrs) == H200_ATTRS
    assert target.tag == "nvidia/nvidia-h200"
    found = target.gpu
    assert (found.model, found.multiprocessors) == ("NVIDIA H200", 132)
    assert (found.shared_per_multiprocessor, found.shared_per_block) == (233472, 232448)
    rows = {name: Target(f"nvidia/{name}").gpu for name in ("nvidia-a100", "geforce-rtx-4090")}
    assert [row.multiprocessors for row in rows.values()] == [108, 128]
    assert [row.shared_per_block for row in rows.values()] == [166912, 101376]
    assert Target("nvidia/geforce-rtx-3070").gpu.clock_mhz == 1725
    assert Target("nvidia/jetson-agx-xavier").gpu.threads_per_multiprocessor == 2048


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu() -> None:
    assert dict(Target("cuda").attrs) == ANY_ATTRS
    assert Target("cuda").gpu.model == "NVIDIA A100-SXM4-40GB"
    assert Target("cuda").gpu.shared_per_block == 166912


def test_only_gpus_have_one() -> None:
    with pytest.raises(TargetError, match="target 'llvm -keys=cpu' is not a GPU"):
        Target("llvm").gpu


def test_the_number_of_multiprocessors_can_be_given() -> None:
    assert Target("cuda -arch=sm_90a -multi_processor_count=4").gpu.multiprocessors == 4
