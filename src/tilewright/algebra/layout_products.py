"""Products of tile factors that layouts and indices depend on: each product is a case of its own.

A layout `i // (a * b), i % (a * b)` depends on the product only. In a case the product is a number,
and so are the shapes of buffers; the factors stay open. So it is with indices that take a number
apart which was tiled: where its digits lie depends on products of factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.algebra.choices import Choices, Undecided
from tilewright.algebra.expr import Expr, ExprGraph, Value, factors_of, product_of
from tilewright.algebra.loop_tree import Digit, NotInterpreted
from tilewright.schedule.primitives.transform_layout import TransformLayout
from tilewright.schedule.state import ExprRV
from tilewright.schedule.trace.instruction import Primitive


@dataclass(frozen=True)
class FixedProduct:
    """Factors of a tile, by the names of their variables, whose product is chosen."""

    names: tuple[str, ...]


class SampledFactors:
    """The factors that were sampled so far, by their handles."""

    def __init__(self) -> None:
        self._decisions = 0
        self._factors: dict[ExprRV, tuple[str, int]] = {}  # names of variables, extents

    def note(self, outputs: Sequence[Any], extent: int) -> None:
        """A decision was sampled; `extent` is what its factors divide, 0 if it is no tile."""
        for part, rv in enumerate(outputs if extent else ()):
            self._factors[rv] = f"d{self._decisions}.{part}", extent
        self._decisions += 1

    def layout_factors(
        self, step: Primitive[object], choices: Choices
    ) -> Mapping[object, ir.PrimExpr]:
        """Numbers for the factors in a layout, such that products are what was chosen."""
        found: dict[object, ir.PrimExpr] = {}
        if isinstance(step, TransformLayout):
            for group in _products(step.index_map.final_indices):
                first, *others = sorted(group, key=self._place)
                number = self._chosen([first, *others], choices)
                found[first] = ir.const(number, ir.INT32)
                found.update(dict.fromkeys(others, ir.const(1, ir.INT32)))
        return found

    def _place(self, rv: ExprRV) -> str:
        if rv not in self._factors:
            raise NotInterpreted("a layout depends on a decision that is no factor of a loop")
        return self._factors[rv][0]

    def _chosen(self, group: Sequence[ExprRV], choices: Choices) -> int:
        names = tuple(self._factors[rv][0] for rv in group)
        graph = ExprGraph()  # the product is asked for before the variables of the case exist
        factors = [graph.variable(name, 1, self._factors[group[0]][1]) for name in names]
        extent = self._factors[group[0]][1]
        product = graph.node("*", (product_of(factors), 1), 1, extent)
        return choices.decide(FixedProduct(names), product)


def _products(indices: Iterable[ir.PrimExpr]) -> list[frozenset[ExprRV]]:
    """The products of factors that indices are divided by, in an order that never changes."""
    found: dict[frozenset[ExprRV], None] = {}
    for index in indices:
        for node in ir.walk(index):
            if isinstance(node, (ir.FloorDiv, ir.FloorMod)):
                factors = frozenset(ir.nodes_of(node.b, ExprRV))
                if factors:
                    found[factors] = None
    if sum(map(len, found)) > len(frozenset().union(*found)):
        raise NotInterpreted("a layout has several products of the same factor")
    return list(found)


def require_fixed(terms: Mapping[Digit, Value]) -> None:
    """Raise `Undecided` where strides are products of factors of a tile: each is a case.

    Where numbers are taken apart, digits can be told from each other if strides are numbers.
    """
    for stride in terms.values():
        _, factors = factors_of(stride)
        names = sorted({each.args[0] for each in factors if each.op == "variable"})
        of_one_tile = len({name.partition(".")[0] for name in names}) == 1
        if len(names) == len(factors) and of_one_tile and all("." in name for name in names):
            raise Undecided(FixedProduct(tuple(names)), _product(factors))


def _product(factors: Sequence[Expr]) -> Expr:
    product = product_of(factors)
    assert isinstance(product, Expr)
    return product


def fixed_products(choices: Choices) -> frozenset[tuple[FixedProduct, int]]:
    """The products that were chosen."""
    return frozenset(
        (key, number) for key, number in choices.chosen.items() if isinstance(key, FixedProduct)
    )


def know_products(
    graph: ExprGraph, factors: Mapping[str, Value], extent: int, choices: Choices
) -> None:
    """Tell a graph of the products that were chosen of these factors, and of what is left."""
    for key, product in fixed_products(choices):
        if set(key.names) <= set(factors):
            graph.know_product([factors[name] for name in key.names], product)
            rest = [value for name, value in factors.items() if name not in key.names]
            graph.know_product(rest, extent // product)
