"""Reading relocatable ELF objects for x86-64, as LLVM emits them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

from tilewright.errors import CodegenError

ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")

MACHINE_X86_64 = 62
TYPE_RELOCATABLE = 1

SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_GROUP = 1, 2, 4, 8, 17
SHT_INIT_ARRAY, SHT_FINI_ARRAY = 14, 15
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, 0xFFF1, 0xFFF2
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_OBJECT, STT_SECTION, STT_FILE = 1, 3, 4
STV_DEFAULT = 0

USE_A_COMPILER = "link the object with a system compiler instead (`cc -shared`)"


@dataclass
class Relocation:
    """One place in a section that depends on a symbol's address."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass
class Section:
    """One section that occupies memory; ``address`` is filled in by the layout."""

    name: str
    kind: int
    flags: int
    size: int
    alignment: int
    data: bytearray
    relocations: list[Relocation] = field(default_factory=list)
    address: int = 0

    def resize(self, size: int) -> None:
        """Make room for ``size`` bytes that are filled in later."""
        self.size = size
        self.data = bytearray(size)

    def fill(self, data: bytes | bytearray) -> None:
        """Set the contents."""
        self.size = len(data)
        self.data = bytearray(data)


@dataclass
class Symbol:
    """One symbol; ``section`` is None when it is undefined or absolute."""

    name: str
    binding: int
    kind: int
    visibility: int
    value: int
    size: int
    section: Section | None
    defined: bool

    @property
    def address(self) -> int:
        """Where the symbol lies, once the sections have their addresses."""
        return self.value + (self.section.address if self.section is not None else 0)


@dataclass
class ObjectFile:
    """The parts of one object that a linker needs."""

    sections: list[Section]
    symbols: list[Symbol]


def with_prefix(unit: ObjectFile, prefix: str) -> ObjectFile:
    """The same object with a prefix before all global names that it defines."""
    symbols = [
        replace(symbol, name=prefix + symbol.name)
        if symbol.defined and symbol.binding != STB_LOCAL
        else symbol
        for symbol in unit.symbols
    ]
    return ObjectFile(unit.sections, symbols)


def data_object(name: str, data: bytes, alignment: int) -> ObjectFile:
    """Read-only data under a global name; no compiler has to read it."""
    section = Section(f".rodata.{name}", SHT_PROGBITS, SHF_ALLOC, 0, alignment, bytearray())
    section.fill(data)
    symbol = Symbol(name, STB_GLOBAL, STT_OBJECT, STV_DEFAULT, 0, len(data), section, True)
    return ObjectFile([section], [symbol])


# Unwind tables and notes: nothing at run time reads them, since kernels never throw.
_DROPPED = (".eh_frame", ".note", ".comment", ".llvm")
_CONSTRUCTORS = (".ctors", ".dtors")


def read_object(data: bytes) -> ObjectFile:
    """Parse one relocatable object."""
    if len(data) < ELF_HEADER.size:
        raise CodegenError("cannot link: the object is too short to be an ELF file")
    header = ELF_HEADER.unpack_from(data)
    ident, kind, machine, table_offset, count, names_index = (
        header[0], header[1], header[2], header[6], header[12], header[13],
    )  # fmt: skip
    if ident[:6] != b"\x7fELF\x02\x01" or kind != TYPE_RELOCATABLE or machine != MACHINE_X86_64:
        raise CodegenError(
            "cannot link: expected a relocatable 64-bit ELF object for x86-64; " + USE_A_COMPILER
        )
    headers = [
        SECTION_HEADER.unpack_from(data, table_offset + index * SECTION_HEADER.size)
        for index in range(count)
    ]
    names = _contents(data, headers[names_index])
    sections = {
        index: section
        for index, header in enumerate(headers)
        if (section := _read_section(data, header, names)) is not None
    }
    symbols = _read_symbols(data, headers, sections)
    for header in headers:
        if header[1] == SHT_RELA and header[7] in sections:
            raw = _contents(data, header)
            sections[header[7]].relocations = [
                Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
                for offset, info, addend in RELOCATION.iter_unpack(raw)
            ]
    return ObjectFile(list(sections.values()), symbols)


def _contents(data: bytes, header: tuple[int, ...]) -> bytes:
    return data[header[4] : header[4] + header[5]]


def _text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def _read_section(data: bytes, header: tuple[int, ...], names: bytes) -> Section | None:
    """The section if it takes up memory at run time, else None."""
    name, kind, flags, size = _text(names, header[0]), header[1], header[2], header[5]
    if not flags & SHF_ALLOC or name.startswith(_DROPPED):
        return None
    constructors = kind in (SHT_INIT_ARRAY, SHT_FINI_ARRAY) or name.startswith(_CONSTRUCTORS)
    if constructors or flags & SHF_TLS:
        raise CodegenError(
            f"cannot link section {name!r} (constructors and thread-local data are not supported);"
            f" {USE_A_COMPILER}"
        )
    contents = bytearray() if kind == SHT_NOBITS else bytearray(_contents(data, header))
    return Section(name, kind, flags, size, max(1, header[8]), contents)


def _read_symbols(
    data: bytes, headers: list[tuple[int, ...]], sections: dict[int, Section]
) -> list[Symbol]:
    table = next((header for header in headers if header[1] == SHT_SYMTAB), None)
    if table is None:
        return []
    names = _contents(data, headers[table[6]])
    symbols: list[Symbol] = []
    for name, info, other, index, value, size in SYMBOL.iter_unpack(_contents(data, table)):
        text = _text(names, name)
        if index == SHN_COMMON:
            raise CodegenError(f"cannot link common symbol {text!r}; {USE_A_COMPILER}")
        section, defined = sections.get(index), index != SHN_UNDEF
        symbols.append(Symbol(text, info >> 4, info & 15, other & 3, value, size, section, defined))
    return symbols
