"""`JitModule`: several functions that were compiled together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.errors import RuntimeFailure
from tilewright.jit.function import JitFunction
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import counted


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
