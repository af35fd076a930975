"""Reductions as matrix products: the part of every loop, for each kind of operator."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.ir import Block, as_module
from tilewright.schedule import Schedule
from tilewright.space.cpu.contraction import Contraction
from tilewright.testing import te_workload
from tilewright.testing.te_workload import Tensors


def block_of(tensors: Tensors, name: str) -> Block:
    sch = Schedule(as_module(te.create_prim_func(list(tensors))))
    return sch.get_sref(sch.get_block(name)).block


def contraction(tensors: Tensors, name: str) -> Contraction | None:
    return Contraction.of(block_of(tensors, name))


def found(tensors: Tensors, name: str) -> Contraction:
    result = contraction(tensors, name)
    assert result is not None
    return result


def test_matmul() -> None:
    made = found(te_workload.matmul(7, 13, 5), "C")
    assert made == Contraction(
        vector=1,
        rows=(0,),
        batch=(),
        depth=(2,),
        extents=(7, 13, 5),
        right=1,
        left=(0,),
        vector_limit=None,
        periods={},
    )


def test_batch_loops_are_those_the_right_operand_knows() -> None:
    made = found(te_workload.batch_matmul_nkkm(3, 8, 16, 4), "Z")
    assert (made.batch, made.rows, made.vector, made.depth) == ((0,), (1,), 2, (3,))


def test_convolution_has_several_rows_and_depths() -> None:
    made = found(te_workload.conv2d_nhwc(1, 6, 6, 4, 8, 3, 1, 1), "conv2d_nhwc")
    assert (made.rows, made.vector, made.depth) == ((0, 1, 2), 3, (4, 5, 6))
    assert made.extents == (1, 6, 6, 8, 3, 3, 4)


def test_groups_limit_the_vector() -> None:
    tensors = te_workload.conv2d_nhwc(1, 6, 6, 8, 32, 3, 1, 1, groups=4)
    assert found(tensors, "conv2d_nhwc").vector_limit == 8


def test_depthwise_convolution_streams_both_operands() -> None:
    tensors = te_workload.depthwise_conv2d_nhwc(1, 6, 6, 16, 3, 1, 1)
    made = found(tensors, "depth_conv2d_nhwc")
    assert made.left == ()
    assert made.right == 1
    assert made.rows == (0, 1, 2)


def test_transposed_convolution_has_periods() -> None:
    """Once its input is stretched on the fly, every second position is a zero."""
    tensors = te_workload.conv2d_transpose_nhwc(1, 4, 4, 8, 8, 4, 2, 1)
    sch = Schedule(as_module(te.create_prim_func(list(tensors))))
    block = sch.get_block("conv2d_transpose_nhwc")
    for producer in sch.get_producers(block):
        sch.compute_inline(producer)
    made = Contraction.of(sch.get_sref(block).block)
    assert made is not None
    assert set(made.periods.values()) == {2}
    assert {made.extents[n] for n in made.periods} == {8, 4}  # of the result, of the window


def test_operand_that_would_be_gathered() -> None:
    a = te.placeholder((8, 6), name="A")
    b = te.placeholder((10, 6), name="B")
    k = te.reduce_axis((0, 6), name="k")
    c = te.compute((8, 10), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    assert contraction((a, b, c), "C") is None


def test_shifted_operand_is_still_contiguous() -> None:
    a = te.placeholder((8, 6), name="A")
    b = te.placeholder((6, 12), name="B")
    k = te.reduce_axis((0, 6), name="k")
    c = te.compute((8, 10), lambda i, j: te.sum(a[i, k] * b[k, j + 2], axis=k), name="C")
    assert found((a, b, c), "C").right == 1


def test_sum_of_columns_has_a_right_operand_only() -> None:
    a = te.placeholder((6, 12), name="A")
    k = te.reduce_axis((0, 6), name="k")
    c = te.compute((12,), lambda j: te.sum(a[k, j], axis=k), name="C")
    made = found((a, c), "C")
    assert (made.right, made.left, made.rows) == (0, (), ())


@pytest.mark.parametrize("name", ["T_softmax_maxelem", "T_softmax_exp"])
def test_other_blocks(name: str) -> None:
    """A reduction along contiguous memory would gather; an exponential reduces nothing."""
    assert contraction(te_workload.softmax_mn(6, 8), name) is None
