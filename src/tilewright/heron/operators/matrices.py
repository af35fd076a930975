"""Operators as products of matrices: operands that are computed where they are used.

Tensor cores multiply fragments of 16 x 16, 32 x 8 or 8 x 32 elements, 16 deep. An operand is a
function of its row and column, such as the window of a convolution; it has zeros beyond its sizes
where these do not fill fragments. Then a last stage takes from the product what is a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tilewright import te
from tilewright.heron import steps
from tilewright.heron.operators.base import HeronOperator, OperatorCase, operand_stage
from tilewright.heron.template import Template, TensorStage
from tilewright.heron.wmma_tiles import DEPTH, FRAGMENTS
from tilewright.ir import IRModule, PrimExpr

Element = Callable[..., PrimExpr]  # of a batch, a row and a column


def _raised(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def fills_fragments(m: int, k: int, n: int) -> bool:
    """True when a product needs no zeros."""
    return filling_sizes(m, k, n) == (m, k, n)


def filling_sizes(m: int, k: int, n: int) -> tuple[int, int, int]:
    """The smallest product of whole fragments that holds one of these sizes."""
    raised = [(_raised(m, rows), _raised(n, columns)) for rows, columns in FRAGMENTS]
    rows, columns = min(raised, key=prod)
    return rows, _raised(k, DEPTH), columns


@dataclass(frozen=True)
class MatrixProduct:
    """dense[b, i, j] = sum over k of left(b, i, k) * right(b, j, k)."""

    case: OperatorCase
    batch: tuple[int, ...]
    sizes: tuple[int, int, int]  # m, k and n
    inputs: tuple[te.Tensor, ...]
    left: Element
    right: Element
    run: int = 1  # how many neighbours in a row of an operand are neighbours in memory
    result: Callable[[te.Tensor], te.Tensor] | None = None  # None: the first m rows, n columns
    flop: int | None = None

    @property
    def filled(self) -> tuple[int, int, int]:
        """m, k and n of the product that is computed."""
        return filling_sizes(*self.sizes)

    def _operand(self, name: str, element: Element, size: int, whole: int) -> te.Tensor:
        """An operand with zeros beyond its sizes."""
        k, deep = self.sizes[1], self.filled[1]

        def value(*at: PrimExpr) -> PrimExpr:
            *_, row, column = at
            inside = [row < size] * (size < whole) + [column < k] * (k < deep)
            if not inside:
                return element(*at)
            return te.if_then_else(te.all(*inside), element(*at), te.const(0, self.case.in_dtype))

        return te.compute((*self.batch, whole, deep), value, name=name)

    def operator(self) -> HeronOperator:
        """The program and its template."""
        case = self.case
        (m, _, n), (rows, deep, columns) = self.sizes, self.filled
        left = self._operand("A.matrix", self.left, m, rows)
        right = self._operand("B.matrix", self.right, n, columns)
        reduced = te.reduce_axis((0, deep), "k")

        def product(*at: PrimExpr) -> PrimExpr:
            *outer, i, j = at
            first = left(*outer, i, reduced).astype(case.out_dtype)
            second = right(*outer, j, reduced).astype(case.out_dtype)
            return te.sum(first * second, axis=[reduced])

        dense = te.compute((*self.batch, rows, columns), product, name="dense")
        out = self._result(dense)
        func = te.create_prim_func([*self.inputs, out])
        flop = self.flop or 2 * prod(self.sizes) * prod(self.batch)
        shape = tuple(int(str(extent)) for extent in out.shape)
        taken = None if out is dense else shape
        mod = IRModule({"main": func})
        return HeronOperator(case.operator, mod, lambda: self._template(taken), flop)

    def _result(self, dense: te.Tensor) -> te.Tensor:
        if self.result is not None:
            return self.result(dense)
        if self.sizes == self.filled:
            return dense
        m, _, n = self.sizes
        return te.compute((*self.batch, m, n), lambda *at: dense[at], name="out")

    def _template(self, taken: tuple[int, ...] | None) -> Template:
        spatial = ("b", "i", "j")[1 - len(self.batch) :]
        rows, deep, columns = self.filled
        extents = {**dict(zip(spatial, (*self.batch, rows, columns), strict=True)), "k": deep}
        prefix = spatial[:-2]
        names = tuple(tensor.name for tensor in self.inputs)
        stages = {
            name: operand_stage(name, (*prefix, own, "k"), extents, tuple({name[0]} & {*names}))
            for name, own in (("A.matrix", "i"), ("B.matrix", "j"))
        }
        for stage in stages.values():
            stage.run = self.run
        for tensor in self.inputs:
            axes = tuple(f"ax{place}" for place in range(tensor.ndim))
            stages[tensor.name] = TensorStage(tensor.name, axes, is_input=True)
        operands = ("A.matrix", "B.matrix")
        stages["dense"] = TensorStage("dense", spatial, ("k",), operands, extents)
        order = ["dense", "B.matrix", "A.matrix", *names]
        if taken is not None:
            axes = tuple(f"ax{place}" for place in range(len(taken)))
            sizes = dict(zip(axes, taken, strict=True))
            stages["out"] = TensorStage("out", axes, (), ("dense",), sizes, is_injective=True)
            order.insert(0, "out")
        return self._begun(Template(stages, order, self.case.in_dtype, self.case.out_dtype))

    def _begun(self, template: Template) -> Template:
        for name, stage in template.stages.items():
            if not stage.is_input:
                template.begin(name)
                template.steps.append(steps.FindBlock(name, name, stage.axes))
        return template
