"""Tensors whose axes have names, so that an operator is written once for all layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var
from tilewright.te import Tensor

Indices: TypeAlias = Mapping[str, Var]


@dataclass(frozen=True)
class NamedTensor:
    """A tensor and the names of its axes: "NCHW", or ("n", "ci", "h", "w")."""

    tensor: Tensor
    axes: Sequence[str]

    def at(self, **indices: ExprLike) -> PrimExpr:
        return self.tensor(*(indices[axis] for axis in self.axes))

    def extent(self, axis: str) -> PrimExpr:
        return self.tensor.shape[self.axes.index(axis)]


def compute_named(
    name: str,
    axes: Mapping[str, str] | Sequence[str],
    sizes: Mapping[str, ExprLike],
    element: Callable[[Indices], ExprLike],
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> NamedTensor:
    """A tensor with the given axes, in this order; a mapping says what programs call them."""
    keys = tuple(axes)
    shown = list(axes.values()) if isinstance(axes, Mapping) else keys

    def positional(*i: Var) -> ExprLike:
        return element(dict(zip(keys, i, strict=True)))

    shape = [sizes[axis] for axis in keys]
    return NamedTensor(te.compute(shape, positional, name, tag, attrs, varargs_names=shown), keys)
