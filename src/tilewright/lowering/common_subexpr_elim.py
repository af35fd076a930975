"""Index arithmetic that occurs twice is computed once.

An integer expression that occurs more than once inside a loop body, and is made of variables from
outside it, gets a `LetStmt` at the top of that body. The LLVM backend shares values while it emits,
so the pipeline runs this pass for targets that do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tilewright import ir
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.rewriters import with_lets
from tilewright.target import Target

_SHAREABLE = (ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max)
_Key = tuple[object, ...]


class _Numbering:
    """Gives the same number to expressions of the same form."""

    def __init__(self) -> None:
        self._by_key: dict[_Key, int] = {}
        self._by_node: dict[ir.PrimExpr, int | None] = {}
        self.vars: dict[int, frozenset[ir.Var]] = {}

    def of(self, expr: ir.PrimExpr) -> int | None:
        """The number of an integer expression of variables and constants, or None."""
        if expr in self._by_node:
            return self._by_node[expr]
        number = self._by_node[expr] = self._compute(expr)
        return number

    def _compute(self, expr: ir.PrimExpr) -> int | None:
        match expr:
            case ir.Var() if expr.dtype.is_int:
                return self._intern((expr,), frozenset((expr,)))
            case ir.IntImm() if expr.dtype.is_int:
                return self._intern((expr.dtype, expr.value), frozenset())
            case ir.BinaryOp(a=a, b=b) if isinstance(expr, _SHAREABLE) and expr.dtype.is_int:
                left, right = self.of(a), self.of(b)
                if left is None or right is None:
                    return None
                variables = self.vars[left] | self.vars[right]
                return self._intern((type(expr), left, right), variables)
        return None

    def _intern(self, key: _Key, variables: frozenset[ir.Var]) -> int:
        number = self._by_key.setdefault(key, len(self._by_key))
        self.vars[number] = variables
        return number


class _Counter(ir.Visitor):
    """Counts the largest shareable expressions of a statement, and notes what it binds."""

    def __init__(self, numbering: _Numbering) -> None:
        self._numbering = numbering
        self.counts: dict[int, int] = {}
        self.examples: dict[int, ir.PrimExpr] = {}
        self.bound: set[ir.Var] = set()

    def visit_binary_op(self, node: ir.BinaryOp) -> None:
        number = self._numbering.of(node)
        if number is not None:
            self.counts[number] = self.counts.get(number, 0) + 1
            self.examples[number] = node
            if self.counts[number] > 1:
                return  # its parts are shared along with it
        self.generic_visit(node)

    def visit_for(self, node: ir.For) -> None:
        self.bound.add(node.loop_var)
        self.generic_visit(node)

    def visit_let(self, node: ir.Let | ir.LetStmt) -> None:
        self.bound.add(node.var)
        self.generic_visit(node)

    visit_let_stmt = visit_let

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        if isinstance(node.node, ir.IterVar):
            self.bound.add(node.node.var)
        self.generic_visit(node)


def _shared(body: ir.Stmt, numbers: Iterator[int]) -> ir.Stmt:
    """`body` with what occurs repeatedly in it bound to variables, then the same inside it."""
    numbering = _Numbering()
    counter = _Counter(numbering)
    counter.visit(body)
    repeated = [
        number
        for number, count in counter.counts.items()
        if count > 1 and numbering.vars[number] and not numbering.vars[number] & counter.bound
    ]
    by_number: dict[int | None, ir.Var] = {}
    by_value = {ir.BinaryOp: lambda node: by_number.get(numbering.of(node))}
    # Parts come before the whole, so that a larger value is computed from a smaller one.
    bindings = []
    for number in sorted(repeated):
        example = counter.examples[number]
        value = ir.rewrite(example, before=by_value)
        var = by_number[number] = ir.Var(f"cse_{next(numbers)}", example.dtype)
        bindings.append((var, value))
    body = ir.rewrite(body, before=by_value) if repeated else body

    def inside(node: ir.For | ir.AttrStmt) -> ir.Stmt | None:
        # Threads are launched right inside each other; what they share is computed inside all.
        is_launch = isinstance(node, ir.AttrStmt) and isinstance(node.node, ir.IterVar)
        if not isinstance(node, ir.For) and (not is_launch or isinstance(node.body, ir.AttrStmt)):
            return None
        return ir.updated(node, body=_shared(node.body, numbers))

    return with_lets(bindings, ir.rewrite(body, before={(ir.For, ir.AttrStmt): inside}))


@register_pass
class CommonSubexprElim(FunctionPass):
    """Bind index arithmetic that occurs repeatedly to variables."""

    enable: bool = True

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        shares_itself = target is None or target.kind.name == "llvm"
        if not self.enable or shares_itself:
            return func
        return func.with_body(_shared(func.body, count(1)))
