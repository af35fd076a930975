"""One call: from what the caller wrote to what the kernel takes, and back.

Calls with the same shapes share a plan: the kernel and its results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.arith import Analyzer
from tilewright.errors import ArgumentError
from tilewright.ir import Buffer, IntImm, Var, substitute
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.jit import arrays
from tilewright.jit.arrays import copy_of
from tilewright.jit.interface import CallParameter, Interface
from tilewright.jit.kernels import CompiledKernel
from tilewright.lowering.argument_roles import Role
from tilewright.lowering.host_abi import describe
from tilewright.runtime.cpu_device import aligned_memory
from tilewright.runtime.tensor_view import Array, ElementType, address_of


@dataclass(frozen=True)
class CallResult:
    """One array that a function returns."""

    position: int
    source: int | None  # the number of the input that it starts as a copy of
    shape: tuple[int, ...] = ()
    dtype: ElementType | None = None
    is_zeroed: bool = False  # since the function may leave elements alone
    obstacle: str = ""  # why it cannot be allocated

    def made(self, inputs: Sequence[Any]) -> Array:
        """The array as the kernel takes it."""
        if self.source is not None:
            return copy_of(inputs[self.source])
        if self.dtype is None:
            raise ArgumentError(self.obstacle)
        array = aligned_memory(self.shape, self.dtype)
        if self.is_zeroed:
            array.fill(0)
        return array


@dataclass(frozen=True)
class CallPlan:
    """How a call is carried out."""

    run: Callable[..., None]
    results: tuple[CallResult, ...]
    # From the inputs, followed by the results, to what the kernel takes.
    arranged: Callable[[tuple[object, ...]], Sequence[object]]


def make_plan(
    interface: Interface,
    kernel: CompiledKernel,
    sizes: Mapping[Var, int],
    fixed: Mapping[int, object],
) -> CallPlan:
    """The plan for calls with these sizes; `fixed` are the arguments that are bound."""
    inputs = [p for p in interface.inputs if p.position not in fixed]
    places = {p.position: n for n, p in enumerate((*inputs, *interface.results))}
    by_var = {p.var: p for p in interface.parameters}
    taken = [by_var[var] for var in kernel.func.params]
    order = [places[p.position] for p in taken if p.position not in fixed]
    run: Callable[..., None] = kernel.module[interface.name]
    if fixed:
        bound = {p.spec.name: fixed[p.position] for p in taken if p.position in fixed}
        run = kernel.module.bind(**bound)
    numbers = {p.position: n for n, p in enumerate(inputs)}
    results = [_result(interface, p, kernel, sizes, numbers) for p in interface.results]
    arranged: Callable[[tuple[object, ...]], Sequence[object]] = tuple
    if order != list(range(len(inputs) + len(results))):
        several = len(order) > 1
        arranged = operator.itemgetter(*order) if several else lambda all: [all[n] for n in order]
    return CallPlan(run, tuple(results), arranged)


def _result(
    interface: Interface,
    parameter: CallParameter,
    kernel: CompiledKernel,
    sizes: Mapping[Var, int],
    numbers: Mapping[int, int],
) -> CallResult:
    position, buffer = parameter.position, parameter.buffer
    assert buffer is not None
    if parameter.role is Role.UPDATE:
        return CallResult(position, numbers[position])
    shape = _shape(buffer, sizes)
    where = f"{interface.name}(): the result {describe(parameter.spec)}"
    if any(extent < 0 for extent in shape):
        return CallResult(position, None, obstacle=f"{where} would have the shape {list(shape)}")
    if buffer.strides:
        obstacle = f"{where} has strides of its own, so it cannot be allocated; pass it as out="
        return CallResult(position, None, obstacle=obstacle)
    is_zeroed = not kernel.writes_all_of(parameter.var)
    return CallResult(position, None, shape, to_numpy(parameter.spec.dtype), is_zeroed)


def _shape(buffer: Buffer, sizes: Mapping[Var, int]) -> tuple[int, ...]:
    values = {var: IntImm(var.dtype, size) for var, size in sizes.items()}
    extents = [Analyzer().simplify(substitute(extent, values)) for extent in buffer.shape]
    return tuple(extent.value for extent in extents if isinstance(extent, IntImm))


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
