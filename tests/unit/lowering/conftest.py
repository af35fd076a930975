"""Programs that the tests of lowering share, and how to run them before and after a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.ir import IntImm, IRModule, PrimFunc, Var
from tilewright.script import from_source
from tilewright.testing.oracle import run

HEADER = "from tilewright.script import tir as T\n\n"

SOURCES: dict[str, str] = {}

SOURCES["matmul"] = """
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 12), "float32"),
         C: T.Buffer((16, 12), "float32")):
    for i, j, k in T.grid(16, 12, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

SOURCES["matmul_imperfect_tiles"] = """
@T.prim_func
def main(A: T.Buffer((13, 7), "float32"), B: T.Buffer((7, 21), "float32"),
         C: T.Buffer((13, 21), "float32")):
    for i0, j0, k, i1 in T.grid(4, 3, 7, 4):
        for j1 in T.vectorized(8):
            with T.block("C"):
                vi = T.axis.spatial(13, i0 * 4 + i1)
                vj = T.axis.spatial(21, j0 * 8 + j1)
                vk = T.axis.reduce(7, k)
                T.where(i0 * 4 + i1 < 13 and j0 * 8 + j1 < 21)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

SOURCES["matmul_fused_parallel"] = """
@T.prim_func
def main(A: T.Buffer((13, 7), "float32"), B: T.Buffer((7, 21), "float32"),
         C: T.Buffer((13, 21), "float32")):
    for f in T.parallel(12):
        for i1_init in range(4):
            for j1_init in T.vectorized(8):
                with T.block("C_init"):
                    vi = T.axis.spatial(13, f // 3 * 4 + i1_init)
                    vj = T.axis.spatial(21, f % 3 * 8 + j1_init)
                    T.where(f // 3 * 4 + i1_init < 13 and f % 3 * 8 + j1_init < 21)
                    C[vi, vj] = T.float32(0)
        for k, i1 in T.grid(7, 4):
            for j1 in T.vectorized(8):
                with T.block("C_update"):
                    vi = T.axis.spatial(13, f // 3 * 4 + i1)
                    vj = T.axis.spatial(21, f % 3 * 8 + j1)
                    vk = T.axis.reduce(7, k)
                    T.where(f // 3 * 4 + i1 < 13 and f % 3 * 8 + j1 < 21)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

SOURCES["matmul_register_tile"] = """
@T.prim_func
def main(A: T.Buffer((16, 24), "float32"), B: T.Buffer((24, 32), "float32"),
         C: T.Buffer((16, 32), "float32")):
    C_local = T.alloc_buffer((16, 32), "float32", scope="local")
    for i0 in T.parallel(4, annotations={"pragma_auto_unroll_max_step": 64,
                                         "pragma_unroll_explicit": 1}):
        for j0 in range(2):
            for i1_init in T.unroll(4):
                for j1_init in T.vectorized(16):
                    with T.block("C_init"):
                        vi = T.axis.spatial(16, i0 * 4 + i1_init)
                        vj = T.axis.spatial(32, j0 * 16 + j1_init)
                        C_local[vi, vj] = T.float32(0)
            for k in range(24):
                for i1 in T.unroll(4):
                    for j1 in T.vectorized(16):
                        with T.block("C_update"):
                            vi = T.axis.spatial(16, i0 * 4 + i1)
                            vj = T.axis.spatial(32, j0 * 16 + j1)
                            vk = T.axis.reduce(24, k)
                            C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
            for i1 in range(4):
                for j1 in T.vectorized(16):
                    with T.block("C_local"):
                        vi = T.axis.spatial(16, i0 * 4 + i1)
                        vj = T.axis.spatial(32, j0 * 16 + j1)
                        C[vi, vj] = C_local[vi, vj]
"""

SOURCES["padded_row"] = """
@T.prim_func
def main(A: T.Buffer((3, 20), "float32"), B: T.Buffer((3, 24), "float32")):
    for i in range(3):
        for j in T.vectorized(24):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(2 <= vj and vj < 22, A[vi, vj - 2], T.float32(-1))
"""

SOURCES["softmax"] = """
@T.prim_func
def main(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")):
    top = T.alloc_buffer((4,), "float32")
    e = T.alloc_buffer((4, 32), "float32")
    total = T.alloc_buffer((4,), "float32")
    for i in T.parallel(4):
        for k in range(32):
            with T.block("top"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    top[vi] = T.min_value("float32")
                top[vi] = T.max(top[vi], A[vi, vk])
        for k in T.vectorized(32):
            with T.block("e"):
                vi, vk = T.axis.remap("SS", [i, k])
                e[vi, vk] = T.exp(A[vi, vk] - top[vi])
        for k in T.vectorized(32):
            with T.block("total"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + e[vi, vk]
        for k in T.vectorized(32):
            with T.block("B"):
                vi, vk = T.axis.remap("SS", [i, k])
                B[vi, vk] = e[vi, vk] / total[vi]
"""

SOURCES["chain_of_temporaries"] = """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), D: T.Buffer((64, 64), "float32")):
    X = T.alloc_buffer((64, 64), "float32")
    Y = T.alloc_buffer((64, 64), "float32")
    Z = T.alloc_buffer((64, 64), "float32")
    for i, j in T.grid(64, 64):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(64, 64):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * T.float32(2)
    for i, j in T.grid(64, 64):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vj, vi]
    for i, j in T.grid(64, 64):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = Z[vi, vj] + T.float32(3)
"""

SOURCES["argmax"] = """
@T.prim_func
def main(A: T.Buffer((5, 9), "float32"), I: T.Buffer((5,), "int32"), V: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(I[vi], V[vi])
            with T.init():
                I[vi] = -1
                V[vi] = T.min_value("float32")
            better = T.meta_var(V[vi] >= A[vi, vk])
            index: T.int32 = T.Select(better, I[vi], vk)
            value: T.float32 = T.Select(better, V[vi], A[vi, vk])
            I[vi] = index
            V[vi] = value
"""

SOURCES["wide_indices"] = """
@T.prim_func
def main(A: T.Buffer((T.int64(6), T.int64(8)), "float32"),
         B: T.Buffer((T.int64(6), T.int64(8)), "float32")):
    for i, j in T.grid(T.int64(6), T.int64(8)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.Cast("float32", vi)
"""

SOURCES["bfloat16_sum"] = """
@T.prim_func
def main(A: T.Buffer((6, 8), "bfloat16"), B: T.Buffer((6, 8), "bfloat16"),
         C: T.Buffer((6, 8), "bfloat16")):
    for i in range(6):
        for j in T.vectorized(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * B[vi, vj] + A[vi, vj]
"""

SOURCES["views"] = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
            s0 = T.int32()
            s1 = T.int32()
            sub_a = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32",
                                   strides=[s0, s1], offset_factor=4)
            sub_b = T.match_buffer(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32")
            for x, y in T.grid(4, 4):
                sub_b[x, y] = sub_a[y, x]
"""

SOURCES["symbolic_vector_add"] = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i0 in range((n + 15) // 16):
        for i1 in T.vectorized(16):
            with T.block("B"):
                vi = T.axis.spatial(n, i0 * 16 + i1)
                T.where(i0 * 16 + i1 < n)
                B[vi] = A[vi] + T.float32(1)
"""

SHAPES = {"symbolic_vector_add": {"n": 37}}


@dataclass(frozen=True)
class Program:
    """A function and the arguments to run it on."""

    name: str
    func: PrimFunc

    def arguments(self) -> list[np.ndarray[Any, Any]]:
        """Fresh random arrays; outputs are filled with numbers that must not survive."""
        rng = np.random.default_rng(7)
        sizes = SHAPES.get(self.name, {})
        made = []
        for param in self.func.params:
            buffer = self.func.buffer_map[param]
            shape = [_extent(extent, sizes) for extent in buffer.shape]
            dtype = ml_dtypes.bfloat16 if buffer.dtype == "bfloat16" else str(buffer.dtype)
            made.append((rng.standard_normal(shape) * 4).astype(dtype))
        return made

    def results(self, module: PrimFunc | IRModule) -> list[np.ndarray[Any, Any]]:
        """All arguments after running `module` with extra parameters appended as it needs them."""
        arrays = self.arguments()
        func = module if isinstance(module, PrimFunc) else module[self.func.name]
        extra = SHAPES.get(self.name, {}).values() if not func.buffer_map else ()
        arguments: list[Any] = list(arrays)
        if extra:
            arguments[1:1] = extra  # derived sizes follow the first buffer
        run(module, *arguments, name=self.func.name)
        return arrays


def _extent(extent: Any, sizes: dict[str, int]) -> int:
    if isinstance(extent, IntImm):
        return extent.value
    assert isinstance(extent, Var)
    return sizes[extent.name]


def load(name: str) -> Program:
    """A shared program by name."""
    func = from_source(HEADER + SOURCES[name])
    assert isinstance(func, PrimFunc)
    return Program(name, func)


@pytest.fixture(params=sorted(SOURCES))
def program(request: pytest.FixtureRequest) -> Program:
    """Each of the shared programs in turn."""
    return load(request.param)


@pytest.fixture
def program_named() -> Callable[[str], Program]:
    """A shared program by name."""
    return load


@pytest.fixture
def parse() -> Callable[[str], PrimFunc]:
    """A function from its script."""

    def parse_function(source: str) -> PrimFunc:
        func = from_source(HEADER + source)
        assert isinstance(func, PrimFunc)
        return func

    return parse_function
