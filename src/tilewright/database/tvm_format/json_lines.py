"""The lines of TVM's two files, to the character."""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import NamedTuple

import msgspec

from tilewright.database.compatibility import completed, identity_of
from tilewright.database.stored_record import StoredTrace, usable_module
from tilewright.database.tvm_format.dialects import TVM_014, TVM_025, Dialect, trace_in_dialect
from tilewright.database.tvm_format.module_reader import read_module
from tilewright.database.tvm_format.module_writer import write_module
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.ir import IRModule
from tilewright.ir.json import load_json, save_json
from tilewright.records import (
    FAILED_RUN_SECS,
    TargetIdentity,
    TensorInfo,
    TuningRecord,
    Workload,
    read_target,
)
from tilewright.support.decoding import decoding
from tilewright.target import Target

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


class _Content(NamedTuple):
    trace: msgspec.Raw
    run_secs: tuple[float, ...] | None
    target: msgspec.Raw
    args_info: msgspec.Raw


_LINE = msgspec.json.Decoder(tuple[int, _Content])
_TARGET = msgspec.json.Decoder(dict[str, object] | None)
_ARGUMENTS = msgspec.json.Decoder(list[object] | None)


def record_line(content: str, workload_index: int) -> str:
    """`[<line of the workload>,[trace,run_secs,target,args_info]]`."""
    return f"[{workload_index},{content}]"


def record_content(record: TuningRecord, dialect: Dialect) -> str:
    """`[trace,run_secs,target,args_info]`."""
    trace, run_secs, target, args_info = record.as_json()
    if run_secs is None and record.failure is not None:
        run_secs = [FAILED_RUN_SECS]
    if record.identity is None and record.target is not None and record.target.is_cpu:
        # A CPU that was detected is named, for elsewhere it is another.
        target = {"mcpu": record.target.mcpu, **target}
    return dumps([trace_in_dialect(trace, dialect), run_secs, target, args_info])


def record_from_line(line: bytes, workloads: list[Workload | None]) -> TuningRecord:
    """The record of a line; its trace stays text."""
    with decoding("the line is not a record", StoredDataError):
        index, content = _LINE.decode(line)
        target, identity = _machine(bytes(content.target))
        args_info = _args_info(bytes(content.args_info))
    if not 0 <= index < len(workloads):
        raise StoredDataError(f"its workload {index} is missing")
    workload = workloads[index]
    if workload is None:
        raise StoredDataError(f"its workload {index} cannot be read")
    trace = StoredTrace(bytes(content.trace))
    return TuningRecord(trace, workload, content.run_secs, target, args_info, identity=identity)


# Targets and arguments recur in line after line, so they are made once.


@functools.lru_cache(maxsize=256)
def _machine(text: bytes) -> tuple[Target | None, TargetIdentity | None]:
    description = _TARGET.decode(text)
    if description is None:
        return None, None
    return _read_target(description), completed(TargetIdentity(description))


@functools.lru_cache(maxsize=256)
def _args_info(text: bytes) -> tuple[TensorInfo, ...] | None:
    infos = _ARGUMENTS.decode(text)
    return infos and tuple(map(TensorInfo.from_json, infos))


def _read_target(description: Mapping[str, object]) -> Target | None:
    """The target as it was given, if it is this machine: the CPU was named when it was written."""
    target = read_target(description)
    if target is None or not target.is_cpu:
        return target
    given = {name: value for name, value in description.items() if name != "mcpu"}
    detected = read_target(given)
    if detected is None or identity_of(detected) != identity_of(target):
        return target
    return detected
