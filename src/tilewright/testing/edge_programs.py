# mypy: disable-error-code="valid-type, no-untyped-def"
"""Programs at the edges: extents of 0 and 1, sums of nothing, results without dimensions.

Each comes with what it computes, in NumPy and float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ir import PrimFunc
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.script import tir as T

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class EdgeProgram:
    """A program whose last arguments are its results."""

    func: PrimFunc
    in_numpy: Callable[..., Array | tuple[Array, ...]]
    inputs: int

    def arguments(self) -> list[Array]:
        """Random inputs, and results that hold what no program here computes."""
        rng = np.random.default_rng(0)
        arrays = []
        for position, param in enumerate(self.func.params):
            buffer = self.func.buffer_map[param]
            shape = tuple(int(extent) for extent in buffer.shape)  # type: ignore[call-overload]
            values = rng.integers(0, 9, shape) if position < self.inputs else np.full(shape, 77)
            arrays.append(np.array(values).astype(to_numpy(buffer.dtype)))
        return arrays

    def check(self, run: Callable[..., object]) -> None:
        """Run it somehow, and compare the results."""
        args = self.arguments()
        exact = self.in_numpy(*(array.astype(np.float64) for array in args[: self.inputs]))
        run(*args)
        wanted = exact if isinstance(exact, tuple) else (exact,)
        for want, have in zip(wanted, args[self.inputs :], strict=True):
            np.testing.assert_allclose(have.astype(np.float64), want, rtol=1e-5)


def add(shape: tuple[int, ...]) -> PrimFunc:
    @T.prim_func
    def point(A: T.Buffer((), "float32"), B: T.Buffer((), "float32")):
        with T.block("B"):
            _ = T.axis.spatial(1, 0)
            B[()] = A[()] + T.float32(1)

    if not shape:
        return point
    rows, columns = (*shape, 1)[:2]

    @T.prim_func
    def vector(A: T.Buffer(rows, "float32"), B: T.Buffer(rows, "float32")):
        for i in range(rows):
            with T.block("B"):
                vi = T.axis.spatial(rows, i)
                B[vi] = A[vi] + T.float32(1)

    @T.prim_func
    def matrix(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows, columns), "float32")):
        for i, j in T.grid(rows, columns):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    return vector if len(shape) == 1 else matrix


def rowsum(m: int, k: int) -> PrimFunc:
    @T.prim_func
    def f(A: T.Buffer((m, k), "float32"), B: T.Buffer((m,), "float32")):
        for i, j in T.grid(m, k):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vj]

    return f


def colmax(m: int, k: int) -> PrimFunc:
    @T.prim_func
    def f(A: T.Buffer((k, m), "float32"), B: T.Buffer((m,), "float32")):
        for i, j in T.grid(m, k):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.min_value("float32")
                B[vi] = T.max(B[vi], A[vj, vi])

    return f


def total(m: int, k: int) -> PrimFunc:
    @T.prim_func
    def f(A: T.Buffer((m, k), "float32"), B: T.Buffer((), "float32")):
        for i, j in T.grid(m, k):
            with T.block("B"):
                vi, vj = T.axis.remap("RR", [i, j])
                with T.init():
                    B[()] = T.float32(0)
                B[()] = B[()] + A[vi, vj]

    return f


def matmul(m: int, n: int, k: int, a: str = "float32", c: str = "float32", b: str = "") -> PrimFunc:
    b = b or a

    @T.prim_func
    def f(A: T.Buffer((m, k), a), B: T.Buffer((k, n), b), C: T.Buffer((m, n), c)):
        for i, j, l in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vi, vk]) * T.Cast(c, B[vk, vj])

    return f


def dense_relu(m: int, n: int, k: int) -> PrimFunc:
    @T.prim_func
    def f(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((n, k), "float32"),
        D: T.Buffer((m, n), "float32"),
    ):
        C = T.alloc_buffer((m, n))
        for i, j, l in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
        for i, j in T.grid(m, n):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj] + T.float32(1), T.float32(0))

    return f


def softmax(m: int, k: int) -> PrimFunc:
    @T.prim_func
    def f(A: T.Buffer((m, k), "float32"), B: T.Buffer((m, k), "float32")):
        M = T.alloc_buffer((m,))
        E = T.alloc_buffer((m, k))
        S = T.alloc_buffer((m,))
        for i, j in T.grid(m, k):
            with T.block("M"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], A[vi, vj])
        for i, j in T.grid(m, k):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = T.exp(A[vi, vj] - M[vi])
        for i, j in T.grid(m, k):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + E[vi, vj]
        for i, j in T.grid(m, k):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = E[vi, vj] / S[vi]

    return f


def conv(n: int, h: int, ci: int, co: int) -> PrimFunc:
    @T.prim_func
    def f(
        A: T.Buffer((n, h + 2, h + 2, ci), "float32"),
        W: T.Buffer((3, 3, ci, co), "float32"),
        B: T.Buffer((n, h, h, co), "float32"),
    ):
        for b, y, x, c, ry, rx, rc in T.grid(n, h, h, co, 3, 3, ci):
            with T.block("B"):
                vb, vy, vx, vc, vry, vrx, vrc = T.axis.remap("SSSSRRR", [b, y, x, c, ry, rx, rc])
                with T.init():
                    B[vb, vy, vx, vc] = T.float32(0)
                B[vb, vy, vx, vc] = (
                    B[vb, vy, vx, vc] + A[vb, vy + vry, vx + vrx, vrc] * W[vry, vrx, vrc, vc]
                )

    return f


def mixed(m: int, n: int) -> PrimFunc:
    @T.prim_func
    def f(
        A: T.Buffer((m, 5), "float32"),
        X: T.Buffer((n, 32), "float32"),
        B: T.Buffer((m, 5), "float32"),
        Y: T.Buffer((n,), "float32"),
    ):
        for i, j in T.grid(m, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(n, 32):
            with T.block("Y"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vj]

    return f


def _softmax(a: Array) -> Array:
    if a.size == 0:
        return a
    exps = np.exp(a - a.max(axis=1, keepdims=True))
    return np.asarray(exps / exps.sum(axis=1, keepdims=True))


def _conv(a: Array, w: Array) -> Array:
    size = a.shape[1] - 2
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(1, 2))
    found = np.einsum("byxcij,ijcd->byxd", windows, w)
    return np.asarray(found).reshape(len(a), size, size, w.shape[3])


def _largest(a: Array) -> Array:
    return np.asarray(a.max(axis=0, initial=np.finfo(np.float32).min))


def _programs() -> dict[str, EdgeProgram]:
    found = {}
    for shape in [(0,), (0, 5), (3, 0), (), (1,), (1, 1)]:
        found[f"add {shape}"] = EdgeProgram(add(shape), lambda a: a + 1, 1)
    for sizes in [(3, 0), (0, 3), (1, 1)]:
        found[f"row sums {sizes}"] = EdgeProgram(rowsum(*sizes), lambda a: a.sum(axis=1), 1)
        found[f"largest {sizes}"] = EdgeProgram(colmax(*sizes), _largest, 1)
    for sizes in [(3, 0), (0, 0), (1, 1), (3, 7)]:
        found[f"total {sizes}"] = EdgeProgram(total(*sizes), lambda a: np.asarray(a.sum()), 1)
    for extents in [(0, 4, 5), (4, 0, 5), (4, 5, 0), (1, 1, 1), (64, 64, 0)]:
        found[f"matmul {extents}"] = EdgeProgram(matmul(*extents), lambda a, b: a @ b, 2)
    bytes_ = matmul(16, 16, 0, "uint8", "int32", "int8")
    found["matmul of bytes (16, 16, 0)"] = EdgeProgram(bytes_, lambda a, b: a @ b, 2)
    half = matmul(16, 0, 16, "bfloat16", "float32")
    found["matmul of bfloat16 (16, 0, 16)"] = EdgeProgram(half, lambda a, b: a @ b, 2)
    dense = dense_relu(16, 16, 0)
    found["dense (16, 16, 0)"] = EdgeProgram(dense, lambda a, b: np.maximum(a @ b.T + 1, 0), 2)
    for sizes in [(0, 5), (5, 0), (1, 1)]:
        found[f"softmax {sizes}"] = EdgeProgram(softmax(*sizes), _softmax, 1)
    for batch, channels in [(0, 3), (1, 0), (1, 1)]:
        program = conv(batch, 1 + channels, channels, 4)
        found[f"conv {batch}, {channels}"] = EdgeProgram(program, _conv, 2)
    for sizes in [(0, 64), (64, 0)]:
        both = EdgeProgram(mixed(*sizes), lambda a, x: (a * 2, x.sum(axis=1)), 2)
        found[f"empty and not {sizes}"] = both
    return found


EDGE_PROGRAMS = _programs()


@T.prim_func
def ragged_rows(
    n: T.Buffer((64,), "int32"), A: T.Buffer((64, 32), "float32"), y: T.Buffer((64,), "float32")
):
    """Sums of rows, each of a length of its own."""
    for i in range(64):
        for k in range(n[i]):
            with T.block("sum"):
                vi = T.axis.spatial(64, i)
                vk = T.axis.reduce(32, k)
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] = y[vi] + A[vi, vk]
