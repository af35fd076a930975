"""The coefficient of a variable in an index, by the rules that tuned models were trained on.

The rules look at the index as an expression, from the variable upwards, and forget whose factor
they see: once the variable was met, every product with a constant that follows overwrites the
coefficient, until a sum is met before any product. So `i * 16 + j * 4` counts 4 for `i`.
"""

from __future__ import annotations

from tilewright.features.affine import Affine, IndexReader
from tilewright.ir import INT32, Add, IntImm, Mul, Node, Var, children


def coefficient(index: Affine, var: Var, reader: IndexReader) -> int:
    """The (absolute) coefficient of `var` in `index`; 0 when it does not occur."""
    if index.is_plain:
        return _of_plain(index, var) if var in index.terms else 0
    if var not in reader.variables_in(index):
        return 0
    walk = _Walk(var)
    walk.visit(index.expr(INT32))
    return abs(walk.stride)


def _of_plain(index: Affine, var: Var) -> int:
    """The same walk along the printed terms of a sum of variables."""
    if len(index.terms) == 1 and not index.base:
        return abs(index.terms[var])
    met = multiplied = False
    stride = 1
    for position, (term, scale) in enumerate(index.in_order()):
        met = met or term is var
        if not met:
            continue
        if term is not None and scale not in (1, -1):
            stride, multiplied = abs(scale), True
        if position > 0 and scale > 0 and not multiplied:
            return 1
    return stride


class _Walk:
    """The walk along an expression."""

    def __init__(self, var: Var) -> None:
        self._var = var
        self._met = False
        self._multiplied = False
        self._added = False
        self.stride = 0

    def visit(self, node: Node) -> None:
        if node is self._var:
            self._met = True
            self.stride = 1
            return
        for child in children(node):
            self.visit(child)
        if not self._met:
            return
        if isinstance(node, Mul):
            factor = node.b if isinstance(node.b, IntImm) else node.a
            if isinstance(factor, IntImm) and not self._added:
                self._multiplied = True
                self.stride = factor.value
        elif isinstance(node, Add) and not self._multiplied:
            self._added = True
            self.stride = 1
