"""TVM's side of `tune_int8`: `["tune", kind, sizes, trials]`; see `tvm_session`.

    kind "gemm", sizes [M, N, K]
    kind "conv", sizes [size, CI, CO, kernel_size, stride, padding], NHWC

Data are unsigned bytes, weights signed ones. TVM's rule wants the weights in the order in which the
instruction reads them, [..., columns / 16, depth / 4, 16, 4], so they are given to it like that.
"""

import numpy as np
import tvm
import tvm.s_tir.tensor_intrin  # registers the intrinsics
from tvm import te
from tvm.s_tir import TensorIntrin
from tvm_session import Session, arguments_of, serve

LANES, DEPTH = 16, 4  # of vpdpbusd
INTRINSIC = "dot_16x4_vnni"


def repair_intrinsic() -> None:
    """Let TVM call the instruction with bytes.

    TVM 0.25 hands its LLVM vectors of 32-bit integers, as LLVM wanted them before it changed the
    types of this intrinsic: not one tensorized candidate builds. Without the repair there would be
    nothing to compare with.
    """
    found = TensorIntrin.get(INTRINSIC)
    old = found.impl.script()
    as_words = "T.Broadcast(A_i32, 16), B_i32x16)"
    as_bytes = 'T.reinterpret("int8x64", T.Broadcast(A_i32, 16)), B_i8x64)'
    if as_words not in old:
        raise RuntimeError(f"{INTRINSIC} is not what this repairs; does TVM work as it is?")
    repaired = tvm.script.from_source(old.replace(as_words, as_bytes))
    TensorIntrin.register(INTRINSIC, found.desc, repaired, override=True)


def gemm(m: int, n: int, k: int):
    """A product of matrices."""
    x = te.placeholder((m, k), "uint8", name="X")
    w = te.placeholder((n // LANES, k // DEPTH, LANES, DEPTH), "int8", name="W")
    r = te.reduce_axis((0, k), name="k")
    y = te.compute(
        (m, n),
        lambda i, j: te.sum(
            x[i, r].astype("int32")
            * w[j // LANES, r // DEPTH, j % LANES, r % DEPTH].astype("int32"),
            axis=[r],
        ),
        name="Y",
    )
    return te.create_prim_func([x, w, y])


def conv(size: int, ci: int, co: int, kernel: int, stride: int, padding: int):
    """A convolution of a square image."""
    x = te.placeholder((1, size, size, ci), "uint8", name="X")
    shape = (kernel, kernel, co // LANES, ci // DEPTH, LANES, DEPTH)
    w = te.placeholder(shape, "int8", name="W")
    padded = _padded(x, padding) if padding else x
    rh, rw = (te.reduce_axis((0, kernel), name=name) for name in ("rh", "rw"))
    rc = te.reduce_axis((0, ci), name="rc")
    out = (size + 2 * padding - kernel) // stride + 1

    def products(n, h, v, c):
        weight = w[rh, rw, c // LANES, rc // DEPTH, c % LANES, rc % DEPTH]
        data = padded[n, h * stride + rh, v * stride + rw, rc]
        return te.sum(data.astype("int32") * weight.astype("int32"), axis=[rh, rw, rc])

    y = te.compute((1, out, out, co), products, name="Y")
    return te.create_prim_func([x, w, y])


def _padded(x, padding: int):
    n, h, w, c = x.shape

    def inside(b, i, j, channel):
        row, column = i - padding, j - padding
        known = te.all(row >= 0, row < h, column >= 0, column < w)
        return te.if_then_else(known, x[b, row, column, channel], te.const(0, x.dtype))

    return te.compute((n, h + 2 * padding, w + 2 * padding, c), inside, name="padded")


KINDS = {"gemm": gemm, "conv": conv}


class Int8(Session):
    """Products of bytes; a question that is asked twice in a row is answered once."""

    def __init__(self, target: dict) -> None:
        super().__init__(target)
        repair_intrinsic()
        self.question, self.answer = None, {}

    def create(self, kind: str, sizes: list):
        return KINDS[kind](*sizes)

    def data(self, func) -> list:
        random = np.random.default_rng(0)
        arrays = []
        for shape, dtype in arguments_of(func):
            limits = np.iinfo(dtype)
            low, high = (0, 1) if dtype == "int32" else (limits.min, limits.max + 1)
            arrays.append(random.integers(low, high, shape, dtype=dtype))
        return arrays

    def tune(self, *question) -> dict:
        if question != self.question:
            self.question = None  # until this one is answered
            answer = super().tune(*question)
            self.check(question[0], question[1])
            if "vpdpbusd" not in self.executable.mod.inspect_source("asm"):
                answer["note"] += "; no VNNI in its best"
            self.answer = answer
            self.question = question
        return self.answer

    def check(self, kind: str, sizes: list) -> None:
        """The best kernel must be right."""
        self.kernel(*self.arguments)
        x, w, y = (argument.numpy() for argument in self.arguments)
        w = np.swapaxes(w, -1, -2).astype("float64")  # ..., columns, depth, 4, 16
        w = np.moveaxis(w, -4, -2).reshape(*w.shape[:-4], w.shape[-3] * DEPTH, -1)
        if not np.array_equal(_expected(kind, sizes, x.astype("float64"), w), y):
            raise RuntimeError("its best kernel computes something else")


def _expected(kind: str, sizes: list, x, w):
    """In float64, where sums of products of bytes are exact."""
    if kind == "gemm":
        return x @ w
    *_, kernel, stride, padding = sizes
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    last = x.shape[1] - kernel + 1
    window = [(i, j) for i in range(kernel) for j in range(kernel)]
    return sum(x[:, i : i + last : stride, j : j + last : stride] @ w[i, j] for i, j in window)


if __name__ == "__main__":
    serve(Int8)
