# mypy: disable-error-code="valid-type, no-untyped-def"
"""Programs with blocks without iterators, data as indices, updates in place and odd bindings."""

from __future__ import annotations

from tilewright.ir import PrimFunc
from tilewright.script import tir as T


def nested() -> PrimFunc:
    """Loops around a block without iterators, which uses them."""

    @T.prim_func
    def main(X: T.Buffer((16, 15), "float32"), Y: T.Buffer((16, 15), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j in T.grid(16, 15):
            with T.block("outer"):
                T.reads(X[i, j])
                T.writes(Y[i, j])
                with T.block("inner"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(X[vi, vj])
                    T.writes(Y[vi, vj])
                    Y[vi, vj] = X[vi, vj] + T.float32(1)

    return main


def opaque_views() -> PrimFunc:
    """A block without iterators that matches and allocates by the loops around it."""

    @T.prim_func
    def main(X: T.Buffer((16, 16), "float32"), Y: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j in T.grid(4, 4):
            with T.block("outer"):
                T.reads(X[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                T.writes(Y[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                tile = T.match_buffer(
                    X[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4],
                    (4, 4),
                    strides=[16, 1],
                    offset_factor=1,
                )
                for a, b in T.grid(4, 4):
                    with T.block("inner"):
                        va, vb = T.axis.remap("SS", [a, b])
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.reads(tile[va, vb])
                        T.writes(Y[vi * 4 + va, vj * 4 + vb])
                        Y[vi * 4 + va, vj * 4 + vb] = tile[va, vb] * T.float32(2)

    return main


def guarded() -> PrimFunc:
    """A stage that the condition of its consumer reads, too."""

    @T.prim_func
    def main(X: T.Buffer((16,), "float32"), Y: T.Buffer((16,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        M = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("M"):
                v = T.axis.spatial(16, i)
                T.reads(X[v])
                T.writes(M[v])
                M[v] = X[v] * T.float32(2)
        for i in range(16):
            with T.block("Y"):
                v = T.axis.spatial(16, i)
                T.where(M[i] < T.float32(10))
                T.reads(M[v])
                T.writes(Y[v])
                Y[v] = M[v] + T.float32(1)

    return main


def indirect() -> PrimFunc:
    """A stage that says where the next one writes."""

    @T.prim_func
    def main(P: T.Buffer((1,), "int32"), X: T.Buffer((4, 4), "int32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        Q = T.alloc_buffer((1,), "int32")
        with T.block("Q"):
            T.reads(P[0])
            T.writes(Q[0])
            Q[0] = P[0]
        for j in range(4):
            with T.block("X"):
                v = T.axis.spatial(4, j)
                T.reads(Q[0])
                T.writes(X[Q[0], v])
                X[Q[0], v] = 0

    return main


def updated() -> PrimFunc:
    """An argument that is read first and overwritten later."""

    @T.prim_func
    def main(D: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        M = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("in"):
                v = T.axis.spatial(8, i)
                T.reads(D[v])
                T.writes(M[v])
                M[v] = D[v]
        for i in range(8):
            with T.block("out"):
                v = T.axis.spatial(8, i)
                T.reads(M[v])
                T.writes(D[v])
                D[v] = M[v] + T.float32(1)

    return main


def squares() -> PrimFunc:
    """Two affine loops below one that is squared."""

    @T.prim_func
    def main(X: T.Buffer((40, 4), "float32"), Y: T.Buffer((40, 4), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for a, b, c in T.grid(6, 4, 4):
            with T.block("Y"):
                i = T.axis.spatial(40, a * a + b)
                j = T.axis.spatial(4, c)
                T.reads(X[i, j])
                T.writes(Y[i, j])
                Y[i, j] = X[i, j]

    return main


def unit_reduction() -> PrimFunc:
    """A reduction with a loop of one iteration that binds nothing."""

    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, u, k in T.grid(8, 1, 16):  # noqa: B007
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    return main


def triangle() -> PrimFunc:
    """A reduction over as many elements as the loop around it has done."""

    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in range(8):
            for k in range(i):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    vk = T.axis.reduce(i, k)
                    T.reads(A[vi, vk])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

    return main


def outer_reduction() -> PrimFunc:
    """A reduction whose loop lies outside of the spatial one."""

    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for k, i in T.grid(16, 8):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                T.reads(A[vi, vk])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    return main


def written_then_read() -> PrimFunc:
    """Inside a block, one block writes what another reads."""

    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 16))
        for i in range(4):
            with T.block("scope"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi * 4 : vi * 4 + 4, 0:16], B[vi * 4 : vi * 4 + 4, 0:16])
                T.writes(B[vi * 4 : vi * 4 + 4, 0:16], C[vi * 4 : vi * 4 + 4, 0:16])
                for a, b in T.grid(4, 16):
                    with T.block("B"):
                        va, vb = T.axis.remap("SS", [a, b])
                        T.reads(A[vi * 4 + va, vb])
                        T.writes(B[vi * 4 + va, vb])
                        B[vi * 4 + va, vb] = A[vi * 4 + va, vb] * T.float32(2)
                for a, b in T.grid(4, 16):
                    with T.block("C"):
                        va, vb = T.axis.remap("SS", [a, b])
                        T.reads(B[vi * 4 + va, vb])
                        T.writes(C[vi * 4 + va, vb])
                        C[vi * 4 + va, vb] = B[vi * 4 + va, vb] + T.float32(1)

    return main


def three_poolings() -> PrimFunc:
    """Three poolings, one after the other."""

    @T.prim_func
    def main(A: T.Buffer((14, 14), "int8"), D: T.Buffer((8, 8), "int8")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((12, 12), "int8")
        C = T.alloc_buffer((10, 10), "int8")
        for i, j, r, s in T.grid(12, 12, 3, 3):
            with T.block("B"):
                vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                T.reads(A[vi + vr, vj + vs])
                T.writes(B[vi, vj])
                with T.init():
                    B[vi, vj] = T.int8(-128)
                B[vi, vj] = T.max(B[vi, vj], A[vi + vr, vj + vs])
        for i, j, r, s in T.grid(10, 10, 3, 3):
            with T.block("C"):
                vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                T.reads(B[vi + vr, vj + vs])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.int8(-128)
                C[vi, vj] = T.max(C[vi, vj], B[vi + vr, vj + vs])
        for i, j, r, s in T.grid(8, 8, 3, 3):
            with T.block("D"):
                vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                T.reads(C[vi + vr, vj + vs])
                T.writes(D[vi, vj])
                with T.init():
                    D[vi, vj] = T.int8(-128)
                D[vi, vj] = T.max(D[vi, vj], C[vi + vr, vj + vs])

    return main


def strided_poolings() -> PrimFunc:
    """Three poolings, the second of which leaves out every other element."""

    @T.prim_func
    def main(A: T.Buffer((23, 23), "int8"), D: T.Buffer((8, 8), "int8")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((21, 21), "int8")
        C = T.alloc_buffer((10, 10), "int8")
        for i, j, r, s in T.grid(21, 21, 3, 3):
            with T.block("B"):
                vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                T.reads(A[vi + vr, vj + vs])
                T.writes(B[vi, vj])
                with T.init():
                    B[vi, vj] = T.int8(-128)
                B[vi, vj] = T.max(B[vi, vj], A[vi + vr, vj + vs])
        for i, j, r, s in T.grid(10, 10, 3, 3):
            with T.block("C"):
                vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                T.reads(B[vi * 2 + vr, vj * 2 + vs])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.int8(-128)
                C[vi, vj] = T.max(C[vi, vj], B[vi * 2 + vr, vj * 2 + vs])
        for i, j, r, s in T.grid(8, 8, 3, 3):
            with T.block("D"):
                vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                T.reads(C[vi + vr, vj + vs])
                T.writes(D[vi, vj])
                with T.init():
                    D[vi, vj] = T.int8(-128)
                D[vi, vj] = T.max(D[vi, vj], C[vi + vr, vj + vs])

    return main
