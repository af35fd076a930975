"""The CUDA C++ of whole kernels, as text that a person can read, and that NVRTC takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright import ir
from tilewright.codegen.cuda import generate_source
from tilewright.target import Target
from tilewright.testing import lowered_kernels
from tilewright.testing.cuda_kernels import nvrtc

KERNELS = ("tiled_matmul", "row_softmax", "mma_matmul")


def source(name: str, arch: str) -> str:
    function = getattr(lowered_kernels, name)
    return generate_source(ir.IRModule({name: function}), Target(f"cuda -arch={arch}"))


@pytest.mark.parametrize("name", KERNELS)
def test_text(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.cu", source(name, "sm_90a"))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90a"])
def test_nvrtc_takes_it_without_spilling(name: str, arch: str) -> None:
    pytest.importorskip("cuda.core", reason="NVRTC is missing: pip install tilewright[cuda]")
    log = nvrtc()(source(name, arch), arch)
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log
