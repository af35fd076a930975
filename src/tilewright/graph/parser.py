"""The reader of what `printer.py` writes; nothing of the text is run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.errors import GraphError
from tilewright.graph.builder import GraphBuilder
from tilewright.graph.graph import Array, Extent, Graph, GraphValue, TensorType
from tilewright.ir.numpy_bridge import to_numpy


def parse_graph(text: str, constants: Mapping[str, Array] | None = None) -> Graph:
    """The graph of a text; constants that are not given are zeros."""
    try:
        (function,) = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise GraphError(f"a graph is one function: {error}") from error
    if not isinstance(function, ast.FunctionDef):
        raise GraphError("a graph is one function, `def main(x: float32[1, 8]): ...`")
    return _Reader(function, constants or {}).graph()


class _Reader:
    def __init__(self, function: ast.FunctionDef, constants: Mapping[str, Array]) -> None:
        self._function = function
        self._given = constants
        self._builder = GraphBuilder(function.name)
        self._values: dict[str, GraphValue] = {}
        self._sizes: dict[str, ir.Var] = {}

    def graph(self) -> Graph:
        for argument in self._function.args.args:
            if argument.annotation is None:
                raise self._wrong(argument, f"input {argument.arg} has no type")
            kind = self._type(argument.annotation)
            self._values[argument.arg] = self._builder.input(argument.arg, kind)
        *body, last = self._function.body
        for statement in body:
            self._statement(statement)
        if not isinstance(last, ast.Return) or last.value is None:
            raise self._wrong(last, "a graph ends with `return`")
        results = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        return self._builder.graph([self._value(result) for result in results])

    def _statement(self, statement: ast.stmt) -> None:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            raise self._wrong(statement, "expected `name = operator(...)`")
        (target,) = statement.targets
        names = [
            name.id
            for name in (target.elts if isinstance(target, ast.Tuple) else [target])
            if isinstance(name, ast.Name)
        ]
        call = statement.value
        op = ast.unparse(call.func)
        if op == "constant" and (len(call.args), len(names)) != (1, 1):
            raise self._wrong(statement, "expected `name = constant(float32[1, 8])`")
        made = (
            (self._constant(names[0], call.args[0]),)
            if op == "constant"
            else self._builder.calls(
                op,
                [self._operand(operand) for operand in call.args],
                {str(word.arg): self._literal(word.value) for word in call.keywords},
                names,
            )
        )
        if len(names) != len(made):
            raise self._wrong(statement, f"{op} has {len(made)} results, not {len(names)}")
        self._values.update(zip(names, made, strict=True))

    def _constant(self, name: str, kind: ast.expr) -> GraphValue:
        wanted = self._type(kind)
        array = self._given.get(name)
        if array is None:
            array = np.zeros(wanted.shape, to_numpy(wanted.dtype))
        value = self._builder.constant(array, name)
        if value.type != wanted:
            raise self._wrong(kind, f"constant {name} is {value.type}, the text says {wanted}")
        return value

    def _operand(self, operand: ast.expr) -> GraphValue | None:
        is_absent = isinstance(operand, ast.Constant) and operand.value is None
        return None if is_absent else self._value(operand)

    def _value(self, name: ast.expr) -> GraphValue:
        if not isinstance(name, ast.Name) or name.id not in self._values:
            raise self._wrong(name, f"nothing is called {ast.unparse(name)}")
        return self._values[name.id]

    def _literal(self, value: ast.expr) -> Any:
        try:
            return ast.literal_eval(_Numbers().visit(value))
        except (ValueError, TypeError, SyntaxError):
            raise self._wrong(value, f"{ast.unparse(value)} is not a plain value") from None

    def _type(self, kind: ast.expr) -> TensorType:
        if not isinstance(kind, ast.Subscript):
            raise self._wrong(kind, "expected a type such as float32[1, 8]")
        extents = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        return TensorType(tuple(map(self._parse_extent, extents)), ast.unparse(kind.value))

    def _parse_extent(self, extent: ast.expr) -> Extent:
        if isinstance(extent, ast.Name):
            return self._sizes.setdefault(extent.id, ir.Var(extent.id, ir.INT32))
        number = self._literal(extent)
        if not isinstance(number, int):
            raise self._wrong(extent, f"{number!r} is not an extent")
        return number

    def _wrong(self, node: ast.AST, message: str) -> GraphError:
        return GraphError(f"line {getattr(node, 'lineno', '?')}: {message}")


class _Numbers(ast.NodeTransformer):
    """`float('inf')` and its like as the numbers that they are."""

    def visit_Call(self, call: ast.Call) -> ast.AST:
        text = ast.unparse(call)
        numbers = {f"float('{word}')": float(word) for word in ("inf", "-inf", "nan")}
        return ast.Constant(numbers[text]) if text in numbers else call
