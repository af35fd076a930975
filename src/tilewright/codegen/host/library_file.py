"""The description that an exported library carries, and the checks before it is loaded.

It is a block of read-only data: a marker, the size and the checksum of the whole file, and the
module's description as JSON. A file that was cut off or changed is found out by reading it; loading
it first could end the process.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tilewright.codegen.module_info import ModuleInfo
from tilewright.errors import RuntimeFailure
from tilewright.support.decoding import decoding

_MARKER = b"\x00tilewright".ljust(12, b"\x00") + b"library\x01"
FORMAT = 1
_HEAD = struct.Struct("<IIQQ")  # format, checksum, size of the file, size of the description

_ELF_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}


@dataclass(frozen=True)
class LibraryDescription:
    """What `load_module` reads before it loads anything."""

    module: ModuleInfo
    has_threads: bool
    calls_packed: bool
    kind: str = ""  # the backend that loads it; empty: a shared library
    meta: dict[str, str] = field(default_factory=dict)  # of the artifact in it


def encode(description: LibraryDescription) -> bytes:
    """The block of data; checksum and size of the file are filled in by `seal`."""
    text = msgspec.json.encode(description)
    return _MARKER + _HEAD.pack(FORMAT, 0, 0, len(text)) + text


def seal(image: bytes) -> bytes:
    """Write size and checksum into a finished library."""
    at = image.index(_MARKER) + len(_MARKER)
    kind, _, _, length = _HEAD.unpack_from(image, at)
    sealed = bytearray(image)
    _HEAD.pack_into(sealed, at, kind, 0, len(image), length)
    _HEAD.pack_into(sealed, at, kind, zlib.crc32(sealed), len(image), length)
    return bytes(sealed)


def code_of(path: Path) -> bytes:
    """The code in front of the description, of a file that `read_description` has checked."""
    image = path.read_bytes()
    return image[: image.index(_MARKER)]


def read_description(path: Path) -> LibraryDescription:
    """Check a file without loading it, and return what it says about itself."""
    try:
        image = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise RuntimeFailure(f"cannot load {path}: {reason}") from error
    at = image.find(_MARKER)
    if at < 0:
        raise RuntimeFailure(
            f"cannot load {path}: {_kind_of(image)}; give a library made by export_library"
        )
    return _decode(path, image, at + len(_MARKER))


def _decode(path: Path, image: bytes, at: int) -> LibraryDescription:
    damaged = RuntimeFailure(
        f"cannot load {path}: the file is damaged or was changed after its export; export it again"
    )
    if len(image) < at + _HEAD.size:
        raise damaged
    kind, checksum, size, length = _HEAD.unpack_from(image, at)
    if kind != FORMAT:
        raise RuntimeFailure(
            f"cannot load {path}: it has format {kind}, this version of Tilewright reads {FORMAT}; "
            "export it again"
        )
    unsealed = bytearray(image)
    _HEAD.pack_into(unsealed, at, kind, 0, size, length)
    if size != len(image) or zlib.crc32(unsealed) != checksum:
        raise damaged
    text = image[at + _HEAD.size : at + _HEAD.size + length]
    try:
        with decoding("its description", RuntimeFailure):
            return msgspec.json.decode(text, type=LibraryDescription)
    except RuntimeFailure as error:
        raise damaged from error


def _kind_of(image: bytes) -> str:
    if not image:
        return "it is empty"
    if image[:4] != b"\x7fELF":
        return "it is not a shared library"
    machine = int.from_bytes(image[18:20], "little")
    arch = _ELF_MACHINES.get(machine, f"machine {machine}")
    return f"it is an ELF file for {arch}"
