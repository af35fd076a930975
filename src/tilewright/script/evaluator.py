"""Evaluates the expressions of a script: Python values as Python does, symbolic ones to TensorIR.

The tree is walked here, not handed to `eval`, for two reasons: `and`, `or`, `not`, chained
comparisons and conditional expressions must build nodes when their operands are symbolic, and an
error can point at the very part of the line that caused it.
"""

from __future__ import annotations

import ast
import functools
import operator
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tilewright import ir
from tilewright.errors import ScriptError, TilewrightError
from tilewright.ir import intrinsics
from tilewright.script import diagnostics, plain_text
from tilewright.script.access import buffer_attribute, index_buffer, region_as_load
from tilewright.script.diagnostics import Source
from tilewright.script.exprs import call_operator
from tilewright.script.forms import MetaVar
from tilewright.script.frames import Environment
from tilewright.script.statements import match_buffer, reads, writes
from tilewright.support.python_operators import BINARY, COMPARISONS, UNARY
from tilewright.support.suggestions import did_you_mean

_ResultT = TypeVar("_ResultT")
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    **COMPARISONS,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_SYMBOLIC_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], ir.PrimExpr]] = {
    ast.Eq: ir.equal,
    ast.NotEq: ir.not_equal,
    ast.Lt: ir.less,
    ast.LtE: ir.less_equal,
    ast.Gt: ir.greater,
    ast.GtE: ir.greater_equal,
}
_DIVISIONS: dict[Callable[..., Any], type[ir.BinaryOp]] = {
    operator.floordiv: ir.FloorDiv,
    operator.mod: ir.FloorMod,
    ir.floordiv: ir.FloorDiv,
    ir.floormod: ir.FloorMod,
    ir.truncdiv: ir.Div,
    ir.truncmod: ir.Mod,
}
_IF_THEN_ELSE = call_operator("if_then_else")
# Calls that take regions as regions; everywhere else `A[0:4]` is a vector.
_TAKES_REGIONS = (reads, writes, match_buffer)
# What a call of the user's own Python code may raise; it is shown at the call.
_CALL_ERRORS = (
    TilewrightError, TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError,
)  # fmt: skip


class Evaluator:
    """Evaluates syntax trees of expressions in an environment."""

    def __init__(self, source: Source, environment: Environment) -> None:
        self.source = source
        self.environment = environment
        self.guarded = False  # what is evaluated may never be reached when the program runs

    def error(self, node: ast.AST, message: str) -> ScriptError:
        return self.source.error(node, message)

    @contextmanager
    def under_condition(self, applies: bool = True) -> Iterator[None]:
        """Inside, a division by zero is no mistake: it stays in the program for the run to meet."""
        outer, self.guarded = self.guarded, self.guarded or applies
        try:
            yield
        finally:
            self.guarded = outer

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression: a Python object or a node."""
        method = _METHODS.get(type(node))
        return method(self, node) if method is not None else self._python(node)

    def value(self, node: ast.expr) -> Any:
        """The value where a region means a vector."""
        return self.as_vector(node, self.evaluate(node))

    def expr(self, node: ast.expr) -> ir.PrimExpr:
        """The value as an expression of the program."""
        return self.converted(node, self.value(node))

    def converted(self, node: ast.AST, value: Any) -> ir.PrimExpr:
        """A value that was computed at `node` as an expression."""
        return self.attempt(node, lambda: ir.convert(value), diagnostics.not_an_expression(value))

    def condition(self, node: ast.expr) -> ir.PrimExpr | bool:
        """A condition; a Python bool means that it is decided now."""
        value = self.value(node)
        if not isinstance(value, ir.PrimExpr):
            return bool(value)
        if not value.dtype.is_bool:
            raise self.error(node, diagnostics.not_a_condition(value))
        return value

    def attempt(self, node: ast.AST, action: Callable[[], _ResultT], message: str = "") -> _ResultT:
        """Run `action`; what goes wrong in it is reported at `node`."""
        try:
            return action()
        except ScriptError:
            raise
        except _CALL_ERRORS as error:
            raise self.error(node, message or str(error)) from error

    def as_vector(self, node: ast.AST, value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(self.as_vector(node, item) for item in value)
        if isinstance(value, ir.BufferRegion):
            load = region_as_load(value)
            if load is None:
                message = diagnostics.slice_needs_constant_length(value.buffer)
                raise self.error(node, message)
            return load
        return value

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        names = self.environment
        if node.id not in names:
            ended = names.ended(node.id)
            if ended is not None:
                raise self.error(node, f"{node.id!r} is not defined here: {ended}")
            hint = did_you_mean(node.id, names.own_names(), list_all=False)
            raise self.error(node, f"undefined variable {node.id!r}{hint}")
        value = names.lookup(node.id)
        self.note_use(node, value)
        return value

    def note_use(self, node: ast.Name, value: Any) -> None:
        """Called for every name that is read."""

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.evaluate(node.value)
        if self.source.is_text and not plain_text.may_read(owner, node.attr):
            raise self.error(node, diagnostics.not_in_text(f"the attribute {node.attr!r}"))
        if isinstance(owner, ir.Buffer):
            special = buffer_attribute(owner, node.attr)
            if special is not None:
                return special
        try:
            return getattr(owner, node.attr)
        except AttributeError:
            known_names = getattr(owner, "known_names", None)
            if isinstance(owner, types.ModuleType) and known_names is not None:
                hint = did_you_mean(node.attr, known_names(), list_all=False)
                message = f"T has no {node.attr!r}{hint}"
            else:
                message = diagnostics.no_attribute(owner, node.attr)
            raise self.error(node, message) from None

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.evaluate(node.value)
        index = self.evaluate(node.slice)
        if isinstance(owner, ir.Buffer):
            indices = index if isinstance(index, tuple) else (index,)
            return self.attempt(node, lambda: index_buffer(owner, indices))
        return self.attempt(node, lambda: owner[index])

    def visit_Slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.value(part) for part in parts))

    def visit_Call(self, node: ast.Call) -> Any:
        callee = self.evaluate(node.func)
        take = self.evaluate if any(callee is form for form in _TAKES_REGIONS) else self._argument
        args: list[Any] = []
        for position, arg in enumerate(node.args):
            with self.under_condition(callee is _IF_THEN_ELSE and position > 0):
                if isinstance(arg, ast.Starred):
                    args.extend(self.evaluate(arg.value))
                else:
                    args.append(take(arg))
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                options.update(self.evaluate(keyword.value))
            else:
                options[keyword.arg] = take(keyword.value)
        if len(args) == 2 and self._stays(callee, args[1]):
            return self.attempt(node, lambda: _DIVISIONS[callee](*ir.match_types(*args)))
        return self.attempt(node, lambda: callee(*args, **options))

    def _stays(self, function: Any, divisor: Any) -> bool:
        """True for a division by zero that may not be refused."""
        by_zero = ir.is_zero(divisor) or (type(divisor) is int and divisor == 0)
        return self.guarded and by_zero and function in _DIVISIONS

    def _argument(self, node: ast.expr) -> Any:
        value = self.value(node)
        return value.value if isinstance(value, MetaVar) else value

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        function = BINARY[type(node.op)]
        if self._stays(function, right):
            return self.attempt(node, lambda: _DIVISIONS[function](*ir.match_types(left, right)))
        return self.attempt(node, lambda: function(left, right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            if isinstance(value, ir.PrimExpr):
                return self.attempt(node, lambda: ir.logical_not(value))
            return not value
        return self.attempt(node, lambda: UNARY[type(node.op)](value))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        result: Any = None
        for position, operand in enumerate(node.values):
            symbolic = isinstance(result, ir.PrimExpr)
            if position and not symbolic and bool(result) != is_and:
                return result  # Python's short cut
            with self.under_condition(position > 0):
                value = self.value(operand)
            if position and (symbolic or isinstance(value, ir.PrimExpr)):
                result = self._join(operand, is_and, result, value)
            else:
                result = value
        return result

    def _join(self, node: ast.expr, is_and: bool, left: Any, right: Any) -> ir.PrimExpr:
        build = ir.logical_and if is_and else ir.logical_or
        return self.attempt(node, lambda: build(left, right))

    def visit_Compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), None
        for operation, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator)
            # Python would turn `0 < n` into `n > 0`; the program keeps what was written.
            symbolic = isinstance(left, ir.ExprOperators) or isinstance(right, ir.ExprOperators)
            build = _SYMBOLIC_COMPARE.get(type(operation)) if symbolic else None
            compare = functools.partial(build or _COMPARE[type(operation)], left, right)
            outcome = self.attempt(node, compare)
            if result is None:
                result = outcome
            elif isinstance(result, ir.PrimExpr) or isinstance(outcome, ir.PrimExpr):
                result = self._join(node, True, result, outcome)
            else:
                result = result and outcome
            left = right
        return result

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            return self.evaluate(node.body if condition else node.orelse)
        with self.under_condition():
            then, other = self.value(node.body), self.value(node.orelse)
        return self.attempt(node, lambda: intrinsics.if_then_else(condition, then, other))

    def visit_List(self, node: ast.List | ast.Tuple) -> list[Any]:
        values: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                values.extend(self.evaluate(item.value))
            else:
                values.append(self.evaluate(item))
        return values

    def visit_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.visit_List(node))

    def visit_Dict(self, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.evaluate(value))
            else:
                result[self.evaluate(key)] = self.value(value)
        return result

    def _python(self, node: ast.expr) -> Any:
        """Comprehensions, lambdas, f-strings and the like: Python itself evaluates them."""
        if self.source.is_text:
            return plain_text.evaluate(self, node)
        code = compile(ast.Expression(node), self.source.filename, "eval")
        names = self.environment.flattened()
        return self.attempt(node, lambda: _run(code, names))


def _run(code: Any, names: dict[str, Any]) -> Any:
    try:
        return eval(code, names)
    except NameError as error:
        raise ValueError(str(error)) from error


_METHODS: dict[type[ast.AST], Callable[[Evaluator, Any], Any]] = {
    getattr(ast, name.removeprefix("visit_")): method
    for name, method in vars(Evaluator).items()
    if name.startswith("visit_")
}
