"""Kernels in the form that the CUDA printer takes, and NVRTC, for tests of what it prints."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cached_property

from tilewright import ir
from tilewright.codegen.cuda import generate_source
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
    from cuda.core import Program, ProgramOptions

    def compile_source(source: str, arch: str) -> str:
        log = io.StringIO()
        options = ProgramOptions(arch=arch, std="c++17", ptxas_options=["-v"])
        Program(source, "c++", options).compile("cubin", logs=log)
        return log.getvalue()

    return compile_source
