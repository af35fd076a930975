"""Messages between a pool and its workers: msgspec structs, each behind its length.

Nothing that travels is code: a task is the name of a function and bytes for it. A request has a
number, which its answer repeats: an answer that comes late is not taken for another request's.
"""

from __future__ import annotations

import os
import struct
from typing import Final, Literal

import msgspec

# How a task can fail and still be answered by its worker. These are values of
# `records.FailureKind`, which takes too long to import for a worker that needs nothing else of it.
RUN_ERROR: Final = "run_error"
OUT_OF_MEMORY: Final = "out_of_memory"
WRONG_RESULT = "wrong_result"
IMPOSSIBLE_SPEED = "impossible_speed"
# And how the machine can fail a task: no value of `FailureKind`, since it says nothing of the task.
MACHINE: Final = "machine"

Failure = Literal["", "run_error", "out_of_memory", "machine"]

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 16


class Start(msgspec.Struct, frozen=True):
    """The first message to a worker: what it has to be before it takes tasks."""

    sys_path: list[str]
    preload: list[str]  # functions "package.module:function" without arguments
    initializer: str | None
    memory_limit: int  # bytes; 0: none


class TaskCall(msgspec.Struct, frozen=True):
    """A task: a function "package.module:function" that makes bytes of bytes."""

    function: str
    payload: bytes
    number: int


class Reply(msgspec.Struct, frozen=True, tag=True):
    """The end of a task, or of the start: a payload, or the failure and its text."""

    number: int  # of the request; 0: the start
    payload: bytes = b""
    failure: Failure = ""  # empty: none
    message: str = ""


class Farewell(msgspec.Struct, frozen=True, tag=True):
    """The last message: a worker has ended, with all that it started."""

    code: int  # as `subprocess` gives it: negative for a signal
    peak_bytes: int  # the most memory that it held


def frame(message: msgspec.Struct) -> bytes:
    """A message as it goes through a pipe."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


class FrameBuffer:
    """Puts frames together from the pieces that a pipe delivers."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """Add a piece; the bodies of the frames that are complete now."""
        self._data += piece
        bodies = []
        while len(self._data) >= _LENGTH.size:
            end = _LENGTH.size + int(_LENGTH.unpack_from(self._data)[0])
            if len(self._data) < end:
                break
            bodies.append(bytes(self._data[_LENGTH.size : end]))
            del self._data[:end]
        return bodies


def read_frame(descriptor: int) -> bytes | None:
    """The next frame of a pipe that blocks; None when the other end is gone."""
    head = _read_exactly(descriptor, _LENGTH.size)
    return None if head is None else _read_exactly(descriptor, _LENGTH.unpack(head)[0])


def write_all(descriptor: int, data: bytes) -> None:
    """Write to a pipe that blocks."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_exactly(descriptor: int, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        piece = os.read(descriptor, min(count - len(data), _CHUNK))
        if not piece:
            return None
        data += piece
    return bytes(data)
