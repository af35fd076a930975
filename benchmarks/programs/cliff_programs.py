"""The programs of `benchmarks/cliffs.py`, as users write them: in TIR, in te, with topi."""

from __future__ import annotations

from tilewright import te, tir, topi
from tilewright.ir import PrimExpr, PrimFunc, Var
from tilewright.script import tir as T


def jacobi(size: int = 512, steps: int = 4) -> PrimFunc:
    """Steps of the five-point stencil; the border stays."""

    def step(before: te.Tensor, name: str) -> te.Tensor:
        def element(i: Var, j: Var) -> PrimExpr:
            inside = tir.logical_and(*(tir.logical_and(x > 0, x < size - 1) for x in (i, j)))
            around = before[i - 1, j] + before[i + 1, j] + before[i, j - 1] + before[i, j + 1]
            return te.if_then_else(inside, around * te.const(0.25, "float32"), before[i, j])

        return te.compute((size, size), element, name=name)

    grid = te.placeholder((size, size), name="A")
    state = grid
    for number in range(steps):
        state = step(state, f"step{number}")
    return te.create_prim_func([grid, state])


def blur(size: int = 1024) -> PrimFunc:
    """A box of 3 x 3 as rows, then columns."""
    image = te.placeholder((size + 2, size + 2), name="A")
    across = te.compute(
        (size + 2, size),
        lambda i, j: (image[i, j] + image[i, j + 1] + image[i, j + 2]) * te.const(1 / 3, "float32"),
        name="across",
    )
    down = te.compute(
        (size, size),
        lambda i, j: (
            (across[i, j] + across[i + 1, j] + across[i + 2, j]) * te.const(1 / 3, "float32")
        ),
        name="down",
    )
    return te.create_prim_func([image, down])


@T.prim_func
def embedding(
    table: T.Buffer((30000, 256), "float32"),
    index: T.Buffer((512,), "int64"),
    out: T.Buffer((512, 256), "float32"),
) -> None:
    for i, j in T.grid(512, 256):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = table[index[vi], vj]


@T.prim_func
def butterfly(
    real: T.Buffer((65536,), "float32"),
    imaginary: T.Buffer((65536,), "float32"),
    cosine: T.Buffer((32768,), "float32"),
    sine: T.Buffer((32768,), "float32"),
    out_real: T.Buffer((65536,), "float32"),
    out_imaginary: T.Buffer((65536,), "float32"),
) -> None:
    for i in range(32768):
        with T.block("butterfly"):
            v = T.axis.spatial(32768, i)
            out_real[v] = real[v * 2] + cosine[v] * real[v * 2 + 1] - sine[v] * imaginary[v * 2 + 1]
            out_imaginary[v] = (
                imaginary[v * 2] + cosine[v] * imaginary[v * 2 + 1] + sine[v] * real[v * 2 + 1]
            )
            out_real[v + 32768] = (
                real[v * 2] - cosine[v] * real[v * 2 + 1] + sine[v] * imaginary[v * 2 + 1]
            )
            out_imaginary[v + 32768] = (
                imaginary[v * 2] - cosine[v] * imaginary[v * 2 + 1] - sine[v] * real[v * 2 + 1]
            )


def argmin_columns(rows: int = 1024, columns: int = 1024) -> PrimFunc:
    """The position of the least element of each column."""
    data = te.placeholder((rows, columns), name="A")
    return te.create_prim_func([data, topi.argmin(data, axis=0)])


def gemv(depth: int, columns: int, dtype: str) -> PrimFunc:
    """A row times a matrix."""
    row = te.placeholder((1, depth), dtype, name="A")
    matrix = te.placeholder((depth, columns), dtype, name="B")
    return te.create_prim_func([row, matrix, topi.matmul(row, matrix)])


def dense_row(depth: int, columns: int, dtype: str) -> PrimFunc:
    """A dense layer of one row: the weights lie along the depth."""
    row = te.placeholder((1, depth), dtype, name="A")
    weight = te.placeholder((columns, depth), dtype, name="W")
    return te.create_prim_func([row, weight, topi.nn.dense(row, weight)])


def row_sum(rows: int, columns: int, dtype: str) -> PrimFunc:
    """The sum of each row."""
    data = te.placeholder((rows, columns), dtype, name="A")
    return te.create_prim_func([data, topi.sum(data, axis=1)])


@T.prim_func
def row_sum_in_place(
    A: T.Buffer((1024, 1024), "float16"), out: T.Buffer((1024,), "float16")
) -> None:
    for i, k in T.grid(1024, 1024):
        with T.block("out"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                out[vi] = T.float16(0)
            out[vi] = out[vi] + A[vi, vk]


def conv_transpose(channels: int = 64, size: int = 28) -> PrimFunc:
    """An upsampling layer in PyTorch's layout."""
    data = te.placeholder((1, channels, size, size), name="A")
    weight = te.placeholder((channels, channels, 4, 4), name="W")
    out = topi.nn.conv2d_transpose_nchw(data, weight, (2, 2), (1, 1), "float32", (0, 0))
    return te.create_prim_func([data, weight, out])


def attention(heads: int = 8, length: int = 256, width: int = 64) -> PrimFunc:
    """Scaled dot-product attention, written out."""
    q, k, v = (te.placeholder((heads, length, width), name=name) for name in "QKV")
    d = te.reduce_axis((0, width), name="d")
    score = te.compute(
        (heads, length, length),
        lambda h, i, j: te.sum(q[h, i, d] * k[h, j, d], axis=d),
        name="score",
    )
    scaled = te.compute(
        (heads, length, length),
        lambda h, i, j: score[h, i, j] * te.const(width**-0.5, "float32"),
        name="scaled",
    )
    share = topi.nn.softmax(scaled, axis=-1)
    j = te.reduce_axis((0, length), name="j")
    out = te.compute(
        (heads, length, width),
        lambda h, i, c: te.sum(share[h, i, j] * v[h, j, c], axis=j),
        name="out",
    )
    return te.create_prim_func([q, k, v, out])


@T.prim_func
def cumsum(A: T.Buffer((1024, 256), "float32"), out: T.Buffer((1024, 256), "float32")) -> None:
    for i, j in T.grid(1024, 256):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.if_then_else(vj == 0, T.float32(0), out[vi, vj - 1]) + A[vi, vj]


def any_both(rows: int = 1024, columns: int = 1024) -> PrimFunc:
    """Whether some element of each row is set in both masks."""
    a, b = (te.placeholder((rows, columns), "bool", name=name) for name in "ab")
    both = te.compute((rows, columns), lambda i, j: tir.logical_and(a[i, j], b[i, j]), name="both")
    return te.create_prim_func([a, b, topi.any(both, axis=1)])


@T.prim_func
def spmv(
    indptr: T.Buffer((4097,), "int32"),
    columns: T.Buffer((65536,), "int32"),
    values: T.Buffer((65536,), "float32"),
    x: T.Buffer((4096,), "float32"),
    y: T.Buffer((4096,), "float32"),
) -> None:
    for i in range(4096):
        with T.block("row"):
            vi = T.axis.spatial(4096, i)
            y[vi] = T.float32(0)
            for k in range(indptr[vi + 1] - indptr[vi]):
                y[vi] = y[vi] + values[indptr[vi] + k] * x[columns[indptr[vi] + k]]


def symbolic_matmul(depth: int = 512, columns: int = 512) -> PrimFunc:
    """A product whose number of rows is known only when it is called."""
    n = te.var("n")
    a = te.placeholder((n, depth), name="A")
    b = te.placeholder((depth, columns), name="B")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def symbolic_product() -> PrimFunc:
    """A product of which no size is known."""
    n, m, k = te.var("n"), te.var("m"), te.var("k")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def symbolic_gelu() -> PrimFunc:
    """An elementwise function of n x m elements."""
    data = te.placeholder((te.var("n"), te.var("m")), name="A")
    half, root = te.const(0.5, "float32"), te.const(0.5**0.5, "float32")
    out = te.compute(
        data.shape, lambda i, j: data[i, j] * half * (1 + te.erf(data[i, j] * root)), name="out"
    )
    return te.create_prim_func([data, out])


def symbolic_softmax() -> PrimFunc:
    """Softmax over the rows of n x m elements."""
    data = te.placeholder((te.var("n"), te.var("m")), name="A")
    return te.create_prim_func([data, topi.nn.softmax(data)])
