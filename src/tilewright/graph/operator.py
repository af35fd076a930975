"""Operators: what a call in a graph computes, said once, as a tensor expression.

    @operator("nn.hardswish")
    def hardswish(x):
        return x * topi.clip(x + 3.0, 0.0, 6.0) / 6.0

is all that an operator needs. Result types, the kind that decides what it fuses with, and its
kernel all come from that expression.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tilewright import ir, te
from tilewright.errors import GraphError, TilewrightError
from tilewright.graph.graph import GraphValue, TensorType
from tilewright.support.suggestions import did_you_mean

Compute = Callable[..., "te.Tensor | Sequence[te.Tensor]"]
ComputeT = TypeVar("ComputeT", bound=Compute)


@dataclass(frozen=True)
class Operator:
    """An operator by name."""

    name: str
    compute: Compute  # tensors (None where an input is left out), attributes by keyword

    def __call__(
        self, inputs: Sequence[te.Tensor | None], attrs: Mapping[str, Any]
    ) -> tuple[te.Tensor, ...]:
        """Its results as tensor expressions."""
        made = self.compute(*inputs, **attrs)
        return (made,) if isinstance(made, te.Tensor) else tuple(made)


_OPERATORS: dict[str, Operator] = {}


def operator(name: str) -> Callable[[ComputeT], ComputeT]:
    """Decorator: make a function of tensors known as an operator."""

    def add(compute: ComputeT) -> ComputeT:
        if name in _OPERATORS:
            raise GraphError(f"operator {name!r} is registered already")
        _OPERATORS[name] = Operator(name, compute)
        infer_types.cache_clear()
        return compute

    return add


def find_operator(name: str) -> Operator:
    """The operator of that name."""
    if name not in _OPERATORS:
        raise GraphError(f"there is no operator {name!r}{did_you_mean(name, _OPERATORS)}")
    return _OPERATORS[name]


def has_operator(name: str) -> bool:
    """True if there is an operator of that name."""
    return name in _OPERATORS


def operator_names() -> list[str]:
    """All names, sorted."""
    return sorted(_OPERATORS)


def placeholder(value: GraphValue) -> te.Tensor:
    """A value of a graph as an input of tensor expressions."""
    return te.placeholder(value.type.shape, value.type.dtype, name=value.name)


def type_of(tensor: te.Tensor) -> TensorType:
    """The type of a tensor expression."""
    shape = tuple(n.value if isinstance(n, ir.IntImm) else n for n in tensor.shape)
    return TensorType(shape, str(tensor.dtype))


def result_types(
    name: str, inputs: Sequence[TensorType | None], attrs: Mapping[str, Any]
) -> tuple[TensorType, ...]:
    """The types of a call's results."""
    return infer_types(name, tuple(inputs), json.dumps(attrs, sort_keys=True))


@functools.lru_cache(maxsize=4096)
def infer_types(
    name: str, inputs: tuple[TensorType | None, ...], attrs: str
) -> tuple[TensorType, ...]:
    """`result_types` of attributes as JSON, which can be remembered."""
    tensors = [
        None if kind is None else te.placeholder(kind.shape, kind.dtype, name=f"x{number}")
        for number, kind in enumerate(inputs)
    ]
    try:
        op, named = find_operator(name), json.loads(attrs)
        _check_arguments(op, tensors, named)
        return tuple(map(type_of, op(tensors, named)))
    except TilewrightError as error:
        given = ", ".join("nothing" if kind is None else str(kind) for kind in inputs)
        raise GraphError(f"{name} of {given}: {error}") from error


def _check_arguments(
    op: Operator, tensors: Sequence[te.Tensor | None], attrs: Mapping[str, Any]
) -> None:
    """Raise an error in words where inputs or attributes are missing, or too many."""
    try:
        inspect.signature(op.compute).bind(*tensors, **attrs)
    except TypeError as error:
        raise GraphError(str(error)) from None
