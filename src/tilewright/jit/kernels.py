"""The kernels of one function: one for each of the first sizes, and one for all others."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.driver import build, lower, schedules_from
from tilewright.ir import IRModule, PrimFunc, Var
from tilewright.jit.interface import Interface
from tilewright.jit.schedules import Schedules
from tilewright.lowering.argument_roles import is_fully_written
from tilewright.runtime import Module

Sizes = tuple[int, ...]  # of the symbols of a function, in their order; empty: whatever they are


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code, and the function that it was made of."""

    func: PrimFunc
    module: Module
    _complete: dict[Var, bool] = field(default_factory=dict)

    def writes_all_of(self, param: Var) -> bool:
        """True if the function provably writes every element of an output."""
        if param not in self._complete:
            self._complete[param] = is_fully_written(self.func, self.func.buffer_map[param])
        return self._complete[param]


class Kernels:
    """Compiles a function for sizes, each once, whoever asks; what is there needs no lock."""

    def __init__(self, func: PrimFunc, name: str, schedules: Schedules) -> None:
        self.func = func
        self.name = name
        self.interface = Interface(func, name)
        self.settings = schedules.settings
        self._schedules = schedules
        self._made: dict[Sizes, CompiledKernel] = {}
        self._lock = threading.RLock()

    def sizes(self) -> list[Sizes]:
        """The sizes that there are kernels for; none at all for the kernel of all sizes."""
        return list(self._made)

    def fitting(self, sizes: Sizes) -> CompiledKernel:
        """The kernel for a call: one of its own while there are few, or the one for all sizes."""
        known = self._made.get(sizes)
        if known is not None:
            return known
        with self._lock:
            special = sum(1 for made in self._made if made)
            return self.of(sizes if special < self.settings.max_sizes else ())

    def of(self, sizes: Sizes) -> CompiledKernel:
        """The kernel for just these sizes, or for all of them."""
        with self._lock:
            if sizes not in self._made:
                self._made[sizes] = self._compiled(sizes)
            return self._made[sizes]

    def scheduled(self, sizes: Sizes) -> IRModule:
        """The program that is compiled for some sizes."""
        with self._lock:
            return self._schedules.scheduled(self._specialized(sizes), sizes)

    def lowered(self, sizes: Sizes) -> IRModule:
        """The program that is compiled for some sizes, as code generators take it."""
        return lower(self.scheduled(sizes), self.settings.target)

    def tune(self, sizes: Sizes, options: Mapping[str, object]) -> None:
        """Search for a better schedule, and compile again at the next call."""
        with self._lock:
            self._schedules.tune(self._specialized(sizes), sizes, options)
            self._made.pop(sizes, None)

    def _compiled(self, sizes: Sizes) -> CompiledKernel:
        program = self._specialized(sizes)
        with schedules_from(lambda module, target: self._schedules.scheduled(module, sizes)):
            module = build(program, self.settings.target)
        return CompiledKernel(program[self.name], module)

    def _specialized(self, sizes: Sizes) -> IRModule:
        values = dict(zip(self.interface.symbols, sizes, strict=True)) if sizes else {}
        return IRModule({self.name: self.func.specialize(values)})

    def __reduce__(self) -> tuple[type[Kernels], tuple[PrimFunc, str, Schedules]]:
        """The program and its schedules travel; code is compiled where they arrive."""
        return Kernels, (self.func, self.name, self._schedules)
