"""Kernels in the form that the CUDA printer takes, and NVRTC, for tests of what it prints."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.codegen.cuda import generate_source
from tilewright.errors import RuntimeFailure
from tilewright.ir import builder
from tilewright.target import Target


def as_kernel(func: ir.PrimFunc, name: str = "kernel") -> ir.PrimFunc:
    """A function with the attributes of a kernel."""
    attrs = {"calling_conv": 2, "global_symbol": name, "tir.noalias": True}
    return ir.PrimFunc(func.params, func.body, func.buffer_map, {**func.attrs, **attrs})


def source_of(func: ir.PrimFunc, arch: str = "sm_90a") -> str:
    """What is printed for one kernel."""
    return generate_source(ir.IRModule({"kernel": as_kernel(func)}), Target(f"cuda -arch={arch}"))


def body_of(func: ir.PrimFunc, arch: str = "sm_90a") -> str:
    """The statements of one kernel, without those that read the indices of the thread."""
    text = source_of(func, arch)
    lines = text[text.index('extern "C"') :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.endswith("{")) + 1
    kept = [line[2:] for line in lines[first:-1] if not line.endswith(("Idx.x;", "Idx.y;"))]
    return "\n".join(kept) + "\n"


class KernelBuilder:
    """Builds a kernel statement by statement, with a thread and a block index to compute with."""

    def __init__(self, threads: ir.ExprLike = 32) -> None:
        self.ib = builder.create()
        self._params: list[ir.Var] = []
        self.tx = self._index("threadIdx.x", threads)
        self.bx = self._index("blockIdx.x", 4)

    def _index(self, tag: str, extent: ir.ExprLike) -> ir.Var:
        var = ir.Var(tag.replace(".", "_"))
        axis = ir.IterVar(None, var, ir.IterType.THREAD_INDEX, tag)
        self.ib.scope_attr(axis, "thread_extent", extent)
        return var

    def pointer(self, dtype: str, name: str) -> builder.BufferVar:
        """A parameter that points to memory of the device."""
        pointer = self.ib.pointer(dtype, name)
        self._params.append(pointer.buffer.data)
        return pointer

    def scalar(self, name: str, dtype: str = "int32") -> ir.Var:
        """A parameter that is a number."""
        var = ir.Var(name, ir.DType(dtype))
        self._params.append(var)
        return var

    @cached_property
    def function(self) -> ir.PrimFunc:
        """The kernel; nothing can be added to it then."""
        return ir.PrimFunc(tuple(self._params), self.ib.get())


def vector(
    pointer: builder.BufferVar, begin: ir.ExprLike, lanes: int, stride: int = 1
) -> ir.PrimExpr:
    """Several elements at once."""
    index = ir.Ramp(ir.convert(begin), ir.const(stride, "int32"), lanes)
    return ir.BufferLoad(pointer.buffer, (index,))


def store_vector(
    pointer: builder.BufferVar, begin: ir.ExprLike, value: ir.PrimExpr, stride: int = 1
) -> ir.Stmt:
    """The statement that writes several elements at once."""
    index = ir.Ramp(ir.convert(begin), ir.const(stride, "int32"), value.dtype.lanes)
    return ir.BufferStore(pointer.buffer, value, (index,))


def nvrtc() -> Callable[[str, str], str]:
    """Compiles source for an architecture; yields the log, raises where the source is wrong."""

    def compile_source(source: str, arch: str) -> str:
        return _compiled(source, arch)[1]

    return compile_source


def _compiled(source: str, arch: str) -> tuple[bytes, str]:
    """Machine code, and what the assembler says of it."""
    from cuda.core import Program, ProgramOptions

    log = io.StringIO()
    options = ProgramOptions(arch=arch, std="c++17", ptxas_options=["-v"])
    code = Program(source, "c++", options).compile("cubin", logs=log).code
    return bytes(code), log.getvalue()


# --- on a GPU -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """How many blocks of how many threads run a kernel."""

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    shared_bytes: int = 0


def missing_gpu() -> str:
    """Why no kernel can run here; empty if one can."""
    try:
        from cuda.bindings import driver

        status, *_ = driver.cuInit(0)
    except (ImportError, RuntimeError) as error:
        return str(error)
    return "" if int(status) == 0 else f"the driver says {status!s}"


def run_kernel(source: str, name: str, launch: Launch, *args: Any) -> list[Any]:
    """The arrays behind a kernel's run on copies of them; other arguments are NumPy scalars."""
    driver = _Driver()
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    pointers = {id(array): driver.copied(array) for array in arrays}
    values = tuple(pointers.get(id(arg), arg) for arg in args)
    types = tuple(
        ctypes.c_void_p if isinstance(arg, np.ndarray) else np.ctypeslib.as_ctypes_type(arg.dtype)
        for arg in args
    )
    plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    cubin = _compiled(source, driver.arch)[0]
    driver.launch(cubin, name, launch, (plain, types))
    return [driver.fetched(pointers[id(array)], array) for array in arrays]


class _Driver:
    """The first GPU, through calls of its driver that are checked."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._call("cuInit", 0)
        device = self._call("cuDeviceGet", 0)
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", device))
        kinds = driver.CUdevice_attribute
        major, minor = (
            self._call("cuDeviceGetAttribute", kind, device)
            for kind in (
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        self.arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")

    def _call(self, name: str, *args: Any) -> Any:
        status, *results = getattr(self._driver, name)(*args)
        if int(status) != 0:
            raise RuntimeFailure(f"{name} failed with {status!s}")
        return results[0] if results else None

    def copied(self, array: Any) -> int:
        pointer = self._call("cuMemAlloc", max(array.nbytes, 1))
        self._call("cuMemcpyHtoD", pointer, array.ctypes.data, array.nbytes)
        return int(pointer)

    def fetched(self, pointer: int, like: Any) -> Any:
        result = np.empty_like(like)
        self._call("cuMemcpyDtoH", result.ctypes.data, pointer, result.nbytes)
        self._call("cuMemFree", pointer)
        return result

    def launch(self, cubin: bytes, name: str, launch: Launch, arguments: Any) -> None:
        module = self._call("cuModuleLoadData", cubin)
        kernel = self._call("cuModuleGetFunction", module, name.encode())
        sizes = (*launch.grid, *launch.block, launch.shared_bytes)
        self._call("cuLaunchKernel", kernel, *sizes, 0, arguments, 0)
        self._call("cuCtxSynchronize")
        self._call("cuModuleUnload", module)
