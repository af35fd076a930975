"""`Module.bind`: arguments that stay the same, and weights that are packed once.

A kernel may want a weight in a layout of its own. Called plainly it packs the weight each time,
because nobody can tell whether an array was written to since. Binding says that it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import ArgumentError
from tilewright.lowering.host_abi import ArgumentSpec, describe, evaluate_extent
from tilewright.lowering.prepacking import packing_of
from tilewright.runtime import ndarray
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import counted

if TYPE_CHECKING:
    from tilewright.runtime.module import CompiledFunction, Module
    from tilewright.runtime.timing import BenchmarkResult


class BoundFunction:
    """A function some of whose arguments are fixed; call it with the others, in their order.

    Bound arrays must not be written to: whether a call would see it depends on the kernel.
    """

    def __init__(self, function: CompiledFunction, fixed: Mapping[int, object]) -> None:
        self._function = function
        self._fixed = dict(fixed)
        self.name = function.name
        self.signature: tuple[ArgumentSpec, ...] = tuple(
            spec for position, spec in enumerate(function.signature) if position not in fixed
        )

    def __call__(self, *args: object) -> None:
        self._function(*self._arranged(args))

    def time_evaluator(self, *options: Any, **named: Any) -> Callable[..., BenchmarkResult]:
        """A timer that takes the arguments of a call; options as for `Module.time_evaluator`."""
        evaluator = self._function.time_evaluator(*options, **named)
        return lambda *args: evaluator(*self._arranged(args))

    def _arranged(self, args: Sequence[object]) -> list[object]:
        if len(args) != len(self.signature):
            takes = ", ".join(map(describe, self.signature))
            raise ArgumentError(
                f"{self.name}() takes {counted(len(self.signature), 'argument')} ({takes}) besides "
                f"those that are bound, got {len(args)}"
            )
        rest, count = iter(args), len(args) + len(self._fixed)
        return [self._fixed[n] if n in self._fixed else next(rest) for n in range(count)]

    def __repr__(self) -> str:
        return f"<bound {self.name}({', '.join(map(describe, self.signature))})>"


def packers_of(module: Module) -> dict[int, CompiledFunction]:
    """The functions that pack weights for the entry of a module, by position of the argument."""
    return {position: module[name] for position, name in packer_names(module).items()}


def packer_names(module: Module) -> dict[int, str]:
    """What they are called; nothing is loaded for that."""
    entry = module.entry_name
    found = [(packing_of(name), name) for name in module]
    return {of[1]: name for of, name in found if of is not None and of[0] == entry}


def shape_of(argument: ArgumentSpec) -> tuple[int, ...]:
    """The shape of a weight on its way into, or out of, a packing function."""
    return tuple(evaluate_extent(extent, {}) for extent in argument.shape)


def bind(module: Module, arrays: Mapping[str, object]) -> BoundFunction:
    """Fix arguments of the entry of a module, by name; see `Module.bind`."""
    packers, prepacked = packers_of(module), None
    if not packers and (prepacked := module.prepacked()) is not None:
        packers = packers_of(prepacked)
    positions = {
        packers[n].signature[0].name if n in packers else spec.name: n
        for n, spec in enumerate(module.signature())
    }
    for name in arrays:
        if name not in positions:
            hint = did_you_mean(name, positions)
            raise ArgumentError(f"bind(): {module.entry_name}() has no argument {name!r}{hint}")
    fixed = {positions[name]: value for name, value in arrays.items()}
    if prepacked is not None and fixed.keys() & packers.keys():
        # A kernel for packed weights takes all of them so, but its callers know no packed ones.
        missing = [packers[n].signature[0].name for n in packers if n not in fixed]
        if missing:
            raise ArgumentError(
                f"bind(): {module.entry_name}() packs {', '.join(missing)}, too; bind all weights "
                "at once"
            )
        module = prepacked
    for position in fixed.keys() & packers.keys():
        packer = packers[position]
        packed = ndarray.empty(shape_of(packer.signature[1]), packer.signature[1].dtype)
        packer(fixed[position], packed)
        fixed[position] = packed
    return BoundFunction(module[module.entry_name], fixed)
