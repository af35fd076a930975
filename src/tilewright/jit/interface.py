"""The calling convention of a function: its arguments, its results, and the sizes they imply."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArgumentError
from tilewright.ir import Buffer, PrimFunc, Var, free_vars, replace
from tilewright.lowering.argument_roles import Role, argument_roles
from tilewright.lowering.host_abi import ArgumentSpec, HostABI, describe, signature_of
from tilewright.runtime.arguments import ArgumentBinder
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import counted

Values = Mapping[int, Any]  # arguments by the position of their parameter


@dataclass(frozen=True, eq=False)
class CallParameter:
    """One parameter of a function."""

    position: int
    role: Role
    spec: ArgumentSpec
    var: Var
    buffer: Buffer | None

    def symbols(self) -> Iterable[Var]:
        """The variables in its shape."""
        extents = () if self.buffer is None else self.buffer.shape
        return (var for extent in extents for var in free_vars(extent))

    def as_target(self) -> ArgumentSpec:
        """What is asked of an array that a result goes into."""
        derived = self.spec.derived if self.role is Role.OUTPUT else ()
        return dataclasses.replace(self.spec, access="w", derived=derived)


class Interface:
    """The parameters of a function as its callers see them."""

    def __init__(self, func: PrimFunc, name: str) -> None:
        self.name = name
        self.parameters = _parameters(func)
        self.inputs = tuple(p for p in self.parameters if p.role is not Role.OUTPUT)
        self.outputs = tuple(p for p in self.parameters if p.role is Role.OUTPUT)
        self.results = tuple(p for p in self.parameters if p.role is not Role.INPUT)
        self.symbols = tuple(dict.fromkeys(var for p in self.parameters for var in p.symbols()))
        # Scalars that say how large arrays are.
        self.sizes_given = [p for p in self.inputs if any(map(p.var.same_as, self.symbols))]
        self._by_name = {p.spec.name: p for p in self.parameters}
        self._binders: dict[tuple[int, ...], ArgumentBinder] = {}

    def text(self, inputs: Iterable[CallParameter]) -> str:
        """The function as a reader would write it, with some of its inputs."""
        returns = _list(self.results) or "None"
        return f"{self.name}({_list(inputs)}) -> {returns}"

    def named(self, name: str) -> CallParameter:
        """The parameter of that name."""
        if name not in self._by_name:
            hint = did_you_mean(name, self._by_name)
            raise ArgumentError(f"{self.name}() has no argument {name!r}{hint}")
        return self._by_name[name]

    # --- what is written in a call ---------------------------------------------------------------

    def arranged(
        self, args: Sequence[object], named: Mapping[str, object], inputs: Sequence[CallParameter]
    ) -> dict[int, object]:
        """The values of a call; those without a name are for `inputs`, or for outputs, too."""
        taken = inputs
        if len(args) > len(inputs):
            taken = [p for p in self.parameters if p in inputs or p in self.outputs]
            if len(args) != len(taken):
                raise ArgumentError(self._wrong_number(inputs, len(args)))
        values = {p.position: value for p, value in zip(taken, args, strict=False)}
        for name, value in named.items():
            position = self.named(name).position
            if position in values:
                raise ArgumentError(f"{self.name}() got two values for the argument {name!r}")
            values[position] = value
        missing = [p for p in inputs if p.position not in values]
        if missing and named:
            raise ArgumentError(
                f"{self.name}() is missing the argument {describe(missing[0].spec)}"
            )
        if missing:
            raise ArgumentError(self._wrong_number(inputs, len(args)))
        return values

    def _wrong_number(self, inputs: Sequence[CallParameter], number: int) -> str:
        text = f"{self.name}() takes {counted(len(inputs), 'argument')} ({_list(inputs)})"
        if self.outputs:
            count = len(inputs) + len(self.outputs)
            text += f", or {count} with what it returns ({_list(self.outputs)})"
        return f"{text}, got {number}"

    def targets(self, out: object, values: dict[int, object]) -> dict[int, object]:
        """The arrays that results shall go into; outputs among the arguments are taken out."""
        passed = [p.position for p in self.outputs if p.position in values]
        targets = {position: values.pop(position) for position in passed}
        if out is None:
            return targets
        if targets:
            raise ArgumentError(f"{self.name}() got a result twice: as an argument and as out=")
        arrays = out if isinstance(out, tuple | list) else (out,)
        if len(arrays) != len(self.results):
            raise ArgumentError(self._wrong_out(len(arrays)))
        pairs = zip(self.results, arrays, strict=True)
        return {p.position: array for p, array in pairs if array is not None}

    def _wrong_out(self, number: int) -> str:
        if not self.results:
            return f"{self.name}() returns nothing, so it takes no out="
        count = len(self.results)
        returns = f"{counted(count, 'array')} ({_list(self.results)})"
        several = "a tuple of as many, None for those to be allocated"
        expected = "one" if count == 1 else several
        return f"{self.name}() returns {returns}; out= takes {expected}, got {number}"

    # --- sizes -----------------------------------------------------------------------------------

    def check(self, values: Values, targets: Values) -> None:
        """Refuse arguments that do not fit, in words."""
        present = [p for p in self.inputs if p.position in values]
        into = [p for p in self.results if p.position in targets]
        self._require_sizes((*present, *into))
        key = (*(p.position for p in present), -1, *(p.position for p in into))
        binder = self._binders.get(key)
        if binder is None:
            read = (dataclasses.replace(p.spec, access="r") for p in present)
            specs = (*read, *(p.as_target() for p in into))
            binder = self._binders[key] = ArgumentBinder(self.name, specs, no_alias=False)
        binder.bind([*(values[p.position] for p in present), *(targets[p.position] for p in into)])

    def _require_sizes(self, present: Sequence[CallParameter]) -> None:
        if not self.symbols:
            return
        places = _places(present)
        for parameter in self.results:
            for symbol in parameter.symbols():
                if symbol not in places:
                    raise ArgumentError(
                        f"{self.name}(): the size {symbol.name!r} of {describe(parameter.spec)} "
                        "does not follow from the inputs; pass the array for the result, as in "
                        f"{self.name}(..., out=array)"
                    )

    def sizes(self, values: Values) -> dict[Var, int]:
        """The sizes of a call whose arguments fit."""
        present = [p for p in (*self.inputs, *self.outputs) if p.position in values]
        places = _places(present)
        found = {}
        for symbol in self.symbols:
            position, axis = places[symbol]
            value = values[position]
            found[symbol] = operator.index(value) if axis is None else int(np.shape(value)[axis])
        return found

    def key_of(self, values: Values, targets: Values) -> tuple[object, ...]:
        """What calls have in common that are carried out alike, whose arguments fit.

        The shapes of all arrays, then scalars that are sizes, then the outputs that are given.
        """
        inputs = [p for p in self.inputs if p.position in values]
        outputs = [p for p in self.outputs if p.position in targets]
        shapes = [np.shape(values[p.position]) for p in inputs if p.buffer is not None]
        sizes = [values[p.position] for p in inputs if p in self.sizes_given]
        shapes_out = [(p.position, np.shape(targets[p.position])) for p in outputs]
        return (*shapes, *sizes, *shapes_out)


def _parameters(func: PrimFunc) -> tuple[CallParameter, ...]:
    """Sizes are read off inputs where that is possible, wherever outputs stand."""
    roles = argument_roles(func)
    order = sorted(range(len(roles)), key=lambda n: roles[n] is Role.OUTPUT)
    inputs_first = replace(func, params=tuple(func.params[n] for n in order))
    specs = dict(zip(order, signature_of(HostABI().run_function(inputs_first)), strict=True))
    return tuple(
        CallParameter(n, role, specs[n], var, func.buffer_map.get(var))
        for n, (role, var) in enumerate(zip(roles, func.params, strict=True))
    )


def _places(present: Iterable[CallParameter]) -> dict[Var, tuple[int, int | None]]:
    """Where each size is found: the position of a scalar, or that of an array with the axis."""
    places: dict[Var, tuple[int, int | None]] = {}
    for p in present:
        if p.buffer is None:
            places.setdefault(p.var, (p.position, None))
            continue
        for axis, extent in enumerate(p.buffer.shape):
            if isinstance(extent, Var):
                places.setdefault(extent, (p.position, axis))
    return places


def _list(parameters: Iterable[CallParameter]) -> str:
    return ", ".join(describe(p.spec) for p in parameters)
