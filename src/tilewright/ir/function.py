"""Functions and modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tilewright.errors import IRError
from tilewright.ir import highlight
from tilewright.ir.buffer import Buffer
from tilewright.ir.expr import GlobalVar, Var
from tilewright.ir.node import Node, replace
from tilewright.ir.specialize import Special, specialize
from tilewright.ir.stmt import Stmt


class _Printable(Node, frozen=True):
    """A program that can be shown as script."""

    def script(self) -> str:
        """The program as script; it parses back to a structurally equal one."""
        return str(self)

    def show(self, colour: bool | None = None) -> None:
        """Print the script, coloured on a terminal or in a notebook unless `colour` decides."""
        highlight.show(str(self), colour)

    def _repr_html_(self) -> str:
        return highlight.to_html(str(self))


class PrimFunc(_Printable, frozen=True):
    """A function on scalars and buffers."""

    child_fields: ClassVar[tuple[str, ...]] = ("body",)
    params: tuple[Var, ...]
    body: Stmt
    buffer_map: Mapping[Var, Buffer] = {}
    attrs: Mapping[str, Any] = {}
    ret_type: str = "void"

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        """The same function with one attribute set."""
        return replace(self, attrs={**self.attrs, key: value})

    def without_attr(self, key: str) -> PrimFunc:
        """The same function without one attribute."""
        return replace(self, attrs={k: v for k, v in self.attrs.items() if k != key})

    def with_body(self, body: Stmt) -> PrimFunc:
        """The same function with another body."""
        return self if body is self.body else replace(self, body=body)

    def specialize(self, values: Mapping[Var, Special]) -> PrimFunc:
        """The function for certain sizes: scalar parameters and symbols of shapes become numbers.

        A buffer parameter takes a buffer, whose extents its symbols become.
        """
        return specialize(self, values)

    @property
    def name(self) -> str:
        """The global symbol, "main" unless one was given."""
        return str(self.attrs.get("global_symbol", "main"))

    def buffer_params(self) -> tuple[Buffer | None, ...]:
        """For each parameter its buffer, or None for a scalar."""
        return tuple(self.buffer_map.get(param) for param in self.params)


class IRModule(_Printable, frozen=True):
    """Named functions that are compiled together."""

    functions: Mapping[str, PrimFunc] = {}
    attrs: Mapping[str, Any] = {}

    @staticmethod
    def from_function(func: PrimFunc) -> IRModule:
        """A module with one function under its own name."""
        return IRModule({func.name: func})

    def __getitem__(self, name: str | GlobalVar) -> PrimFunc:
        key = name.name if isinstance(name, GlobalVar) else name
        func = self.functions.get(key)
        if func is None:
            known = ", ".join(map(repr, self.functions)) or "none"
            raise IRError(f"the module has no function {key!r}; it has {known}")
        return func

    def __contains__(self, name: str) -> bool:
        return name in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def get_global_vars(self) -> tuple[GlobalVar, ...]:
        """A name for each function."""
        return tuple(GlobalVar(name) for name in self.functions)

    def with_function(self, name: str, func: PrimFunc) -> IRModule:
        """The same module with one function added or replaced."""
        if self.functions.get(name) is func:
            return self
        return replace(self, functions={**self.functions, name: func})

    def with_attr(self, key: str, value: Any) -> IRModule:
        """The same module with one attribute set."""
        return replace(self, attrs={**self.attrs, key: value})


def as_module(program: PrimFunc | IRModule) -> IRModule:
    """A function on its own becomes the `main` (or otherwise named) function of a module."""
    return IRModule.from_function(program) if isinstance(program, PrimFunc) else program
