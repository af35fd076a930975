"""Arrays that callers give a model: of any library, by position or by name, checked in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import ArgumentError, IRError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.model.program import ModelProgram, ValueInfo
from tilewright.runtime.compact import compact_copy
from tilewright.runtime.cpu_device import aligned_memory
from tilewright.runtime.ndarray import shared_in_numpy
from tilewright.runtime.tensor_view import Array, view_of
from tilewright.support.names import as_identifier
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import counted


def array_of(given: Any, what: str) -> Array:
    """The memory of another library's array, without a copy; numbers in lists are copied."""
    if isinstance(given, np.ndarray):
        return given
    view = view_of(given)
    if view is None:
        return np.asarray(given)
    if view.device != "cpu":
        raise ArgumentError(f"{what} is on {view.device}, expected it on cpu")
    try:
        return shared_in_numpy(view, to_numpy(view.dtype))
    except IRError as error:
        raise ArgumentError(f"{what}: {error}") from error


# --- inputs -------------------------------------------------------------------------------------


def input_arrays(
    program: ModelProgram, inputs: Sequence[Any], named: Mapping[str, Any]
) -> list[Array]:
    """The inputs as arrays that kernels can read."""
    given = given_inputs(program, inputs, named)
    return [
        _readable(_checked(array_of(array, f"input {info.name}"), info, "input"))
        for info, array in zip(program.inputs, given, strict=True)
    ]


def given_inputs(
    program: ModelProgram, inputs: Sequence[Any], named: Mapping[str, Any]
) -> Sequence[Any]:
    """The inputs in the order of the model, those given by position first."""
    given = _by_name(program, inputs, named) if named else inputs
    if len(given) != len(program.inputs):
        raise ArgumentError(
            f"{program.name} takes {counted(len(program.inputs), 'input')} "
            f"({_listed(program.inputs)}), got {len(given)}"
        )
    return given


def _by_name(
    program: ModelProgram, inputs: Sequence[Any], named: Mapping[str, Any]
) -> Sequence[Any]:
    names = [info.name for info in program.inputs]
    named = _as_in_the_model(program, named, names)
    for name in named:
        if name not in names:
            raise ArgumentError(f"{program.name} has no input {name!r}{did_you_mean(name, names)}")
    twice = [name for name in names[: len(inputs)] if name in named]
    if twice:
        raise ArgumentError(f"{program.name}: input {twice[0]} is given by position and by name")
    missing = [info for info in program.inputs[len(inputs) :] if info.name not in named]
    if missing:
        raise ArgumentError(f"{program.name}: inputs are missing: {_listed(missing)}")
    return [*inputs, *(named[name] for name in names[len(inputs) :])]


def _as_in_the_model(
    program: ModelProgram, named: Mapping[str, Any], names: Sequence[str]
) -> Mapping[str, Any]:
    """By the model's own names: a keyword of Python stands for a name that cannot be one."""
    keywords = [as_identifier(name) for name in names]
    own = {word: n for n, word in zip(names, keywords, strict=True) if keywords.count(word) == 1}
    found = [word if word in names else own.get(word, word) for word in named]
    if twice := [name for name in names if found.count(name) > 1]:
        raise ArgumentError(f"{program.name}: input {twice[0]} is given by two names")
    return dict(zip(found, named.values(), strict=True))


def _checked(array: Array, info: ValueInfo, role: str) -> Array:
    if array.shape != info.shape or array.dtype != info.element_type:
        raise ArgumentError(
            f"{role} {info.name}: expected {info.type}, got {array.dtype}{list(array.shape)}"
        )
    return array


def _listed(infos: Sequence[ValueInfo]) -> str:
    return ", ".join(map(str, infos))


def _is_usable(array: Array) -> bool:
    """True if kernels can have the array as it is."""
    return array.flags.c_contiguous and array.flags.aligned


def _readable(array: Array) -> Array:
    return array if _is_usable(array) else compact_copy(array)


# --- outputs ------------------------------------------------------------------------------------


def output_arrays(program: ModelProgram, out: Sequence[Any] | None) -> list[Array]:
    """The arrays that outputs are to be in: given ones, or new ones."""
    if out is None:
        return [aligned_memory(info.shape, info.element_type) for info in program.outputs]
    arrays = [
        _checked(array_of(array, f"output {info.name}"), info, "output")
        for info, array in zip(program.outputs, given_outputs(program, out), strict=True)
    ]
    for info, array in zip(program.outputs, arrays, strict=True):
        if not array.flags.writeable:
            raise ArgumentError(f"output {info.name}: the array cannot be written to")
    return arrays


def given_outputs(program: ModelProgram, out: Sequence[Any]) -> Sequence[Any]:
    """As many arrays as there are outputs."""
    if len(out) != len(program.outputs):
        raise ArgumentError(
            f"{program.name} has {counted(len(program.outputs), 'output')} "
            f"({_listed(program.outputs)}), got {counted(len(out), 'array')} for them"
        )
    return out


def writable_by_kernels(wanted: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
    """The arrays themselves; new ones for those that are not aligned, or overlap another."""
    chosen: list[Array] = []
    for array in wanted:
        fits = _is_usable(array) and not any(
            np.may_share_memory(array, other) for other in (*inputs, *chosen)
        )
        chosen.append(array if fits else aligned_memory(array.shape, array.dtype))
    return chosen
