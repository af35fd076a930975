"""NVRTC for the tests of generated CUDA C++; it needs no GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright import ir
from tilewright.testing.cuda_kernels import nvrtc, source_of

Compile = Callable[..., str]
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")


@pytest.fixture(scope="session")
def compiles() -> Compile:
    """`compiles(kernel, "sm_80", ...)`: NVRTC takes what is printed, for each architecture."""
    pytest.importorskip("cuda.core", reason="NVRTC is missing: pip install tilewright[cuda]")
    compile_source = nvrtc()

    def check(kernel: ir.PrimFunc, *archs: str) -> str:
        logs = [compile_source(source_of(kernel, arch), arch) for arch in archs or ARCHS]
        return "\n".join(logs)

    return check
