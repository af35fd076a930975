"""Global functions by name: what kernels and other languages call back into Python.

@register_func("my.callback")
def callback(array, n): ...

get_global_func("my.callback")(array, 3)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from tilewright.errors import RegistryError
from tilewright.support.suggestions import did_you_mean

__all__ = [
    "PackedFunc",
    "get_global_func",
    "list_global_func_names",
    "register_func",
    "remove_global_func",
]

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(slots=True, eq=False, repr=False)
class PackedFunc:
    """A registered function together with its name."""

    name: str
    function: Callable[..., object]

    def __call__(self, *args: object) -> object:
        return self.function(*args)

    def __repr__(self) -> str:
        return f"<packed function {self.name!r}>"


_functions: dict[str, PackedFunc] = {}
_changing = threading.Lock()


@overload
def register_func(name: Function, f: None = None, override: bool = False) -> Function: ...
@overload
def register_func(
    name: str, f: None = None, override: bool = False
) -> Callable[[Function], Function]: ...
@overload
def register_func(name: str, f: Function, override: bool = False) -> Function: ...


def register_func(name: Any, f: Any = None, override: bool = False) -> Any:
    """Register a function under a name; a decorator with or without that name.

    A name that is taken is refused unless `override` is true.
    """
    if callable(name):
        return register_func(name.__name__, name, override)
    if not isinstance(name, str) or not name:
        raise RegistryError(f"register_func: expected a name, got {name!r}")
    if f is None:
        return lambda function: register_func(name, function, override)
    if not callable(f):
        raise RegistryError(f"register_func: {name!r} must be a function, got {type(f).__name__}")
    with _changing:
        if name in _functions and not override:
            raise RegistryError(
                f"a global function {name!r} is registered already; pass override=True to "
                "replace it"
            )
        _functions[name] = PackedFunc(name, f.function if isinstance(f, PackedFunc) else f)
    return f


@overload
def get_global_func(name: str) -> PackedFunc: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> PackedFunc | None: ...


def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The function registered under a name; None for a missing one if that is allowed."""
    found = _functions.get(name)
    if found is None and not allow_missing:
        raise RegistryError(
            f"no global function {name!r} is registered{did_you_mean(name, _functions)}; "
            f"register it with register_func({name!r}, f)"
        )
    return found


def remove_global_func(name: str) -> None:
    """Forget a function; a missing one is fine."""
    with _changing:
        _functions.pop(name, None)


def list_global_func_names() -> list[str]:
    """All registered names, sorted."""
    return sorted(_functions)
