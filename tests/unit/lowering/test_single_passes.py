"""Details of single passes that the golden texts do not show, and their error texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.driver import lower
from tilewright.errors import LowerError
from tilewright.ir import (
    FALSE,
    INT32,
    Block,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IRModule,
    PrimFunc,
    Ramp,
    Var,
    as_module,
    const,
    decl_buffer,
    post_order_visit,
    replace,
    verify_well_formed,
)
from tilewright.lowering import get_pass, verify_lowered
from tilewright.lowering.legalize_small_floats import small_floats_of
from tilewright.lowering.rewriters import is_multiple
from tilewright.target import Target
from tilewright.testing.oracle import run

Parse = Callable[[str], PrimFunc]
TO_FLAT = (
    "LowerInitBlock",
    "ConvertBlocksToOpaque",
    "PlanBufferAllocation",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "FlattenBuffer",
    "Simplify",
)


def after(func: PrimFunc, *names: str, **options: Any) -> IRModule:
    """The module after some passes; options are those of the last one."""
    module = as_module(func)
    for name in names[:-1]:
        module = get_pass(name)(module)
    return get_pass(names[-1], **options)(module)


def loops(module: IRModule) -> dict[str, ForKind]:
    found: dict[str, ForKind] = {}

    def look(node: Any) -> None:
        if isinstance(node, For):
            found[node.loop_var.name] = node.kind

    post_order_visit(module["main"].body, look)
    return found


# --- match_buffer -----------------------------------------------------------------------------


def view_function(view: str) -> str:
    return f"""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32")):
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            T.reads()
            T.writes(A[vi * 2:vi * 2 + 2, 0:8])
            view = T.match_buffer({view})
            view[0, 0] = 0
"""


WRONG_VIEWS = {
    'A[vi * 2:vi * 2 + 2, 0:8], (2, 8), "int32"': "has dtype int32, A has float32",
    'A[vi * 2:vi * 2 + 2, 0:8], (2, 8), "float32", scope="local"': (
        "has scope 'local', A has 'global'"
    ),
    'A[vi * 2:vi * 2 + 2, 0:8], (2, 8), "float32", align=128': (
        "promises an alignment of 128 bytes, A has only 64"
    ),
    'A[vi * 2:vi * 2 + 2, 0:8], (2, 8), "float32", offset_factor=32': (
        "promises an offset that is a multiple of 32, but `vi * 2 * 8` is not known to be one"
    ),
    'A[vi * 2:vi * 2 + 2, 0:8], (2, 8), "float32", strides=[4, 1]': (
        "declares a stride of 4, but it is 8"
    ),
}


@pytest.mark.parametrize("view", WRONG_VIEWS)
def test_wrong_view(parse: Parse, view: str) -> None:
    func = parse(view_function(view))
    place = "block 'A': match_buffer view "
    with pytest.raises(LowerError, match=re.escape(place + WRONG_VIEWS[view])):
        after(func, "LowerMatchBuffer")


def test_view_of_another_shape(parse: Parse) -> None:
    func = parse(view_function('A[vi * 2:vi * 2 + 2, 0:8], (2, 8), "float32"'))
    block = func.body.block.body.body.block  # type: ignore[attr-defined]
    match = block.match_buffers[0]
    wrong = replace(match, buffer=replace(match.buffer, shape=(const(4), const(8))))
    module = as_module(func.with_body(replace(block, match_buffers=(wrong,))))
    with pytest.raises(LowerError, match="declares an extent of 4, but it is 2"):
        get_pass("LowerMatchBuffer")(module)


# --- the order of passes ----------------------------------------------------------------------


def test_passes_that_come_too_early(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
    for k in range(4):
        with T.block("sum"):
            vk = T.axis.reduce(4, k)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
""")
    with pytest.raises(LowerError, match="block 'sum' still has an init; run LowerInitBlock first"):
        after(func, "ConvertBlocksToOpaque")
    with pytest.raises(
        LowerError, match="block 'sum' still has iterators; run ConvertBlocksToOpaque first"
    ):
        after(func, "LowerOpaqueBlock")


# --- unrolling --------------------------------------------------------------------------------

NEST = """
@T.prim_func
def main(A: T.Buffer((512,), "float32")):
    for i in range(8):
        for j in range(4):
            for k in range(16):
                A[i * 64 + j * 16 + k] = T.float32(1)
"""


@pytest.mark.parametrize(
    ("limit", "unrolled"), [(0, ""), (15, ""), (16, "k"), (63, "k"), (64, "jk"), (512, "ijk")]
)
def test_automatic_unrolling_counts_steps(parse: Parse, limit: int, unrolled: str) -> None:
    module = after(parse(NEST), *TO_FLAT, "UnrollLoop", auto_max_step=limit, expand=False)
    kinds = loops(module)
    assert "".join(name for name in "ijk" if kinds[name] == ForKind.UNROLLED) == unrolled


SUMS = """
@T.prim_func
def main(A: T.Buffer((4, 8, 4, 2), "float32"), B: T.Buffer((16,), "float32")):
    S = T.alloc_buffer((SIZE,), "float32")
    for i in range(16):
        S[i] = T.float32(0)
    for r in range(4):
        for x in range(8):
            for k in range(4):
                for y in range(2):
                    S[x * 2 + y] = S[x * 2 + y] + A[r, x, k, y]
    for o in range(16):
        B[o] = S[o]
"""


@pytest.mark.parametrize(
    ("size", "unrolled"), [(16, "ixkyo"), (512, "ixkyo"), (513, "ikyo")], ids=["small", "all", "no"]
)
def test_loops_around_sums_in_registers_are_unrolled_further(
    parse: Parse, size: int, unrolled: str
) -> None:
    limits = {"auto_max_step": 512, "plain_max_step": 16, "expand": False}
    program = parse(SUMS.replace("SIZE", str(size)))
    kinds = loops(after(program, *TO_FLAT, "UnrollLoop", **limits))
    assert "".join(name for name in "irxkyo" if kinds[name] == ForKind.UNROLLED) == unrolled
    kinds = loops(after(parse(NEST), *TO_FLAT, "UnrollLoop", **limits))
    assert "".join(name for name in "ijk" if kinds[name] == ForKind.UNROLLED) == "k"


def test_depth_of_unrolling_is_limited(parse: Parse) -> None:
    module = after(
        parse(NEST), *TO_FLAT, "UnrollLoop", auto_max_step=512, auto_max_depth=1, expand=False
    )
    assert loops(module)["j"] == ForKind.SERIAL
    assert loops(module)["k"] == ForKind.UNROLLED


def test_a_loop_around_a_rolled_loop_is_not_unrolled(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), n: T.int32):
    for i in range(2):
        for j in range(n):
            A[i * 32 + j] = T.float32(1)
""")
    module = after(func, *TO_FLAT, "UnrollLoop", auto_max_step=512, expand=False)
    assert loops(module) == {"i": ForKind.SERIAL, "j": ForKind.SERIAL}


def test_copies_have_variables_of_their_own(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    for i in T.unroll(2):
        for j in range(n):
            A[i * 4 + j] = T.float32(1)
""")
    found: list[Var] = []

    def look(node: Any) -> None:
        if isinstance(node, For):
            found.append(node.loop_var)

    post_order_visit(after(func, *TO_FLAT, "UnrollLoop")["main"].body, look)
    assert len(found) == len(set(found)) == 2


# --- small floats -----------------------------------------------------------------------------


def test_a_cpu_that_computes_in_half_precision_keeps_it(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "bfloat16")):
    for i in range(8):
        A[i] = A[i] * A[i]
        B[i] = B[i] * B[i]
""")
    fp16 = Target("llvm -mcpu=sapphirerapids")
    plain = Target("llvm -mcpu=haswell")
    assert small_floats_of(plain) - small_floats_of(fp16) == {"float16"}
    text = str(get_pass("LegalizeSmallFloats")(as_module(func), fp16))
    assert "A[vi" not in text
    assert "A[i] = A[i] * A[i]" in text
    assert 'T.Cast("bfloat16", T.Cast("float32", B[i]) * T.Cast("float32", B[i]))' in text


def test_gpus_compute_with_halves_and_keep_the_types_of_registers(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "bfloat16")):
    A[0] = A[1] * A[2]
    B[0] = B[1] * B[2]
    T.ptx_ldmatrix(T.bool(False), 4, ".b16", B.data, 0, B.data, 8, dtype="bfloat16")
""")
    text = str(get_pass("LegalizeSmallFloats")(as_module(func), Target("cuda -arch=sm_80")))
    assert "A[0] = A[1] * A[2]" in text
    assert 'B[0] = T.Cast("bfloat16", T.Cast("float32", B[1]) * T.Cast("float32", B[2]))' in text
    assert '    T.ptx_ldmatrix("bfloat16", T.bool(False), 4, ".b16", B.data, 0, B.data, 8)' in text


# --- large buffers ----------------------------------------------------------------------------


def test_a_buffer_of_more_than_two_billion_elements_is_indexed_in_64_bits(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((65536, 65536), "int8")):
    for i, j in T.grid(65536, 65536):
        A[i, j] = T.int8(1)
""")
    found: list[str] = []

    def look(node: Any) -> None:
        if isinstance(node, BufferStore):
            found.append(str(node.indices[0].dtype))

    post_order_visit(lower(func)["main"].body, look)
    assert found == ["int64"]


# --- the verifier -----------------------------------------------------------------------------


def lowered(body: Any, *params: Var) -> IRModule:
    attrs = {"tilewright.signature": (), "global_symbol": "main"}
    return as_module(PrimFunc(params, body, {}, attrs))


flat = decl_buffer((8,), name="A")
square = decl_buffer((2, 4), name="A", data=flat.data)
x = Var("x", INT32)

WRONG_FORMS = {
    "loop 'x' has kind VECTORIZED": For(
        x, const(0), const(8), ForKind.VECTORIZED, Evaluate(const(0))
    ),
    "variable 'x' is not defined where it is used": Evaluate(x + 1),
    "the memory of buffer B is not defined where it is used": BufferStore(
        decl_buffer((8,), name="B"), const(0.0), (const(0),)
    ),
    "buffer A is not flat": BufferStore(square, const(0.0), (const(0), const(0))),
    "float32 is stored to 4 lanes of A, which holds float32": BufferStore(
        flat, const(0.0), (Ramp(const(0), const(1), 4),)
    ),
    "int32 is stored to 1 lanes of A, which holds float32": BufferStore(
        flat, const(0), (const(0),)
    ),
    "the mask of an access of A has bool": BufferStore(
        flat, const(0.0, "float32x4"), (Ramp(const(0), const(1), 4),), FALSE
    ),
}


@pytest.mark.parametrize("message", WRONG_FORMS)
def test_wrong_form_is_told(message: str) -> None:
    module = lowered(WRONG_FORMS[message], flat.data)
    expected = f"function 'main' is not in lowered form: {message}"
    with pytest.raises(LowerError, match=re.escape(expected)):
        verify_lowered(module)


def test_blocks_are_not_lowered(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(0)
""")
    with pytest.raises(LowerError, match="function 'main' is not in lowered form: no host ABI"):
        verify_lowered(func)
    with pytest.raises(
        LowerError, match="is not in lowered form: it still contains a BlockRealize"
    ):
        verify_lowered(get_pass("HostABI")(as_module(func)))


# --- helpers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "factor", "known"),
    [
        (x * 8, 4, True),
        (x * 2 * 4, 8, True),
        (x * 6, 4, False),
        (x * 8 + 4, 4, True),
        (x * 8 - 2, 4, False),
        (x * 8 % 16, 4, True),
        (x * 8 % 6, 4, False),
        (x * 32 // 4, 8, True),
        (x, 1, True),
    ],
)
def test_multiples(expr: Any, factor: int, known: bool) -> None:
    assert is_multiple(expr, factor) is known


# --- one memory under two names -------------------------------------------------------------------

ALIAS = """
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((16,), "float32")):
    X = T.alloc_buffer((4, 8), "float32")
    Y = T.Buffer((32,), data=X.data)
    for i in range(4):
        for j in range(4):
            X[i, j] = A[i, j]
        for j in range(4):
            B[i * 4 + j] = Y[i * 8 + j]
"""


def test_memory_under_two_names_keeps_its_place_and_layout(parse: Parse) -> None:
    func = parse(ALIAS)
    a = np.arange(16, dtype="float32").reshape(4, 4)
    b = np.zeros(16, "float32")
    stages = lower(func, stages=True)
    run(stages.module, a, b)
    np.testing.assert_array_equal(b, np.arange(16))
    assert "alloc_buffer((4, 8))" in str(stages.after("CompactBufferAllocation"))


# --- vectors in blocks ----------------------------------------------------------------------------

VECTORS_OF_A_ROW = """
@T.prim_func
def main(A: T.Buffer((3, 16), "int32"), B: T.Buffer((3, 16), "int32")):
    with T.block("rows"):
        X = T.alloc_buffer((8, 64), "int32", scope="local")
        for i in range(3):
            X[i, T.ramp(32, 1, 16)] = A.vload([i, 0], "int32x16")
        for i in range(3):
            B[i, T.ramp(0, 1, 16)] = X.vload([i, 32], "int32x16") + T.broadcast(i, 16)
"""


def test_a_vector_at_a_constant_place_counts_with_all_its_lanes(parse: Parse) -> None:
    a = np.arange(48, dtype="int32").reshape(3, 16)
    b = np.zeros_like(a)
    stages = lower(parse(VECTORS_OF_A_ROW), stages=True)
    run(stages.module, a, b)
    np.testing.assert_array_equal(b, a + np.arange(3)[:, None])
    assert 'alloc_buffer((3, 16), "int32"' in str(stages.after("CompactBufferAllocation"))


DIGITS_OF_A_SUM_OF_LOOPS = """
@T.prim_func
def main(A: T.Buffer((256,), "int32"), B: T.Buffer((256,), "int32")):
    for t in range(32):
        with T.block("part"):
            X = T.alloc_buffer((32, 2, 4), "int32", scope="local")
            for i in range(2):
                for j in range(4):
                    X[(i * 128 + t * 4 + j) % 128 // 4, (i * 128 + t * 4 + j) // 128, j] = A[
                        i * 128 + t * 4 + j]
            for i in range(2):
                for j in range(4):
                    B[i * 128 + t * 4 + j] = X[
                        (i * 128 + t * 4 + j) % 128 // 4, (i * 128 + t * 4 + j) // 128, j]
"""


def test_an_index_that_stays_within_an_allocation_needs_one_place(parse: Parse) -> None:
    a = np.arange(256, dtype="int32")
    b = np.zeros_like(a)
    stages = lower(parse(DIGITS_OF_A_SUM_OF_LOOPS), stages=True)
    run(stages.module, a, b)
    np.testing.assert_array_equal(b, a)
    assert 'alloc_buffer((1, 2, 4), "int32"' in str(stages.after("CompactBufferAllocation"))


READS_MORE_THAN_IT_TOUCHES = """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), o: T.Buffer((8,), "float32")):
    x = T.alloc_buffer((8,), "float32")
    unused = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("x"):
            vi = T.axis.spatial(8, i)
            x[vi] = a[vi]
    for i in range(8):
        with T.block("o"):
            vi = T.axis.spatial(8, i)
            T.reads(x[0:8], unused[0:8], a[vi])
            T.writes(o[vi])
            o[vi] = a[vi]
"""


def test_regions_name_only_what_is_allocated_around_a_block(parse: Parse) -> None:
    func = parse(READS_MORE_THAN_IT_TOUCHES)
    for stage in lower(func, stages=True):
        assert verify_well_formed(stage.module)
    blocks: dict[str, Block] = {}

    def collect(node: Any) -> None:
        if isinstance(node, Block):
            blocks[node.name_hint] = node

    post_order_visit(after(func, *TO_FLAT[:3])["main"].body, collect)
    names = {
        name: [region.buffer.name for region in (*block.reads, *block.writes)]
        for name, block in blocks.items()
    }
    assert names == {"root": [], "x": ["a"], "o": ["a", "o"]}
    assert [buffer.name for buffer in blocks["x"].alloc_buffers] == ["x"]
