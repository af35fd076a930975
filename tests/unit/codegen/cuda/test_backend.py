"""`build` for a GPU, as far as it goes without one: code, files and what is kept of it."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call"

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright import driver, ir, te
from tilewright.codegen.cuda import compiler
from tilewright.codegen.cuda.backend import CudaBackend
from tilewright.codegen.host.code_store import open_store
from tilewright.errors import CodegenError, DeviceError
from tilewright.lowering import PassContext
from tilewright.native.cuda_driver import why_missing
from tilewright.script import tir as T
from tilewright.testing import fake_gpu
from tilewright.testing.fake_gpu import FakeDriver
from tilewright.tune.fallback import default_schedule


@T.prim_func
def plus_one(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] + T.float32(1)


@pytest.fixture(autouse=True)
def nvrtc() -> None:
    """Skips where the compiler is not installed."""
    try:
        compiler.compiler_version()
    except CodegenError as error:
        pytest.skip(str(error))


def test_a_module_for_another_machine() -> None:
    module = tw.build(plus_one, "nvidia/nvidia-h200")
    assert 'extern "C" __global__' in module.get_source()
    assert module.info.device == "cuda"
    assert all(found["registers"] > 0 for found in module.resources.values())
    with fake_gpu.installed(FakeDriver(device_count=0)):
        assert why_missing(0) == "the NVIDIA driver finds no GPU"
        with pytest.raises(DeviceError, match="cannot run: the NVIDIA driver finds no GPU"):
            module[module.entry_name]


def test_stages() -> None:
    stages = tw.build(plus_one, "nvidia/nvidia-a100", stages=True)
    assert [stage.name for stage in stages][-3:] == ["cuda", "ptx", "machine-code"]
    assert ".target sm_80" in stages.text("ptx")


def test_code_is_kept(tmp_path: Path) -> None:
    store, backend = open_store(tmp_path / "store"), CudaBackend()
    module = tw.build(plus_one, "nvidia/nvidia-h200")
    assert module.artifact is not None
    assert backend.recall(store, "key", dict) is None
    backend.keep(store, "key", module.info, module.artifact)
    recalled = backend.recall(store, "key", dict)
    assert recalled is not None
    info, library = recalled
    assert info == module.info
    fake = FakeDriver()
    with fake_gpu.installed(fake):
        library.kernel(module.entry_name)
    (load,) = (call for call in fake.calls if call[0] == "cuLibraryLoadData")
    assert load[1] == module.artifact.data
    store.put("other", b"", b"something else")
    assert backend.recall(store, "other", dict) is None


def test_a_schedule_that_was_tried_is_not_lowered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    a = te.placeholder((64, 64), "float32", name="A")
    func = te.create_prim_func([a, te.compute((64, 64), lambda i, j: a[i, j] + 1.0, name="B")])
    lowered, lower = list[ir.IRModule](), driver.lower

    def watched(program: ir.IRModule, *args: Any, **options: Any) -> Any:
        lowered.append(program)
        return lower(program, *args, **options)

    monkeypatch.setattr(driver, "lower", watched)
    sch = default_schedule(func, "nvidia/nvidia-h200")
    before = len(lowered)
    assert before
    driver.build(sch.mod, "nvidia/nvidia-h200")
    assert len(lowered) == before
    with PassContext(config={"tir.disable_vectorize": True}):  # it may come out otherwise
        driver.build(sch.mod, "nvidia/nvidia-h200")
    assert len(lowered) == before + 1
