"""What the machine code of simple kernels looks like: wide vectors, registers, no detours."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.ir import (
    TRUE,
    Add,
    Allocate,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    DType,
    For,
    ForKind,
    Max,
    Min,
    Mul,
    PointerType,
    PrimExpr,
    PrimFunc,
    Ramp,
    Stmt,
    Var,
    const,
    decl_buffer,
    seq,
)
from tilewright.target import Target
from tilewright.testing.kernels import compile_lowered, flat, kernel

FEATURES = Target("llvm").features
pytestmark = pytest.mark.skipif("fma" not in FEATURES, reason="the CPU has no AVX2 and FMA")
LANES = 16 if "avx512f" in FEATURES else 8
REGISTER = "zmm" if "avx512f" in FEATURES else "ymm"
SIZE, DEPTH = 64, 64
ROWS, VECTORS = (8, 2) if LANES == 16 else (4, 2)


def loop(extent: int, body: Callable[[Var], Stmt], *, unroll: bool = False, name: str = "i") -> For:
    var = Var(name)
    kind = ForKind.UNROLLED if unroll else ForKind.SERIAL
    return For(var, const(0), const(extent), kind, body(var))


def vector(buffer: Buffer, base: PrimExpr) -> BufferLoad:
    return BufferLoad(buffer, (Ramp(base, const(1), LANES),))


def put(buffer: Buffer, value: PrimExpr, base: PrimExpr) -> Stmt:
    return BufferStore(buffer, value, (Ramp(base, const(1), LANES),))


def loops_of(assembly: str) -> list[list[str]]:
    """The instructions of every loop that has no other one inside."""
    found, lines = [], assembly.splitlines()
    for position, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\.LBB\w+)", line)
        if jump is None or f"{jump[1]}:" not in lines[:position]:
            continue
        body = lines[lines.index(f"{jump[1]}:") + 1 : position + 1]
        if not any(re.match(r"\.LBB\w+:", inner) for inner in body):
            found.append([inner.strip() for inner in body if not inner.strip().startswith(".")])
    return found


def stack_accesses(instructions: list[str]) -> list[str]:
    return [line for line in instructions if "%rsp" in line or "%rbp" in line]


def test_vector_addition_uses_whole_registers() -> None:
    a, b, c = flat("a", 4096), flat("b", 4096), flat("c", 4096)
    body = loop(
        4096 // LANES,
        lambda i: put(c, vector(a, i * LANES) + vector(b, i * LANES), i * LANES),
    )
    (inner,) = loops_of(compile_lowered(kernel([a, b, c], body)).get_source("asm"))
    assert sum(REGISTER in line for line in inner) == 3  # load, add with memory, store
    assert stack_accesses(inner) == []
    assert len(inner) <= 6


def register_tiled_matmul() -> tuple[PrimFunc, Buffer]:
    a, b, c = flat("a", SIZE * DEPTH), flat("b", DEPTH * SIZE), flat("c", SIZE * SIZE)
    width = VECTORS * LANES
    pointer = Var("tile", DType("handle"), PointerType(DType("float32")))
    tile = decl_buffer((ROWS * width,), "float32", "tile", data=pointer)

    def each(body: Callable[[Var, Var], Stmt]) -> Stmt:
        return loop(ROWS, lambda i: loop(VECTORS, lambda j: body(i, j), unroll=True), unroll=True)

    def block(row: Var, column: Var) -> Stmt:
        def step(k: Var) -> Stmt:
            def update(i: Var, j: Var) -> Stmt:
                left = Broadcast(BufferLoad(a, ((row * ROWS + i) * DEPTH + k,)), LANES)
                right = vector(b, k * SIZE + column * width + j * LANES)
                place = i * width + j * LANES
                return put(tile, Add(vector(tile, place), Mul(left, right)), place)

            return each(update)

        zero = const(0.0, DType("float32").with_lanes(LANES))
        clear = each(lambda i, j: put(tile, zero, i * width + j * LANES))
        write = each(
            lambda i, j: put(
                c,
                vector(tile, i * width + j * LANES),
                (row * ROWS + i) * SIZE + column * width + j * LANES,
            )
        )
        body = seq([clear, loop(DEPTH, step, name="k"), write])
        return Allocate(pointer, DType("float32"), (const(ROWS * width),), TRUE, body)

    nest = loop(SIZE // ROWS, lambda i: loop(SIZE // width, lambda j: block(i, j)))
    return kernel([a, b, c], nest), c


def test_accumulators_of_a_matmul_stay_in_registers() -> None:
    func, _ = register_tiled_matmul()
    module = compile_lowered(func)
    inner = next(
        body for body in loops_of(module.get_source("asm")) if any("vfmadd" in x for x in body)
    )
    assert sum("vfmadd" in line for line in inner) == ROWS * VECTORS
    assert stack_accesses(inner) == []
    assert not any(line.startswith("vmov") and line.endswith(")") for line in inner), "no stores"
    assert len(inner) <= ROWS * VECTORS + ROWS + VECTORS + 4
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(np.float32) for _ in range(2))
    c = np.zeros(SIZE * SIZE, np.float32)
    module(a.reshape(-1), b.reshape(-1), c)
    assert (c.reshape(SIZE, SIZE) == a @ b).all()


def test_own_memory_is_accessed_with_its_alignment() -> None:
    func, _ = register_tiled_matmul()
    text = compile_lowered(func).get_source("generated-ll")
    wide = f"<{LANES} x float>"
    tile_alignments = set(re.findall(rf"store {wide} [^,]*, ptr %v\d+, align (\d+)", text))
    assert tile_alignments == {"64" if LANES == 16 else "32", "4"}  # tile, and the user's array
    assert re.search(r"define i32 @main\(ptr noalias %arg0, ptr noalias %arg1", text)


def test_loop_without_work_for_vectors_is_short() -> None:
    """Addresses of a loop are made of its variable alone: no extension, no multiplication."""
    a, c = flat("a", 4096), flat("c", 4096)
    outer = Var("o")
    inner_loop = loop(
        64, lambda i: BufferStore(c, BufferLoad(a, (outer * 64 + i,)) * 2.0, (i * 64 + outer,))
    )
    func = kernel([a, c], For(outer, const(0), const(64), ForKind.SERIAL, inner_loop))
    text = compile_lowered(func).get_source("asm")
    assert not re.search(r"\b(movslq|imul|cltq)\b", text)


def test_a_maximum_with_a_constant_is_one_instruction() -> None:
    a, b, c = flat("a", 4096), flat("b", 4096), flat("c", 4096)
    zero = const(0.0, DType("float32").with_lanes(LANES))

    def arithmetic(value: Callable[[PrimExpr], PrimExpr]) -> list[str]:
        body = loop(4096 // LANES, lambda i: put(c, value(i * LANES), i * LANES))
        (inner,) = loops_of(compile_lowered(kernel([a, b, c], body)).get_source("asm"))
        names = [line.split()[0] for line in inner]
        return [name for name in names if name.startswith(("vmax", "vmin", "vcmp", "vblend"))]

    assert arithmetic(lambda at: Max(vector(a, at), zero)) == ["vmaxps"]
    assert arithmetic(lambda at: Min(zero, vector(a, at))) == ["vminps"]
    general = arithmetic(lambda at: Max(vector(a, at), vector(b, at)))
    assert sorted(general)[-2:] == ["vcmpunordps", "vmaxps"]
    assert len(general) <= 3
