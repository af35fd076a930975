"""A small linker: relocatable x86-64 objects in, a shared library for Linux out, no compiler.

It does what ``cc -shared -Wl,-Bsymbolic,-z,now`` would do for the code LLVM emits for us:

* sections are gathered into three segments (read-only, code, writable),
* names defined by one of the objects are bound inside the library, once and for all,
* names defined elsewhere are reached through a table of addresses (GOT), and called through a
  six-byte jump (PLT) that reads that table; the loader fills the table when it loads the library.

Relocations that cannot occur in position-independent code are refused by name.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tilewright.errors import CodegenError
from tilewright.native import elf_image as image, elf_object as obj
from tilewright.native.abi import MATH_FUNCTIONS
from tilewright.native.elf_image import Segments, StringTable
from tilewright.native.elf_object import ObjectFile, Relocation, Section, Symbol, read_object

R_64, R_PC32, R_PLT32, R_GLOB_DAT, R_RELATIVE = 1, 2, 4, 6, 8
R_GOTPCREL, R_PC64, R_GOTPCRELX, R_REX_GOTPCRELX = 9, 24, 41, 42

_GOT_RELATIVE = (R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX)
_PC_RELATIVE = (R_PC32, R_PLT32, R_PC64)

# For messages: what a relocation that we refuse is called.
_RELOCATION_NAMES = {
    R_64: "R_X86_64_64",
    R_PC32: "R_X86_64_PC32",
    R_PC64: "R_X86_64_PC64",
    3: "R_X86_64_GOT32",
    10: "R_X86_64_32",
    11: "R_X86_64_32S",
    19: "R_X86_64_TLSGD",
    20: "R_X86_64_TLSLD",
    22: "R_X86_64_GOTTPOFF",
    23: "R_X86_64_TPOFF32",
    25: "R_X86_64_GOTOFF64",
    26: "R_X86_64_GOTPC32",
    29: "R_X86_64_GOTPC64",
}

_PLT_ENTRY_SIZE = 16
_GOT_ENTRY_SIZE = 8

_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_RELA = 1, 4, 5, 6, 7
_DT_RELASZ, _DT_RELAENT, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 8, 9, 10, 11, 14
_DT_FLAGS, _DT_FLAGS_1 = 30, 0x6FFFFFFB
_DF_BIND_NOW, _DF_1_NOW, _DF_1_NODELETE = 8, 1, 8
_WRITE = obj.SHF_WRITE


def _table(name: str, kind: int = obj.SHT_PROGBITS, flags: int = 0, alignment: int = 8) -> Section:
    """A section that the linker itself makes."""
    return Section(name, kind, flags, 0, alignment, bytearray())


@dataclass
class _Link:
    """Everything known about the library while it is put together."""

    objects: list[ObjectFile]
    globals: dict[str, Symbol]
    exported: list[Symbol] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    # The symbol behind each GOT slot, by its key, and the slot of each PLT entry.
    got: dict[str | int, Symbol] = field(default_factory=dict)
    plt: dict[str, int] = field(default_factory=dict)
    absolute_words: int = 0
    # (address, type, imported name or "", addend): what the loader has to fill in
    dynamic_relocations: list[tuple[int, int, str, int]] = field(default_factory=list)

    hash: Section = field(default_factory=lambda: _table(".hash", image.SHT_HASH))
    symbols: Section = field(default_factory=lambda: _table(".dynsym", image.SHT_DYNSYM))
    strings: Section = field(default_factory=lambda: _table(".dynstr", image.SHT_STRTAB, 0, 1))
    relocations: Section = field(default_factory=lambda: _table(".rela.dyn", obj.SHT_RELA))
    dynamic: Section = field(default_factory=lambda: _table(".dynamic", image.SHT_DYNAMIC, _WRITE))
    got_table: Section = field(default_factory=lambda: _table(".got", flags=_WRITE))
    plt_code: Section = field(default_factory=lambda: _table(".plt", flags=obj.SHF_EXECINSTR))

    def target(self, unit: ObjectFile, relocation: Relocation) -> Symbol:
        """The symbol that a relocation means."""
        symbol = unit.symbols[relocation.symbol]
        return symbol if symbol.binding == obj.STB_LOCAL else self.globals.get(symbol.name, symbol)

    def got_address(self, key: str | int) -> int:
        """Where the address of the symbol with this key is kept."""
        return self.got_table.address + _GOT_ENTRY_SIZE * list(self.got).index(key)

    def plt_address(self, name: str) -> int:
        """Where the jump to an imported function is."""
        return self.plt_code.address + _PLT_ENTRY_SIZE * self.plt[name]


def link_shared_object(
    objects: Sequence[bytes | ObjectFile],
    soname: str,
    exports: Collection[str] | None = None,
    *,
    stays_loaded: bool = False,
) -> bytes:
    """Link ``objects`` into the bytes of a shared library.

    ``exports`` names the symbols that others may use (by default all global ones).
    ``stays_loaded`` forbids unloading: for code that runs threads of its own.
    """
    units = [unit if isinstance(unit, ObjectFile) else read_object(unit) for unit in objects]
    link = _Link(units, _global_symbols(units))
    link.exported = _exported(link, exports)
    _reserve_tables(link)
    strings = StringTable()
    names = [*link.imports, *(symbol.name for symbol in link.exported)]
    link.hash.fill(image.sysv_hash_table(["", *names]))
    offsets = [strings.add(name) for name in names]
    needed = [strings.add(name) for name in needed_libraries(link.imports)]
    own_name = strings.add(soname)
    segments = _lay_out(link, strings, len(needed))
    for unit in units:
        for section in unit.sections:
            for relocation in section.relocations:
                _relocate(link, unit, section, relocation)
    _fill_got_and_plt(link)
    symbols = link.imports, link.exported
    link.symbols.data = image.dynamic_symbol_table(*symbols, offsets, segments.all())
    link.relocations.data = _relocation_table(link)
    link.dynamic.data = _dynamic_table(link, needed, own_name, stays_loaded)
    return image.write_image(segments, link.dynamic)


def needed_libraries(imports: Collection[str]) -> list[str]:
    """The system libraries that define ``imports``."""
    libraries = ["libc.so.6"]
    if not MATH_FUNCTIONS.isdisjoint(imports):
        libraries.append("libm.so.6")
    if any(name.startswith("pthread_") for name in imports):
        # A part of libc since glibc 2.34, where a library of this name remains for old programs.
        libraries.append("libpthread.so.0")
    return libraries


def _global_symbols(units: list[ObjectFile]) -> dict[str, Symbol]:
    found: dict[str, Symbol] = {}
    for unit in units:
        for symbol in unit.symbols:
            if symbol.binding == obj.STB_LOCAL or not symbol.defined:
                continue
            earlier = found.get(symbol.name)
            if earlier is None or earlier.binding == obj.STB_WEAK:
                found[symbol.name] = symbol
            elif symbol.binding != obj.STB_WEAK:
                raise CodegenError(
                    f"cannot link: {symbol.name!r} is defined by two objects; rename one of them"
                )
    return found


def _exported(link: _Link, exports: Collection[str] | None) -> list[Symbol]:
    if exports is None:
        return [s for s in link.globals.values() if s.visibility == obj.STV_DEFAULT]
    missing = sorted(set(exports) - set(link.globals))
    if missing:
        known = ", ".join(sorted(link.globals)) or "nothing"
        raise CodegenError(
            f"cannot export {', '.join(missing)}: no object defines it; defined are {known}"
        )
    return [link.globals[name] for name in sorted(set(exports))]


def _reserve_tables(link: _Link) -> None:
    """Find out which symbols are imported and which need an entry in GOT or PLT."""
    for unit in link.objects:
        for section in unit.sections:
            for relocation in section.relocations:
                symbol = link.target(unit, relocation)
                if not symbol.defined and symbol.name not in link.imports:
                    link.imports.append(symbol.name)
                if relocation.kind in _GOT_RELATIVE:
                    link.got.setdefault(_got_key(symbol), symbol)
                elif relocation.kind == R_PLT32 and not symbol.defined:
                    link.got.setdefault(symbol.name, symbol)
                    link.plt.setdefault(symbol.name, len(link.plt))
                elif relocation.kind == R_64:
                    link.absolute_words += 1
    link.got_table.resize(_GOT_ENTRY_SIZE * len(link.got))
    link.plt_code.resize(_PLT_ENTRY_SIZE * len(link.plt))


def _got_key(symbol: Symbol) -> str | int:
    """Local symbols of two objects may share a name; their identity does not."""
    return id(symbol) if symbol.binding == obj.STB_LOCAL else symbol.name


def _class_of(section: Section) -> str:
    if section.kind == obj.SHT_NOBITS:
        return "zeroed"
    if section.flags & obj.SHF_EXECINSTR:
        return "code"
    return "writable" if section.flags & obj.SHF_WRITE else "read_only"


def _lay_out(link: _Link, strings: StringTable, needed: int) -> Segments:
    """Give every section its address; the sizes of the loader's tables are known by now."""
    groups: dict[str, list[Section]] = {
        key: [] for key in ("read_only", "code", "writable", "zeroed")
    }
    for unit in link.objects:
        for section in unit.sections:
            groups[_class_of(section)].append(section)
    link.strings.fill(strings.data)
    link.symbols.resize(obj.SYMBOL.size * (1 + len(link.imports) + len(link.exported)))
    link.relocations.resize(obj.RELOCATION.size * (len(link.got) + link.absolute_words))
    link.dynamic.resize(len(_dynamic_table(link, [0] * needed, 0, stays_loaded=False)))
    loader = [link.hash, link.symbols, link.strings, link.relocations]
    segments = Segments(
        [*loader, *groups["read_only"]],
        [*groups["code"], link.plt_code],
        [link.dynamic, link.got_table, *groups["writable"], *groups["zeroed"]],
    )
    segments.assign_addresses()
    return segments


def _relocate(link: _Link, unit: ObjectFile, section: Section, relocation: Relocation) -> None:
    symbol = link.target(unit, relocation)
    place = section.address + relocation.offset
    if relocation.kind in _GOT_RELATIVE:
        value = link.got_address(_got_key(symbol)) + relocation.addend - place
        _store(section, relocation, value)
    elif relocation.kind in _PC_RELATIVE and symbol.defined:
        _store(section, relocation, symbol.address + relocation.addend - place)
    elif relocation.kind == R_PLT32:
        _store(section, relocation, link.plt_address(symbol.name) + relocation.addend - place)
    elif relocation.kind == R_64 and section.flags & obj.SHF_WRITE:
        link.dynamic_relocations.append(_absolute(place, symbol, relocation.addend, R_64))
    else:
        name = _RELOCATION_NAMES.get(relocation.kind, f"type {relocation.kind}")
        raise CodegenError(
            f"cannot link: relocation {name} against {symbol.name or 'a local section'} in section"
            f" {section.name} does not fit a shared library; {obj.USE_A_COMPILER}"
        )


def _absolute(
    place: int, symbol: Symbol, addend: int, imported_kind: int
) -> tuple[int, int, str, int]:
    """The loader's order to write an absolute address at ``place``."""
    if symbol.defined:
        return place, R_RELATIVE, "", symbol.address + addend
    return place, imported_kind, symbol.name, addend


def _store(section: Section, relocation: Relocation, value: int) -> None:
    layout, bits = ("<q", 64) if relocation.kind == R_PC64 else ("<i", 32)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise CodegenError(
            f"cannot link: section {section.name} lies more than 2 GB from what it refers to;"
            f" {obj.USE_A_COMPILER}"
        )
    struct.pack_into(layout, section.data, relocation.offset, value)


def _fill_got_and_plt(link: _Link) -> None:
    for key, symbol in link.got.items():
        link.dynamic_relocations.append(_absolute(link.got_address(key), symbol, 0, R_GLOB_DAT))
    for name, index in link.plt.items():
        # jmp *got(%rip), padded with traps
        at = _PLT_ENTRY_SIZE * index
        distance = link.got_address(name) - (link.plt_address(name) + 6)
        jump = struct.pack("<BBi", 0xFF, 0x25, distance)
        link.plt_code.data[at : at + _PLT_ENTRY_SIZE] = jump.ljust(_PLT_ENTRY_SIZE, b"\xcc")


def _relocation_table(link: _Link) -> bytearray:
    """The loader's relocations; the relative ones come first, as loaders like them."""
    numbers = {name: index for index, name in enumerate(link.imports, start=1)}
    ordered = sorted(link.dynamic_relocations, key=lambda item: (item[1] != R_RELATIVE, item[0]))
    return bytearray(
        b"".join(
            obj.RELOCATION.pack(place, numbers.get(name, 0) << 32 | kind, addend)
            for place, kind, name, addend in ordered
        )
    )


def _dynamic_table(link: _Link, needed: list[int], own_name: int, stays_loaded: bool) -> bytearray:
    flags_1 = _DF_1_NOW | (_DF_1_NODELETE if stays_loaded else 0)
    entries = [
        *((_DT_NEEDED, offset) for offset in needed),
        (_DT_SONAME, own_name),
        (_DT_HASH, link.hash.address),
        (_DT_STRTAB, link.strings.address),
        (_DT_SYMTAB, link.symbols.address),
        (_DT_STRSZ, link.strings.size),
        (_DT_SYMENT, obj.SYMBOL.size),
        (_DT_RELA, link.relocations.address),
        (_DT_RELASZ, link.relocations.size),
        (_DT_RELAENT, obj.RELOCATION.size),
        (_DT_FLAGS, _DF_BIND_NOW),
        (_DT_FLAGS_1, flags_1),
        (0, 0),
    ]
    return bytearray(b"".join(struct.pack("<QQ", tag, value) for tag, value in entries))
