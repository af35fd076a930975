"""Predicates on blocks, and the count of operations."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.errors import ScheduleError
from tilewright.ir import BufferRegion, DType, IRModule, PrimExpr, Var, const, decl_buffer
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import (
    AccessPattern,
    analyze_read_write_pattern,
    estimate_tir_flops,
    has_block,
    has_if_then_else,
    has_reduction_iter,
    is_affine,
    is_output_block,
    is_spatial,
    is_trivial_binding,
    is_write_cache,
)
from tilewright.script import tir as T
from tilewright.testing import te_workload


@T.prim_func
def two_stages(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")) -> None:
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vj]


def test_kinds_of_blocks() -> None:
    sch = Schedule(two_stages)
    b, c = sch.get_block("B"), sch.get_block("C")
    assert has_block(sch, "B")
    assert not has_block(sch, "D")
    assert [is_spatial(sch, block) for block in (b, c)] == [True, False]
    assert [has_reduction_iter(sch, block) for block in (b, c)] == [False, True]
    assert [is_output_block(sch, block) for block in (b, c)] == [False, True]
    assert [is_write_cache(sch, block) for block in (b, c)] == [True, False]


def test_trivial_bindings_end_with_a_split() -> None:
    sch = Schedule(two_stages)
    block = sch.get_block("B")
    assert is_trivial_binding(sch, block)
    loop, other = sch.get_loops(block)
    sch.reorder(other, loop)
    assert not is_trivial_binding(sch, block)
    sch.reorder(loop, other)
    sch.split(loop, [2, 4])
    assert not is_trivial_binding(sch, block)
    assert is_affine(sch, block)


def test_conditions_are_found() -> None:
    assert not has_if_then_else(two_stages.body)
    sch = Schedule(two_stages)
    sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 3])
    assert has_if_then_else(sch.mod["main"].body)
    padded = te.create_prim_func(list(te_workload.conv2d_nhwc(1, 8, 8, 3, 4, 3, 1, 1)))
    assert has_if_then_else(padded.body)

    @T.prim_func
    def select(A: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = T.Select(vi < 4, T.float32(0), T.float32(1))

    assert has_if_then_else(select.body)


I, J = Var("i", DType("int32")), Var("j", DType("int32"))


def point(*indices: PrimExpr) -> BufferRegion:
    return BufferRegion.from_point(decl_buffer([8] * len(indices)), indices)


@pytest.mark.parametrize(
    ("read", "write", "expected"),
    [
        ((I, J), (I, J), AccessPattern(True, True, True, True, True, True)),
        ((J, I), (I, J), AccessPattern(True, True, True, False, True, True)),
        ((I,), (I, J), AccessPattern(True, False, True, True, True, True)),
        ((I, I), (I,), AccessPattern(True, True, False, True, True, True)),
        ((I, const(0)), (I,), AccessPattern(True, True, True, True, False, True)),
        ((I + 1, J), (I, J), AccessPattern(True, True, True, True, True, False)),
        ((I * 2,), (I,), AccessPattern()),
        ((I,), (J,), AccessPattern()),
        ((I,), (I * 2,), AccessPattern()),
    ],
)
def test_reads_in_terms_of_writes(
    read: tuple[PrimExpr, ...], write: tuple[PrimExpr, ...], expected: AccessPattern
) -> None:
    assert analyze_read_write_pattern(point(*read), point(*write)) == expected


def test_operations_of_a_matrix_product() -> None:
    func = te.create_prim_func(list(te_workload.matmul(16, 16, 16)))
    assert estimate_tir_flops(func) == 2 * 16**3
    assert estimate_tir_flops(IRModule({"a": func, "b": func})) == 4 * 16**3
    assert estimate_tir_flops(func.with_attr("estimated_flops", 7)) == 7


def test_what_counts_as_an_operation() -> None:
    @T.prim_func
    def branches(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            if A[i] > T.float32(0):
                B[i] = A[i] + T.float32(1)
            else:
                B[i] = (A[i] * T.float32(2) + T.float32(1)) / A[i * 2 % 8]

    assert estimate_tir_flops(branches) == 8 * 3


def test_symbolic_loops_cannot_be_counted() -> None:
    @T.prim_func
    def symbolic(a: T.handle) -> None:
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = A[i] + T.float32(1)

    with pytest.raises(ScheduleError) as caught:
        estimate_tir_flops(symbolic)
    assert str(caught.value) == (
        "cannot count operations: loop 'i' has the symbolic extent `n`; set the function "
        "attribute 'estimated_flops'"
    )
