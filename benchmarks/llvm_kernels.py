"""Hand-made LLVM kernels in the shapes that generated code has, for the study of pass pipelines.

All indices are spelled out the long way, every access computes its own address, accumulators live
in an ``alloca`` and loops test at the top: nothing here has been cleaned up for LLVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

LANES = 16
VECTOR = f"<{LANES} x float>"
_ARGUMENTS = ", ".join(f"ptr noalias nocapture align 64 %{name}" for name in "ABC")


@dataclass(frozen=True)
class Kernel:
    """One function ``i32 @kernel(ptr A, ptr B, ptr C)`` and the work it does."""

    name: str
    source: str
    flops: int


@dataclass
class Writer:
    """Appends instructions and hands out names."""

    lines: list[str] = field(default_factory=list)
    names: int = 0

    def emit(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        self.names += 1
        self.emit(f"%v{self.names} = {text}")
        return f"%v{self.names}"

    def loop(self, extent: int, body: Callable[[str], None]) -> None:
        self.names += 1
        name = f"loop{self.names}"
        self.emit(f"br label %{name}.pre")
        self.lines.append(f"{name}.pre:\n  br label %{name}.head\n{name}.head:")
        self.emit(f"%{name} = phi i64 [ 0, %{name}.pre ], [ %{name}.next, %{name}.latch ]")
        self.emit(f"%{name}.more = icmp slt i64 %{name}, {extent}")
        self.emit(f"br i1 %{name}.more, label %{name}.body, label %{name}.exit")
        self.lines.append(f"{name}.body:")
        body(f"%{name}")
        self.emit(f"br label %{name}.latch")
        self.lines.append(f"{name}.latch:")
        self.emit(f"%{name}.next = add nsw i64 %{name}, 1")
        self.emit(f"br label %{name}.head")
        self.lines.append(f"{name}.exit:")

    def affine(self, *terms: tuple[str | int, int]) -> str:
        """The sum of all index * stride, in the order given."""
        total = ""
        for index, stride in terms:
            part = str(index) if stride == 1 else self.value(f"mul nsw i64 {index}, {stride}")
            total = self.value(f"add nsw i64 {total}, {part}") if total else part
        return total

    def address(self, base: str, *terms: tuple[str | int, int]) -> str:
        return self.value(f"getelementptr inbounds float, ptr %{base}, i64 {self.affine(*terms)}")

    def load_vector(self, address: str) -> str:
        return self.value(f"load {VECTOR}, ptr {address}, align 64")

    def store_vector(self, value: str, address: str) -> None:
        self.emit(f"store {VECTOR} {value}, ptr {address}, align 64")

    def load_splat(self, address: str) -> str:
        scalar = self.value(f"load float, ptr {address}, align 4")
        first = self.value(f"insertelement {VECTOR} poison, float {scalar}, i64 0")
        mask = f"<{LANES} x i32> zeroinitializer"
        return self.value(f"shufflevector {VECTOR} {first}, {VECTOR} poison, {mask}")

    def multiply_add(self, left: str, right: str, total: str) -> str:
        product = self.value(f"fmul contract {VECTOR} {left}, {right}")
        return self.value(f"fadd contract {VECTOR} {total}, {product}")

    def finish(self, vector_width: int | None) -> str:
        width = f' "prefer-vector-width"="{vector_width}"' if vector_width else ""
        head = f"define i32 @kernel({_ARGUMENTS}) nounwind{width} {{\nentry:\n"
        return head + "\n".join(self.lines) + "\n  ret i32 0\n}\n"


def register_tile_gemm(
    rows: int, vectors: int, unroll: int, vector_width: int | None = None
) -> Kernel:
    """A packed matmul whose register tile is an ``alloca`` and whose k loop is partly unrolled."""
    w, k_extent, n_extent = Writer(), 256, 128
    m_extent, columns = 112 // rows * rows, vectors * LANES
    w.emit(f"%tile = alloca [{rows * columns} x float], align 64")
    cells = [(r, c) for r in range(rows) for c in range(vectors)]

    def step(i: str, j: str, k: str) -> None:
        for r, c in cells:
            a = w.load_splat(w.address("A", (i, rows * k_extent), (k, rows), (r, 1)))
            b = w.load_vector(w.address("B", (j, columns * k_extent), (k, columns), (c * LANES, 1)))
            cell = w.address("tile", ((r * vectors + c) * LANES, 1))
            w.store_vector(w.multiply_add(a, b, w.load_vector(cell)), cell)

    def unrolled(i: str, j: str, k: str) -> None:
        for u in range(unroll):
            step(i, j, w.affine((k, unroll), (u, 1)))

    def tile(i: str, j: str) -> None:
        for r, c in cells:
            w.store_vector("zeroinitializer", w.address("tile", ((r * vectors + c) * LANES, 1)))
        w.loop(k_extent // unroll, lambda k: unrolled(i, j, k))
        for r, c in cells:
            result = w.load_vector(w.address("tile", ((r * vectors + c) * LANES, 1)))
            row = w.affine((i, rows), (r, 1))
            w.store_vector(result, w.address("C", (row, n_extent), (j, columns), (c * LANES, 1)))

    w.loop(m_extent // rows, lambda i: w.loop(n_extent // columns, lambda j: tile(i, j)))
    name = f"gemm {rows}x{vectors}, k unrolled {unroll}" if unroll > 1 else f"gemm {rows}x{vectors}"
    return Kernel(name, w.finish(vector_width), 2 * m_extent * n_extent * k_extent)


def in_place_gemm(rows: int = 8, vector_width: int | None = None) -> Kernel:
    """A matmul that accumulates straight into C, as a schedule without a cached write does."""
    w, extent = Writer(), 128

    def step(i: str, j: str, k: str) -> None:
        for r in range(rows):
            row = w.affine((i, rows), (r, 1))
            cell = w.address("C", (row, extent), (j, LANES))
            a = w.load_splat(w.address("A", (row, extent), (k, 1)))
            b = w.load_vector(w.address("B", (k, extent), (j, LANES)))
            w.store_vector(w.multiply_add(a, b, w.load_vector(cell)), cell)

    def tile(i: str, j: str) -> None:
        for r in range(rows):
            row = w.affine((i, rows), (r, 1))
            w.store_vector("zeroinitializer", w.address("C", (row, extent), (j, LANES)))
        w.loop(extent, lambda k: step(i, j, k))

    w.loop(extent // rows, lambda i: w.loop(extent // LANES, lambda j: tile(i, j)))
    return Kernel("gemm into C", w.finish(vector_width), 2 * extent**3)


def fused_conv(constants_last: bool, vector_width: int | None = None) -> Kernel:
    """A direct 3x3 convolution whose fused loops are taken apart with division and remainder."""
    w, size, inputs, outputs, pixels, vectors = Writer(), 28, 32, 64, 7, 2
    columns = vectors * LANES
    w.emit(f"%tile = alloca [{pixels * columns} x float], align 64")
    cells = [(p, c) for p in range(pixels) for c in range(vectors)]

    def split(index: str, extent: int) -> tuple[str, str]:
        return w.value(f"sdiv i64 {index}, {extent}"), w.value(f"srem i64 {index}, {extent}")

    def step(h: str, strip: str, block: str, fused: str) -> None:
        kh, rest = split(fused, 3 * inputs)
        kw, channel = split(rest, inputs)
        for p, c in cells:
            row, width = w.affine((h, 1), (kh, 1)), (size + 2) * inputs
            if constants_last:
                column = w.affine((strip, pixels), (kw, 1))
                place = ((row, width), (column, inputs), (channel, 1), (p * inputs, 1))
            else:
                column = w.affine((strip, pixels), (p, 1), (kw, 1))
                place = ((row, width), (column, inputs), (channel, 1))
            a = w.load_splat(w.address("A", *place))
            taps = ((kh, 3 * inputs * outputs), (kw, inputs * outputs), (channel, outputs))
            b = w.load_vector(w.address("B", *taps, (block, columns), (c * LANES, 1)))
            cell = w.address("tile", ((p * vectors + c) * LANES, 1))
            w.store_vector(w.multiply_add(a, b, w.load_vector(cell)), cell)

    def tile(fused: str) -> None:
        h, rest = split(fused, size // pixels * (outputs // columns))
        strip, block = split(rest, outputs // columns)
        for p, c in cells:
            w.store_vector("zeroinitializer", w.address("tile", ((p * vectors + c) * LANES, 1)))
        w.loop(9 * inputs, lambda k: step(h, strip, block, k))
        for p, c in cells:
            result = w.load_vector(w.address("tile", ((p * vectors + c) * LANES, 1)))
            column = w.affine((strip, pixels), (p, 1))
            place = ((h, size * outputs), (column, outputs), (block, columns), (c * LANES, 1))
            w.store_vector(result, w.address("C", *place))

    w.loop(size * (size // pixels) * (outputs // columns), tile)
    name = "conv, constants last" if constants_last else "conv"
    return Kernel(name, w.finish(vector_width), 2 * size * size * outputs * 9 * inputs)


def polynomial(vector_width: int | None = None) -> Kernel:
    """An elementwise polynomial of degree 8 over 64 Ki floats."""
    w, count, degree = Writer(), 1 << 16, 8

    def body(i: str) -> None:
        x = w.load_vector(w.address("A", (i, LANES)))
        result = "splat (float 1.5)"
        for power in range(degree):
            result = w.multiply_add(result, x, f"splat (float {power + 0.5})")
        w.store_vector(result, w.address("C", (i, LANES)))

    w.loop(count // LANES, body)
    return Kernel("polynomial", w.finish(vector_width), 2 * count * degree)


def all_kernels(vector_width: int | None = None) -> list[Kernel]:
    """Every kernel of the study."""
    return [
        register_tile_gemm(14, 2, 1, vector_width),
        register_tile_gemm(6, 4, 4, vector_width),
        register_tile_gemm(14, 2, 16, vector_width),
        in_place_gemm(8, vector_width),
        fused_conv(False, vector_width),
        fused_conv(True, vector_width),
        polynomial(vector_width),
    ]
