"""Hybrid scripts: a subset of Python that is both a tensor operation and a plain function.

@te.hybrid.script
def outer(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c

`outer(A, B)` on tensors makes a tensor; on NumPy arrays it runs as Python.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

from tilewright.errors import TensorExpressionError
from tilewright.ir import Buffer, ExprOperators, PrimExpr, convert, decl_buffer
from tilewright.support.text import counted
from tilewright.te.extern import ExternOp
from tilewright.te.hybrid.expressions import AS_PYTHON
from tilewright.te.hybrid.parser import ScriptReader
from tilewright.te.tensor import Tensor


class HybridScript:
    """A decorated function; see `script`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        functools.update_wrapper(self, function)
        self._definition = _definition_of(function)

    def __call__(self, *args: Any) -> Any:
        if any(isinstance(arg, Tensor) for arg in args):
            return self._as_operation(args)
        return self._as_python()(*args)

    def _as_python(self) -> Callable[..., Any]:
        """The function with the names of hybrid script defined, as far as it does not its own."""
        own = self._function
        names = {**AS_PYTHON, **own.__globals__}
        return types.FunctionType(
            own.__code__, names, own.__name__, own.__defaults__, own.__closure__
        )

    def _as_operation(self, args: tuple[Any, ...]) -> Any:
        name = self._definition.name
        parameters = [argument.arg for argument in self._definition.args.args]
        if len(args) != len(parameters):
            raise TensorExpressionError(
                f"hybrid script {name} takes {counted(len(parameters), 'argument')}, "
                f"got {len(args)}"
            )
        tensors: list[Tensor] = []
        stand_ins: list[Buffer] = []
        meanings: dict[str, Any] = {}
        for parameter, arg in zip(parameters, args, strict=True):
            if isinstance(arg, Tensor):
                buffer = decl_buffer(arg.shape, arg.dtype, parameter)
                tensors.append(arg)
                stand_ins.append(buffer)
                meanings[parameter] = buffer
            else:
                meanings[parameter] = _scalar_argument(name, parameter, arg)
        parsed = ScriptReader(self._definition, meanings, _captured(self._function)).read()
        ends = (tuple(tensors), tuple(stand_ins), parsed.outputs)
        operation = ExternOp(name, "hybrid", {}, *ends, parsed.body, parsed.temporaries)
        return operation.outputs() if parsed.returns_tuple else operation.output(0)


def script(function: Callable[..., Any]) -> HybridScript:
    """Make a hybrid script of a Python function."""
    return HybridScript(function)


def _scalar_argument(name: str, parameter: str, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_scalar_argument(name, parameter, item) for item in value)
    if isinstance(value, (int, float, PrimExpr)):
        return value
    if isinstance(value, ExprOperators) or hasattr(value, "item"):
        return convert(value)
    raise TensorExpressionError(
        f"hybrid script {name}: argument {parameter} is a {type(value).__name__}; "
        "expected a tensor, a number or an expression"
    )


def _definition_of(function: Callable[..., Any]) -> ast.FunctionDef:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError as error:
        raise TensorExpressionError(
            f"hybrid script {function.__name__}: its source is not available; "
            "write the function in a file"
        ) from error
    definition = ast.parse(source).body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise TensorExpressionError("te.hybrid.script decorates a function")
    plain = definition.args
    if plain.vararg or plain.kwarg or plain.kwonlyargs or plain.defaults:
        raise TensorExpressionError(
            f"hybrid script {definition.name}: only plain positional arguments are supported"
        )
    return definition


def _captured(function: Callable[..., Any]) -> dict[str, Any]:
    """Numbers and tuples of numbers from around the function."""
    variables = inspect.getclosurevars(function)
    names = {**variables.globals, **variables.nonlocals}
    allowed = (int, float, PrimExpr, tuple)
    return {name: value for name, value in names.items() if isinstance(value, allowed)}
