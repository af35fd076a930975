"""Functions and modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from msgspec.structs import force_setattr

from tilewright.errors import IRError
from tilewright.ir import highlight
from tilewright.ir.buffer import Buffer
from tilewright.ir.expr import GlobalVar, Var
from tilewright.ir.node import Node, replace
from tilewright.ir.specialize import Special, specialize
from tilewright.ir.stmt import Stmt


class _Printable(Node, frozen=True):
    """A program that can be shown as script."""

    def script(self, *, show_meta: bool = False) -> str:
        """The program as script; it parses back to a structurally equal one.

        `show_meta` is accepted for the sake of existing code: nothing is ever left out.
        """
        del show_meta
        return str(self)

    def show(
        self,
        style: str | None = None,
        black_format: bool = False,
        *,
        colour: bool | None = None,
        show_meta: bool = False,
    ) -> None:
        """Print the script, coloured on a terminal or in a notebook unless `colour` decides.

        `style` and `black_format` are accepted for the sake of existing code: there is one style,
        and the script is formatted already.
        """
        del style, black_format
        highlight.show(self.script(show_meta=show_meta), colour)

    def _repr_html_(self) -> str:
        return highlight.to_html(str(self))


class PrimFunc(_Printable, frozen=True):
    """A function on scalars and buffers."""

    child_fields: ClassVar[tuple[str, ...]] = ("body",)
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    params: tuple[Var, ...]
    body: Stmt
    buffer_map: Mapping[Var, Buffer] = {}
    attrs: Mapping[str, Any] = {}
    ret_type: str = "void"

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """The same function with one attribute set, or all those of a mapping."""
        changes = key if isinstance(key, Mapping) else {key: value}
        return replace(self, attrs={**self.attrs, **changes})

    def with_attrs(self, attrs: Mapping[str, Any]) -> PrimFunc:
        """The same function with these attributes and no others."""
        return replace(self, attrs=dict(attrs))

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
    """Named functions that are compiled together.

    `mod["f"] = func`, `del mod["f"]` and `update` change the module in place, each by giving it
    another mapping: who holds the old `functions`, or a `clone`, sees nothing of it.
    """

    functions: Mapping[str, PrimFunc] = {}
    attrs: Mapping[str, Any] = {}

    @staticmethod
    def from_function(func: PrimFunc) -> IRModule:
        """A module with one function under its own name."""
        return IRModule({func.name: func})

    from_expr = from_function

    def __post_init__(self) -> None:
        if any(isinstance(key, GlobalVar) for key in self.functions):
            named = {_name_of(key): func for key, func in self.functions.items()}
            force_setattr(self, "functions", named)

    def __getitem__(self, name: str | GlobalVar) -> PrimFunc:
        key = _name_of(name)
        func = self.functions.get(key)
        if func is None:
            known = ", ".join(map(repr, self.functions)) or "none"
            raise IRError(f"the module has no function {key!r}; it has {known}")
        return func

    def update_func(self, var: str | GlobalVar, func: PrimFunc) -> None:
        """Add or replace one function in this very module."""
        self.update({var: func})

    def __setitem__(self, name: str | GlobalVar, func: PrimFunc) -> None:
        self.update({name: func})

    def __delitem__(self, name: str | GlobalVar) -> None:
        self[name]  # raises with the names there are
        kept = {key: func for key, func in self.functions.items() if key != _name_of(name)}
        force_setattr(self, "functions", kept)

    def __contains__(self, name: str | GlobalVar) -> bool:
        return _name_of(name) in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def get_global_var(self, name: str) -> GlobalVar:
        """The name of a function, as calls of it hold it."""
        self[name]  # raises with the names there are
        return GlobalVar(name)

    def get_global_vars(self) -> tuple[GlobalVar, ...]:
        """A name for each function."""
        return tuple(GlobalVar(name) for name in self.functions)

    def update(self, other: IRModule | Mapping[Any, PrimFunc]) -> None:
        """Add or replace, in this very module, all functions of another or of a mapping."""
        functions = other.functions if isinstance(other, IRModule) else other
        for name, func in functions.items():
            if not isinstance(func, PrimFunc):
                raise IRError(
                    f"a module holds PrimFuncs, got {type(func).__name__} for {_name_of(name)!r}"
                )
        named = {_name_of(name): func for name, func in functions.items()}
        force_setattr(self, "functions", {**self.functions, **named})

    def clone(self) -> IRModule:
        """A module of its own with the same functions."""
        return replace(self)

    def is_clone_of(self, other: IRModule) -> bool:
        """True if both hold the very same functions and attributes."""
        return self.functions is other.functions and self.attrs is other.attrs

    def with_function(self, name: str, func: PrimFunc) -> IRModule:
        """The same module with one function added or replaced."""
        if self.functions.get(name) is func:
            return self
        return replace(self, functions={**self.functions, name: func})

    def with_attr(self, key: str, value: Any) -> IRModule:
        """The same module with one attribute set."""
        return replace(self, attrs={**self.attrs, key: value})


def _name_of(name: str | GlobalVar) -> str:
    return name.name if isinstance(name, GlobalVar) else name


def as_module(program: PrimFunc | IRModule) -> IRModule:
    """A function on its own becomes the `main` (or otherwise named) function of a module."""
    return IRModule.from_function(program) if isinstance(program, PrimFunc) else program
