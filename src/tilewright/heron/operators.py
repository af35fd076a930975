"""Operators that Heron tunes, as programs and as stages that rules can work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.errors import TuneError
from tilewright.heron import steps
from tilewright.heron.template import Template, TensorStage
from tilewright.ir import IRModule, PrimExpr
from tilewright.support.plugins import Family


@dataclass(frozen=True)
class HeronOperator:
    """An operator on given shapes."""

    name: str
    mod: IRModule
    make_template: Callable[[], Template]
    flop: int


@dataclass(frozen=True)
class OperatorCase:
    """What a configuration asks for: an operator, its shape and its data types."""

    operator: str
    shape: tuple[int, ...]
    in_dtype: str
    out_dtype: str
    weight_block: int = 0  # sides of square blocks that weights are stored in; 0: plain, or packed


heron_operators: Family[HeronOperator] = Family("operator of Heron", "tilewright.heron_operator")

_LANES, _QUAD = 16, 4  # of one instruction of DL Boost


def operation_of(case: OperatorCase) -> HeronOperator:
    """The operator of a case."""
    return heron_operators.create(case.operator, case)


def _shape(case: OperatorCase, names: Sequence[str]) -> tuple[int, ...]:
    wanted = ", ".join(names)
    if len(case.shape) != len(names):
        raise TuneError(
            f"operator {case.operator!r} takes the sizes ({wanted}), got {list(case.shape)}"
        )
    for name, size in zip(names, case.shape, strict=True):
        if size < 1:
            raise TuneError(f"operator {case.operator!r}: {name} must be at least 1, got {size}")
    return case.shape


def _is_packed(case: OperatorCase, n: int, k: int) -> bool:
    """True when the second operand is stored for the instructions of DL Boost."""
    return case.in_dtype == "uint8" and n % _LANES == 0 and k % _QUAD == 0


def _second_operand(
    case: OperatorCase, n: int, k: int, batch: tuple[int, ...] = ()
) -> tuple[te.Tensor, Callable[..., te.TensorSlice]]:
    """Weights of n x k, and how an element of them is read."""
    dtype = "int8" if case.in_dtype == "uint8" else case.in_dtype
    block = case.weight_block
    is_blocked = block and n % block == 0 and k % block == 0
    lanes, quad = (block, block) if is_blocked else (_LANES, _QUAD)
    if not is_blocked and not _is_packed(case, n, k):
        plain = te.placeholder((*batch, n, k), dtype, "B")
        return plain, lambda *at: plain[at]
    packed = te.placeholder((*batch, n // lanes, k // quad, lanes, quad), dtype, "B")

    def element(*at: PrimExpr) -> te.TensorSlice:
        *outer, j, l = at
        place = (*outer, j // lanes, l // quad, j % lanes, l % quad)
        return packed[place]

    return packed, element


@heron_operators.register("gemm")
def gemm(case: OperatorCase) -> HeronOperator:
    """dense[i, j] = sum over k of A[i, k] * B[j, k]."""
    m, k, n = _shape(case, ("M", "K", "N"))
    return _contraction(case, (), m, k, n)


@heron_operators.register("bmm")
def bmm(case: OperatorCase) -> HeronOperator:
    """A batch of matrix products."""
    b, m, k, n = _shape(case, ("B", "M", "K", "N"))
    return _contraction(case, (b,), m, k, n)


@heron_operators.register("gemv")
def gemv(case: OperatorCase) -> HeronOperator:
    """A matrix product with one column."""
    m, k = _shape(case, ("M", "K"))
    return _contraction(case, (), m, k, 1)


@heron_operators.register("scan")
def scan(case: OperatorCase) -> HeronOperator:
    """Sums of the first elements of rows, as a product with a triangle of ones."""
    m, n, k = _shape(case, ("M", "N", "K"))
    return _contraction(case, (), m, k, n)


def _contraction(
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
            "A": _input("A", (*prefix, "i", "k"), extents),
            "B": _input("B", (*prefix, "j", "k"), extents),
            "dense": TensorStage("dense", spatial, ("k",), ("A", "B"), dict(extents)),
        }
        template = Template(stages, ["dense", "B", "A"], case.in_dtype, case.out_dtype)
        template.begin("dense")
        template.steps.append(steps.FindBlock("dense", "dense", (*spatial, "k")))
        return template

    flop = 2 * m * n * k * (batch[0] if batch else 1)
    return HeronOperator(case.operator, IRModule({"main": func}), make_template, flop)


def _input(name: str, follows: Sequence[str], extents: dict[str, int]) -> TensorStage:
    axes = tuple(f"ax{place}" for place in range(len(follows)))
    sizes = {axis: extents[other] for axis, other in zip(axes, follows, strict=True)}
    consumer = dict(zip(axes, follows, strict=True))
    return TensorStage(name, axes, extents=sizes, follows=consumer, is_input=True)


def _matrix(body: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    return lambda i, j: body(i, j)


def _matrices(body: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    return lambda b, i, j: body(b, i, j)


_NAMED = {2: _matrix, 3: _matrices}  # the names of parameters name the loops
