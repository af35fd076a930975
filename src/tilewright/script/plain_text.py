"""The part of Python that a script may use when it comes as text, perhaps from somebody else.

A decorated function is part of a Python program; text is not, so `from_source` never hands any of
it to Python. It knows the functions below, no attribute that leads inside an object, and the few
kinds of expression that stand in scripts beside arithmetic.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tilewright.script import diagnostics

if TYPE_CHECKING:
    from tilewright.script.evaluator import Evaluator

_KNOWN = (
    "abs all any bool dict divmod enumerate filter float frozenset int len list map max min pow "
    "range reversed round set slice sorted str sum tuple zip False None True"
)
BUILTINS = {name: getattr(builtins, name) for name in _KNOWN.split() if hasattr(builtins, name)}

# Attributes without an underscore that lead to frames, code or attributes of any name.
_INNER_PREFIXES = ("_", "ag_", "co_", "cr_", "f_", "gi_", "tb_")
_INNER_NAMES = frozenset({"format", "format_map", "mro"})


def may_read(owner: Any, name: str) -> bool:
    """True if text may read the attribute `name` of a value."""
    if name.startswith(_INNER_PREFIXES) or name in _INNER_NAMES:
        return False
    if isinstance(owner, types.ModuleType) and name in vars(owner):
        known_names = getattr(owner, "known_names", None)  # of `T` and `I`, not what they import
        return known_names is None or name in known_names()
    return True


def evaluate(evaluator: Evaluator, node: ast.expr) -> Any:
    """An expression that is not arithmetic."""
    method = _METHODS.get(type(node))
    if method is None:
        what = f"`{type(node).__name__}`"
        raise evaluator.error(node, diagnostics.not_in_text(what))
    return method(evaluator, node)


def _lambda(evaluator: Evaluator, node: ast.Lambda) -> Any:
    if node.args.defaults or node.args.kwonlyargs or node.args.vararg or node.args.kwarg:
        raise evaluator.error(node, diagnostics.not_in_text("a lambda with other than plain names"))
    names = [argument.arg for argument in node.args.args]

    def call(*values: Any) -> Any:
        if len(values) != len(names):
            raise TypeError(f"the lambda takes {len(names)} arguments, got {len(values)}")
        with evaluator.environment.scope():
            for name, value in zip(names, values, strict=True):
                evaluator.environment.define(name, value)
            return evaluator.value(node.body)

    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, positional) for name in names]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # for callers
    return call


def _items(evaluator: Evaluator, nodes: list[ast.comprehension], item: Callable[[], Any]) -> Any:
    """What a comprehension goes through, in the order of Python."""

    def through(position: int) -> Iterator[Any]:
        if position == len(nodes):
            yield item()
            return
        generator = nodes[position]
        for value in evaluator.evaluate(generator.iter):
            _assign(evaluator, generator.target, value)
            if all(evaluator.condition(test) is True for test in generator.ifs):
                yield from through(position + 1)

    with evaluator.environment.scope():
        return list(through(0))


def _assign(evaluator: Evaluator, target: ast.expr, value: Any) -> None:
    if isinstance(target, ast.Name):
        evaluator.environment.define(target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part, item in zip(target.elts, value, strict=True):
            _assign(evaluator, part, item)
    else:
        raise evaluator.error(target, "expected a plain name here")


def _list(evaluator: Evaluator, node: ast.ListComp | ast.GeneratorExp) -> Any:
    return _items(evaluator, node.generators, lambda: evaluator.value(node.elt))


def _dict(evaluator: Evaluator, node: ast.DictComp) -> Any:
    def pair() -> Any:
        return evaluator.value(node.key), evaluator.value(node.value)

    return dict(_items(evaluator, node.generators, pair))


def _text(evaluator: Evaluator, node: ast.JoinedStr) -> str:
    parts = []
    for part in node.values:
        match part:
            case ast.FormattedValue(format_spec=None, conversion=-1):
                parts.append(str(evaluator.value(part.value)))
            case ast.Constant():
                parts.append(str(part.value))
            case _:
                raise evaluator.error(node, diagnostics.not_in_text("a format"))
    return "".join(parts)


_METHODS: dict[type[ast.expr], Callable[[Evaluator, Any], Any]] = {
    ast.Lambda: _lambda,
    ast.ListComp: _list,
    ast.GeneratorExp: _list,
    ast.SetComp: lambda evaluator, node: set(_list(evaluator, node)),
    ast.DictComp: _dict,
    ast.Set: lambda evaluator, node: {evaluator.value(item) for item in node.elts},
    ast.JoinedStr: _text,
}
