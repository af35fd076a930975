# mypy: disable-error-code="valid-type, no-untyped-def"
"""`rfactor` for every known reducer, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright import te, topi
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.te.reducers import REDUCERS, recognize_reduction
from tilewright.testing import oracle
from tilewright.testing.edge_programs import ragged_rows
from tilewright.testing.handwritten import matmul as matmul_of
from tilewright.testing.schedule_checks import (
    assert_same_arrays,
    assert_same_result,
    random_arguments,
    verify_trace_roundtrip,
)

SINGLE = """
@T.prim_func
def main(A: T.Buffer((5, 24), "{dtype}"), C: T.Buffer((5,), "{dtype}")):
    for i, k in T.grid(5, 24):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {identity}
            C[vi] = {update}
"""
PAIR = """
@T.prim_func
def main(
    P: T.Buffer((5, 24), "int32"), V: T.Buffer((5, 24), "{dtype}"),
    C: T.Buffer((5,), "int32"), D: T.Buffer((5,), "{dtype}"),
):
    for i, k in T.grid(5, 24):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(P[vi, vk], V[vi, vk])
            T.writes(C[vi], D[vi])
            with T.init():
                C[vi] = {first}
                D[vi] = {second}
            c: T.int32 = {index}
            d: T.{dtype} = {value}
            C[vi] = c
            D[vi] = d
"""
X, Y = ("C[vi]", "D[vi]"), ("P[vi, vk]", "V[vi, vk]")


def single(update: str, identity: str, dtype: str) -> str:
    return SINGLE.format(dtype=dtype, update=update, identity=identity)


def chosen(better: str, tie: bool, end: str) -> str:
    keep = f"{X[1]} {better} {Y[1]}"
    index = f"{keep} or {X[1]} == {Y[1]} and {X[0]} < {Y[0]}" if tie else keep
    return PAIR.format(
        dtype="float32",
        first="-1",
        second=f'T.{end}_value("float32")',
        index=f"T.Select({index}, {X[0]}, {Y[0]})",
        value=f"T.Select({keep}, {X[1]}, {Y[1]})",
    )


def chosen_with_nan(better: str, last: bool) -> str:
    """NaN is better than every number."""
    wins = f"({X[1]} {better} {Y[1]} or {X[1]} != {X[1]} and {Y[1]} == {Y[1]})"
    ties = f"({X[1]} == {Y[1]} or {X[1]} != {X[1]} and {Y[1]} != {Y[1]})"
    index = f"{wins} or {ties} and {X[0]} {'>' if last else '<'} {Y[0]}"
    return PAIR.format(
        dtype="float32",
        first="-1" if last else "2147483647",
        second='T.float32("-inf")' if better == ">" else 'T.float32("inf")',
        index=f"T.Select({index}, {X[0]}, {Y[0]})",
        value=f"T.Select({wins}, {X[1]}, {Y[1]})",
    )


# One program a row of the table of reducers, in its order.
PROGRAMS = {
    "sum": single("C[vi] + A[vi, vk]", "T.float32(0)", "float32"),
    "product": single("C[vi] * A[vi, vk]", "1", "int32"),
    "any": single("C[vi] or A[vi, vk]", "T.bool(False)", "bool"),
    "all": single("C[vi] and A[vi, vk]", "T.bool(True)", "bool"),
    "min": single("T.min(C[vi], A[vi, vk])", 'T.max_value("float32")', "float32"),
    "max": single("T.max(C[vi], A[vi, vk])", 'T.min_value("int8")', "int8"),
    "two sums": PAIR.format(
        dtype="int32",
        first="0",
        second="0",
        index=f"{X[0]} + {Y[0]}",
        value=f"{X[1]} + {Y[1]}",
    ),
    "argmax": chosen(">=", False, "min"),
    "argmax, first index": chosen(">", True, "min"),
    "argmin": chosen("<=", False, "max"),
    "argmin, first index": chosen("<", True, "max"),
    "min of all floats": single("T.min(C[vi], A[vi, vk])", 'T.float32("inf")', "float32"),
    "max of all floats": single("T.max(C[vi], A[vi, vk])", 'T.float32("-inf")', "float32"),
    "argmax, first NaN": chosen_with_nan(">", last=False),
    "argmin, first NaN": chosen_with_nan("<", last=False),
    "argmax, last NaN": chosen_with_nan(">", last=True),
    "argmin, last NaN": chosen_with_nan("<", last=True),
}


def program(text: str) -> PrimFunc:
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def block_of(func: PrimFunc) -> object:
    sch = Schedule(func)
    return sch.get(sch.get_block("C"))


def assert_same_without_ties(before: PrimFunc, after: PrimFunc) -> None:
    """Which of two equal values wins may change, so there are none."""
    expected = random_arguments(before)
    expected[1] = np.random.default_rng(0).permutation(5 * 24).reshape(5, 24).astype("float32")
    actual = [array.copy() for array in expected]
    oracle.run(before, *expected)
    oracle.run(after, *actual)
    assert_same_arrays(before, expected, actual)


def test_the_table_is_covered() -> None:
    assert [reducer.name for reducer in REDUCERS] == list(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_every_reducer(name: str, which: int, axis: int) -> None:
    func = program(PROGRAMS[name])
    found = recognize_reduction(block_of(func))  # type: ignore[arg-type]
    assert found is not None
    assert found.reducer.name == name
    sch = Schedule(func, debug_mask="all")
    loops = sch.split(sch.get_loops("C")[1], [None, 4])
    partial = sch.rfactor(loops[which], axis)
    sch.decompose_reduction(partial, sch.get_loops(partial)[0])
    sch.parallel(sch.get_loops("C")[0])
    if which == 1 and name in ("argmax", "argmin"):
        assert_same_without_ties(func, sch.mod["main"])
    else:
        assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_a_loop_left_the_first_step_only_stores(name: str) -> None:
    func = program(PROGRAMS[name])
    sch = Schedule(func, debug_mask="all")
    partial = sch.rfactor(sch.get_loops("C")[1], 0)
    assert sch.get(partial).init is None  # type: ignore[union-attr]
    assert_same_result(func, sch.mod)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_topi_in_another_order(name: str, which: int) -> None:
    """Parts are combined in another order; the first NaN, or the first of equals, stays it."""
    rows = np.random.default_rng(1).integers(-2, 3, (4, 24)).astype("float32")
    rows[0, 7] = rows[0, 9] = rows[0, 22] = np.nan
    rows[1], rows[2] = -np.inf, np.inf
    a = te.placeholder(rows.shape, "float32", "A")
    sch = Schedule(te.create_prim_func([a, getattr(topi, name)(a, 1)]))
    loops = sch.split(sch.get_loops("A_red_temp")[1], [None, 4])
    sch.rfactor(loops[which], 0)
    result = np.zeros(4, "int32")
    oracle.run(sch.mod["main"], rows, result)
    assert result.tolist() == getattr(np, name)(rows, 1).tolist()
    assert result[0] == 7


def test_two_values() -> None:
    @T.prim_func
    def main(
        P: T.Buffer((5, 24), "int32"),
        V: T.Buffer((5, 24), "float32"),
        C: T.Buffer((5,), "int32"),
        D: T.Buffer((5,), "float32"),
    ):
        C_rf = T.alloc_buffer((5, 6), "int32")
        D_rf = T.alloc_buffer((5, 6), "float32")
        for i, k_0, k_1 in T.grid(5, 6, 4):
            with T.block("C_rf"):
                vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
                T.reads(P[vi, vk_0 * 4 + vk_1], V[vi, vk_0 * 4 + vk_1])
                T.writes(C_rf[vi, vk_0], D_rf[vi, vk_0])
                with T.init():
                    C_rf[vi, vk_0] = -1
                    D_rf[vi, vk_0] = T.min_value("float32")
                v_C_rf: T.int32 = T.Select(
                    D_rf[vi, vk_0] >= V[vi, vk_0 * 4 + vk_1],
                    C_rf[vi, vk_0],
                    P[vi, vk_0 * 4 + vk_1],
                )
                v_D_rf: T.float32 = T.Select(
                    D_rf[vi, vk_0] >= V[vi, vk_0 * 4 + vk_1],
                    D_rf[vi, vk_0],
                    V[vi, vk_0 * 4 + vk_1],
                )
                C_rf[vi, vk_0] = v_C_rf
                D_rf[vi, vk_0] = v_D_rf
        for i, k_0 in T.grid(5, 6):
            with T.block("C"):
                vk_0, vi = T.axis.remap("RS", [k_0, i])
                T.reads(C_rf[vi, vk_0], D_rf[vi, vk_0])
                T.writes(C[vi], D[vi])
                with T.init():
                    C[vi] = -1
                    D[vi] = T.min_value("float32")
                v_C: T.int32 = T.Select(D[vi] >= D_rf[vi, vk_0], C[vi], C_rf[vi, vk_0])
                v_D: T.float32 = T.Select(D[vi] >= D_rf[vi, vk_0], D[vi], D_rf[vi, vk_0])
                C[vi] = v_C
                D[vi] = v_D

    sch = Schedule(program(PROGRAMS["argmax"]), debug_mask="all")
    k0, _ = sch.split(sch.get_loops("C")[1], [None, 4])
    sch.rfactor(k0, 1)
    assert_structural_equal(sch.mod["main"], main)


@T.prim_func
def sum_then_scale(A: T.Buffer((6, 8), "float32"), D: T.Buffer((6,), "float32")):
    C = T.alloc_buffer((6,), "float32")
    for i in range(6):
        for k in range(8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = C[vi] * T.float32(2)


def test_other_blocks_in_the_nest_stay() -> None:
    sch = Schedule(sum_then_scale, debug_mask="all")
    k0, _ = sch.split(sch.get_loops("C")[1], [2, None])
    sch.rfactor(k0, 0)
    assert "for i in range(6):\n            for k_0 in range(2):" in sch.mod.script()
    assert_same_result(sum_then_scale, sch.mod)
    verify_trace_roundtrip(sch, sum_then_scale)


def test_guards_reach_the_second_step_as_far_as_it_needs_them() -> None:
    func = program(PROGRAMS["sum"])
    sch = Schedule(func, debug_mask="all")
    i, k = sch.get_loops("C")
    sch.split(i, [None, 3])
    _, k1 = sch.split(k, [None, 5])
    sch.rfactor(k1, 0)
    first, second = sch.mod.script().split('T.block("C"):')
    assert "T.where(i_0 * 3 + i_1 < 5 and k_0 * 5 + k_1 < 24)" in first
    assert "T.where(i_0 * 3 + i_1 < 5)" in second
    assert_same_result(func, sch.mod)


def test_every_partial_result_must_be_initialized() -> None:
    func = program(PROGRAMS["sum"])
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    k0, _ = sch.split(sch.get_loops("C")[1], [8, 4])
    with pytest.raises(ScheduleError) as caught:
        sch.rfactor(k0, 0)
    assert str(caught.value) == (
        "ScheduleError: rfactor: the condition `k_0 * 4 + k_1 < 24` may hold for no iteration of "
        "block 'C' at some value of loop 'k_0'; split the reduction so that no iteration of the "
        "factored loop is empty"
    )
    fused = sch.fuse(*sch.get_loops("C")[1:])
    sch.rfactor(fused, 0)  # here the second step skips what the first one did not store
    assert_same_result(func, sch.mod)


@settings(max_examples=20, deadline=None)
@given(
    order=st.permutations(range(5)),
    factors=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    at=st.integers(0, 4),
    axis=st.integers(-3, 2),
)
def test_any_tiling(order: list[int], factors: tuple[int, int], at: int, axis: int) -> None:
    func = matmul_of(4, 3, 6)
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    i, j, k = sch.get_loops("C")
    loops = [*sch.split(i, [None, factors[0]]), j, *sch.split(k, [None, factors[1]])]
    sch.reorder(*(loops[index] for index in order))
    refused = ""
    try:
        sch.rfactor(sch.get_loops("C")[at], axis)
    except ScheduleError as error:
        refused = str(error)
    assert not refused or "is not a loop of the reduction" in refused
    assert_same_result(func, sch.mod)


def test_the_new_value_may_come_first() -> None:
    func = program(single("A[vi, vk] + C[vi]", "T.float32(0)", "float32"))
    sch = Schedule(func, debug_mask="all")
    sch.rfactor(sch.split(sch.get_loops("C")[1], [4, 6])[0], 0)
    assert_same_result(func, sch.mod)


@pytest.mark.parametrize(
    ("update", "identity"),
    [
        ("C[vi] + A[vi, vk]", "T.float32(1)"),
        ("C[vi] - A[vi, vk]", "T.float32(0)"),
        ("C[vi] + A[vi, vk] * C[vi]", "T.float32(0)"),
        ("T.max(C[vi], A[vi, vk])", "T.float32(0)"),
    ],
)
def test_unknown_reducers(update: str, identity: str) -> None:
    func = program(single(update, identity, "float32"))
    sch = Schedule(func, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.rfactor(sch.get_loops("C")[1], 0)
    assert str(caught.value) == (
        "ScheduleError: rfactor: the update of block 'C' is not a known commutative reduction from "
        "its identity; known are sums, products, min, max, pairs of sums, argmin and argmax"
    )


def test_stores_that_see_each_other_are_no_pair() -> None:
    text = PROGRAMS["two sums"].replace(
        "            D[vi] = d\n", f"            D[vi] = {X[1]} + C[vi]\n"
    )
    assert recognize_reduction(block_of(program(text))) is None  # type: ignore[arg-type]


@T.prim_func
def repeated(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
    for _, i, k in T.grid(2, 8, 16):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


def test_a_loop_without_iterators(matmul: PrimFunc) -> None:
    """Where it runs once, its only iteration is the whole reduction."""
    sch = Schedule(matmul, debug_mask="all")
    unit = sch.add_unit_loop(sch.get_block("C"))
    made = sch.rfactor(unit, 0)
    assert [sch.get(loop).extent for loop in sch.get_loops(made)] == [32, 48, 24, 1]  # type: ignore[union-attr]
    assert [sch.get(loop).extent for loop in sch.get_loops("C")] == [32, 48, 1]  # type: ignore[union-attr]
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)
    twice = Schedule(repeated, error_render_level="fast")
    with pytest.raises(ScheduleError, match="no iterator is bound to it"):
        twice.rfactor(twice.get_loops("B")[0], 0)


@pytest.mark.parametrize("swapped", ["init", "stores", "both", "values"])
def test_stores_in_any_order(swapped: str) -> None:
    init = ["best[vi] = -1", 'least[vi] = T.max_value("float32")']
    values = [
        "p: T.int32 = T.Select(least[vi] <= V[vi, vk], best[vi], I[vi, vk])",
        "v: T.float32 = T.Select(least[vi] <= V[vi, vk], least[vi], V[vi, vk])",
    ]
    stores = ["best[vi] = p", "least[vi] = v"]
    for name, lines in (("init", init), ("stores", stores), ("values", values)):
        if swapped in (name, "both"):
            lines.reverse()
    body = "\n                ".join([*values, *stores])
    start = "\n                    ".join(init)
    func = from_source(f"""@T.prim_func
def main(I: T.Buffer((8, 16), "int32"), V: T.Buffer((8, 16)), best: T.Buffer((8,), "int32"), \\
         least: T.Buffer((8,))):
        for i, k in T.grid(8, 16):
            with T.block("argmin"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    {start}
                {body}
""")
    assert isinstance(func, PrimFunc)
    sch = Schedule(func, debug_mask="all")
    outer, _ = sch.split(sch.get_loops("argmin")[1], [4, 4])
    sch.rfactor(outer, 1)
    text = sch.mod.script()
    assert text.index("best_rf = T.alloc_buffer") < text.index("least_rf = T.alloc_buffer")
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_refused(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    i, j, k = sch.get_loops("C")
    reasons = {
        "loop 'i' is not a loop of the reduction of block 'C': a spatial iterator is bound to it; "
        "give a loop that only reduction iterators are bound to": (i, 0),
        "factor_axis 3 is out of range for 'C' of 2 dimensions; use -3 to 2": (k, 3),
        "factor_axis -4 is out of range for 'C' of 2 dimensions; use -3 to 2": (k, -4),
    }
    for reason, (loop, axis) in reasons.items():
        with pytest.raises(ScheduleError) as caught:
            sch.rfactor(loop, axis)
        assert str(caught.value) == f"ScheduleError: rfactor: {reason}"
    fused = sch.fuse(j, k)
    with pytest.raises(ScheduleError, match="a spatial iterator is bound to it"):
        sch.rfactor(fused, 0)
    sch.unroll(fused)
    with pytest.raises(ScheduleError, match="loop 'j_k_fused' is not a serial loop"):
        sch.rfactor(fused, 0)


def test_rows_of_different_lengths_are_refused() -> None:
    """Extents that depend on loops cannot be those of a buffer or of an iterator."""
    sch = Schedule(ragged_rows, error_render_level="fast")
    _, k = sch.get_loops("sum")
    outer, inner = sch.split(k, [None, 1], preserve_unit_iters=True)
    for loop in (outer, inner):
        with pytest.raises(ScheduleError) as caught:
            sch.rfactor(loop, 0)
        assert str(caught.value) == (
            "ScheduleError: rfactor: the extent `n[i]` of reduction loop 'k_0' depends on other "
            "loops; the number of partial results must be the same in all their iterations"
        )


def test_refused_next_to_others(chain: PrimFunc) -> None:
    sch = Schedule(chain, error_render_level="fast")
    with pytest.raises(ScheduleError, match="block 'C' is not a reduction block: it has no init"):
        sch.rfactor(sch.get_loops("C")[1], 0)
    merged = sch.merge(sch.get_loops("B")[1], sch.get_loops("C")[1])
    with pytest.raises(ScheduleError, match="2 blocks are under loop 'j_m', expected one"):
        sch.rfactor(merged, 0)


def test_the_partial_block_must_not_overtake_its_inputs() -> None:
    @T.prim_func
    def produced(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((6, 8), "float32")
        for i in range(6):
            for k in range(8):
                with T.block("B"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    B[vi, vk] = A[vi, vk] * T.float32(2)
            for k in range(8):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + B[vi, vk]

    sch = Schedule(produced, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.rfactor(sch.get_loops("C")[1], 0)
    assert str(caught.value) == (
        "ScheduleError: rfactor: block 'C' is not the first block under loop 'i'; the factored "
        "block runs before that loop, ahead of the blocks in front of 'C'"
    )
