"""One call: from what the caller wrote to what the kernel takes, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ArgumentError
from tilewright.jit import arrays
from tilewright.jit.interface import CallParameter, Interface
from tilewright.jit.plan import CallPlan, CallResult
from tilewright.lowering.argument_roles import Role
from tilewright.runtime.tensor_view import address_of


def prepared(parameter: CallParameter, value: object) -> Any:
    """An input as a kernel can take it: arrays as NumPy's, and row-major unless they may differ."""
    if parameter.buffer is None:
        return value
    array = arrays.to_read(value)
    return array if parameter.spec.strides else arrays.contiguous(array)


class CheckedCall:
    """The arguments of a call, checked before anything is compiled or changed."""

    def __init__(
        self,
        interface: Interface,
        inputs: Sequence[CallParameter],
        given: dict[int, object],
        out: object,
        inplace: bool,
    ) -> None:
        self._interface = interface
        self._inputs = inputs
        self._given = given
        self._targets = interface.targets(out, given)  # the caller's own arrays for results
        if inplace:
            for p in interface.results:
                if p.role is Role.UPDATE:
                    self._targets.setdefault(p.position, given[p.position])
        self.outputs = {n: arrays.in_numpy(array) for n, array in self._targets.items()}
        self.values = {p.position: self._taken(p) for p in inputs}

    def _taken(self, parameter: CallParameter) -> Any:
        position = parameter.position
        given = self._given[position]
        if self._targets.get(position) is given:
            return self.outputs[position]
        return prepared(parameter, given)

    def run(self, plan: CallPlan, fixed: Mapping[int, object]) -> object:
        """Carry the call out, and return what the function returns."""
        self._require_apart({**fixed, **self.outputs})
        for position, target in self.outputs.items():
            for other, value in self.values.items():
                if position != other and arrays.overlap(target, value):
                    self.values[other] = arrays.copy_of(value)  # the result would overwrite it
        inputs = [self.values[p.position] for p in self._inputs]
        made = [self._memory(result, inputs) for result in plan.results]
        plan.run(*plan.arranged((*inputs, *made)))
        given = (self._given[p.position] for p in self._inputs if p.buffer is not None)
        wrap = arrays.wrapper_for(next(given, None))  # results are of the kind of the first array
        results = [
            self._targets[result.position]
            if result.position in self._targets
            else (array if wrap is None else wrap(array))
            for result, array in zip(plan.results, made, strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results) or None

    def _require_apart(self, others: Mapping[int, object]) -> None:
        """Results must not overlap each other, nor arguments that are bound."""
        for position, target in self.outputs.items():
            for other, array in others.items():
                if position != other and arrays.overlap(target, array):
                    names = [self._interface.parameters[n].spec.name for n in (position, other)]
                    raise ArgumentError(
                        f"{self._interface.name}(): the array for the result {names[0]} overlaps "
                        f"that of {names[1]}; pass another one"
                    )

    def _memory(self, result: CallResult, inputs: Sequence[Any]) -> Any:
        target = self.outputs.get(result.position)
        if target is None:
            return result.made(inputs)
        if result.source is not None:
            source = inputs[result.source]
            if address_of(target) != address_of(source) or target.strides != source.strides:
                target[...] = source
        return target
