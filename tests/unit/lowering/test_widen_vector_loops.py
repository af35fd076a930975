"""Loops that become part of a vector compute what they computed as loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from tilewright.driver import lower
from tilewright.ir import For, ForKind, IntImm, IRModule, PrimFunc, as_module, post_order_visit
from tilewright.lowering import get_pass
from tilewright.script import from_source
from tilewright.testing.oracle import run

PREPARE = ("LowerInitBlock", "ConvertBlocksToOpaque", "LowerOpaqueBlock", "FlattenBuffer")

# Positions in buffers of 128 elements: j runs over 4, k over 3, v over 4 lanes.
INDICES = [
    "j * 4 + v",
    "j * 4 + v + 4",
    "k * 16 + j * 4 + v",
    "k * 4 + j * 4 + v",
    "k * 2 + j * 8 + v * 2",
    "j * 8 + v",
    "v * 4 + j",
    "j * 4 + v * 2",
    "15 - j * 4 - v",
    "k * 16 + v",
    "k",
    "j",
    "0",
]


def widened(source: str) -> tuple[IRModule, IRModule]:
    func = from_source(source)
    assert isinstance(func, PrimFunc)
    module = as_module(func)
    for name in (*PREPARE, "Simplify"):
        module = get_pass(name)(module)
    return module, get_pass("WidenVectorLoops")(module)


def vector_extents(module: IRModule) -> list[int]:
    found = []

    def look(node: object) -> None:
        if isinstance(node, For) and node.kind == ForKind.VECTORIZED:
            assert isinstance(node.extent, IntImm)
            found.append(node.extent.value)

    post_order_visit(module["main"].body, look)
    return found


def program(body: str, loops: str, dtype: str = "float32") -> str:
    return f"""
@T.prim_func
def main(A: T.Buffer((128,), "{dtype}"), B: T.Buffer((128,), "{dtype}")):
{loops}
{body}
"""


NEST = """
    for j in T.unroll(4):
        for k in T.unroll(3):
            for v in T.vectorized(4):"""


@st.composite
def bodies(draw: st.DrawFn) -> str:
    index = st.sampled_from(INDICES)
    lines = []
    for _ in range(draw(st.integers(1, 2))):
        loads = [
            f"{draw(st.sampled_from('AB'))}[{draw(index)}]" for _ in range(draw(st.integers(1, 2)))
        ]
        store = f"{draw(st.sampled_from('AB'))}[{draw(index)}]"
        lines.append(f"                {store} = {' + '.join(loads)} + T.float32(1)")
    return "\n".join(lines)


@settings(max_examples=300, deadline=None)
@given(bodies())
def test_widening_keeps_the_meaning(body: str) -> None:
    before, after = widened(program(body, NEST))
    random = np.random.default_rng(0)
    arrays = [random.integers(0, 9, 128).astype("float32") for _ in range(2)]
    want = [array.copy() for array in arrays]
    # A vectorised loop whose lanes conflict is run in order, before and after.
    run(get_pass("VectorizeLoop")(before)["main"], *want)
    run(get_pass("VectorizeLoop")(after)["main"], *arrays)
    for expected, found in zip(want, arrays, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_tile_becomes_one_vector() -> None:
    _, after = widened(program("                B[k * 16 + j * 4 + v] = A[j * 4 + v]", NEST))
    assert vector_extents(after) == [16]


def test_a_reduction_is_not_widened() -> None:
    _, after = widened(program("                B[v] = B[v] + A[j * 4 + v]", NEST))
    assert vector_extents(after) == [4]


def test_a_loop_variable_in_the_value_stays() -> None:
    _, after = widened(
        program('                B[j * 4 + v] = A[j * 4 + v] + T.Cast("float32", j)', NEST)
    )
    assert vector_extents(after) == [4]


def test_serial_loops_widen_only_under_a_pragma() -> None:
    serial = """
    {pragma}
    for j in range(4):
        for k in range(3):
            for v in T.vectorized(4):"""
    body = "                B[k * 16 + j * 4 + v] = A[j * 4 + v]"
    pragma = 'T.attr(0, "pragma_auto_unroll_max_step", {})'
    for text, expected in [("T.evaluate(0)", 4), (pragma.format(12), 16), (pragma.format(11), 4)]:
        _, after = widened(program(body, serial.format(pragma=text)))
        assert vector_extents(after) == [expected], text


def test_vectors_stay_within_four_registers() -> None:
    nest = """
    for j in T.unroll(8):
            for v in T.vectorized(16):"""
    body = "                B[j * 16 + v] = A[j * 16 + v]"
    assert vector_extents(widened(program(body, nest))[1]) == [16]  # 128 floats would be 512 bytes
    assert vector_extents(widened(program(body, nest, "int8"))[1]) == [128]


def test_the_unrolling_limit_counts_registers() -> None:
    source = """
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    T.attr(0, "pragma_auto_unroll_max_step", 16)
    for i in range(8):
        for j in range(4):
            for v in T.vectorized(16):
                B[i * 64 + j * 16 + v] = A[i * 64 + j * 16 + v]
"""
    func = from_source(source)
    assert isinstance(func, PrimFunc)
    text = str(lower(func))
    assert "for i in range(8):" in text  # 8 x 4 registers are above 16
    assert "B_1[i * 64:i * 64 + 64]" in text
