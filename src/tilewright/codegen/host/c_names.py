"""Names and types of a compiled function as C sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.codegen.c.types import c_type, is_small_float
from tilewright.codegen.llvm.symbols import is_taken
from tilewright.codegen.llvm.types import value_type
from tilewright.codegen.module_info import FunctionInfo, ModuleInfo
from tilewright.errors import RuntimeFailure
from tilewright.ir import DType

_KEYWORD_NAMES = (
    "alignas alignof and auto bool break case catch char class const continue default delete do "
    "double else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new not nullptr operator or private protected public register restrict "
    "return short signed sizeof static struct switch template this throw true try typedef typename "
    "union unsigned using virtual void volatile while xor"
)
_KEYWORDS = frozenset(_KEYWORD_NAMES.split())
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class CParameter:
    """One parameter: its C and LLVM type, and the LLVM type that the compiled function takes."""

    name: str
    c_type: str
    boundary_type: str
    inner_type: str
    comment: str


@dataclass(frozen=True)
class CFunction:
    """A compiled function with the name and parameters it has in C."""

    info: FunctionInfo
    c_name: str
    parameters: tuple[CParameter, ...]


def identifier(text: str) -> str:
    """`text` as a C identifier."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not name or name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if name in _KEYWORDS else name


def c_functions(info: ModuleInfo, stem: str, symbols: Mapping[str, str]) -> tuple[CFunction, ...]:
    """All functions of a module under their C names."""
    known = {function.name for function in info.functions}
    unknown = sorted(set(symbols) - known)
    if unknown:
        raise RuntimeFailure(
            f"symbols: the module has no function {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    taken: dict[str, str] = {}
    found = []
    for function in info.functions:
        parameters = _parameters(function)
        name = _c_name(function.name, stem, symbols)
        if name == function.name and any(p.boundary_type != p.inner_type for p in parameters):
            name = f"{identifier(stem)}_{name}"  # C calls a function that converts and forwards
        if name in taken:
            raise RuntimeFailure(
                f"functions {taken[name]!r} and {function.name!r} are both called {name!r} in C; "
                f"give one another name: export_library(path, symbols={{{function.name!r}: ...}})"
            )
        taken[name] = function.name
        found.append(CFunction(function, name, parameters))
    return tuple(found)


def _c_name(name: str, stem: str, symbols: Mapping[str, str]) -> str:
    if name in symbols:
        wanted = symbols[name]
        if not _IDENTIFIER.fullmatch(wanted) or wanted in _KEYWORDS or is_taken(wanted):
            raise RuntimeFailure(
                f"symbols[{name!r}]: {wanted!r} cannot be a C function's name here"
            )
        return wanted
    safe = identifier(name)
    return f"{identifier(stem)}_{safe}" if is_taken(safe) else safe


def element_type(dtype: str) -> tuple[str, str, str]:
    """C type, the LLVM type that C passes it as, and a remark for one element."""
    kind = DType(dtype).element_of
    if is_small_float(kind):
        return c_type(kind), f"i{kind.bits}", f"the bits of a {kind!s}"
    is_short = kind.is_integral and kind.bits < 8
    return c_type(kind), value_type(kind), f"{kind!s} in a byte of its own" if is_short else ""


def _parameters(function: FunctionInfo) -> tuple[CParameter, ...]:
    found: list[CParameter] = []
    taken: set[str] = set()

    def add(name: str, spelled: str, boundary: str, inner: str, comment: str) -> None:
        safe = identifier(name)
        while safe in taken:
            safe += "_"
        taken.add(safe)
        found.append(CParameter(safe, spelled, boundary, inner, comment))

    for spec in function.signature:
        spelled, llvm_type, note = element_type(spec.dtype)
        if spec.kind == "scalar":
            add(spec.name, spelled, llvm_type, value_type(DType(spec.dtype)), note)
            continue
        const = "" if "w" in spec.access else "const "
        add(spec.name, f"{const}{spelled} *", "ptr", "ptr", note)
        for derived in spec.derived:
            width, llvm_width, _ = element_type(derived.dtype)
            what = f"{derived.source} {derived.axis} of {spec.name}"
            add(derived.name, width, llvm_width, llvm_width, what)
    return tuple(found)
