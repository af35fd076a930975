"""Operators that Heron tunes, as programs and as stages that rules can work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.errors import TuneError
from tilewright.heron import steps
from tilewright.heron.template import Stage, Template
from tilewright.ir import IRModule
from tilewright.support.plugins import Family


@dataclass(frozen=True)
class Operation:
    """An operator on given shapes."""

    name: str
    mod: IRModule
    make_template: Callable[[], Template]
    flop: int


@dataclass(frozen=True)
class Case:
    """What a configuration asks for: an operator, its shape and its data types."""

    operator: str
    shape: tuple[int, ...]
    in_dtype: str
    out_dtype: str


heron_operators: Family[Operation] = Family("operator of Heron", "tilewright.heron_operator")

_LANES, _QUAD = 16, 4  # of one instruction of DL Boost


def operation_of(case: Case) -> Operation:
    """The operator of a case."""
    return heron_operators.create(case.operator, case)


def _shape(case: Case, names: Sequence[str]) -> tuple[int, ...]:
    wanted = ", ".join(names)
    if len(case.shape) != len(names):
        raise TuneError(
            f"operator {case.operator!r} takes the sizes ({wanted}), got {list(case.shape)}"
        )
    for name, size in zip(names, case.shape, strict=True):
        if size < 1:
            raise TuneError(
                f"operator {case.operator!r}: {name} must be at least 1, got {size}"
            )
    return case.shape


def _is_packed(case: Case, n: int, k: int) -> bool:
    """True when the second operand is stored for the instructions of DL Boost."""
    return case.in_dtype == "uint8" and n % _LANES == 0 and k % _QUAD == 0


def _second_operand(
    case: Case, n: int, k: int, batch: tuple[int, ...] = ()
) -> tuple[te.Tensor, Callable[..., object]]:
    """Weights of n x k, and how an element of them is read."""
    dtype = "int8" if case.in_dtype == "uint8" else case.in_dtype
    if _is_packed(case, n, k):
        packed = te.placeholder((*batch, n // _LANES, k // _QUAD, _LANES, _QUAD), dtype, "B")
        return packed, lambda *i: packed[
            (*i[:-2], i[-2] // _LANES, i[-1] // _QUAD, i[-2] % _LANES, i[-1] % _QUAD)
        ]
    plain = te.placeholder((*batch, n, k), dtype, "B")
    return plain, lambda *i: plain[i]


@heron_operators.register("gemm")
def gemm(case: Case) -> Operation:
    """dense[i, j] = sum over k of A[i, k] * B[j, k]."""
    m, k, n = _shape(case, ("M", "K", "N"))
    return _contraction(case, (), m, k, n)


@heron_operators.register("bmm")
def bmm(case: Case) -> Operation:
    """A batch of matrix products."""
    b, m, k, n = _shape(case, ("B", "M", "K", "N"))
    return _contraction(case, (b,), m, k, n)


@heron_operators.register("gemv")
def gemv(case: Case) -> Operation:
    """A matrix product with one column."""
    m, k = _shape(case, ("M", "K"))
    return _contraction(case, (), m, k, 1)


@heron_operators.register("scan")
def scan(case: Case) -> Operation:
    """Sums of the first elements of rows, as a product with a triangle of ones."""
    m, n, k = _shape(case, ("M", "N", "K"))
    return _contraction(case, (), m, k, n)


def _contraction(case: Case, batch: tuple[int, ...], m: int, k: int, n: int) -> Operation:
    first = te.placeholder((*batch, m, k), case.in_dtype, "A")
    second, element = _second_operand(case, n, k, batch)
    reduced = te.reduce_axis((0, k), "k")

    def product(*at: object) -> object:
        *outer, i, j = at
        left = first[(*outer, i, reduced)].astype(case.out_dtype)
        return te.sum(left * element(*outer, j, reduced).astype(case.out_dtype), axis=[reduced])

    names = ["b", "i", "j"][3 - 2 - len(batch) :]
    spatial = tuple(names)
    dense = te.compute((*batch, m, n), _with_names(product, names), name="dense")
    func = te.create_prim_func([first, second, dense])
    extents = {**dict(zip(spatial, (*batch, m, n), strict=True)), "k": k}
    prefix = spatial[:-2]

    def make_template() -> Template:
        stages = {
            "A": _input("A", (*prefix, "i", "k"), extents),
            "B": _input("B", (*prefix, "j", "k"), extents),
            "dense": Stage("dense", spatial, ("k",), ("A", "B"), dict(extents)),
        }
        template = Template(stages, ["dense", "B", "A"], case.in_dtype, case.out_dtype)
        template.begin("dense")
        template.steps.append(steps.FindBlock("dense", "dense", (*spatial, "k")))
        return template

    flop = 2 * m * n * k * (batch[0] if batch else 1)
    return Operation(case.operator, IRModule({"main": func}), make_template, flop)


def _input(name: str, follows: Sequence[str], extents: dict[str, int]) -> Stage:
    axes = tuple(f"ax{place}" for place in range(len(follows)))
    sizes = {axis: extents[other] for axis, other in zip(axes, follows, strict=True)}
    consumer = dict(zip(axes, follows, strict=True))
    return Stage(name, axes, extents=sizes, follows=consumer, is_input=True)


def _with_names(body: Callable[..., object], names: Sequence[str]) -> Callable[..., object]:
    """The function with parameters of these names, which name the loops."""
    by_count: dict[int, Callable[..., object]] = {
        2: lambda i, j: body(i, j),
        3: lambda b, i, j: body(b, i, j),
    }
    return by_count[len(names)]
