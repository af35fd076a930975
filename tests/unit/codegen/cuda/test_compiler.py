"""NVIDIA's compiler: machine code, its resources and texts, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.codegen.cuda import compiler
from tilewright.codegen.cuda.compiler import (
    CompiledKernels,
    KernelResources,
    compile_kernels,
    disassembled,
    read_resources,
)
from tilewright.errors import CodegenError, DeviceError, RuntimeFailure
from tilewright.runtime import load_module
from tilewright.testing.launched_modules import CUDA, KERNELS, built, reverse, scale

LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spilling' for 'sm_90a'
ptxas info    : Function properties for spilling
    56 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 56 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compiling entry function 'small' for 'sm_90a'
ptxas info    : Used 8 registers, used 0 barriers, 544 bytes cmem[0]
"""


@pytest.fixture
def nvrtc() -> None:
    """Skips where the compiler is not installed."""
    try:
        compiler.compiler_version()
    except CodegenError as error:
        pytest.skip(str(error))


@pytest.fixture
def fresh() -> Iterator[None]:
    compiler._nvrtc.cache_clear()
    yield
    compiler._nvrtc.cache_clear()


def test_the_report_of_the_assembler() -> None:
    assert read_resources(LOG) == {
        "spilling": KernelResources(255, 56, 24, 32, 512, 0, 2),
        "small": KernelResources(8, constant_bytes=544),
    }


def test_lines_that_say_why_code_is_slow() -> None:
    lines = [
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async is serialized",
        "ptxas warning : Registers are spilled to local memory in function 'f'",
    ]
    log = "\n".join([LOG, *lines, 'kernels.cu(1): warning #549-D: variable "b" is not set'])
    assert compiler._WARNING.findall(log) == lines


@pytest.mark.usefixtures("nvrtc")
def test_machine_code() -> None:
    made = compile_kernels(CUDA, "sm_90a")
    assert made.cubin[:4] == b"\x7fELF"
    assert set(made.resources) == {kernel.name for kernel in KERNELS}
    assert 0 < made.resources["scale_kernel"].registers < 64
    assert made.resources["reverse_kernel"].barriers == 1
    assert ".target sm_90a" in made.ptx
    assert made.warnings == ()


@pytest.mark.usefixtures("nvrtc")
def test_static_shared_memory_is_counted() -> None:
    source = """
    extern "C" __global__ void f(float* a) {
      __shared__ float tile[256];
      tile[threadIdx.x] = a[threadIdx.x];
      __syncthreads();
      a[threadIdx.x] = tile[255 - threadIdx.x];
    }"""
    assert compile_kernels(source, "sm_80").resources["f"].shared_bytes == 1024


@pytest.mark.usefixtures("nvrtc")
def test_modules_without_a_gpu(tmp_path: Path) -> None:
    module = built(scale, reverse)
    assert list(module) == ["scale", "reverse"]
    assert module.get_source() == module.get_source("cuda") == CUDA
    assert ".visible .entry scale_kernel" in module.get_source("ptx")
    assert "def scale_kernel" in module.get_source("script")
    assert module.artifact is not None
    assert module.artifact.meta["arch"] == "sm_90a"
    found = module.resources["reverse_kernel"]
    assert KernelResources(**found).barriers == 1
    assert found["spill_stores"] == found["spill_loads"] == 0
    assert found["shared_bytes"] == 98304  # each launch asks for them
    assert found["registers"] > 0
    (text,) = module.export_library(tmp_path / "m.cu")
    assert text.read_text() == CUDA
    with pytest.raises(RuntimeFailure) as caught:
        module.export_library(tmp_path / "m.so")
    assert str(caught.value) == (
        "cannot export m.so: expected a name that ends in one of .cubin, .cu, .ptx, .sass"
    )
    with pytest.raises(RuntimeFailure, match=r"m\.cubin: GPU functions cannot be renamed"):
        module.export_library(tmp_path / "m.cubin", symbols={"scale": "s"})


@pytest.mark.usefixtures("nvrtc")
def test_an_exported_module_is_machine_code_and_a_description(tmp_path: Path) -> None:
    module = built(scale)
    (file,) = module.export_library(tmp_path / "scale.cubin")
    assert module.artifact is not None
    assert file.read_bytes().startswith(module.artifact.data)
    loaded = load_module(file)
    assert loaded.info == module.info
    assert loaded.info.device == "cuda"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(RuntimeFailure, match="the file is damaged or was changed after its export"):
        load_module(file)


@pytest.mark.usefixtures("nvrtc")
def test_machine_code_as_text() -> None:
    try:
        compiler._disassembler()
    except CodegenError as error:
        pytest.skip(str(error))
    text = built(scale).get_source("sass")
    assert "scale_kernel" in text
    assert "FMUL" in text
    with pytest.raises(CodegenError, match="nvdisasm cannot show the machine code: "):
        disassembled(b"no machine code")


REFUSED = {
    "name": (
        'extern "C" __global__ void f(float* a) {\n  a[0] = unknown;\n}',
        "sm_90a",
        'cannot compile the generated CUDA for sm_90a: identifier "unknown" is undefined, in line '
        "2: a[0] = unknown;",
    ),
    "instruction": (
        'extern "C" __global__ void f() { asm volatile("wgmma.fence.sync.aligned;"); }',
        "sm_80",
        "cannot compile the generated CUDA for sm_80: Instruction 'wgmma.fence' not supported on "
        ".target 'sm_80'",
    ),
    "memory": (
        'extern "C" __global__ void f(float* a) { __shared__ float t[99999]; t[threadIdx.x] = a[1];'
        " __syncthreads(); a[0] = t[3]; }",
        "sm_80",
        "cannot compile the generated CUDA for sm_80: Entry function 'f' uses too much shared data "
        "(0x61a7c bytes, 0xc000 max)",
    ),
}


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("case", REFUSED)
def test_what_the_compiler_refuses(case: str) -> None:
    source, arch, message = REFUSED[case]
    with pytest.raises(CodegenError) as caught:
        compile_kernels(source, arch)
    assert str(caught.value) == message


@pytest.mark.usefixtures("nvrtc")
def test_an_architecture_that_the_compiler_does_not_know() -> None:
    with pytest.raises(CodegenError) as caught:
        compile_kernels(CUDA, "sm_10")
    text, version = str(caught.value), compiler.compiler_version()
    assert text.startswith(f"NVRTC {version} does not compile for 'sm_10', only for ")
    assert text.endswith("; name one of them, as in target='cuda -arch=sm_90a'")


@pytest.mark.usefixtures("fresh")
def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise DeviceError("the package cuda-bindings is missing; `pip install x` installs it")

    monkeypatch.setattr(compiler, "load_bindings", missing)
    with pytest.raises(CodegenError) as caught:
        compile_kernels(CUDA, "sm_90a")
    assert str(caught.value) == (
        "target kind 'cuda' cannot compile: the package cuda-bindings is missing; `pip install x` "
        "installs it"
    )


@pytest.mark.usefixtures("fresh")
def test_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    class NotThere:
        def nvrtcVersion(self) -> tuple[int, int, int]:
            raise RuntimeError("no libnvrtc")

    monkeypatch.setattr(compiler, "load_bindings", lambda name: NotThere())
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(CodegenError) as caught:
        compile_kernels(CUDA, "sm_90a")
    assert str(caught.value) == (
        "target kind 'cuda' cannot compile: NVIDIA's compiler NVRTC is missing; "
        "`pip install 'tilewright[cuda]'` installs it"
    )


def test_without_the_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(compiler, "_in_wheels", lambda pattern: [])
    with pytest.raises(CodegenError) as caught:
        disassembled(b"")
    assert str(caught.value) == (
        "machine code as text ('sass') needs nvdisasm, but it was not found; `pip install "
        "nvidia-cuda-nvdisasm` installs it"
    )


def test_machine_code_from_nvrtc_s_cache_comes_without_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compile_once, options = compiler._compiled, []

    def as_if_kept(source: str, arch: str, chosen: tuple[str, ...]) -> CompiledKernels:
        options.append(chosen)
        made = compile_once(source, arch, chosen)
        return made if "--no-cache" in chosen else replace(made, resources={}, warnings=())

    monkeypatch.setattr(compiler, "_compiled", as_if_kept)
    assert "scale_kernel" in compile_kernels(CUDA, "sm_90a").resources
    assert len(options) == 2
