"""CUDA C++ to machine code, with NVIDIA's run-time compiler; needs no GPU and no driver."""

from __future__ import annotations

import contextlib
import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.errors import CodegenError, DeviceError
from tilewright.native.cuda_driver import INSTALL, load_bindings

FILE_NAME = "kernels.cu"
# Lines of the assembler that say why code is slow: spills, serialised matrix instructions.
_WARNING = re.compile(r"ptxas.*(?:warning|\(C\d+\)).*")
_SERIALISED = re.compile(r"\((C75\d\d)\) (.*)")
_OPTIONS = ("--std=c++17", "--ptxas-options=-v", "--device-as-default-execution-space")


@dataclass(frozen=True)
class KernelResources:
    """What one kernel takes, as the assembler reports it; `local_bytes` and spills of a thread."""

    registers: int = 0
    local_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared_bytes: int = 0
    constant_bytes: int = 0
    barriers: int = 0


@dataclass(frozen=True)
class CompiledKernels:
    """Machine code and its assembly text, with what the assembler says of it."""

    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)
    resources: Mapping[str, KernelResources]
    warnings: tuple[str, ...] = ()


def compile_kernels(source: str, arch: str) -> CompiledKernels:
    """Machine code for an architecture such as "sm_90a"."""
    compiled = _compiled(source, arch, _OPTIONS)
    if compiled.resources:
        return compiled
    # Machine code that NVRTC has kept on disk comes without what it once said of it.
    return _compiled(source, arch, (*_OPTIONS, "--no-cache"))


def _compiled(source: str, arch: str, chosen: Sequence[str]) -> CompiledKernels:
    nvrtc = _nvrtc()
    options = [option.encode() for option in (f"--gpu-architecture={arch}", *chosen)]
    program = _checked(
        nvrtc.nvrtcCreateProgram(source.encode(), FILE_NAME.encode(), 0, [], []), nvrtc
    )
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = _output(nvrtc, program, "ProgramLog").decode(errors="replace")
        if int(status):
            raise _failure(log, source, arch, nvrtc)
        cubin, ptx = (_output(nvrtc, program, what) for what in ("CUBIN", "PTX"))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    if serialised := _SERIALISED.search(log):
        raise CodegenError(
            f"matrix instructions of the generated CUDA for {arch} would run one after another: "
            f"{serialised[2].strip()} ({serialised[1]}); wait for their sums before using them"
        )
    warnings = tuple(_WARNING.findall(log))
    return CompiledKernels(cubin, ptx.decode().rstrip("\0"), read_resources(log), warnings)


def compiler_version() -> str:
    """The version of the compiler, such as "13.0"."""
    nvrtc = _nvrtc()
    major, minor = _checked(nvrtc.nvrtcVersion(), nvrtc)
    return f"{major}.{minor}"


@cache
def _nvrtc() -> Any:
    """The compiler's functions."""
    try:
        nvrtc = load_bindings("nvrtc")
    except DeviceError as error:
        raise CodegenError(f"target kind 'cuda' cannot compile: {error}") from error
    if not _is_found(nvrtc):
        _load_from_path()
        if not _is_found(nvrtc):
            raise CodegenError(
                f"target kind 'cuda' cannot compile: NVIDIA's compiler NVRTC is missing; {INSTALL}"
            )
    return nvrtc


def _is_found(nvrtc: Any) -> bool:
    try:
        return not int(nvrtc.nvrtcVersion()[0])
    except Exception:  # the bindings have no class for it that all their versions share
        return False


def _load_from_path() -> None:
    for file in _in_wheels("lib/libnvrtc.so.*"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(file))
            return


def _in_wheels(pattern: str) -> list[Path]:
    """Files of NVIDIA's packages in folders of Python's path; the bindings look elsewhere."""
    folders = map(Path, sys.path)
    return [file for folder in folders for file in sorted(folder.glob(f"nvidia/*/{pattern}"))]


def _checked(answer: tuple[Any, ...], nvrtc: Any) -> Any:
    status, *results = answer
    if int(status):
        name = nvrtc.nvrtcGetErrorString(status)[1].decode()
        raise CodegenError(f"NVIDIA's compiler NVRTC failed: {name}")
    return results[0] if len(results) == 1 else results


def _output(nvrtc: Any, program: Any, what: str) -> bytes:
    size = _checked(getattr(nvrtc, f"nvrtcGet{what}Size")(program), nvrtc)
    data = bytearray(size)
    _checked(getattr(nvrtc, f"nvrtcGet{what}")(program, data), nvrtc)
    return bytes(data)


# --- errors --------------------------------------------------------------------------------------

_IN_SOURCE = re.compile(rf"{re.escape(FILE_NAME)}\((\d+)\): (?:catastrophic )?error: (.*)")
_IN_ASSEMBLY = re.compile(r"ptxas .*?(?:error|fatal)\s*: (.*)")
_WRONG_ARCH = "invalid value for --gpu-architecture"


def _failure(log: str, source: str, arch: str, nvrtc: Any) -> CodegenError:
    if _WRONG_ARCH in log:
        return _unknown_arch(arch, nvrtc)
    where = f"cannot compile the generated CUDA for {arch}"
    found = _IN_SOURCE.search(log)
    if found is not None:
        number = int(found[1])
        line = source.splitlines()[number - 1].strip()
        return CodegenError(f"{where}: {found[2]}, in line {number}: {line}")
    found = _IN_ASSEMBLY.search(log)
    message = found[1] if found is not None else " ".join(log.split()) or "no reason was given"
    return CodegenError(f"{where}: {message}")


def _unknown_arch(arch: str, nvrtc: Any) -> CodegenError:
    known = ", ".join(f"sm_{number}" for number in _checked(nvrtc.nvrtcGetSupportedArchs(), nvrtc))
    return CodegenError(
        f"NVRTC {compiler_version()} does not compile for {arch!r}, only for {known}; name one of "
        "them, as in target='cuda -arch=sm_90a'"
    )


# --- resources -----------------------------------------------------------------------------------

_ENTRY = re.compile(r"Compiling entry function '(\S+)'")
_COUNTS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "local_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
    "constant_bytes": re.compile(r"(\d+) bytes cmem\[0\]"),
    "barriers": re.compile(r"used (\d+) barriers"),
}


def read_resources(log: str) -> dict[str, KernelResources]:
    """The resources of each kernel, from the assembler's report."""
    _, *parts = _ENTRY.split(log)
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        matches = {key: pattern.search(text) for key, pattern in _COUNTS.items()}
        found[name] = KernelResources(**{key: int(hit[1]) for key, hit in matches.items() if hit})
    return found


# --- machine code as text ------------------------------------------------------------------------


def disassembled(cubin: bytes) -> str:
    """Machine code as text."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(cubin)
        command = [_disassembler(), "--print-code", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["no reason was given"]
        raise CodegenError(f"nvdisasm cannot show the machine code: {reason[0]}")
    return done.stdout


def _disassembler() -> str:
    found = [shutil.which("nvdisasm"), *map(str, _in_wheels("bin/nvdisasm"))]
    for path in found:
        if path is not None:
            return path
    raise CodegenError(
        "machine code as text ('sass') needs nvdisasm, but it was not found; `pip install "
        "nvidia-cuda-nvdisasm` installs it"
    )
