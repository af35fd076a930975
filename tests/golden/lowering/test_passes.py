"""Before and after of every pass, as text.

Each case is a file in this folder. A case without a file writes it and fails: look at it, and keep
it if it is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright.intrin  # noqa: F401 (its instructions are looked for)
from tilewright.ir import IntImm, IRModule, PrimFunc, as_module
from tilewright.lowering import get_pass, list_passes
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.testing.lowering_programs import (
    ALIGNED,
    DOT_PRODUCT,
    FIXED_POINT,
    HALF,
    PARALLEL_TILES,
    ROW_SUM,
    SLIDING_WINDOW,
    STRIDED,
    SYMBOLIC,
    TILED,
    TILES_IN_MEMORY,
    TWO_STAGES,
    VIEW,
    WIDE,
)
from tilewright.testing.oracle import run

FOLDER = Path(__file__).parent
TO_OPAQUE = ("LowerInitBlock", "ConvertBlocksToOpaque")
TO_LOOPS = (*TO_OPAQUE, "PlanBufferAllocation", "LowerMatchBuffer", "LowerOpaqueBlock")
TO_FLAT = (*TO_LOOPS, "FlattenBuffer", "Simplify")


@dataclass(frozen=True)
class Case:
    """A program, the passes that prepare it, the pass that is shown, and its options."""

    name: str
    source: str
    prepare: tuple[str, ...] = ()
    options: dict[str, object] = field(default_factory=dict)
    target: str | None = None

    @property
    def pass_name(self) -> str:
        return self.name.split("-")[0]


def flat(body: str, **buffers: int) -> str:
    """A function on one-dimensional float buffers."""
    params = ", ".join(f'{name}: T.Buffer(({size},), "float32")' for name, size in buffers.items())
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return f"@T.prim_func\ndef main({params}):\n{lines}\n"


CASES = [
    Case("IntrinsicFallback", DOT_PRODUCT, target="llvm -mcpu=x86-64"),
    Case("LowerInitBlock", ROW_SUM),
    Case("ConvertBlocksToOpaque", ROW_SUM, ("LowerInitBlock",)),
    Case("PlanBufferAllocation", TWO_STAGES, TO_OPAQUE),
    Case("PlanBufferAllocation-carried", SLIDING_WINDOW, TO_OPAQUE),
    Case("CompactBufferAllocation", TWO_STAGES, (*TO_OPAQUE, "PlanBufferAllocation")),
    Case("CompactBufferAllocation-aligned", ALIGNED, TO_OPAQUE),
    Case("TileRegisters", TILES_IN_MEMORY, TO_OPAQUE),
    Case("LowerMatchBuffer", VIEW, TO_OPAQUE),
    Case("LowerOpaqueBlock", TILED, TO_OPAQUE),
    Case("LowerOpaqueBlock-allocation", TWO_STAGES, (*TO_OPAQUE, "PlanBufferAllocation")),
    Case("FlattenBuffer", TWO_STAGES, TO_LOOPS),
    Case("FlattenBuffer-strides", STRIDED, TO_LOOPS),
    Case("LegalizeSmallFloats", HALF, TO_LOOPS),
    Case("NarrowDataType", WIDE, (*TO_LOOPS, "FlattenBuffer")),
    Case(
        "Simplify",
        flat(
            """
for i, j in T.grid(8, 4):
    if i * 4 + j < 32 and j < 9:
        B[(i * 4 + j) // 4 * 4 + (i * 4 + j) % 4] = A[i * 4 + j + 0 * i] * T.float32(2)
    if 3 < j:
        B[j] = T.float32(0)
""",
            A=32,
            B=32,
        ),
        TO_LOOPS,
    ),
    Case("LoopPartition", TILED, TO_FLAT),
    Case("LoopPartition-versions", PARALLEL_TILES, TO_FLAT),
    Case("LoopPartition-first_step", ROW_SUM, TO_FLAT),
    Case(
        "VectorizeLoop",
        flat(
            """
for i in range(4):
    for j in T.vectorized(8):
        B[i * 8 + j] = T.exp(A[i * 8 + j]) * A[i] + A[j * 4]
""",
            A=32,
            B=32,
        ),
        TO_LOOPS,
    ),
    Case(
        "VectorizeLoop-tail",
        flat(
            """
for i in range(4):
    for j in T.vectorized(8):
        if i * 8 + j < 27 and i < 4:
            B[i * 8 + j] = A[i * 8 + j] + A[i]
""",
            A=27,
            B=27,
        ),
        TO_LOOPS,
    ),
    Case(
        "VectorizeLoop-padding",
        flat(
            """
for j in T.vectorized(8):
    B[j] = T.if_then_else(1 <= j, A[j - 1], T.float32(0))
""",
            A=7,
            B=8,
        ),
        TO_LOOPS,
    ),
    Case(
        "VectorizeLoop-else",
        flat(
            """
for j in T.vectorized(8):
    if j < 3:
        B[j] = A[j]
    else:
        B[j] = A[10 - j]
""",
            A=8,
            B=8,
        ),
        TO_LOOPS,
    ),
    Case(
        "VectorizeLoop-fallback",
        flat(
            """
for j in T.vectorized(8):
    B[0] = B[0] + A[j]
for j in T.vectorized(8):
    C[j] = A[j]
    T.evaluate(T.call_extern("int32", "note", j))
""",
            A=8,
            B=1,
            C=8,
        ),
        TO_LOOPS,
    ),
    Case(
        "VectorizeLoop-private",
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for j in T.vectorized(8):
        t = T.decl_buffer((2,), "float32", scope="local")
        t[0] = A[j]
        t[1] = t[0] * T.float32(2)
        B[j] = t[0] + t[1]
""",
        (*TO_LOOPS, "FlattenBuffer"),
    ),
    Case(
        "VectorizeLoop-fused",
        flat(
            """
for i in range(4):
    for j in T.vectorized(4):
        B[(i * 4 + j) // 8 * 8 + (i * 4 + j) % 8] = A[(i * 4 + j) // 8]
""",
            A=2,
            B=16,
        ),
        TO_LOOPS,
    ),
    Case(
        "StorageRewrite",
        """
@T.prim_func
def main(A: T.Buffer((2048,), "float32"), D: T.Buffer((2048,), "float32")):
    X = T.alloc_buffer((2048,), "float32")
    Y = T.alloc_buffer((2048,), "float32")
    Z = T.alloc_buffer((2048,), "float32")
    for i in range(2048):
        X[i] = A[i] + T.float32(1)
    for i in range(2048):
        Y[i] = X[i] * T.float32(2)
    for i in range(2048):
        Z[i] = Y[2047 - i]
    for i in range(2048):
        D[i] = Z[i]
""",
        TO_FLAT,
    ),
    Case("StorageRewrite-hoisted", TWO_STAGES, TO_FLAT),
    Case(
        "UnrollLoop",
        flat(
            """
for i in range(4):
    for j in T.unroll(3):
        B[i * 3 + j] = A[i * 3 + j]
""",
            A=12,
            B=12,
        ),
        TO_LOOPS,
    ),
    Case(
        "SkipZeroTerms",
        flat(
            """
B[0] = T.float32(0)
for k in T.serial(12, annotations={"skip_zero_terms": 1}):
    B[0] = B[0] + T.if_then_else(k % 2 == 0, A[k // 2], T.float32(0)) * A[k]
""",
            A=12,
            B=1,
        ),
        TO_LOOPS,
    ),
    Case(
        "InvariantDivisors",
        flat(
            """
for k in T.serial(12, annotations={"invariant_divisors": 1}):
    B[k] = A[k] / C[0]
""",
            A=12,
            B=12,
            C=1,
        ),
        TO_LOOPS,
    ),
    Case(
        "BlendLocalStores",
        """
@T.prim_func
def main(A: T.Buffer((21,), "float32"), B: T.Buffer((8,), "float32")):
    acc = T.allocate([8], "float32", "local")
    acc_1 = T.decl_buffer((8,), data=acc, scope="local")
    for j in T.vectorized(8):
        acc_1[j] = T.float32(0)
    for i in range(3):
        for j in T.vectorized(8):
            if i * 8 + j < 21:
                acc_1[j] = acc_1[j] + A[i * 8 + j]
    for j in T.vectorized(8):
        B[j] = acc_1[j]
""",
        (*TO_LOOPS, "VectorizeLoop"),
    ),
    Case(
        "VectorReduction",
        flat(
            """
B[0] = T.float32(0)
for i in T.serial(2, annotations={"vector_reduction": 4}):
    for k in range(6):
        B[0] = B[0] + A[i * 6 + k]
""",
            A=12,
            B=1,
        ),
        TO_LOOPS,
    ),
    Case(
        "WidenVectorLoops",
        flat(
            """
for j in T.unroll(4):
    for k in T.unroll(2):
        for v in T.vectorized(4):
            C[j * 4 + v] = C[j * 4 + v] + A[k] * B[k * 16 + j * 4 + v]
""",
            A=2,
            B=32,
            C=16,
        ),
        TO_LOOPS,
    ),
    Case(
        "WidenVectorLoops-carried",
        flat(
            """
for j in T.unroll(3):
    for v in T.vectorized(4):
        A[j * 4 + v + 4] = A[j * 4 + v] + T.float32(1)
""",
            A=16,
        ),
        TO_LOOPS,
    ),
    Case(
        "UnrollLoop-hint",
        flat(
            """
for i in range(4):
    for j in T.unroll(3):
        B[i * 3 + j] = A[i * 3 + j]
""",
            A=12,
            B=12,
        ),
        TO_LOOPS,
        {"expand": False},
    ),
    Case(
        "UnrollLoop-pragma",
        flat(
            """
for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 6, "pragma_unroll_explicit": 1}):
    for j in range(2):
        for k in range(3):
            B[i * 6 + j * 3 + k] = A[i * 6 + j * 3 + k]
""",
            A=48,
            B=48,
        ),
        TO_LOOPS,
        {"expand": False},
    ),
    Case(
        "RemoveNoOp",
        flat(
            """
for i in range(0):
    A[i] = T.float32(0)
for i in range(4):
    T.evaluate(0)
for i in range(4):
    if 2 < i:
        T.evaluate(i + 1)
    else:
        A[i] = T.float32(1)
""",
            A=4,
        ),
        TO_LOOPS,
    ),
    Case(
        "RewriteUnsafeSelect",
        flat(
            """
for i in range(4):
    B[i] = T.Select(1 <= i, A[i - 1], T.float32(0)) + T.Select(i < 2, A[3], T.float32(1))
""",
            A=4,
            B=4,
        ),
        TO_LOOPS,
    ),
    Case(
        "HoistIfThenElse",
        flat(
            """
for i in range(4):
    for j in range(4):
        if i < 3:
            B[i * 4 + j] = A[i * 4 + j]
""",
            A=16,
            B=16,
        ),
        TO_LOOPS,
    ),
    Case(
        "LegalizeVectors",
        flat(
            """
A[1:34] = T.max(A[0:33], B[T.Ramp(32, -1, 33)])
B[0:16] = A[0:16]
""",
            A=64,
            B=64,
        ),
        TO_LOOPS,
    ),
    Case("LowerIntrin", FIXED_POINT, TO_LOOPS),
    Case(
        "CommonSubexprElim",
        flat(
            """
for i, j in T.grid(4, 4):
    B[i * 4 + j] = A[i * 4 + j] + A[i * 4]
    C[i * 4] = A[i * 4]
""",
            A=16,
            B=16,
            C=16,
        ),
        TO_LOOPS,
        target="c",
    ),
    Case("HostABI", SYMBOLIC, TO_FLAT),
]
NO_CHANGE = {"CheckSafety", "VerifyLowered"}


def prepared(case: Case) -> IRModule:
    func = from_source("from tilewright.script import tir as T\n\n" + case.source)
    assert isinstance(func, PrimFunc)
    module = as_module(func)
    for name in case.prepare:
        module = get_pass(name)(module)
    return module


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_before_and_after(case: Case) -> None:
    before = prepared(case)
    target = None if case.target is None else Target(case.target)
    after = get_pass(case.pass_name, **case.options)(before, target)
    rule = f"# --- {case.pass_name}{case.options or ''} ---"
    text = f"{before['main']}\n\n{rule}\n\n{after['main']}\n"
    path = FOLDER / f"{case.name}.txt"
    if not path.exists():
        path.write_text(text)
        pytest.fail(f"wrote {path.name}; look at it, and keep it if it is right")
    assert text == path.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pass_changes_something_once(case: Case) -> None:
    target = None if case.target is None else Target(case.target)
    step = get_pass(case.pass_name, **case.options)
    before = prepared(case)
    once = step(before, target)
    assert (once is not before) or "carried" in case.name
    again = step(once, target)
    assert str(again["main"]) == str(once["main"])


CONSTANT_CASES = [
    case
    for case in CASES
    # Neither an instruction of a machine nor the select of an unsafe load can run before the pass.
    if case.pass_name not in ("HostABI", "IntrinsicFallback", "RewriteUnsafeSelect")
    and not {"fallback", "strides"} & set(case.name.split("-"))
    and case.source != WIDE
]


@pytest.mark.parametrize("case", CONSTANT_CASES, ids=lambda case: case.name)
def test_results_stay_the_same(case: Case) -> None:
    before = prepared(case)
    target = None if case.target is None else Target(case.target)
    after = get_pass(case.pass_name, **case.options)(before, target)
    arguments = random_arguments(before["main"])
    expected = [np.copy(argument) for argument in arguments]
    got = [np.copy(argument) for argument in arguments]
    run(before, *expected)
    run(after, *got)
    for one, other in zip(got, expected, strict=True):
        relative = 1e-2 if one.dtype.kind == "V" else 1e-6
        np.testing.assert_allclose(one.astype("float64"), other.astype("float64"), relative)


def random_arguments(func: PrimFunc) -> list[Any]:
    rng = np.random.default_rng(3)
    made = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            made.append(np.asarray(3, dtype=str(param.dtype)))
            continue
        shape = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
        values = rng.standard_normal(shape) * 8
        if buffer.dtype == "bfloat16":
            made.append(values.astype(ml_dtypes.bfloat16))
        else:
            made.append(values.astype(str(buffer.dtype)))
    return made


def test_every_pass_has_a_case() -> None:
    # Those for GPUs have cases of their own, in lowering_gpu.
    names = [name for name in list_passes() if ".gpu." not in type(get_pass(name)).__module__]
    assert {case.pass_name for case in CASES} | NO_CHANGE == set(names)
