"""Commands on models for a GPU, down to a driver that is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.testing.fake_gpu import FakeDriver, NoDriver, installed
from tilewright.testing.sums_on_gpu import add, driver_of_sums, floats

pytest.importorskip("cuda.bindings.nvrtc")
MODEL = "from tilewright.testing.sums_on_gpu import sums\n"
H200 = ("--target", "nvidia/nvidia-h200")


@pytest.fixture
def model(command: Any) -> str:
    Path("model.py").write_text(MODEL)
    return "model.py:sums"


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    fake = driver_of_sums()
    with installed(fake):
        yield fake


def test_inspect_needs_no_gpu(command: Any, model: str) -> None:
    with installed(NoDriver()):
        lines = command("inspect", model, *H200).lines
    assert "3 kernels in 1 task" in lines


def test_build_needs_no_gpu_and_bench_runs_what_it_saved(command: Any, model: str) -> None:
    with installed(NoDriver()):
        built = command("build", model, *H200)
        assert "1 kernel: 1 without a record" in built.lines
        assert Path("sums.twm").is_file()
        done = command("bench", "sums.twm", status=2)
        assert done.err.startswith("error: cannot load sums.twm: its kernels run on an NVIDIA GPU")
    with installed(driver_of_sums()):
        lines = command("bench", "sums.twm").lines
    assert lines[0].startswith("sums.twm on NVIDIA H200") or "sm_90" in lines[0]
    assert any(line.startswith("tilewright") for line in lines)


def test_bench_says_why_rivals_do_not_run(command: Any, model: str, gpu: FakeDriver) -> None:
    lines = command("bench", model, *H200, "--against", "onnxruntime,torch,torch-compile").lines
    assert any(line.startswith("calculated") for line in lines)
    text = "\n".join(lines)
    for name, reason in (
        ("onnxruntime", "it is compared on the CPU; --target llvm"),
        ("torch", "sums is not a PyTorch module"),
        ("torch-compile", "sums is not a PyTorch module"),
    ):
        assert f"{name}: {reason}" in text or f"{name}: not installed here" in text


def test_check_finds_a_wrong_kernel(command: Any, model: str, gpu: FakeDriver) -> None:
    assert command("check", model, *H200).lines[-1] == "sums agrees with plain loops"

    def wrong(shape: tuple[int, ...], arguments: list[int]) -> None:
        add(shape, arguments)
        floats(arguments[2])[3] += 1000

    gpu.kernels = {"main_kernel": wrong}
    text = command("check", model, *H200, status=1).out
    assert "sums differs from plain loops: output 0 differs by" in text
    assert "wrong kernel: " in text


@pytest.mark.parametrize("verb", ["tune", "bench", "check"])
def test_without_a_gpu_one_line_says_so(command: Any, model: str, verb: str) -> None:
    with installed(NoDriver()):
        (line,) = command(verb, model, "--target", "nvidia/nvidia-h200", status=2).err.splitlines()
    assert line == (
        "error: --target nvidia/nvidia-h200: its code cannot run here: no NVIDIA "
        "driver was found; install one that supports CUDA 12.0 or later"
    )
