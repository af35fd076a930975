"""Writing a shared library: addresses, the loader's tables and the file itself.

File offsets equal addresses, so a library is the picture of its own memory (plus the section
headers at the end, which only tools read).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.native import elf_object as obj
from tilewright.native.elf_object import ELF_HEADER, SECTION_HEADER, SYMBOL, Section, Symbol

PAGE_SIZE = 4096
SHT_STRTAB, SHT_HASH, SHT_DYNAMIC, SHT_DYNSYM = 3, 5, 6, 11

_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_TYPE_SHARED = 3
_GLOBAL_BINDING = 1 << 4
_HEADERS_SIZE = ELF_HEADER.size + 5 * _PROGRAM_HEADER.size


class StringTable:
    """Names one after the other, each ended by a zero byte; the empty name is at 0."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def add(self, name: str) -> int:
        """Append ``name`` and return its offset."""
        offset = len(self.data)
        self.data += name.encode() + b"\0"
        return offset


@dataclass
class Segments:
    """The sections of each segment, in the order of their addresses."""

    read_only: list[Section]
    code: list[Section]
    writable: list[Section]

    def all(self) -> list[Section]:
        """Every section."""
        return [*self.read_only, *self.code, *self.writable]

    def assign_addresses(self) -> None:
        """Lay the sections out; each segment starts a page of its own."""
        at = _HEADERS_SIZE
        for segment in (self.read_only, self.code, self.writable):
            for section in segment:
                at = align_up(at, section.alignment)
                section.address = at
                at += section.size
            at = align_up(at, PAGE_SIZE)


def align_up(value: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-value // alignment) * alignment


def sysv_hash_table(names: Sequence[str]) -> bytearray:
    """The classic symbol hash table over ``names``; the first one is the null symbol."""
    buckets = [0] * max(1, len(names))
    chains = [0] * len(names)
    for index, name in enumerate(names):
        if index == 0:
            continue
        bucket = _sysv_hash(name) % len(buckets)
        chains[index] = buckets[bucket]
        buckets[bucket] = index
    words = [len(buckets), len(chains), *buckets, *chains]
    return bytearray(struct.pack(f"<{len(words)}I", *words))


def _sysv_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def dynamic_symbol_table(
    imports: Sequence[str],
    exported: Sequence[Symbol],
    name_offsets: Sequence[int],
    sections: Sequence[Section],
) -> bytearray:
    """The loader's symbol table: the null symbol, then imports, then exports."""
    numbers = {id(section): number for number, section in enumerate(sections, start=1)}
    table = bytearray(SYMBOL.size)
    for offset in name_offsets[: len(imports)]:
        table += SYMBOL.pack(offset, _GLOBAL_BINDING, 0, 0, 0, 0)
    for offset, symbol in zip(name_offsets[len(imports) :], exported, strict=True):
        number = numbers.get(id(symbol.section), 0xFFF1)
        table += SYMBOL.pack(
            offset, _GLOBAL_BINDING | symbol.kind, 0, number, symbol.address, symbol.size
        )
    return table


def write_image(segments: Segments, dynamic: Section) -> bytes:
    """The bytes of the finished library."""
    sections = segments.all()
    end = max((s.address + len(s.data) for s in sections if s.kind != obj.SHT_NOBITS), default=0)
    image = bytearray(max(end, _HEADERS_SIZE))
    for section in sections:
        image[section.address : section.address + len(section.data)] = section.data
    headers_at, count = _append_section_headers(image, sections)
    image[: ELF_HEADER.size] = ELF_HEADER.pack(
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0"), _TYPE_SHARED, obj.MACHINE_X86_64, 1, 0,
        ELF_HEADER.size, headers_at, 0, ELF_HEADER.size, _PROGRAM_HEADER.size, 5,
        SECTION_HEADER.size, count, count - 1,
    )  # fmt: skip
    image[ELF_HEADER.size : _HEADERS_SIZE] = _program_headers(segments, dynamic)
    return bytes(image)


def _program_headers(segments: Segments, dynamic: Section) -> bytes:
    headers = bytearray()
    for flags, sections in (
        (_READ, segments.read_only),
        (_READ | _EXECUTE, segments.code),
        (_READ | _WRITE, segments.writable),
    ):
        # The read-only segment also holds the headers, which start the file.
        start = 0 if flags == _READ else min((s.address for s in sections), default=0)
        in_file = [s for s in sections if s.kind != obj.SHT_NOBITS]
        stored = max((s.address + s.size for s in in_file), default=start) - start
        memory = max((s.address + s.size for s in sections), default=start) - start
        start_page = start // PAGE_SIZE * PAGE_SIZE
        before = start - start_page
        headers += _PROGRAM_HEADER.pack(
            _PT_LOAD, flags, start_page, start_page, start_page,
            stored + before, memory + before, PAGE_SIZE,
        )  # fmt: skip
    headers += _PROGRAM_HEADER.pack(
        _PT_DYNAMIC, _READ | _WRITE, dynamic.address, dynamic.address, dynamic.address,
        dynamic.size, dynamic.size, 8,
    )  # fmt: skip
    headers += _PROGRAM_HEADER.pack(_PT_GNU_STACK, _READ | _WRITE, 0, 0, 0, 0, 0, 16)
    return bytes(headers)


def _append_section_headers(image: bytearray, sections: list[Section]) -> tuple[int, int]:
    """Append the table that tools read; returns its offset and its number of entries."""
    names = StringTable()
    numbers = {section.name: number for number, section in enumerate(sections, start=1)}
    links = {
        ".hash": numbers[".dynsym"],
        ".dynsym": numbers[".dynstr"],
        ".rela.dyn": numbers[".dynsym"],
        ".dynamic": numbers[".dynstr"],
    }
    entry_sizes = {".hash": 4, ".dynsym": SYMBOL.size, ".rela.dyn": 24, ".dynamic": 16}
    table = bytearray(SECTION_HEADER.size)
    for section in sections:
        table += SECTION_HEADER.pack(
            names.add(section.name), section.kind, section.flags | obj.SHF_ALLOC, section.address,
            section.address, section.size, links.get(section.name, 0),
            int(section.kind == SHT_DYNSYM), section.alignment, entry_sizes.get(section.name, 0),
        )  # fmt: skip
    name_offset = names.add(".shstrtab")
    strings_at = len(image)
    image += names.data
    table += SECTION_HEADER.pack(
        name_offset, SHT_STRTAB, 0, 0, strings_at, len(names.data), 0, 0, 1, 0
    )
    image += bytes(align_up(len(image), 8) - len(image))
    headers_at = len(image)
    image += table
    return headers_at, len(sections) + 2
