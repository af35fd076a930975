# Script is Python to read, not to type-check: its annotations are calls.
# mypy: disable-error-code="valid-type, no-untyped-def"
"""Matrix products in every form in which programs write them down.

Each is a function of the types of its operands and its result; its block is called "C". Tests ask
which loops an instruction would take over, and TVM is asked the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.ir import PrimFunc
from tilewright.script import tir as T

Form = Callable[[str, str, str], PrimFunc]


def plain(a: str, b: str, c: str) -> PrimFunc:
    """Rows times columns."""

    @T.prim_func
    def main(A: T.Buffer((64, 128), a), B: T.Buffer((128, 32), b), C: T.Buffer((64, 32), c)):
        for i, j, k in T.grid(64, 32, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vi, vk]) * T.Cast(c, B[vk, vj])

    return main


def one_tile(a: str, b: str, c: str) -> PrimFunc:
    """As large as an instruction of 16 x 16 x 16."""

    @T.prim_func
    def main(A: T.Buffer((16, 16), a), B: T.Buffer((16, 16), b), C: T.Buffer((16, 16), c)):
        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vi, vk]) * T.Cast(c, B[vk, vj])

    return main


def ragged(a: str, b: str, c: str) -> PrimFunc:
    """Nothing divides anything."""

    @T.prim_func
    def main(A: T.Buffer((50, 61), a), B: T.Buffer((61, 37), b), C: T.Buffer((50, 37), c)):
        for i, j, k in T.grid(50, 37, 61):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vi, vk]) * T.Cast(c, B[vk, vj])

    return main


def other_loop_order(a: str, b: str, c: str) -> PrimFunc:
    """The loops are nested the other way round, the iterators are not."""

    @T.prim_func
    def main(A: T.Buffer((64, 128), a), B: T.Buffer((128, 32), b), C: T.Buffer((64, 32), c)):
        for k, j, i in T.grid(128, 32, 64):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vi, vk]) * T.Cast(c, B[vk, vj])

    return main


def other_iterator_order(a: str, b: str, c: str) -> PrimFunc:
    """The iterators come in another order than in any description."""

    @T.prim_func
    def main(A: T.Buffer((64, 128), a), B: T.Buffer((128, 32), b), C: T.Buffer((64, 32), c)):
        for k, j, i in T.grid(128, 32, 64):
            with T.block("C"):
                vk, vj, vi = T.axis.remap("RSS", [k, j, i])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vi, vk]) * T.Cast(c, B[vk, vj])

    return main


def factors_swapped(a: str, b: str, c: str) -> PrimFunc:
    """The right factor comes first in the product."""

    @T.prim_func
    def main(A: T.Buffer((64, 128), a), B: T.Buffer((128, 32), b), C: T.Buffer((64, 32), c)):
        for i, j, k in T.grid(64, 32, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, B[vk, vj]) * T.Cast(c, A[vi, vk])

    return main


def batched(a: str, b: str, c: str) -> PrimFunc:
    """Three products at once."""

    @T.prim_func
    def main(
        A: T.Buffer((3, 64, 128), a), B: T.Buffer((3, 128, 32), b), C: T.Buffer((3, 64, 32), c)
    ):
        for n, i, j, k in T.grid(3, 64, 32, 128):
            with T.block("C"):
                vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
                with T.init():
                    C[vn, vi, vj] = T.Cast(c, 0)
                C[vn, vi, vj] = C[vn, vi, vj] + T.Cast(c, A[vn, vi, vk]) * T.Cast(c, B[vn, vk, vj])

    return main


def shared_weights(a: str, b: str, c: str) -> PrimFunc:
    """Three left factors, one right factor."""

    @T.prim_func
    def main(A: T.Buffer((3, 64, 128), a), B: T.Buffer((128, 32), b), C: T.Buffer((3, 64, 32), c)):
        for n, i, j, k in T.grid(3, 64, 32, 128):
            with T.block("C"):
                vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
                with T.init():
                    C[vn, vi, vj] = T.Cast(c, 0)
                C[vn, vi, vj] = C[vn, vi, vj] + T.Cast(c, A[vn, vi, vk]) * T.Cast(c, B[vk, vj])

    return main


def right_transposed(a: str, b: str, c: str) -> PrimFunc:
    """The weights of a fully connected layer: a row is a column."""

    @T.prim_func
    def main(A: T.Buffer((64, 128), a), B: T.Buffer((32, 128), b), C: T.Buffer((64, 32), c)):
        for i, j, k in T.grid(64, 32, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vi, vk]) * T.Cast(c, B[vj, vk])

    return main


def left_transposed(a: str, b: str, c: str) -> PrimFunc:
    """The left factor is stored column by column."""

    @T.prim_func
    def main(A: T.Buffer((128, 64), a), B: T.Buffer((128, 32), b), C: T.Buffer((64, 32), c)):
        for i, j, k in T.grid(64, 32, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vk, vi]) * T.Cast(c, B[vk, vj])

    return main


def result_transposed(a: str, b: str, c: str) -> PrimFunc:
    """The result is stored column by column."""

    @T.prim_func
    def main(A: T.Buffer((64, 128), a), B: T.Buffer((128, 32), b), C: T.Buffer((32, 64), c)):
        for i, j, k in T.grid(64, 32, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vj, vi] = T.Cast(c, 0)
                C[vj, vi] = C[vj, vi] + T.Cast(c, A[vi, vk]) * T.Cast(c, B[vk, vj])

    return main


def packed(a: str, b: str, c: str) -> PrimFunc:
    """The right factor is packed in the order of a dot product of 16 x 4."""

    @T.prim_func
    def main(A: T.Buffer((64, 128), a), B: T.Buffer((2, 32, 16, 4), b), C: T.Buffer((64, 32), c)):
        for i, j, k in T.grid(64, 32, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(c, A[vi, vk]) * T.Cast(
                    c, B[vj // 16, vk // 4, vj % 16, vk % 4]
                )

    return main


def convolution(a: str, b: str, c: str) -> PrimFunc:
    """A window slides over an image with the channels last."""

    @T.prim_func
    def main(
        A: T.Buffer((2, 10, 18, 16), a),
        B: T.Buffer((3, 3, 16, 32), b),
        C: T.Buffer((2, 8, 16, 32), c),
    ):
        for n, h, w, o, r, s, i in T.grid(2, 8, 16, 32, 3, 3, 16):
            with T.block("C"):
                vn, vh, vw, vo, vr, vs, vi = T.axis.remap("SSSSRRR", [n, h, w, o, r, s, i])
                with T.init():
                    C[vn, vh, vw, vo] = T.Cast(c, 0)
                C[vn, vh, vw, vo] = C[vn, vh, vw, vo] + T.Cast(
                    c, A[vn, vh + vr, vw + vs, vi]
                ) * T.Cast(c, B[vr, vs, vi, vo])

    return main


def strided_convolution(a: str, b: str, c: str) -> PrimFunc:
    """A window that moves by two."""

    @T.prim_func
    def main(
        A: T.Buffer((1, 17, 33, 16), a),
        B: T.Buffer((3, 3, 16, 32), b),
        C: T.Buffer((1, 8, 16, 32), c),
    ):
        for n, h, w, o, r, s, i in T.grid(1, 8, 16, 32, 3, 3, 16):
            with T.block("C"):
                vn, vh, vw, vo, vr, vs, vi = T.axis.remap("SSSSRRR", [n, h, w, o, r, s, i])
                with T.init():
                    C[vn, vh, vw, vo] = T.Cast(c, 0)
                C[vn, vh, vw, vo] = C[vn, vh, vw, vo] + T.Cast(
                    c, A[vn, vh * 2 + vr, vw * 2 + vs, vi]
                ) * T.Cast(c, B[vr, vs, vi, vo])

    return main


def im2col(a: str, b: str, c: str) -> PrimFunc:
    """The same convolution as a product: rows are pixels, the reduction is the whole window."""

    @T.prim_func
    def main(A: T.Buffer((2, 10, 18, 16), a), B: T.Buffer((144, 32), b), C: T.Buffer((256, 32), c)):
        for i, j, k in T.grid(256, 32, 144):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c, 0)
                C[vi, vj] = C[vi, vj] + T.Cast(
                    c, A[vi // 128, vi % 128 // 16 + vk // 48, vi % 16 + vk % 48 // 16, vk % 16]
                ) * T.Cast(c, B[vk, vj])

    return main


def blocked_channels(a: str, b: str, c: str) -> PrimFunc:
    """`conv2d_NCHWc_int8`: channels in blocks, the weights in the order of a dot product."""

    @T.prim_func
    def main(
        A: T.Buffer((1, 4, 10, 10, 16), a),
        B: T.Buffer((2, 4, 3, 3, 4, 16, 4), b),
        C: T.Buffer((1, 2, 8, 8, 16), c),
    ):
        for n, oc, h, w, ob, r, s, ic, f, t in T.grid(1, 2, 8, 8, 16, 3, 3, 4, 4, 4):
            with T.block("C"):
                vn, vo, vh, vw, vb, vr, vs, vc, vf, vt = T.axis.remap(
                    "SSSSSRRRRR", [n, oc, h, w, ob, r, s, ic, f, t]
                )
                with T.init():
                    C[vn, vo, vh, vw, vb] = T.Cast(c, 0)
                C[vn, vo, vh, vw, vb] = C[vn, vo, vh, vw, vb] + T.Cast(
                    c, A[vn, vc, vh + vr, vw + vs, vf * 4 + vt]
                ) * T.Cast(c, B[vo, vc, vr, vs, vf, vb, vt])

    return main


def depthwise(a: str, b: str, c: str) -> PrimFunc:
    """No product of matrices: each channel has a window of its own."""

    @T.prim_func
    def main(
        A: T.Buffer((18, 18, 16), a), B: T.Buffer((3, 3, 16), b), C: T.Buffer((16, 16, 16), c)
    ):
        for h, w, o, r, s in T.grid(16, 16, 16, 3, 3):
            with T.block("C"):
                vh, vw, vo, vr, vs = T.axis.remap("SSSRR", [h, w, o, r, s])
                with T.init():
                    C[vh, vw, vo] = T.Cast(c, 0)
                C[vh, vw, vo] = C[vh, vw, vo] + T.Cast(c, A[vh + vr, vw + vs, vo]) * T.Cast(
                    c, B[vr, vs, vo]
                )

    return main


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        form.__name__: form
        for form in (
            plain,
            one_tile,
            ragged,
            other_loop_order,
            other_iterator_order,
            factors_swapped,
            batched,
            shared_weights,
            right_transposed,
            left_transposed,
            result_transposed,
            packed,
            convolution,
            strided_convolution,
            im2col,
            blocked_channels,
            depthwise,
        )
    }
)
