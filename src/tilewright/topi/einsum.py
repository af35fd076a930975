"""Sums of products in Einstein's notation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import DType, ExprLike, IntImm, IterVar, PrimExpr, Var, const, is_one
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import same_extent

Labels: TypeAlias = tuple[str, ...]


def einsum(subscripts: str, *operand: Tensor) -> Tensor:
    """`out[output labels] = sum over all other labels of the product of the operands`.

    Each operand has a letter for each of its axes: `einsum("ij,jk->ik", a, b)` is the product of
    two matrices. Without `->` the output has the letters that occur once, in alphabetical order.
    `...` stands for further axes, which are matched from the right. A letter that an operand has
    twice takes its diagonal. An axis of extent 1 is stretched to the others of its letter.

    More than two operands are multiplied in pairs, the cheapest one first. 16-bit floats are added
    in float32 and rounded at the end. Sums of bool and of 8- and 16-bit integers are 32-bit
    integers.
    """
    inputs, output = _parse(subscripts, operand)
    extents = _label_extents(inputs, operand, subscripts)
    types = sum_types(None, *operand)
    terms = [_Term(tensor, labels) for tensor, labels in zip(operand, inputs, strict=True)]
    return types.finish(_Contraction(extents, types.accumulator).in_pairs(terms, output))


def _parse(subscripts: str, operands: Sequence[Tensor]) -> tuple[list[Labels], Labels]:
    """The labels of every operand and of the output; the axes of `...` get labels of their own."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise TensorExpressionError(
            f"einsum: {subscripts!r} describes {len(terms)} operands, got {len(operands)}"
        )
    for term in [*terms, right]:
        _check_term(term, subscripts)
    unnamed = [
        _unnamed_axes(term, tensor, subscripts)
        for term, tensor in zip(terms, operands, strict=True)
    ]
    widest = max(unnamed)
    inputs = [_labels(term, count, widest) for term, count in zip(terms, unnamed, strict=True)]
    output = _labels(right, widest, widest) if arrow else _implicit_output(inputs)
    _check_output(output, inputs, subscripts)
    return inputs, output


def _check_term(term: str, subscripts: str) -> None:
    letters = term.replace("...", "", 1)
    if letters and not (letters.isascii() and letters.isalpha()):
        raise TensorExpressionError(
            f"einsum: {term!r} in {subscripts!r} must be letters and at most one '...'"
        )


def _unnamed_axes(term: str, tensor: Tensor, subscripts: str) -> int:
    """How many axes `...` stands for."""
    named = len(term.replace("...", ""))
    if named > tensor.ndim or ("..." not in term and named < tensor.ndim):
        raise TensorExpressionError(
            f"einsum: {term!r} in {subscripts!r} names {named} axes, "
            f"{tensor.name} has {tensor.ndim}"
        )
    return tensor.ndim - named


def _labels(term: str, unnamed: int, widest: int) -> Labels:
    if "..." not in term:
        return tuple(term)
    before, after = term.split("...")
    return (*before, *(f"...{d}" for d in range(widest - unnamed, widest)), *after)


def _implicit_output(inputs: Sequence[Labels]) -> Labels:
    counts = Counter(itertools.chain(*inputs))
    unnamed = sorted(
        (label for label in counts if len(label) > 1), key=lambda label: int(label[3:])
    )
    return (*unnamed, *sorted(label for label in counts if counts[label] == 1 and len(label) == 1))


def _check_output(output: Labels, inputs: Sequence[Labels], subscripts: str) -> None:
    known = set(itertools.chain(*inputs))
    for label, count in Counter(output).items():
        if label not in known:
            raise TensorExpressionError(
                f"einsum: the output label {label!r} of {subscripts!r} is on no operand"
            )
        if count > 1:
            raise TensorExpressionError(
                f"einsum: the output of {subscripts!r} has the label {label!r} twice"
            )


def _label_extents(
    inputs: Sequence[Labels], operands: Sequence[Tensor], subscripts: str
) -> dict[str, PrimExpr]:
    found: dict[str, PrimExpr] = {}
    for labels, tensor in zip(inputs, operands, strict=True):
        for label, extent in zip(labels, tensor.shape, strict=True):
            known = found.get(label)
            if known is None or is_one(known):
                found[label] = extent
            elif not is_one(extent) and not same_extent(known, extent):
                raise TensorExpressionError(
                    f"einsum: the label {label!r} of {subscripts!r} has extents "
                    f"{known} and {extent}"
                )
    return found


@dataclass(frozen=True, eq=False)
class _Term:
    tensor: Tensor
    labels: Labels

    def at(self, values: Mapping[str, ExprLike], extents: Mapping[str, PrimExpr]) -> PrimExpr:
        """The element where the labels have some values."""
        indices = [
            const(0) if is_one(own) and not is_one(extents[label]) else values[label]
            for label, own in zip(self.labels, self.tensor.shape, strict=True)
        ]
        return self.tensor(*indices)


class _Contraction:
    """Multiplies terms and sums over the labels that are not needed any more."""

    def __init__(self, extents: Mapping[str, PrimExpr], accumulator: DType) -> None:
        self._extents = extents
        self._accumulator = accumulator

    def in_pairs(self, terms: list[_Term], output: Labels) -> Tensor:
        """The product of all terms with the labels of the output."""
        while len(terms) > 2:
            pair = min(itertools.combinations(terms, 2), key=self._cost)
            others = [term for term in terms if term not in pair]
            needed = {*output, *itertools.chain(*(term.labels for term in others))}
            both = dict.fromkeys(itertools.chain(pair[0].labels, pair[1].labels))
            kept = tuple(label for label in both if label in needed)
            terms = [*others, _Term(self.product(pair, kept), kept)]
        return self.product(terms, output)

    def _cost(self, pair: Sequence[_Term]) -> int:
        """The number of multiplications; symbolic extents count as 1."""
        cost = 1
        for label in {*pair[0].labels, *pair[1].labels}:
            extent = self._extents[label]
            cost *= extent.value if isinstance(extent, IntImm) else 1
        return cost

    def product(self, terms: Sequence[_Term], kept: Labels) -> Tensor:
        """The product of some terms, summed over all labels that are not kept."""
        every = dict.fromkeys(itertools.chain(*(term.labels for term in terms)))
        summed = {
            label: te.reduce_axis((0, self._extents[label]), _axis_name(label))
            for label in every
            if label not in kept
        }

        def element(*i: Var) -> ExprLike:
            values: dict[str, Var | IterVar] = {**dict(zip(kept, i, strict=True)), **summed}
            product = terms[0].at(values, self._extents).astype(self._accumulator)
            for term in terms[1:]:
                product = product * term.at(values, self._extents).astype(self._accumulator)
            return te.sum(product, axis=list(summed.values())) if summed else product

        names = [_axis_name(label) for label in kept]
        shape = [self._extents[label] for label in kept]
        return te.compute(shape, element, "T_einsum", "einsum", varargs_names=names)


def _axis_name(label: str) -> str:
    return label.replace("...", "ax")
