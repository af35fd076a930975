"""Attention as one kernel: each warp has 16 queries, and keys pass by in blocks.

Scores stay in registers: a block of them is multiplied, made powers of two less the largest score
so far, and multiplied with the values at once; what was added up before is scaled when a larger
score comes. Queries, keys and values are read where a linear layer left them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import ir
from tilewright.script import from_source

_WARPS = (4, 8)  # of a block of threads
_ENOUGH_BLOCKS = 132
_ROWS = 16  # queries of a warp
_KEYS = (64, 128)  # that pass by together
_WIDTHS = (32, 64, 128)  # of heads: all threads copy the same columns of all their rows


@dataclass(frozen=True)
class AttentionShape:
    """Extents of an attention, and where its operands lie.

    `parts` says which part of `(batch, tokens, parts, heads, width)` queries, keys and values are;
    without, each is an array `(batch, tokens, heads, width)` of its own.
    """

    batch: int
    queries: int
    keys: int
    heads: int
    width: int
    scale: float
    is_causal: bool = False
    parts: tuple[int, int, int] | None = None


def why_no_attention_kernel(width: int, dtype: str) -> str:
    """The reason why the kernel cannot be used; empty if it can."""
    if dtype != "float16":
        return f"its numbers are {dtype}, expected float16"
    if width not in _WIDTHS:
        return f"heads are {width} wide, expected 32, 64 or 128"
    return ""


def attention_kernel(shape: AttentionShape, warps: int | None = None) -> ir.PrimFunc:
    """The kernel; its arguments are queries, keys and values (or all in one), and the result."""
    block = next((n for n in _KEYS if n >= shape.keys), _KEYS[-1])
    warps = warps or _warps_of(shape)
    func = from_source(_text_of(shape, block, warps))
    assert isinstance(func, ir.PrimFunc)
    return func


def _warps_of(shape: AttentionShape) -> int:
    """Many queries share the keys that are brought, unless processors would have no work then."""
    few, many = _WARPS
    blocks = shape.batch * shape.heads * math.ceil(shape.queries / (_ROWS * many))
    return many if shape.queries > few * _ROWS and blocks >= _ENOUGH_BLOCKS else few


def _operands(shape: AttentionShape) -> tuple[str, list[str]]:
    """Parameters, and how an element of queries, keys and values at a row and column is read."""
    heads, width = shape.heads, shape.width
    if shape.parts is None:
        buffers = [
            (name, f"({shape.batch}, {count}, {heads}, {width})")
            for name, count in (("Q", shape.queries), ("K", shape.keys), ("V", shape.keys))
        ]
        reads = [f"{name}[b, {{row}}, h, {{column}}]" for name, _ in buffers]
    else:
        count = max(shape.parts) + 1
        buffers = [("QKV", f"({shape.batch}, {shape.queries}, {count}, {heads}, {width})")]
        reads = [f"QKV[b, {{row}}, {part}, h, {{column}}]" for part in shape.parts]
    return ", ".join(f'{name}: T.Buffer({extents}, "float16")' for name, extents in buffers), reads


def _text_of(shape: AttentionShape, block: int, warps: int) -> str:
    heads, width = shape.heads, shape.width
    rows = math.ceil(shape.queries / (_ROWS * warps))
    blocks = math.ceil(shape.keys / block)
    params, (query, key, value) = _operands(shape)
    column = f"vt % {width // 8} * 8"  # of the vector that a thread copies
    stride = width + 8  # rows that lie in different banks
    row = f"T.min(kb * {block} + row, {shape.keys - 1})"
    seen = [f"key < {shape.keys}"] if shape.keys % block else []
    seen += ["key <= query"] if shape.is_causal else []
    score = "scores[n * 4 + c]"
    return _KERNEL.format(
        params=params,
        result=f"({shape.batch}, {shape.queries}, {heads}, {width})",
        grid=shape.batch * heads * rows,
        threads=32 * warps,
        heads=heads,
        rows=rows,
        ROWS=_ROWS * warps,
        width=width,
        stride=stride,
        block=block,
        blocks=blocks,
        queries=shape.queries,
        copies=block * width // 8 // (32 * warps),
        vectors=width // 8,
        column=column,
        scores=_SCORES.text(tiles=block // 8, steps=width // 32, stride=stride, block=block),
        weighted=_WEIGHTED.text(tiles=block // 16, steps=width // 16, stride=stride, block=block),
        query=query.format(
            row=f"T.min(first + i % 2 * 8, {shape.queries - 1})", column=_QUERY_COLUMN
        ),
        key=key.format(row=row, column=f"{column} + v"),
        value=value.format(row=row, column=f"{column} + v"),
        steps=width // 16,
        tiles=block // 8,
        outputs=width // 8,
        factor=shape.scale * math.log2(math.e),
        score=f"T.if_then_else({' and '.join(seen)}, {score}, T.float32(-1e30))" if seen else score,
    )


@dataclass(frozen=True)
class _Product:
    """Matrices of registers times matrices that lie in shared memory, which come four at a time."""

    loops: tuple[str, str]
    right: str
    is_turned: bool
    at: str  # where a thread reads its row of the right operand
    left: str
    sums: str

    def text(self, tiles: int, steps: int, stride: int, block: int) -> str:
        """The loops; `tiles` and `steps` are their extents."""
        outer, inner = self.loops
        return _PRODUCT.format(
            outer=outer,
            inner=inner,
            tiles=tiles,
            steps=steps,
            is_turned=self.is_turned,
            right=self.right,
            elements=block * stride,
            at=self.at.format(stride=stride),
            left=self.left,
            sums=self.sums,
        )


_SCORES = _Product(
    ("n", "k"), "keys", False, "(n * 8 + lane % 8) * {stride} + k * 32 + lane // 8 * 8",
    "q.data, k * 16 + i * 8", "scores.data, n * 4",
)  # fmt: skip
_WEIGHTED = _Product(
    ("k", "n"), "values", True, "(k * 16 + lane % 16) * {stride} + n * 16 + lane // 16 * 8",
    "weights.data, k * 8", "sums.data, n * 8 + i * 4",
)  # fmt: skip
_PRODUCT = """\
                    for {outer} in T.unroll({tiles}):
                        for {inner} in T.unroll({steps}):
                            T.ptx_ldmatrix(
                                T.bool({is_turned}), 4, ".b16", part.data, 0,
                                T.tvm_access_ptr(
                                    T.type_annotation("float16"), {right}.data, 0, {elements}, 1
                                ),
                                {at}, dtype="float16",
                            )
                            for i in T.unroll(2):
                                T.ptx_mma(
                                    "m16n8k16", "row", "col", "fp16", "fp16", "fp32",
                                    {left}, part.data, i * 4, {sums},
                                    T.bool(False), dtype="float32",
                                )
"""
_QUERY_COLUMN = "k * 16 + i // 2 * 8 + lane % 4 * 2 + v"
# Registers hold matrices as `mma.m16n8k16` wants them: thread t has rows t / 4 and t / 4 + 8.
_KERNEL = """\
@T.prim_func
def main({params}, O: T.Buffer({result}, "float16")):
    T.func_attr({{"tir.noalias": T.bool(True), "global_symbol": "main"}})
    for bx in T.thread_binding({grid}, thread="blockIdx.x"):
        for tx in T.thread_binding({threads}, thread="threadIdx.x"):
            with T.block("attention"):
                vb = T.axis.spatial({grid}, bx)
                vt = T.axis.spatial({threads}, tx)
                T.reads()
                T.writes()
                keys = T.alloc_buffer(({block}, {stride}), "float16", scope="shared.dyn")
                values = T.alloc_buffer(({block}, {stride}), "float16", scope="shared.dyn")
                q = T.alloc_buffer(({steps} * 8,), "float16", scope="local")
                part = T.alloc_buffer((8,), "float16", scope="local")
                scores = T.alloc_buffer(({tiles} * 4,), "float32", scope="local")
                weights = T.alloc_buffer(({tiles} * 4,), "float16", scope="local")
                sums = T.alloc_buffer(({outputs} * 4,), "float32", scope="local")
                largest = T.alloc_buffer((2,), "float32", scope="local")
                before = T.alloc_buffer((2,), "float32", scope="local")
                shift = T.alloc_buffer((2,), "float32", scope="local")
                total = T.alloc_buffer((2,), "float32", scope="local")
                lane: T.int32 = vt % 32
                b: T.int32 = vb // {rows} // {heads}
                h: T.int32 = vb // {rows} % {heads}
                first: T.int32 = vb % {rows} * {ROWS} + vt // 32 * 16 + lane // 4
                for k in T.unroll({steps}):
                    for i in T.unroll(4):
                        for v in T.vectorized(2):
                            q[k * 8 + i * 2 + v] = {query}
                for i in T.unroll({outputs} * 4):
                    sums[i] = T.float32(0)
                for i in T.unroll(2):
                    largest[i] = T.float32(-1e30)
                    total[i] = T.float32(0)
                for kb in range({blocks}):
                    for c in T.unroll({copies}):
                        row: T.int32 = (c * {threads} + vt) // {vectors}
                        for v in T.vectorized(8):
                            keys[row, {column} + v] = {key}
                        for v in T.vectorized(8):
                            values[row, {column} + v] = {value}
                    for i in T.unroll({tiles} * 4):
                        scores[i] = T.float32(0)
                    T.tvm_storage_sync("shared")
{scores}                    for i in T.unroll(2):
                        before[i] = largest[i]
                    for n in T.unroll({tiles}):
                        for c in T.unroll(4):
                            key: T.int32 = kb * {block} + n * 8 + lane % 4 * 2 + c % 2
                            query: T.int32 = first + c // 2 * 8
                            scores[n * 4 + c] = {score}
                            largest[c // 2] = T.max(largest[c // 2], scores[n * 4 + c])
                    for i in T.unroll(2):
                        largest[i] = T.max(largest[i], T.tvm_warp_shuffle_xor(
                            T.uint32(4294967295), largest[i], 1, 32, 32
                        ))
                        largest[i] = T.max(largest[i], T.tvm_warp_shuffle_xor(
                            T.uint32(4294967295), largest[i], 2, 32, 32
                        ))
                        before[i] = T.exp2((before[i] - largest[i]) * T.float32({factor}))
                        total[i] = total[i] * before[i]
                        shift[i] = largest[i] * T.float32({factor})
                    for n in T.unroll({outputs}):
                        for c in T.unroll(4):
                            sums[n * 4 + c] = sums[n * 4 + c] * before[c // 2]
                    for n in T.unroll({tiles}):
                        for c in T.unroll(4):
                            scores[n * 4 + c] = T.exp2(
                                scores[n * 4 + c] * T.float32({factor}) - shift[c // 2]
                            )
                            total[c // 2] = total[c // 2] + scores[n * 4 + c]
                            weights[n * 4 + c] = T.cast(scores[n * 4 + c], "float16")
{weighted}                    T.tvm_storage_sync("shared")
                for i in T.unroll(2):
                    total[i] = total[i] + T.tvm_warp_shuffle_xor(
                        T.uint32(4294967295), total[i], 1, 32, 32
                    )
                    total[i] = total[i] + T.tvm_warp_shuffle_xor(
                        T.uint32(4294967295), total[i], 2, 32, 32
                    )
                for n in T.unroll({outputs}):
                    for i in T.unroll(2):
                        if first + i * 8 < {queries}:
                            for v in T.vectorized(2):
                                O[b, first + i * 8, h, n * 8 + lane % 4 * 2 + v] = T.cast(
                                    sums[n * 4 + i * 2 + v] / total[i], "float16"
                                )
"""
