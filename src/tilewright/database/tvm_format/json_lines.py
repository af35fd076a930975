"""The lines of TVM's two files, to the character."""

from __future__ import annotations

import base64
import struct
from json.encoder import encode_basestring

import msgspec

from tilewright.database.stored_module import usable_module
from tilewright.database.tvm_format.dialects import TVM_014, TVM_025, Dialect
from tilewright.database.tvm_format.module_reader import read_module
from tilewright.database.tvm_format.module_writer import write_module
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.ir import IRModule
from tilewright.ir.json import load_json, save_json
from tilewright.support.decoding import decoding

_LENGTH = struct.Struct("<Q")
_WORKLOAD_LINE = msgspec.json.Decoder(tuple[str, str])


def dumps(value: object) -> str:
    """JSON without spaces, with sorted keys, and with 20 digits for floating-point numbers."""
    match value:
        case str():
            return encode_basestring(value)
        case None | bool():
            return _CONSTANTS[value]
        case int():
            return str(value)
        case float():
            return f"{value:.20g}"
        case list() | tuple():
            return f"[{','.join(map(dumps, value))}]"
        case dict():
            items = (f"{encode_basestring(key)}:{dumps(value[key])}" for key in sorted(value))
            return f"{{{','.join(items)}}}"
    raise DatabaseError(f"{value!r} has no JSON form")


_CONSTANTS = {None: "null", True: "true", False: "false"}


def workload_line(mod: IRModule, shash: int, dialect: Dialect) -> str:
    """`["<hash>","<base64 of the module>"]`.

    A program with parts that TVM does not have is written in our own form, which only we read.
    """
    try:
        text = write_module(mod, dialect)
    except DatabaseError:
        text = save_json(mod)
    content = text.encode()
    packed = base64.b64encode(_LENGTH.pack(len(content)) + content).decode()
    return dumps([str(shash), packed])


def module_from_line(line: bytes) -> IRModule:
    """The module in a line of the workload file."""
    text = _content(line)
    return usable_module(load_json(text) if _is_ours(text) else read_module(text))


def _is_ours(text: bytes) -> bool:
    return text.startswith(b'{"tilewright"')


def _content(line: bytes) -> bytes:
    with decoding("the line is not [hash, module]", StoredDataError):
        _, packed = _WORKLOAD_LINE.decode(line)
        content = base64.b64decode(packed, validate=True)
    if len(content) < _LENGTH.size:
        raise StoredDataError("the module is cut off")
    (length,) = _LENGTH.unpack_from(content)
    if length != len(content) - _LENGTH.size:
        raise StoredDataError(
            f"the module is cut off: {len(content) - _LENGTH.size} bytes of {length}"
        )
    return content[_LENGTH.size :]


def dialect_of_lines(workloads: list[bytes], records: list[bytes]) -> Dialect | None:
    """The dialect that files are written in; None if nothing tells."""
    for line in workloads:
        try:
            text = _content(line)
        except DatabaseError:
            continue
        if _is_ours(text):
            continue
        return TVM_025 if b'"root_index"' in text else TVM_014
    for line in records:
        if b'"GetSBlock"' in line or b'"GetBlock"' in line:
            return TVM_025 if b'"GetSBlock"' in line else TVM_014
    return None
