"""`JitFunction`: a function of arrays that returns arrays, compiled when it is called.

`JitModule` are several of them that were compiled together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import ArgumentError, RuntimeFailure
from tilewright.ir import IRModule, PrimFunc, highlight
from tilewright.jit.call import CallPlan, CheckedCall, make_plan, prepared
from tilewright.jit.interface import CallParameter
from tilewright.jit.kernels import Kernels, Sizes
from tilewright.jit.schedules import TuneLike, parse_tuning
from tilewright.lowering.argument_roles import Role
from tilewright.runtime import Module
from tilewright.runtime.tensor_view import ALIGNED, C_CONTIGUOUS
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import counted

# Combinations of shapes for which it is remembered how a call is carried out.
REMEMBERED_PLANS = 256
_PLAIN = C_CONTIGUOUS | ALIGNED


class JitFunction:
    """A program that is called with its inputs and returns its results: `c = f(a, b)`.

    Inputs may be NumPy arrays, `NDArray`s, or arrays of any library with DLPack on the CPU; results
    are of the kind of the first input. Arguments can be named. Inputs that are not row-major are
    copied; wrong dtypes and shapes are refused.

    `f(a, b, out=c)` writes into an array instead of a new one (a tuple for several results, None
    for those to be allocated), and so does `f(a, b, c)`. It may overlap inputs: the result is the
    same. Arguments that the program reads and writes are not changed: a changed copy is returned,
    unless `out=` names the array itself or the function was compiled with `inplace=True`. Elements
    that a program does not write are 0 in arrays that are allocated.

    The first call compiles. With symbolic shapes the first sizes get kernels of their own, as many
    as `specialize=` says, and all others share one.
    """

    def __init__(self, kernels: Kernels, fixed: Mapping[int, object] | None = None) -> None:
        self._kernels = kernels
        self._fixed = fixed or {}
        self._interface = kernels.interface
        self._inputs = tuple(p for p in self._interface.inputs if p.position not in self._fixed)
        self._are_arrays = tuple(p.buffer is not None for p in self._inputs)
        self._is_quick = not any(map(self._needs_care, self._interface.parameters))
        self._plans: dict[tuple[object, ...], CallPlan] = {}
        self.__name__ = self.__qualname__ = kernels.name

    def _needs_care(self, parameter: CallParameter) -> bool:
        """True if flags and shape are not enough to know what to do with an argument."""
        in_place = parameter.role is Role.UPDATE and self._kernels.settings.inplace
        is_size = parameter in self._interface.sizes_given
        return in_place or is_size or bool(parameter.spec.strides)

    # --- calling ---------------------------------------------------------------------------------

    def __call__(self, *args: object, out: object = None, **named: object) -> Any:
        plan = None
        if out is None and not named and self._is_quick:
            plan = self._plan_for_plain(args)
        if plan is None:
            return self._call_with_care(args, named, out)
        made = [result.made(args) for result in plan.results]
        try:
            plan.run(*plan.arranged((*args, *made)))
        except ArgumentError:
            self._interface.check({**self._arranged(args, {}), **self._fixed}, {})
            raise
        return made[0] if len(made) == 1 else tuple(made) or None

    def _plan_for_plain(self, args: Sequence[object]) -> CallPlan | None:
        """The plan for NumPy arrays that can be taken as they are, if it was made before."""
        if len(args) != len(self._are_arrays):
            return None
        shapes = []
        for arg, is_array in zip(args, self._are_arrays, strict=True):
            if not is_array:
                continue
            if type(arg) is not np.ndarray or arg.flags.num & _PLAIN != _PLAIN:
                return None
            shapes.append(arg.shape)
        return self._plans.get(tuple(shapes))

    def _call_with_care(
        self, args: Sequence[object], named: Mapping[str, object], out: object
    ) -> object:
        given = self._arranged(args, named)
        call = CheckedCall(
            self._interface, self._inputs, given, out, self._kernels.settings.inplace
        )
        self._interface.check({**call.values, **self._fixed}, call.outputs)
        key = self._interface.key_of(call.values, call.outputs)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= REMEMBERED_PLANS:
                self._plans.clear()
            sizes = self._interface.sizes({**call.outputs, **call.values, **self._fixed})
            kernel = self._kernels.fitting(tuple(sizes.values()))
            plan = self._plans[key] = make_plan(self._interface, kernel, sizes, self._fixed)
        return call.run(plan, self._fixed)

    def _arranged(self, args: Sequence[object], named: Mapping[str, object]) -> dict[int, object]:
        return self._interface.arranged(args, named, self._inputs)

    def bind(self, **arrays: object) -> JitFunction:
        """Fix arguments by name; what comes back is called with the others.

        Weights that a kernel wants in a layout of its own are packed once. Arrays that are bound
        must not be written to afterwards: bind again.
        """
        fixed = dict(self._fixed)
        for name, value in arrays.items():
            parameter = self._interface.named(name)
            if parameter.role is not Role.INPUT:
                raise ArgumentError(
                    f"bind(): {self.__name__}() writes {name}, so it cannot be bound"
                )
            fixed[parameter.position] = prepared(parameter, value)
        return JitFunction(self._kernels, fixed)

    # --- looking at it ---------------------------------------------------------------------------

    @property
    def program(self) -> PrimFunc:
        """The program as it was given."""
        return self._kernels.func

    def sizes(self) -> list[dict[str, int]]:
        """The sizes that there are kernels for; `{}` is the kernel for all other sizes."""
        names = [symbol.name for symbol in self._interface.symbols]
        return [dict(zip(names, sizes, strict=False)) for sizes in self._kernels.sizes()]

    def module(self, **sizes: int) -> Module:
        """The compiled module for some sizes, e.g. `f.module(n=128)`; without any for all sizes.

        It can be timed, exported and looked at as what `build` returns.
        """
        return self._kernels.of(self._chosen(sizes)).module

    def scheduled(self, **sizes: int) -> IRModule:
        """The program with the schedule that it is compiled with."""
        return self._kernels.scheduled(self._chosen(sizes))

    def lower(self, **sizes: int) -> IRModule:
        """The program as code generators take it."""
        return self._kernels.lowered(self._chosen(sizes))

    def script(self, **sizes: int) -> str:
        """The scheduled program as script."""
        return str(self.scheduled(**sizes)[self._kernels.name])

    def show(self, **sizes: int) -> None:
        """Print the scheduled program, in colour where that is possible."""
        highlight.show(self.script(**sizes))

    def tune(self, tune: TuneLike = True, **sizes: int) -> JitFunction:
        """Search for better schedules now; `tune` as for `compile`, which see.

        With symbolic shapes for the sizes that are named, or else for all that there are kernels
        for. Returns the function itself.
        """
        options = parse_tuning(tune)
        if options is None:
            raise ArgumentError(f"tune({tune!r}): say how long to tune, as in tune('10s')")
        for chosen in self._sizes_to_tune(sizes):
            self._kernels.tune(chosen, options)
        self._plans = {}
        return self

    def _sizes_to_tune(self, sizes: Mapping[str, int]) -> list[Sizes]:
        if sizes or not self._interface.symbols:
            return [self._chosen(sizes)]
        known = [chosen for chosen in self._kernels.sizes() if chosen]
        if not known:
            names = ", ".join(f"{symbol.name}=..." for symbol in self._interface.symbols)
            raise ArgumentError(
                f"tune(): {self.__name__}() has not been called yet, so its sizes are not known; "
                f"name them: tune({names})"
            )
        return known

    def _chosen(self, sizes: Mapping[str, int]) -> Sizes:
        names = [symbol.name for symbol in self._interface.symbols]
        for name in sizes:
            if name not in names:
                hint = did_you_mean(name, names)
                raise ArgumentError(f"{self.__name__}() has no size {name!r}{hint}")
        missing = [name for name in names if name not in sizes]
        if sizes and missing:
            raise ArgumentError(
                f"{self.__name__}() has sizes {', '.join(names)}; give {', '.join(missing)}, too, "
                "or give none"
            )
        return tuple(int(sizes[name]) for name in names) if sizes else ()

    def __repr__(self) -> str:
        made = [", ".join(f"{k}={v}" for k, v in each.items()) for each in self.sizes()]
        known = "; ".join(each or "all sizes" for each in made)
        state = "not compiled yet"
        if made:
            state = f"compiled for {known}" if self._interface.symbols else "compiled"
        return f"<{self._interface.text(self._inputs)}, {state}>"

    def __reduce__(self) -> tuple[type[JitFunction], tuple[Kernels, Mapping[int, object]]]:
        return JitFunction, (self._kernels, self._fixed)


class JitModule:
    """The functions of a module, each a `JitFunction`: `f.name(x)`, `f["name"](x)`."""

    def __init__(self, functions: Mapping[str, JitFunction]) -> None:
        self._functions = dict(functions)

    def __getitem__(self, name: str) -> JitFunction:
        if name not in self._functions:
            hint = did_you_mean(name, self._functions)
            raise RuntimeFailure(f"the module has no function {name!r}{hint}")
        return self._functions[name]

    def __getattr__(self, name: str) -> JitFunction:
        if name.startswith("__") or name == "_functions":  # asked before there are any, by pickle
            raise AttributeError(name)
        try:
            return self[name]
        except RuntimeFailure as error:
            raise AttributeError(str(error)) from None

    def __call__(self, *args: object, **named: object) -> Any:
        """Call the function `main`."""
        return self["main"](*args, **named)

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        listed = ", ".join(map(repr, self._functions.values()))
        return f"<{counted(len(self), 'function')}: {listed}>"
