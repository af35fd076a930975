# mypy: disable-error-code="valid-type, no-untyped-def"
"""Programs that the sequences transform; the part of a sequence's name before `__` is one of them.

Add programs as functions without arguments; keep to what TVM's own parser reads.
"""

from __future__ import annotations

from tilewright.ir import PrimFunc
from tilewright.script import tir as T


def matmul() -> PrimFunc:
    """One reduction."""

    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        C: T.Buffer((32, 48), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j, k in T.grid(32, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


def matmul_relu() -> PrimFunc:
    """A reduction and an elementwise consumer, through an intermediate buffer."""

    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        D: T.Buffer((32, 48), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        C = T.alloc_buffer((32, 48), "float32")
        for i, j, k in T.grid(32, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 48):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    return main


def chain() -> PrimFunc:
    """Three elementwise stages in a row."""

    @T.prim_func
    def main(A: T.Buffer((17, 20), "float32"), D: T.Buffer((17, 20), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((17, 20), "float32")
        C = T.alloc_buffer((17, 20), "float32")
        for i, j in T.grid(17, 20):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(17, 20):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
        for i, j in T.grid(17, 20):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] * B[vi, vj]

    return main


def symbolic() -> PrimFunc:
    """An elementwise stage over a size that is not known."""

    @T.prim_func
    def main(a: T.handle, b: T.handle, n: T.int32):
        T.func_attr({"tir.noalias": T.bool(True)})
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (n, 16), "float32")
        for i, j in T.grid(n, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    return main


def unit_loops() -> PrimFunc:
    """Loops of one iteration among others."""

    @T.prim_func
    def main(A: T.Buffer((1, 8, 1, 6), "float32"), B: T.Buffer((1, 8, 1, 6), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for n, i, c, j in T.grid(1, 8, 1, 6):
            with T.block("B"):
                vn, vi, vc, vj = T.axis.remap("SSSS", [n, i, c, j])
                B[vn, vi, vc, vj] = A[vn, vi, vc, vj] + T.float32(1)

    return main


def blur() -> PrimFunc:
    """A stencil over an intermediate buffer."""

    @T.prim_func
    def main(A: T.Buffer((20, 18), "float32"), C: T.Buffer((18, 16), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((20, 16), "float32")
        for i, j in T.grid(20, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + A[vi, vj + 1] + A[vi, vj + 2]
        for i, j in T.grid(18, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + B[vi + 1, vj] + B[vi + 2, vj]

    return main


def row_sum() -> PrimFunc:
    """A long reduction with little else."""

    @T.prim_func
    def main(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, k in T.grid(8, 128):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    return main


def padded_conv() -> PrimFunc:
    """Two elementwise stages, the second of which pads, and a convolution over them."""

    @T.prim_func
    def main(
        A: T.Buffer((1, 14, 14, 4), "float32"),
        W: T.Buffer((3, 3, 4, 8), "float32"),
        C: T.Buffer((1, 14, 14, 8), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        S = T.alloc_buffer((1, 14, 14, 4), "float32")
        P = T.alloc_buffer((1, 16, 16, 4), "float32")
        for n, h, w, c in T.grid(1, 14, 14, 4):
            with T.block("S"):
                vn, vh, vw, vc = T.axis.remap("SSSS", [n, h, w, c])
                S[vn, vh, vw, vc] = A[vn, vh, vw, vc] * T.float32(2)
        for n, h, w, c in T.grid(1, 16, 16, 4):
            with T.block("P"):
                vn, vh, vw, vc = T.axis.remap("SSSS", [n, h, w, c])
                T.reads(S[vn, vh - 1, vw - 1, vc])
                P[vn, vh, vw, vc] = T.if_then_else(
                    vh >= 1 and vh < 15 and vw >= 1 and vw < 15,
                    S[vn, vh - 1, vw - 1, vc],
                    T.float32(0),
                )
        for n, h, w, c, rh, rw, rc in T.grid(1, 14, 14, 8, 3, 3, 4):
            with T.block("C"):
                vn, vh, vw, vc, vrh, vrw, vrc = T.axis.remap("SSSSRRR", [n, h, w, c, rh, rw, rc])
                with T.init():
                    C[vn, vh, vw, vc] = T.float32(0)
                C[vn, vh, vw, vc] = (
                    C[vn, vh, vw, vc] + P[vn, vh + vrh, vw + vrw, vrc] * W[vrh, vrw, vrc, vc]
                )

    return main


def pool() -> PrimFunc:
    """Windows side by side over an intermediate buffer."""

    @T.prim_func
    def main(A: T.Buffer((20, 12), "float32"), C: T.Buffer((10, 4), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((20, 12), "float32")
        for i, j in T.grid(20, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j, r, q in T.grid(10, 4, 2, 3):
            with T.block("C"):
                vi, vj, vr, vq = T.axis.remap("SSRR", [i, j, r, q])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + B[vi * 2 + vr, vj * 3 + vq]

    return main


def views() -> PrimFunc:
    """One buffer and its readers: shifted, in steps, transposed, flattened, folded."""

    @T.prim_func
    def main(
        A: T.Buffer((8, 12), "float32"),
        shifted: T.Buffer((5, 12), "float32"),
        stepped: T.Buffer((4, 12), "float32"),
        turned: T.Buffer((12, 8), "float32"),
        flat: T.Buffer((96,), "float32"),
        folded: T.Buffer((2, 4, 12), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((8, 12), "float32")
        for i, j in T.grid(8, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(5, 12):
            with T.block("shifted"):
                vi, vj = T.axis.remap("SS", [i, j])
                shifted[vi, vj] = B[vi + 3, vj]
        for i, j in T.grid(4, 12):
            with T.block("stepped"):
                vi, vj = T.axis.remap("SS", [i, j])
                stepped[vi, vj] = B[vi * 2, vj]
        for i, j in T.grid(12, 8):
            with T.block("turned"):
                vi, vj = T.axis.remap("SS", [i, j])
                turned[vi, vj] = B[vj, vi] + T.float32(1)
        for i in range(96):
            with T.block("flat"):
                vi = T.axis.spatial(96, i)
                flat[vi] = B[vi // 12, vi % 12] + T.float32(1)
        for i, j, k in T.grid(2, 4, 12):
            with T.block("folded"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                folded[vi, vj, vk] = B[vi * 4 + vj, vk] + T.float32(1)

    return main


def flattened() -> PrimFunc:
    """A stage that is read in another shape."""

    @T.prim_func
    def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((24,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((4, 6), "float32")
        for i, j in T.grid(4, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i in range(24):
            with T.block("C"):
                vi = T.axis.spatial(24, i)
                C[vi] = B[vi // 6, vi % 6] + T.float32(1)

    return main


def folded() -> PrimFunc:
    """A stage that is read under two indices for one, and transposed."""

    @T.prim_func
    def main(A: T.Buffer((6, 4), "float32"), C: T.Buffer((4, 2, 3), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((6, 4), "float32")
        for i, j in T.grid(6, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j, k in T.grid(4, 2, 3):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                C[vi, vj, vk] = B[vj * 3 + vk, vi] + T.float32(1)

    return main


def cropped() -> PrimFunc:
    """A stage of which only a part is read."""

    @T.prim_func
    def main(A: T.Buffer((20, 20), "float32"), C: T.Buffer((10, 10), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((20, 20), "float32")
        for i, j in T.grid(20, 20):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(10, 10):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi + 3, vj] + T.float32(1)

    return main


def symbolic_chain() -> PrimFunc:
    """Two stages over a size that is not known."""

    @T.prim_func
    def main(a: T.handle, c: T.handle, n: T.int32):
        T.func_attr({"tir.noalias": T.bool(True)})
        A = T.match_buffer(a, (n, 16), "float32")
        C = T.match_buffer(c, (n, 16), "float32")
        B = T.alloc_buffer((n, 16), "float32")
        for i, j in T.grid(n, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(n, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)

    return main


def tall_sum() -> PrimFunc:
    """A stage, a reduction over it, and a stage that reads both."""

    @T.prim_func
    def main(A: T.Buffer((16, 64), "float32"), D: T.Buffer((16, 64), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 64), "float32")
        C = T.alloc_buffer((16,), "float32")
        for i, j in T.grid(16, 64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.exp(A[vi, vj])
        for i, k in T.grid(16, 64):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vk]
        for i, j in T.grid(16, 64):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] / C[vi]

    return main


def nested() -> PrimFunc:
    """A block that holds another one, between two plain stages."""

    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 16), "float32")
        C = T.alloc_buffer((16, 16), "float32")
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(4, 4):
            with T.block("outer"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                T.writes(C[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                for ii, jj in T.grid(4, 4):
                    with T.block("inner"):
                        vii, vjj = T.axis.remap("SS", [ii, jj])
                        C[vi * 4 + vii, vj * 4 + vjj] = B[vi * 4 + vii, vj * 4 + vjj] + T.float32(1)
        for i, j in T.grid(16, 16):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] * T.float32(3)

    return main


def interleaved() -> PrimFunc:
    """Two stages under one loop, and a third after it."""

    @T.prim_func
    def main(
        A: T.Buffer((32, 16), "float32"),
        C: T.Buffer((32, 16), "float32"),
        D: T.Buffer((32, 16), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((32, 16), "float32")
        for i0 in range(4):
            for i, j in T.grid(8, 16):
                with T.block("B"):
                    vi = T.axis.spatial(32, i0 * 8 + i)
                    vj = T.axis.spatial(16, j)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for i, j in T.grid(8, 16):
                with T.block("C"):
                    vi = T.axis.spatial(32, i0 * 8 + i)
                    vj = T.axis.spatial(16, j)
                    C[vi, vj] = B[vi, vj] + T.float32(1)
        for i, j in T.grid(32, 16):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] * T.float32(3)

    return main


def stencils() -> PrimFunc:
    """A maximum over windows of a maximum over windows."""

    @T.prim_func
    def main(A: T.Buffer((12, 12), "int8"), C: T.Buffer((8, 8), "int8")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((10, 10), "int8")
        for i, j, ki, kj in T.grid(10, 10, 3, 3):
            with T.block("B"):
                vi, vj, vki, vkj = T.axis.remap("SSRR", [i, j, ki, kj])
                with T.init():
                    B[vi, vj] = T.int8(-128)
                B[vi, vj] = T.max(B[vi, vj], A[vi + vki, vj + vkj])
        for i, j, ki, kj in T.grid(8, 8, 3, 3):
            with T.block("C"):
                vi, vj, vki, vkj = T.axis.remap("SSRR", [i, j, ki, kj])
                with T.init():
                    C[vi, vj] = T.int8(-128)
                C[vi, vj] = T.max(C[vi, vj], B[vi + vki, vj + vkj])

    return main


def resampled() -> PrimFunc:
    """Windows over an intermediate buffer that move three elements in two steps."""

    @T.prim_func
    def main(A: T.Buffer((28, 20), "int32"), C: T.Buffer((16, 16), "int32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((28, 20), "int32")
        for i, j in T.grid(28, 20):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2
        for i, j, r, s in T.grid(16, 16, 3, 3):
            with T.block("C"):
                vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + B[vi * 3 // 2 + vr, vj + vs]

    return main


def packed_dense() -> PrimFunc:
    """A product of bytes whose weights lie in tiles of 16x4, as dot products of x86 want them."""

    @T.prim_func
    def main(
        A: T.Buffer((8, 32), "uint8"),
        B: T.Buffer((2, 8, 16, 4), "int8"),
        C: T.Buffer((8, 32), "int32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j, k in T.grid(8, 32, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast(
                    "int32", B[vj // 16, vk // 4, vj % 16, vk % 4]
                )

    return main


def half_matmul() -> PrimFunc:
    """A product of float16 matrices, for tensor cores."""

    @T.prim_func
    def main(
        A: T.Buffer((32, 48), "float16"),
        B: T.Buffer((48, 64), "float16"),
        C: T.Buffer((32, 64), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j, k in T.grid(32, 64, 48):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])

    return main
