"""Products of matrices: one, a batch of them, with a vector, with a triangle of ones."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import te
from tilewright.heron import steps
from tilewright.heron.operators.base import (
    HeronOperator,
    OperatorCase,
    heron_operators,
    operand_stage,
)
from tilewright.heron.operators.matrices import MatrixProduct, fills_fragments
from tilewright.heron.template import Template, TensorStage
from tilewright.ir import IRModule, PrimExpr

LANES, QUAD = 16, 4  # of one instruction of DL Boost


@heron_operators.register("gemm")
def gemm(case: OperatorCase) -> HeronOperator:
    """dense[i, j] = sum over k of A[i, k] * B[j, k]."""
    m, k, n = case.sizes(("M", "K", "N"))
    return _product(case, (), m, k, n)


@heron_operators.register("bmm")
def bmm(case: OperatorCase) -> HeronOperator:
    """A batch of matrix products."""
    b, m, k, n = case.sizes(("B", "M", "K", "N"))
    return _product(case, (b,), m, k, n)


@heron_operators.register("gemv")
def gemv(case: OperatorCase) -> HeronOperator:
    """A matrix product with one column."""
    m, k = case.sizes(("M", "K"))
    return _product(case, (), m, k, 1)


@heron_operators.register("scan")
def scan(case: OperatorCase) -> HeronOperator:
    """Sums of the first elements of rows, as a product with a triangle of ones."""
    m, n, k = case.sizes(("M", "N", "K"))
    return _product(case, (), m, k, n)


def _product(case: OperatorCase, batch: tuple[int, ...], m: int, k: int, n: int) -> HeronOperator:
    if case.as_matrices and not fills_fragments(m, k, n):
        return _padded_product(case, batch, m, k, n)
    return _plain_product(case, batch, m, k, n)


def _padded_product(
    case: OperatorCase, batch: tuple[int, ...], m: int, k: int, n: int
) -> HeronOperator:
    """Operands with zeros around them."""
    first = te.placeholder((*batch, m, k), case.in_dtype, "A")
    second = te.placeholder((*batch, n, k), case.in_dtype, "B")
    return MatrixProduct(
        case,
        batch,
        (m, k, n),
        (first, second),
        first,
        second,
        run=k,
    ).operator()


def is_packed(case: OperatorCase, n: int, k: int) -> bool:
    """True when the second operand is stored for the instructions of DL Boost."""
    return case.in_dtype == "uint8" and n % LANES == 0 and k % QUAD == 0


def _second_operand(
    case: OperatorCase, n: int, k: int, batch: tuple[int, ...] = ()
) -> tuple[te.Tensor, Callable[..., te.TensorSlice]]:
    """Weights of n x k, and how an element of them is read."""
    block = case.weight_block
    is_blocked = block and n % block == 0 and k % block == 0
    lanes, quad = (block, block) if is_blocked else (LANES, QUAD)
    if not is_blocked and not is_packed(case, n, k):
        plain = te.placeholder((*batch, n, k), case.weight_dtype, "B")
        return plain, lambda *at: plain[at]
    shape = (*batch, n // lanes, k // quad, lanes, quad)
    packed = te.placeholder(shape, case.weight_dtype, "B")

    def element(*at: PrimExpr) -> te.TensorSlice:
        *outer, j, l = at
        place = (*outer, j // lanes, l // quad, j % lanes, l % quad)
        return packed[place]

    return packed, element


def _plain_product(
    case: OperatorCase, batch: tuple[int, ...], m: int, k: int, n: int
) -> HeronOperator:
    first = te.placeholder((*batch, m, k), case.in_dtype, "A")
    second, element = _second_operand(case, n, k, batch)
    reduced = te.reduce_axis((0, k), "k")

    def product(*at: PrimExpr) -> PrimExpr:
        *outer, i, j = at
        place = (*outer, i, reduced)
        left = first[place].astype(case.out_dtype)
        right = element(*outer, j, reduced).astype(case.out_dtype)
        return te.sum(left * right, axis=[reduced])

    spatial = ("b", "i", "j")[1 - len(batch) :]
    dense = te.compute((*batch, m, n), _NAMED[len(spatial)](product), name="dense")
    func = te.create_prim_func([first, second, dense])
    extents = {**dict(zip(spatial, (*batch, m, n), strict=True)), "k": k}
    prefix = spatial[:-2]

    def make_template() -> Template:
        stages = {
            "A": operand_stage("A", (*prefix, "i", "k"), extents),
            "B": operand_stage("B", (*prefix, "j", "k"), extents),
            "dense": TensorStage("dense", spatial, ("k",), ("A", "B"), dict(extents)),
        }
        template = Template(stages, ["dense", "B", "A"], case.in_dtype, case.out_dtype)
        template.begin("dense")
        template.steps.append(steps.FindBlock("dense", "dense", (*spatial, "k")))
        return template

    flop = 2 * m * n * k * (batch[0] if batch else 1)
    return HeronOperator(case.operator, IRModule({"main": func}), make_template, flop)


def _matrix(body: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    return lambda i, j: body(i, j)


def _matrices(body: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    return lambda b, i, j: body(b, i, j)


_NAMED = {2: _matrix, 3: _matrices}  # the names of parameters name the loops
