"""State that all functions of one LLVM module share: declarations, constants, helpers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from tilewright.codegen.llvm.vector_math import definition
from tilewright.errors import CodegenError
from tilewright.ir import DType
from tilewright.target import Target, isa


@dataclass
class ModuleContext:
    """Collects the module-level text that function bodies ask for, each piece once."""

    target: Target
    defined: frozenset[str] = frozenset()  # names of the module's own functions
    declarations: dict[str, str] = field(default_factory=dict)  # symbol -> declare line
    definitions: dict[str, str] = field(default_factory=dict)  # symbol -> define text
    constants: dict[str, str] = field(default_factory=dict)  # text of the value -> symbol
    globals: list[str] = field(default_factory=list)
    metadata: dict[tuple[str, ...], int] = field(default_factory=dict)  # nodes -> first number
    outlined: int = 0  # functions made of the bodies of parallel loops
    untried: list[str] = field(default_factory=list)  # intrinsics that LLVM may give up on
    messages: list[str] = field(default_factory=list)  # of assertions; code = position + 1

    def declare_intrinsic(self, result: str, symbol: str, arguments: str) -> str:
        """Declare an LLVM intrinsic by any name that LLVM recognises; it may be overloaded."""
        # LLVM looks only at the start of the name and at the types.
        for number in itertools.count():
            name = f"{symbol}.{number}" if number else symbol
            line = f"declare {result} {quoted(name)}({arguments})"
            if self.declarations.setdefault(name, line) == line:
                return quoted(name)
        raise AssertionError("unreachable")

    def declare(self, result: str, symbol: str, arguments: str) -> str:
        """Declare an external function; the same symbol must always have the same type."""
        if symbol in self.defined:
            raise CodegenError(
                f"extern function {symbol!r} has the name of a function of this module; rename one"
            )
        line = f"declare {result} {quoted(symbol)}({arguments})"
        known = self.declarations.setdefault(symbol, line)
        if known != line:
            raise CodegenError(
                f"extern function {symbol!r} is called with two signatures: `{known}` and `{line}`"
            )
        return quoted(symbol)

    def math(self, op: str, dtype: DType) -> str:
        """The symbol of a math function for a type, with its definition put into the module."""
        has_scalef = "avx512f" in self.target.features
        wanted = definition(op, dtype.element_of, dtype.lanes, has_scalef)
        if wanted.name not in self.definitions:
            for part in (*wanted.helpers, wanted):
                self.definitions.setdefault(part.name, part.text)
                for line in part.declarations:
                    symbol = line[line.index("@") + 1 : line.index("(", line.index("@"))]
                    self.declarations.setdefault(symbol, line)
        return f"@{wanted.name}"

    def constant_data(self, type_: str, value: str, align: int) -> str:
        """The symbol of read-only data."""
        text = f"{type_} {value}, align {align}"
        symbol = self.constants.get(text)
        if symbol is None:
            symbol = self.constants[text] = f"@const.{len(self.constants)}"
            self.globals.append(f"{symbol} = private unnamed_addr constant {text}")
        return symbol

    def require_half(self, place: object) -> None:
        """Raise unless the target has instructions for float16."""
        target = self.target
        if isa.is_x86(target.cpu.triple) and "f16c" not in target.features:
            raise CodegenError(
                f"float16 needs the CPU feature 'f16c', which {target.mcpu} lacks: `{place}`"
            )

    def string(self, value: str) -> str:
        """The symbol of a zero-terminated string."""
        data = value.encode() + b"\0"
        text = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)
        return self.constant_data(f"[{len(data)} x i8]", f'c"{text}"', 1)

    def loop_metadata(self, unroll: str) -> str:
        """Metadata that says whether LLVM may unroll a loop ("enable" or "disable")."""
        return self._metadata("distinct !{!$0, !$1}", f'!{{!"llvm.loop.unroll.{unroll}"}}')

    def nontemporal(self) -> str:
        """Metadata that marks accesses which go past the caches."""
        return self._metadata("!{i32 1}")

    def _metadata(self, *nodes: str) -> str:
        """The first of some nodes, which call each other $0 and $1."""
        return f"!{self.metadata.setdefault(nodes, sum(map(len, self.metadata)))}"

    def metadata_text(self) -> list[str]:
        """The definitions of all metadata in use."""
        return [
            f"!{first + place} = {node}".replace("$0", str(first)).replace("$1", str(first + 1))
            for nodes, first in self.metadata.items()
            for place, node in enumerate(nodes)
        ]

    def assertion(self, message: str) -> int:
        """The return code that stands for a failed assertion."""
        self.messages.append(message)
        return len(self.messages)


def quoted(symbol: str) -> str:
    """A global name as LLVM writes it."""
    plain = all(c.isalnum() or c in "._$-" for c in symbol) and not symbol[:1].isdigit()
    return f"@{symbol}" if plain else '@"' + symbol.replace('"', "\\22") + '"'
