"""A call in an exported program as converters see it, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tilewright.errors import GraphError
from tilewright.graph import GraphBuilder, GraphValue
from tilewright.graph.operator import has_operator

Converter: TypeAlias = "Callable[[CallContext], Any]"

_CONVERTERS: dict[str, Converter] = {}


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Decorator: converts an operator of ATen to ours; names as `conv2d.default`, or `conv2d`."""

    def add(converter: Converter) -> Converter:
        _CONVERTERS.update(dict.fromkeys(names, converter))
        return converter

    return add


def find_converter(name: str) -> Converter | None:
    """The converter for `name.overload`.

    Without one, an operator of graphs that is called as PyTorch's (`library.name`) serves as it is.
    """
    found = _CONVERTERS.get(name) or _CONVERTERS.get(name.partition(".")[0])
    own = name.rpartition(".")[0]
    return found or (_as_it_is(own) if "." in own and has_operator(own) else None)


def _as_it_is(name: str) -> Converter:
    def converter(node: CallContext) -> Any:
        given = {
            word: v for word, v in node.args.all().items() if not word.startswith("result_shape")
        }
        inputs = [value for value in given.values() if isinstance(value, GraphValue)]
        attrs = {word: v for word, v in given.items() if not isinstance(v, GraphValue)}
        made = node.calls(name, *inputs, **attrs)
        return made[0] if len(made) == 1 else made

    return converter


# Arguments that say where and how results lie, or that the shape and type of the result tell.
_WITHOUT_EFFECT = frozenset({
    "C", "HxW", "N", "allow_nan", "copy", "cudnn_enable", "cudnn_enabled", "device", "dim", "dims",
    "dtype", "end_dim", "half_to_float", "implicit", "layout", "memory_format", "momentum",
    "non_blocking", "out_dtype", "output_padding", "output_size", "padding_idx",
    "physical_layout", "pin_memory", "requires_grad", "scale_grad_by_freq", "self", "shape",
    "size", "sizes", "sparse", "split_size", "split_sizes", "stable", "start_dim", "train",
})  # fmt: skip


class CallArguments(dict[str, Any]):
    """Arguments by name, which remember which of them were looked at."""

    def __init__(self, given: Mapping[str, Any], usual: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._usual = usual
        self._own = frozenset(given)
        self._seen: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self._seen.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or a default."""
        self._seen.add(name)
        return super().get(name, default)

    def all(self) -> dict[str, Any]:
        """All of them, which counts as a look at each."""
        self._seen.update(self)
        return dict(self)

    def unused(self) -> list[str]:
        """Those that nobody looked at although they are not as usual."""
        return [
            name
            for name in self._own - self._seen - _WITHOUT_EFFECT
            if name not in self._usual or _differs(dict.__getitem__(self, name), self._usual[name])
        ]


def _differs(given: Any, usual: Any) -> bool:
    return isinstance(given, GraphValue) or bool(given != usual)


@dataclass(frozen=True)
class CallContext:
    """Arguments of a call, by position or name with the defaults of the operator's schema."""

    builder: GraphBuilder
    op: str
    source: str
    args: CallArguments
    dtype: str  # of the first result

    def __getitem__(self, name: str) -> Any:
        """An argument as it was given: a value, a number, a list, None."""
        return self.args[name]

    def value(self, name: str) -> GraphValue:
        """An argument that is a tensor, or a number as a tensor of the result's type."""
        given = self.args[name]
        if isinstance(given, GraphValue):
            return given
        if isinstance(given, (bool, int, float)):
            return self.constant(given, self.dtype)
        raise GraphError(f"{self.op} ({self.source}): {name} is not a tensor")

    def common_dtype(self, left: Any, right: Any) -> str:
        """The type in which PyTorch computes with two operands, of which one may be a number."""
        import torch

        given = [
            torch.empty(v.type.extents, dtype=getattr(torch, v.type.dtype), device="meta")
            if isinstance(v, GraphValue)
            else v
            for v in (left, right)
        ]
        return str(torch.result_type(*given)).removeprefix("torch.")

    def call(self, op: str, *inputs: GraphValue | None, **attrs: Any) -> GraphValue:
        """The only result of an operator of ours."""
        return self.builder.call(op, *inputs, source=self.source, **attrs)

    def calls(self, op: str, *inputs: GraphValue | None, **attrs: Any) -> tuple[GraphValue, ...]:
        """All results of an operator of ours."""
        return self.builder.calls(op, inputs, attrs, source=self.source)

    def constant(self, value: Any, dtype: str) -> GraphValue:
        """A number or an array as a value."""
        return self.builder.constant(np.asarray(value, dtype), "c")

    def cast(self, value: GraphValue, dtype: str) -> GraphValue:
        """A value in another type."""
        return value if value.type.dtype == dtype else self.call("cast", value, dtype=dtype)

    def shape(self, value: GraphValue) -> list[int]:
        """Extents, which must be numbers."""
        if not value.type.is_static:
            raise GraphError(f"{self.op} ({self.source}): the shape of {value} has to be known")
        return [int(extent) for extent in value.type.shape]  # type: ignore[arg-type]

    def axes(self, name: str, value: GraphValue) -> list[int] | None:
        """Axes, counted from the front; None for all."""
        given = self.args.get(name)
        if given is None or given == []:
            return None
        axes = [given] if isinstance(given, int) else list(given)
        return [axis % max(len(value.type.shape), 1) for axis in axes]

    def refuse(self, why: str) -> GraphError:
        """An error that names the call."""
        return GraphError(f"{self.op} ({self.source}): {why}")


def pair(value: Any, rank: int = 2) -> list[int]:
    """One number for all axes, or one for each."""
    numbers: Sequence[int] = [value] if isinstance(value, int) else list(value)
    return list(numbers) * rank if len(numbers) == 1 else list(numbers)
