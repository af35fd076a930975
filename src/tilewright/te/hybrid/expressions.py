"""The names and expressions of a hybrid script; functions both as IR and as plain Python."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.ir import ForKind, cast, intrinsics as ir_math, maximum, minimum, truncdiv
from tilewright.ir.intrinsics import if_then_else, power
from tilewright.support.python_operators import BINARY, COMPARISONS, UNARY

LOOP_KINDS: dict[str, ForKind] = {
    "range": ForKind.SERIAL,
    "serial": ForKind.SERIAL,
    "unroll": ForKind.UNROLLED,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
}
_INTRINSICS = (
    "log", "exp", "sigmoid", "tanh", "sqrt", "rsqrt", "power", "popcount", "round", "floor", "ceil",
    "abs", "sin", "cos", "erf", "likely",
)  # fmt: skip
CONST_RANGE = "const_range"
BIND = "bind"
OUTPUT_TENSOR = "output_tensor"
ALLOCATE = "allocate"

CASTS = (
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
    "bool",
)


# name -> the function that builds the expression
AS_IR: dict[str, Callable[..., Any]] = {
    **{name: getattr(ir_math, name) for name in _INTRINSICS},
    "max": lambda *values: functools.reduce(maximum, values),
    "min": lambda *values: functools.reduce(minimum, values),
    "ceil_div": lambda a, b: (a + b - 1) // b,
    "div": truncdiv,
    **{dtype: functools.partial(cast, dtype) for dtype in CASTS},
}


def _np_popcount(x: Any) -> int:
    return bin(int(x) & ((1 << (np.asarray(x).dtype.itemsize * 8)) - 1)).count("1")


_UFUNCS = ("log", "exp", "tanh", "sqrt", "power", "floor", "ceil", "sin", "cos")
# the same names when a script runs as plain Python
AS_PYTHON: dict[str, Any] = {
    **dict.fromkeys((*LOOP_KINDS, CONST_RANGE), range),
    BIND: lambda tag, extent: range(extent),
    OUTPUT_TENSOR: lambda shape, dtype: np.zeros(shape, dtype=dtype),
    ALLOCATE: lambda shape, dtype, scope="global": np.zeros(shape, dtype=dtype),
    **{name: getattr(np, name) for name in _UFUNCS},
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "popcount": _np_popcount,
    "erf": math.erf,
    "likely": lambda condition: condition,
    "ceil_div": lambda a, b: -(-a // b),
    "div": lambda a, b: int(a / b),
    **{dtype: np.dtype(dtype).type for dtype in CASTS},
}


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    **BINARY,
    ast.Mod: lambda a, b: a % b if isinstance(a, int) and isinstance(b, int) else ir.floormod(a, b),
    ast.Pow: lambda a, b: a**b if isinstance(a, int) and isinstance(b, int) else power(a, b),
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    **UNARY,
    ast.UAdd: lambda a: a,
    ast.Not: ir.logical_not,
}


@dataclass(frozen=True)
class Scalar:
    """A variable that is assigned to: it lives in a buffer of one element."""

    buffer: ir.Buffer


class ScriptScope:
    """What each name means: a number, an expression, a buffer, or a scalar variable."""

    def __init__(self, function: str, captured: Mapping[str, Any]) -> None:
        self._function = function
        self._captured = captured
        self._names: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """The meaning of a name, or None."""
        return self._names.get(name, self._captured.get(name))

    def lookup(self, node: ast.Name) -> Any:
        found = self.find(node.id)
        if found is None:
            self.fail(node, f"name {node.id!r} is not defined")
        return found

    def is_local(self, name: str) -> bool:
        return name in self._names

    def define(self, name: str, value: Any) -> None:
        self._names[name] = value

    @contextmanager
    def inner(self, **names: Any) -> Iterator[None]:
        """Names that hold only inside; others defined meanwhile stay."""
        hidden = {name: self._names.get(name) for name in names}
        self._names.update(names)
        yield
        for name, value in hidden.items():
            if value is None:
                self._names.pop(name, None)
            else:
                self._names[name] = value

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        line = getattr(node, "lineno", 0)
        raise TensorExpressionError(f"hybrid script {self._function}, line {line}: {message}")


class ExpressionReader(ast.NodeVisitor):
    """Turns the expression nodes of Python into numbers, texts, tuples or IR expressions."""

    def __init__(self, scope: ScriptScope) -> None:
        self._scope = scope

    def generic_visit(self, node: ast.AST) -> Any:
        self._scope.fail(node, f"{type(node).__name__} is not part of hybrid script")

    def value(self, node: ast.expr) -> ir.PrimExpr:
        """An expression that must yield a number."""
        found = self.visit(node)
        if isinstance(found, (int, float, ir.ExprOperators)):
            return ir.convert(found)
        self._scope.fail(node, f"expected a number, got {found!r}")

    def integer(self, node: ast.expr, purpose: str) -> int:
        """An expression that must be known while the script is read."""
        found = self.visit(node)
        if isinstance(found, ir.IntImm):
            return found.value
        if not isinstance(found, int):
            self._scope.fail(node, f"{purpose} must be a constant integer")
        return found

    def visit_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bool):
            return ir.const(node.value)
        if not isinstance(node.value, (int, float, str)):
            self._scope.fail(node, f"the constant {node.value!r} is not part of hybrid script")
        return node.value

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        return tuple(map(self.visit, node.elts))

    visit_List = visit_Tuple

    def visit_Name(self, node: ast.Name) -> Any:
        found = self._scope.lookup(node)
        return ir.BufferLoad(found.buffer, (ir.const(0),)) if isinstance(found, Scalar) else found

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self.apply(node, node.op, self.visit(node.left), self.visit(node.right))

    def apply(self, node: ast.AST, operator: ast.operator, a: Any, b: Any) -> Any:
        """A binary operator on values that were read already."""
        build = _BINARY.get(type(operator))
        if build is None:
            self._scope.fail(node, f"operator {type(operator).__name__} is not supported")
        for operand in (a, b):
            if not isinstance(operand, (int, float, ir.ExprOperators)):
                self._scope.fail(node, f"expected numbers around an operator, got {operand!r}")
        return build(a, b)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> Any:
        values = [self.visit(node.left), *map(self.visit, node.comparators)]
        conditions = []
        for operator, a, b in zip(node.ops, values, values[1:], strict=False):
            build = COMPARISONS.get(type(operator))
            if build is None:
                self._scope.fail(node, f"comparison {type(operator).__name__} is not supported")
            conditions.append(ir.convert(build(a, b)))
        return ir.logical_and(*conditions)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        values = [self.value(item) for item in node.values]
        return ir.logical_and(*values) if isinstance(node.op, ast.And) else ir.logical_or(*values)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.value(node.test)
        return if_then_else(condition, self.value(node.body), self.value(node.orelse))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        base = self.visit(node.value)
        if isinstance(base, tuple):  # a shape
            position = self.integer(node.slice, "the index of a shape")
            if not -len(base) <= position < len(base):
                self._scope.fail(node, f"shape index {position} is out of range")
            return base[position]
        if not isinstance(base, ir.Buffer):
            self._scope.fail(node, f"{ast.unparse(node.value)} cannot be indexed")
        return ir.BufferLoad(base, self.indices(node, base))

    def indices(self, node: ast.Subscript, buffer: ir.Buffer) -> tuple[ir.PrimExpr, ...]:
        """The indices of an element of `buffer`."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) != buffer.ndim:
            self._scope.fail(
                node, f"{buffer.name} has {buffer.ndim} dimensions, got {len(parts)} indices"
            )
        return tuple(self.value(part) for part in parts)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        base = self.visit(node.value)
        if isinstance(base, ir.Buffer) and node.attr == "shape":
            return base.shape
        if isinstance(base, ir.Buffer) and node.attr == "dtype":
            return str(base.dtype)
        self._scope.fail(node, f"attribute {node.attr!r} is not supported, only shape and dtype")

    def visit_Call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name):
            self._scope.fail(node, f"{ast.unparse(node.func)} cannot be called")
        if node.keywords:
            self._scope.fail(node, f"{node.func.id} takes no keyword arguments here")
        if node.func.id == "len":
            return len(self.visit(node.args[0]))
        function = AS_IR.get(node.func.id)
        if function is None:
            self._scope.fail(node, f"function {node.func.id!r} is not part of hybrid script")
        return function(*map(self.visit, node.args))
