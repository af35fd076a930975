"""Passes, and the registry of all of them.

A pass is a frozen dataclass: its options are its fields, calling it turns a module into a module.
Most passes look at one function at a time and have no options: `function_pass` makes those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from typing_extensions import dataclass_transform

from tilewright.errors import LowerError, RegistryError
from tilewright.ir import IRModule, PrimFunc, replace
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target

__all__ = ["Pass", "FunctionPass", "prim_func_pass", "register_pass", "get_pass", "list_passes"]


@runtime_checkable
class Pass(Protocol):
    """Anything that has a name and turns a module into a module."""

    @property
    def name(self) -> str: ...

    def __call__(self, module: IRModule, target: Target | None = None) -> IRModule: ...


@dataclass(frozen=True)
class FunctionPass:
    """A pass that transforms each function on its own."""

    name: ClassVar[str] = ""

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The names of the options."""
        return tuple(option.name for option in fields(cls))

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        """The transformed function; the same object when nothing changed."""
        raise NotImplementedError(type(self).__name__)

    def __call__(self, module: IRModule, target: Target | None = None) -> IRModule:
        changed = {
            name: new
            for name, func in module.functions.items()
            if (new := self.run_function(func, target)) is not func
        }
        return replace(module, functions={**module.functions, **changed}) if changed else module


@dataclass(frozen=True)
class UserPass:
    """A function of the user's as a pass: `(module) -> module`, or one made by `prim_func_pass`."""

    name: str
    transform: Callable[..., object]
    on_functions: bool = False

    def __call__(self, module: IRModule, target: Target | None = None) -> IRModule:
        if not self.on_functions:
            return self._checked(self.transform(module), IRModule)
        for name, func in module.functions.items():
            result = self._checked(self.transform(func, module, target), PrimFunc)
            module = module.with_function(name, result)
        return module

    def _checked(self, result: object, expected: type[_Result]) -> _Result:
        if not isinstance(result, expected):
            raise LowerError(
                f"pass {self.name} returned {type(result).__name__}, expected {expected.__name__}; "
                "return the (possibly unchanged) program"
            )
        return result


_Result = TypeVar("_Result")
_FunctionTransform = Callable[[PrimFunc, IRModule, Target | None], PrimFunc]


def prim_func_pass(
    *, opt_level: int = 0, name: str = ""
) -> Callable[[_FunctionTransform], UserPass]:
    """Make a pass of a function `(func, mod, ctx) -> func`, as a decorator.

    `opt_level` is accepted for the sake of existing code; passes that are added always run.
    """

    def wrap(transform: _FunctionTransform) -> UserPass:
        return UserPass(name or transform.__name__, transform, on_functions=True)

    return wrap


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> UserPass:
    """A pass that applies `ftransform` to each function."""
    return UserPass("Apply", lambda func, mod, ctx: ftransform(func), on_functions=True)


def Filter(fcond: Callable[[PrimFunc], bool]) -> UserPass:
    """A pass that keeps the functions for which `fcond` holds."""

    def keep(module: IRModule) -> IRModule:
        kept = {name: func for name, func in module.functions.items() if fcond(func)}
        return replace(module, functions=kept)

    return UserPass("Filter", keep)


def as_pass(candidate: object) -> Pass:
    """`candidate` as a pass; any callable on modules will do."""
    if isinstance(candidate, Pass):
        return candidate
    if callable(candidate):
        return UserPass(getattr(candidate, "__name__", type(candidate).__name__), candidate)
    raise LowerError(f"{candidate!r} is not a pass: expected a callable on an IRModule")


_registry: dict[str, type[FunctionPass]] = {}
_PassT = TypeVar("_PassT", bound=type[FunctionPass])


@dataclass_transform(frozen_default=True)
def register_pass(pass_class: _PassT) -> _PassT:
    """Make a pass a dataclass, findable by its name, as a decorator."""
    pass_class.name = pass_class.name or pass_class.__name__
    if pass_class.name in _registry:
        raise RegistryError(f"pass {pass_class.name!r} is already registered")
    dataclass(frozen=True)(pass_class)
    _registry[pass_class.name] = pass_class
    return pass_class


def function_pass(run: Callable[[PrimFunc], PrimFunc]) -> type[FunctionPass]:
    """Make a registered pass without options of a function, as a decorator."""

    def run_function(self: object, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        return run(func)

    members = {"__doc__": run.__doc__, "__module__": run.__module__, "run_function": run_function}
    return register_pass(type(run.__name__, (FunctionPass,), members))


def get_pass(name: str, **options: object) -> FunctionPass:
    """The pass called `name`, with options."""
    pass_class = _registry.get(name)
    if pass_class is None:
        raise RegistryError(f"no pass is called {name!r}{did_you_mean(name, _registry)}")
    return pass_class(**options)


def list_passes() -> list[str]:
    """The names of all registered passes."""
    return list(_registry)
