"""Blocks as loop nests of their own: what moves along which iterator, and how it lies in memory."""

from __future__ import annotations

import pytest

from tilewright import ir, te
from tilewright.ir import Block
from tilewright.nest.access import BufferAccess, divisors
from tilewright.nest.block_nest import BlockNest, loads_of
from tilewright.nest.placement import whole_bytes
from tilewright.script import from_source
from tilewright.testing.te_workload import conv2d_nhwc, conv2d_transpose_nhwc, matmul

I, J, K = (ir.Var(name, ir.DType("int32")) for name in "ijk")


def buffer(rank: int = 2) -> ir.Buffer:
    return ir.decl_buffer((64,) * rank, "float32", "A")


def access(*indices: ir.PrimExpr) -> BufferAccess:
    return BufferAccess.at(buffer(len(indices)), indices)


def block_of(func: ir.PrimFunc, name: str) -> Block:
    (found,) = (block for block in ir.nodes_of(func, Block) if block.name_hint == name)
    return found


def block_in(source: str, name: str = "B") -> Block:
    func = from_source(source)
    assert isinstance(func, ir.PrimFunc)
    return block_of(func, name)


# --- accesses -----------------------------------------------------------------------------------


def test_the_variables_of_an_access() -> None:
    made = access(I + J * 2, ir.floordiv(K, 4))
    assert made.variables == {I, J, K}
    assert [made.uses(var) for var in (I, J, K)] == [True, True, True]
    assert not access(I, I).uses(J)
    assert access(I + J, J).axes_using(J) == [0, 1]


def test_the_axis_that_a_variable_indexes_by_itself() -> None:
    made = access(I, J + 1, K)
    assert [made.axis_of(var) for var in (I, J, K)] == [0, None, 2]
    assert made.last is K
    assert access(I, J + 1).last is None
    assert BufferAccess.at(ir.decl_buffer((), "float32"), ()).last is None


def test_variables_that_index_the_last_axes() -> None:
    made = access(I, J, K)
    assert made.ends_in([J, K])
    assert made.ends_in([I, J, K])
    assert not made.ends_in([K, J])
    assert not made.ends_in([I, I, J, K])


@pytest.mark.parametrize(
    ("indices", "lies", "runs"),
    [
        ((I, J), True, True),
        ((J, I), False, False),
        ((J, J), False, True),
        ((I, J + K), False, True),
        ((I, J + 3), False, True),
        ((I, J - 1), False, False),
        ((I, J + K - 1), False, False),
        ((I, J * 2), False, False),
        ((I, ir.floordiv(J, 2)), False, False),
        ((I, J + ir.floordiv(J, 2)), False, False),
        ((), False, False),
    ],
)
def test_neighbours_along_a_variable(
    indices: tuple[ir.PrimExpr, ...], lies: bool, runs: bool
) -> None:
    made = access(*indices)
    assert (made.lies_along(J), made.runs_along(J)) == (lies, runs)


def test_what_an_index_divides_a_variable_by() -> None:
    (index,) = access(ir.floordiv(I, 4) * 8 + ir.floordiv(ir.floordiv(I, 2) + J, 3)).indices
    assert divisors(index, I) == [4, 2]
    assert divisors(index, J) == []
    assert divisors(access(I).indices[0], I) == []
    assert divisors(access(ir.floordiv(I, J)).indices[0], I) == [None]


def test_equal_indices() -> None:
    assert access(I, ir.floordiv(J, 2) + 1).is_at(access(I, ir.floordiv(J, 2) + 1))
    assert not access(I, J).is_at(access(J, I))
    assert not access(I, J).is_at(access(I, J + 1))
    assert not access(I, J).is_at(access(I))


def test_the_size_of_a_buffer() -> None:
    assert whole_bytes(ir.decl_buffer((3, 5), "float16")) == 30
    assert whole_bytes(ir.decl_buffer((3, I), "float16")) == 0


# --- blocks -------------------------------------------------------------------------------------


def test_the_iterators_of_a_product() -> None:
    nest = BlockNest(block_of(te.create_prim_func(list(matmul(7, 13, 5))), "C"))
    assert (nest.spatial, nest.depth, nest.extents) == ([0, 1], [2], [7, 13, 5])
    assert (nest.points(nest.spatial), nest.points(nest.depth)) == (91, 5)
    assert nest.is_plain
    assert [nest.position(var) for var in nest.iters] == [0, 1, 2]
    assert nest.position(I) is None
    assert [sorted(nest.operands), sorted(nest.inputs), sorted(nest.loaded)] == [[0, 1]] * 3


def test_windows_and_groups_use_several_iterators_at_once() -> None:
    tensors = conv2d_nhwc(1, 6, 6, 4, 8, 3, 1, 1)
    nest = BlockNest(block_of(te.create_prim_func(list(tensors)), "conv2d_nhwc"))
    left, right = nest.operands.values()
    assert left.variables == {*nest.iters}  # the channel of the result says which group it is of
    assert divisors(left.indices[-1], nest.iters[3]) == [8]
    assert right.variables == {nest.iters[n] for n in (3, 4, 5, 6)}
    assert right.lies_along(nest.iters[3])


INIT_READS = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i, k in T.grid(8, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(C[vi], A[vi, vk], B[vi])
            T.writes(C[vi])
            with T.init():
                C[vi] = B[vi]
            C[vi] = C[vi] + A[vi, vk]
"""


def test_what_only_the_initialisation_reads() -> None:
    nest = BlockNest(block_in(INIT_READS))
    assert [sorted(nest.inputs), sorted(nest.operands)] == [[1, 2], [1, 2]]
    assert sorted(nest.loaded) == [1]


OWN_RESULTS = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((9,), "float32")):
    for i in T.serial(8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            T.reads(C[vi], A[vi])
            T.writes(C[vi + 1])
            C[vi + 1] = C[vi] + A[vi]
"""


def test_a_block_that_reads_what_it_writes() -> None:
    nest = BlockNest(block_in(OWN_RESULTS))
    assert (sorted(nest.inputs), sorted(nest.operands)) == ([0, 1], [1])
    assert (nest.spatial, nest.depth, nest.is_plain) == ([], [], False)  # its iterator is opaque


def test_extents_that_are_not_numbers() -> None:
    n = te.var("n")
    a = te.placeholder((n, 4), name="A")
    func = te.create_prim_func([a, te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="B")])
    nest = BlockNest(block_of(func, "B"))
    assert nest.extents == [None, 4]
    assert nest.points(nest.spatial) == 0
    assert not nest.is_plain


PERIODS = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:64])
            T.writes(C[vi * 8 + vj])
            C[vi * 8 + vj] = T.if_then_else(vi % 4 == 0, A[(vj % 6 + vi) % 3], T.float32(0))
"""


def test_periods_of_nested_and_repeated_remainders() -> None:
    """An outer remainder overrules an inner one, and a later one an earlier one."""
    nest = BlockNest(block_in(PERIODS))
    assert nest.periods == {nest.iters[0]: 3, nest.iters[1]: 3}


def test_the_period_of_a_transposed_convolution() -> None:
    func = te.create_prim_func(list(conv2d_transpose_nhwc(1, 4, 4, 8, 8, 4, 2, 1)))
    blocks = [block for block in ir.nodes_of(func, Block) if block.name_hint != "root"]
    assert {period for block in blocks for period in BlockNest(block).periods.values()} == {2}


def test_loads_in_the_order_in_which_they_are_written() -> None:
    block = block_of(te.create_prim_func(list(matmul(4, 4, 4))), "C")
    assert [load.buffer.name for load in loads_of(block.body)] == ["C", "A", "B"]
