"""The kernels of `tune_gpu.py`: each as a program of ours, as PyTorch computes it, and exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tilewright import te, tir, topi
from tilewright.ir import PrimFunc

Tensor = Any
DEVICE = "cuda"
_TORCH = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "int8": torch.int8,
    "int32": torch.int32,
}


@dataclass(frozen=True)
class Case:
    """One row."""

    name: str
    program: Callable[[], PrimFunc]
    inputs: Callable[[], list[Tensor]]  # the last one is the output
    rival: Callable[..., Any]
    exact: Callable[..., Tensor]
    flop: float
    bytes: float
    rivals: dict[str, Callable[..., Any]] = field(default_factory=dict)
    tolerance: float = 5e-3


def _random(shape: tuple[int, ...], dtype: str) -> Tensor:
    if dtype == "int8":
        return torch.randint(-8, 8, shape, device=DEVICE, dtype=torch.int8)
    return torch.randn(shape, device=DEVICE).to(_TORCH[dtype])


# --- products -----------------------------------------------------------------------------------

_SUMS = {"int8": "int32"}
_SHORT = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "e5m2",
    "int8": "int8",
}
_BYTES = ("int8", "float8_e4m3fn", "float8_e5m2")
# Attributes of a program that allow fewer digits, by the word for that in names of cases.
_ALLOWED = {"": "", "tf32": "tilewright.allow_tf32", "fast": "tilewright.fast_sums"}


def _gemm_program(
    shape: tuple[int, int, int], dtypes: tuple[str, str], out: str, is_turned: bool
) -> PrimFunc:
    (m, n, k), (left, right) = shape, dtypes
    sums = _SUMS.get(left, "float32")
    a = te.placeholder((m, k), left, name="A")
    b = te.placeholder((n, k) if is_turned else (k, n), right, name="B")
    r = te.reduce_axis((0, k), name="r")

    def product(i: Any, j: Any) -> Any:
        factor = b[j, r] if is_turned else b[r, j]
        return te.sum(a[i, r].astype(sums) * factor.astype(sums), axis=r)

    c = te.compute((m, n), product, name="C")
    if out == sums:
        return te.create_prim_func([a, b, c])
    rounded = te.compute((m, n), lambda i, j: c[i, j].astype(out), name="D")
    return te.create_prim_func([a, b, rounded])


def _with_tf32(call: Callable[..., Any], *args: Tensor) -> Any:
    """What PyTorch makes of a call where it may use tf32."""
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return call(*args)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def gemm(
    m: int, n: int, k: int, dtype: str, mode: str = "", is_turned: bool | None = None
) -> Case:  # fmt: skip
    """A product of matrices; types of 8 bits get their right operand turned.

    `mode`: tf32, or fast sums of 8-bit floats; the library gets the same. It multiplies numbers of
    e5m2 with others only.
    """
    is_float8 = dtype.startswith("float8")
    out = "bfloat16" if is_float8 else "int32" if dtype == "int8" else dtype
    turned = dtype in _BYTES if is_turned is None else is_turned
    other = "float8_e4m3fn" if is_float8 else dtype

    def program() -> PrimFunc:
        made = _gemm_program((m, n, k), (dtype, other), out, turned)
        return made.with_attr(_ALLOWED[mode], True) if mode else made

    def inputs() -> list[Tensor]:
        empty = torch.empty((m, n), device=DEVICE, dtype=_TORCH[out])
        return [_random((m, k), dtype), _random((n, k) if turned else (k, n), other), empty]

    one = torch.ones((), device=DEVICE)

    def rival(a: Tensor, b: Tensor, o: Tensor) -> Any:
        right = b.T if turned else b
        if dtype == "int8":
            return torch._int_mm(a, right, out=o)
        if is_float8:
            options = {"out_dtype": _TORCH[out], "use_fast_accum": mode == "fast", "out": o}
            return torch._scaled_mm(a, right, one, one, **options)
        if mode == "tf32":
            return _with_tf32(lambda: torch.matmul(a, right, out=o))
        return torch.matmul(a, right, out=o)

    def exact(a: Tensor, b: Tensor, o: Tensor) -> Tensor:
        return a.double() @ (b.double().T if turned else b.double())

    size = _TORCH[dtype].itemsize
    order = "" if is_turned is None else "nt_" if turned else "nn_"
    tolerance = 1e-4 if dtype == "float32" else 5e-3
    return Case(
        f"gpu_gemm_{mode + '_' if mode else ''}{_SHORT[dtype]}_{order}{m}x{n}x{k}",
        program,
        inputs,
        rival,
        exact,
        2.0 * m * n * k,
        size * (m * k + n * k) + m * n * 4.0,
        tolerance=2e-2 if is_float8 else 2e-3 if mode == "tf32" else tolerance,
    )


def dense(m: int, n: int, k: int) -> Case:
    """A dense layer with bias and GELU."""

    def program() -> PrimFunc:
        a = te.placeholder((m, k), "float16", name="A")
        b = te.placeholder((k, n), "float16", name="B")
        bias = te.placeholder((n,), "float16", name="bias")
        r = te.reduce_axis((0, k), name="r")
        c = te.compute(
            (m, n),
            lambda i, j: te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), axis=r),
            name="C",
        )
        half, root = tir.const(0.5, "float32"), tir.const(0.5**0.5, "float32")

        def activated(i: Any, j: Any) -> Any:
            x = c[i, j] + bias[j].astype("float32")
            return (x * half * (tir.erf(x * root) + tir.const(1.0, "float32"))).astype("float16")

        return te.create_prim_func([a, b, bias, te.compute((m, n), activated, name="D")])

    def inputs() -> list[Tensor]:
        empty = torch.empty((m, n), device=DEVICE, dtype=torch.float16)
        return [
            _random((m, k), "float16"),
            _random((k, n), "float16") * 0.05,
            _random((n,), "float16"),
            empty,
        ]

    def rival(a: Tensor, b: Tensor, bias: Tensor, o: Tensor) -> Tensor:
        return torch.nn.functional.gelu(torch.addmm(bias, a, b))

    def exact(a: Tensor, b: Tensor, bias: Tensor, o: Tensor) -> Tensor:
        return torch.nn.functional.gelu(a.double() @ b.double() + bias.double())

    return Case(
        f"gpu_dense_gelu_f16_{m}x{n}x{k}", program, inputs, rival, exact, 2.0 * m * n * k,
        2.0 * (m * k + n * k + m * n), {"compiled": torch.compile(rival)},
    )  # fmt: skip


# --- convolutions -------------------------------------------------------------------------------


def conv(
    n: int, size: int, c: int, k: int, taps: int, stride: int = 1, dtype: str = "float16",
    is_fused: bool = False,
) -> Case:  # fmt: skip
    """A convolution in the order NHWC, with bias and ReLU where it is fused."""
    pad = taps // 2
    out = (size + 2 * pad - taps) // stride + 1

    def program() -> PrimFunc:
        x = te.placeholder((n, size, size, c), dtype, name="X")
        f = te.placeholder((taps, taps, c, k), dtype, name="F")
        bias = te.placeholder((k,), dtype, name="bias")
        padded = topi.nn.pad(x, [0, pad, pad, 0], [0, pad, pad, 0]) if pad else x
        axes = [
            te.reduce_axis((0, extent), name=name)
            for name, extent in (("r", taps), ("s", taps), ("c", c))
        ]
        r, s, ch = axes
        y = te.compute(
            (n, out, out, k),
            lambda b, h, w, o: te.sum(
                padded[b, h * stride + r, w * stride + s, ch].astype("float32")
                * f[r, s, ch, o].astype("float32"),
                axis=axes,
            ),
            name="Y",
        )
        zero = tir.const(0.0, "float32")

        def finish(b: Any, h: Any, w: Any, o: Any) -> Any:
            if not is_fused:
                return y[b, h, w, o].astype(dtype)
            return tir.max(y[b, h, w, o] + bias[o].astype("float32"), zero).astype(dtype)

        if not is_fused and dtype == "float32":
            return te.create_prim_func([x, f, y])
        z = te.compute((n, out, out, k), finish, name="Z")
        return te.create_prim_func([x, f, *([bias] if is_fused else []), z])

    weights: dict[int, Tensor] = {}  # as the library wants them, by our own

    def inputs() -> list[Tensor]:
        empty = torch.empty((n, out, out, k), device=DEVICE, dtype=_TORCH[dtype])
        bias = [_random((k,), dtype)] if is_fused else []
        filters = _random((taps, taps, c, k), dtype) * 0.1
        turned = filters.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        weights[filters.data_ptr()] = turned
        return [_random((n, size, size, c), dtype), filters, *bias, empty]

    def computed(x: Tensor, filters: Tensor, bias: Tensor | None) -> Tensor:
        y = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), filters, bias, stride, pad)
        return torch.relu(y) if is_fused else y

    compiled = torch.compile(computed)

    def library(x: Tensor, f: Tensor, *rest: Tensor) -> Tensor:
        return computed(x, weights[f.data_ptr()], rest[0] if is_fused else None)

    def compiled_library(x: Tensor, f: Tensor, *rest: Tensor) -> Tensor:
        return compiled(x, weights[f.data_ptr()], rest[0] if is_fused else None)

    def exact(x: Tensor, f: Tensor, *rest: Tensor) -> Tensor:
        image, filters = x.permute(0, 3, 1, 2).double(), f.permute(3, 2, 0, 1).double()
        bias = rest[0].double() if is_fused else None
        y = torch.nn.functional.conv2d(image, filters, bias, stride, pad)
        return (torch.relu(y) if is_fused else y).permute(0, 2, 3, 1)

    kind = "conv_relu" if is_fused else "conv"
    pixels = n * out * out
    name = f"gpu_{kind}_{_SHORT[dtype]}_b{n}_{size}_{c}_{k}_k{taps}s{stride}"
    return Case(
        name, program, inputs, library, exact, 2.0 * pixels * k * taps * taps * c,
        2.0 * (n * size * size * c + pixels * k),
        {"compiled": compiled_library} if is_fused else {},
    )  # fmt: skip


# --- rows and elements --------------------------------------------------------------------------


def softmax(m: int, n: int) -> Case:
    """Softmax of rows."""

    def program() -> PrimFunc:
        a = te.placeholder((m, n), "float32", name="A")
        return te.create_prim_func([a, topi.nn.softmax(a, axis=-1)])

    return Case(
        f"gpu_softmax_f32_{m}x{n}",
        program,
        lambda: [_random((m, n), "float32"), torch.empty((m, n), device=DEVICE)],
        lambda a, o: torch.softmax(a, dim=-1, out=o),
        lambda a, o: torch.softmax(a.double(), dim=-1),
        5.0 * m * n,
        8.0 * m * n,
        tolerance=1e-5,
    )


def layer_norm(m: int, n: int) -> Case:
    """Layer norm of rows."""

    def program() -> PrimFunc:
        a = te.placeholder((m, n), "float16", name="A")
        gamma, beta = (te.placeholder((n,), "float16", name=name) for name in ("gamma", "beta"))
        return te.create_prim_func([a, gamma, beta, topi.nn.layer_norm(a, gamma, beta, [1])])

    def normed(a: Tensor, gamma: Tensor, beta: Tensor, o: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(a, (n,), gamma, beta)

    return _rows(f"gpu_layer_norm_f16_{m}x{n}", program, (m, n), 2, normed)


def rms_norm(m: int, n: int) -> Case:
    """RMS norm of rows."""

    def program() -> PrimFunc:
        a = te.placeholder((m, n), "float16", name="A")
        gamma = te.placeholder((n,), "float16", name="gamma")
        return te.create_prim_func([a, gamma, topi.nn.rms_norm(a, gamma, [1])])

    def normed(a: Tensor, gamma: Tensor, o: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(a, (n,), gamma, 1e-5)

    return _rows(f"gpu_rms_norm_f16_{m}x{n}", program, (m, n), 1, normed)


def bias_gelu(m: int, n: int) -> Case:
    """Bias and GELU of what is in memory."""

    def program() -> PrimFunc:
        a = te.placeholder((m, n), "float16", name="A")
        bias = te.placeholder((n,), "float16", name="bias")
        half, root = tir.const(0.5, "float32"), tir.const(0.5**0.5, "float32")

        def gelu(i: Any, j: Any) -> Any:
            x = a[i, j].astype("float32") + bias[j].astype("float32")
            return (x * half * (tir.erf(x * root) + tir.const(1.0, "float32"))).astype("float16")

        return te.create_prim_func([a, bias, te.compute((m, n), gelu, name="B")])

    def activated(a: Tensor, bias: Tensor, o: Tensor) -> Tensor:
        return torch.nn.functional.gelu(a + bias)

    return _rows(f"gpu_bias_gelu_f16_{m}x{n}", program, (m, n), 1, activated)


def _rows(
    name: str,
    program: Callable[[], PrimFunc],
    shape: tuple[int, int],
    vectors: int,
    computed: Callable[..., Tensor],
) -> Case:
    """A case with a matrix of halves, some vectors as long as its rows, and a matrix as result."""
    m, n = shape

    def inputs() -> list[Tensor]:
        lines = [_random((n,), "float16") for _ in range(vectors)]
        return [_random(shape, "float16"), *lines, torch.empty_like(_random(shape, "float16"))]

    def exact(*arrays: Tensor) -> Tensor:
        return computed(*(array.double() for array in arrays))

    return Case(
        name, program, inputs, computed, exact, 8.0 * m * n, 2.0 * (2 * m * n + vectors * n),
        {"compiled": torch.compile(computed)},
    )  # fmt: skip


def add_relu(m: int, n: int) -> Case:
    """The sum of two matrices, and ReLU."""

    def program() -> PrimFunc:
        a, b = (te.placeholder((m, n), "float16", name=name) for name in ("A", "B"))
        return te.create_prim_func([a, b, topi.nn.relu(topi.add(a, b))])

    def computed(a: Tensor, b: Tensor, o: Tensor) -> Tensor:
        return torch.relu(a + b)

    return Case(
        f"gpu_add_relu_f16_{m}x{n}",
        program,
        lambda: [_random((m, n), "float16") for _ in range(3)],
        computed,
        lambda a, b, o: torch.relu(a.double() + b.double()),
        2.0 * m * n,
        6.0 * m * n,
        {"compiled": torch.compile(computed)},
    )


def transpose(m: int, n: int) -> Case:
    """A matrix with rows and columns exchanged."""

    def program() -> PrimFunc:
        a = te.placeholder((m, n), "float32", name="A")
        return te.create_prim_func([a, topi.transpose(a, [1, 0])])

    return Case(
        f"gpu_transpose_f32_{m}x{n}",
        program,
        lambda: [_random((m, n), "float32"), torch.empty((n, m), device=DEVICE)],
        lambda a, o: o.copy_(a.T),
        lambda a, o: a.double().T,
        1.0 * m * n,
        8.0 * m * n,
    )


def all_cases(kind: str) -> list[Case]:
    """The rows of one part of the table."""
    sizes = (2048, 4096)
    half = [gemm(s, s, s, "float16") for s in (512, 1024, 2048, 4096, 8192)]
    return {
        "f16": [*half, gemm(128, 4096, 1024, "float16"), gemm(512, 3072, 768, "float16")],
        "bf16": [gemm(s, s, s, "bfloat16") for s in (2048, 4096)],
        "f32": [gemm(s, s, s, "float32") for s in (512, 1024, 2048, 4096)],
        "tf32": [
            gemm(s, s, s, "float32", "tf32", turned) for turned in (True, False) for s in sizes
        ],
        "fp8": [
            *(gemm(s, s, s, "float8_e4m3fn", mode) for mode in ("", "fast") for s in sizes),
            gemm(4096, 4096, 4096, "float8_e5m2"),
        ],
        "int8": [gemm(s, s, s, "int8", "", turned) for turned in (None, False) for s in sizes],
        "conv": [
            conv(1, 56, 64, 64, 1), conv(1, 14, 256, 256, 3), conv(16, 56, 64, 64, 3),
            conv(16, 14, 256, 256, 3), conv(16, 224, 3, 64, 7, 2),
        ],
        "fused": [
            dense(512, 3072, 768), dense(4096, 4096, 4096),
            conv(16, 56, 64, 64, 3, is_fused=True),
        ],
        "rows": [
            softmax(1024, 1024), softmax(8192, 4096), layer_norm(512, 768), layer_norm(8192, 4096),
            rms_norm(512, 768), rms_norm(8192, 4096),
        ],
        "elements": [add_relu(4096, 4096), bias_gelu(4096, 4096), transpose(4096, 4096)],
    }[kind]  # fmt: skip
