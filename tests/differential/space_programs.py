# mypy: disable-error-code="valid-type, no-untyped-def"
"""Programs that single rules are compared on."""

from __future__ import annotations

from tilewright.script import tir as T


@T.prim_func
def matmul_relu(
    A: T.Buffer((512, 512), "float32"),
    B: T.Buffer((512, 512), "float32"),
    D: T.Buffer((512, 512), "float32"),
):
    T.func_attr({"tir.noalias": T.bool(True)})
    C = T.alloc_buffer((512, 512), "float32")
    for i, j, k in T.grid(512, 512, 512):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(512, 512):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))


@T.prim_func
def constant_consumer(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    scalar = T.alloc_buffer((), "float32")
    table = T.alloc_buffer((16,), "float32")
    with T.block("scalar"):
        vi = T.axis.spatial(1, 0)
        scalar[()] = T.float32(3)
    for i in range(16):
        with T.block("table"):
            vi = T.axis.spatial(16, i)
            table[vi] = T.float32(2)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi] * table[vi] + scalar[()]


@T.prim_func
def copies(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    B = T.alloc_buffer((64, 64), "float32")
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
    for i, j in T.grid(64, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi] * T.float32(2)


@T.prim_func
def conv2d_nchwc_vnni(
    placeholder: T.Buffer((1, 4, 56, 56, 16), "uint8"),
    placeholder_1: T.Buffer((16, 4, 1, 1, 4, 16, 4), "int8"),
    conv2d_NCHWc_int8: T.Buffer((1, 16, 56, 56, 16), "int32"),
):
    T.func_attr({"tir.noalias": T.bool(True)})
    for i0, i1, i2, i3, i4, i5, i6, i7, i8, i9 in T.grid(1, 16, 56, 56, 16, 1, 1, 4, 4, 4):
        with T.block("conv2d_NCHWc_int8"):
            n, oc_chunk, oh, ow, oc_block, kh, kw, ic_outer, ic_f_inner, ic_s_inner = T.axis.remap(
                "SSSSSRRRRR", [i0, i1, i2, i3, i4, i5, i6, i7, i8, i9]
            )
            T.reads(
                placeholder[n, ic_outer, oh + kh, ow + kw, ic_f_inner * 4 + ic_s_inner],
                placeholder_1[oc_chunk, ic_outer, kh, kw, ic_f_inner, oc_block, ic_s_inner],
            )
            T.writes(conv2d_NCHWc_int8[n, oc_chunk, oh, ow, oc_block])
            with T.init():
                conv2d_NCHWc_int8[n, oc_chunk, oh, ow, oc_block] = 0
            conv2d_NCHWc_int8[n, oc_chunk, oh, ow, oc_block] = conv2d_NCHWc_int8[
                n, oc_chunk, oh, ow, oc_block
            ] + T.Cast(
                "int32", placeholder[n, ic_outer, oh + kh, ow + kw, ic_f_inner * 4 + ic_s_inner]
            ) * T.Cast(
                "int32",
                placeholder_1[oc_chunk, ic_outer, kh, kw, ic_f_inner, oc_block, ic_s_inner],
            )


@T.prim_func
def matmul_and_other_reader(
    A: T.Buffer((128, 128), "float32"),
    B: T.Buffer((128, 128), "float32"),
    D: T.Buffer((128, 128), "float32"),
):
    T.func_attr({"tir.noalias": T.bool(True)})
    C = T.alloc_buffer((128, 128), "float32")
    for i, j, k in T.grid(128, 128, 128):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(128, 128):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + A[vi, vj]
