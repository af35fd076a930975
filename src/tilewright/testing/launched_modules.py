# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call"
"""Lowered modules for a GPU, written by hand together with the CUDA C++ of their kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from tilewright import ir
from tilewright.codegen.cuda import compiler, launch_plan
from tilewright.codegen.cuda.backend import CudaBackend, CudaSource
from tilewright.codegen.cuda.hopper_functions import device_function
from tilewright.codegen.cuda.launch_plan import DYNAMIC_SHARED, LAUNCH_PARAMS
from tilewright.driver import compile_lowered, load
from tilewright.ir import IRModule, PrimFunc
from tilewright.lowering.host_abi import HostABI
from tilewright.runtime.module import Module
from tilewright.script import tir as T
from tilewright.target import Target


@T.prim_func
def scale(a: T.handle, b: T.handle, factor: T.float32):
    """`B[i] = A[i] * factor`, for any length."""
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    assert n < 1000000, "at most a million elements"
    T.evaluate(T.call_packed("scale_kernel", A.data, B.data, factor, n, (n + 255) // 256, 256))


@T.prim_func
def reverse(A: T.Buffer((4096,), "int32"), B: T.Buffer((4096,), "int32"), times: T.int32):
    """Reverses slices of 512 through shared memory, `times` times, each through memory of its own.

    The block also asks for 96 KB that it does not use.
    """
    for i in range(times):
        W = T.allocate([4096], "int32", "global")
        if i == 0:
            T.evaluate(T.call_packed("reverse_kernel", A.data, W, 8, 512, 98304))
        else:
            T.evaluate(T.call_packed("reverse_kernel", B.data, W, 8, 512, 98304))
        T.evaluate(T.call_packed("copy_kernel", W, B.data, 16, 256))


@T.prim_func
def scale_twice(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    """`B = A * 6`, by two kernels the second of which waits for the first by itself."""
    W = T.allocate([512], "float32", "global")
    T.evaluate(T.call_packed("scale_kernel", A.data, W, T.float32(2), 512, 2, 256))
    T.evaluate(T.call_packed("dependent_kernel", W, B.data, T.float32(3), 512, 2, 256))


@T.prim_func
def crash(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    """Writes where there is no memory."""
    T.evaluate(T.call_packed("crash_kernel", A.data, B.data, 1, 32))


@T.prim_func
def stray(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    """Reads far behind the end of its input."""
    T.evaluate(T.call_packed("stray_kernel", A.data, B.data, 1, 32))


@T.prim_func
def trap(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    """Ends itself with an error."""
    T.evaluate(T.call_packed("trap_kernel", A.data, B.data, 1, 32))


@T.prim_func
def hang(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    """Never ends."""
    T.evaluate(T.call_packed("hang_kernel", A.data, B.data, 1, 32))


@T.prim_func
def wait(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    """Waits at a barrier that nobody else comes to."""
    T.evaluate(T.call_packed("wait_kernel", A.data, B.data, 1, 32))


_BARRIERS = "".join(
    str(device_function(name))
    for name in ("tw_shared_address", "tw_barrier_start", "tw_barrier_wait")
)

CUDA = f"""
#if __CUDA_ARCH__ >= 900
{_BARRIERS}
#endif
"""
CUDA += """
extern "C" __global__ void __launch_bounds__(256)
scale_kernel(const float* __restrict__ A, float* __restrict__ B, float factor, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) B[i] = A[i] * factor;
}

extern "C" __global__ void reverse_kernel(const int* __restrict__ A, int* __restrict__ B) {
  extern __shared__ int tile[];
  tile[511 - threadIdx.x] = A[blockIdx.x * 512 + threadIdx.x];
  __syncthreads();
  B[blockIdx.x * 512 + threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void copy_kernel(const int* __restrict__ A, int* __restrict__ B) {
  B[blockIdx.x * 256 + threadIdx.x] = A[blockIdx.x * 256 + threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256)
dependent_kernel(const float* __restrict__ A, float* __restrict__ B, float factor, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (i < n) B[i] = A[i] * factor;
}

extern "C" __global__ void crash_kernel(const float* __restrict__ A, float* __restrict__ B) {
  ((float*)16)[threadIdx.x] = A[0];
}

extern "C" __global__ void stray_kernel(const float* __restrict__ A, float* __restrict__ B) {
  B[threadIdx.x] = A[threadIdx.x + (1ll << 44)];
}

extern "C" __global__ void trap_kernel(const float* __restrict__ A, float* __restrict__ B) {
  asm volatile("trap;");
}

extern "C" __global__ void hang_kernel(const float* __restrict__ A, volatile float* B) {
  B[threadIdx.x] = A[threadIdx.x];
  while (B[0] == A[0]) __nanosleep(1000);
}

extern "C" __global__ void wait_kernel(const float* __restrict__ A, float* __restrict__ B) {
#if __CUDA_ARCH__ >= 900
  __shared__ unsigned long long barrier;
  if (threadIdx.x == 0) tw_barrier_start(tw_shared_address(&barrier), 2);
  __syncthreads();
  tw_barrier_wait(tw_shared_address(&barrier), 0);
#endif
  B[threadIdx.x] = A[threadIdx.x];
}
"""


_PLAIN = ("blockIdx.x", "threadIdx.x")


@dataclass(frozen=True)
class KernelHead:
    """Parameters and launch of a kernel whose body is in `CUDA`."""

    name: str
    params: str
    tags: tuple[str, ...] = _PLAIN
    waits: bool = False  # for the kernel ahead of it, by itself

    def function(self) -> PrimFunc:
        """The kernel as a function of a lowered module, without its body."""
        params = tuple(
            ir.Var(f"p{at}", ir.DType(dtype)) for at, dtype in enumerate(self.params.split())
        )
        attrs = {"calling_conv": 2, "global_symbol": self.name, LAUNCH_PARAMS: list(self.tags)}
        nothing = ir.IntImm(ir.DType("int32"), 0)
        wait = T.call_extern("void", "tw_wait_for_previous_grid")
        return PrimFunc(params, ir.Evaluate(wait if self.waits else nothing), attrs=attrs)


KERNELS = (
    KernelHead("scale_kernel", "handle handle float32 int32"),
    KernelHead("reverse_kernel", "handle handle", (*_PLAIN, DYNAMIC_SHARED)),
    KernelHead("copy_kernel", "handle handle"),
    KernelHead("dependent_kernel", "handle handle float32 int32", waits=True),
    *(
        KernelHead(f"{name}_kernel", "handle handle")
        for name in ("crash", "stray", "trap", "hang", "wait")
    ),
)


def lowered_module(*functions: PrimFunc) -> IRModule:
    """Host functions with all kernels that there are."""
    hosts = {func.name: func for func in functions}
    lowered = HostABI()(IRModule(hosts))
    for kernel in KERNELS:
        lowered = lowered.with_function(kernel.name, kernel.function())
    return lowered


@contextlib.contextmanager
def printed_as(text: str) -> Iterator[None]:
    """Let the backend take CUDA C++ as the text of every module."""

    def generate(self: CudaBackend, lowered: IRModule, target: Target) -> CudaSource:
        plan, messages = launch_plan.plan_of(lowered)
        return CudaSource(text, messages, plan)

    with mock.patch.object(CudaBackend, "generate", generate):
        yield


def built(*functions: PrimFunc, target: str = "cuda -arch=sm_90") -> Module:
    """Host functions as a module that runs."""
    with printed_as(CUDA):
        return load(compile_lowered(lowered_module(*functions), Target(target)))


def uncompiled(*functions: PrimFunc) -> Module:
    """Host functions as a module for a driver that does not look at machine code."""
    nothing = compiler.CompiledKernels(b"no machine code", "", {})
    with (
        mock.patch.object(compiler, "compile_kernels", return_value=nothing),
        mock.patch.object(compiler, "compiler_version", return_value="13.0"),
    ):
        return built(*functions)
