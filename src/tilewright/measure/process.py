"""One worker as its pool sees it: started, written to, read from, killed and buried.

The process that a pool starts is the guardian of the worker, which it forks.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from tilewright.config import child_environ
from tilewright.measure.wire import Farewell, FrameBuffer, Reply, Start, frame

_SOURCE_ROOT = str(Path(__file__).parents[2])
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CHUNK = 1 << 16
_SIGNALLED = 128  # how guardians, like shells, say that a signal ended the worker
_SHOWN_BYTES = 2000  # of what a worker wrote to stderr


class WorkerGone(Exception):
    """The worker has ended; internal to the pool."""


class GarbledAnswer(Exception):
    """Something that is no message came from the worker; internal to the pool."""


_messages = msgspec.msgpack.Decoder(Reply | Farewell)


def _descriptor(stream: IO[bytes] | None) -> int:
    """Asked anew each time: the number of a closed file may belong to another one by now."""
    if stream is None or stream.closed:
        raise WorkerGone
    return stream.fileno()


class WorkerProcess:
    """A running worker. Neither `send` nor `receive` ever block."""

    def __init__(self, start: Start, environ: Mapping[str, str]) -> None:
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._outgoing = bytearray(frame(start))
        self._incoming = FrameBuffer()
        self._farewell: Farewell | None = None
        self.worker: int | None = None  # its process, once it has started
        try:
            self._process = self._start(environ)
        except BaseException:
            self._messages.close()
            raise
        os.set_blocking(self.request_end, False)
        os.set_blocking(self.reply_end, False)
        with contextlib.suppress(WorkerGone):  # its pool will notice
            self.flush()

    def _start(self, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C in the terminal does not reach it.
        return subprocess.Popen(
            [sys.executable, "-m", "tilewright.measure.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            bufsize=0,
            start_new_session=True,
            env={**child_environ(_SOURCE_ROOT), **environ},
        )

    @property
    def request_end(self) -> int:
        """The pipe that requests go into."""
        return _descriptor(self._process.stdin)

    @property
    def reply_end(self) -> int:
        """The pipe that answers come from."""
        return _descriptor(self._process.stdout)

    @property
    def pid(self) -> int:
        """The number of the worker's process; of its guardian's before it has started."""
        return self._process.pid if self.worker is None else self.worker

    @property
    def peak_bytes(self) -> int:
        """The most memory that the worker held, once it has ended; 0 where nobody told."""
        return 0 if self._farewell is None else self._farewell.peak_bytes

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` has more to do once the pipe has room again."""
        return bool(self._outgoing)

    def send(self, message: msgspec.Struct) -> None:
        """Hand over a message, as much of it as the pipe takes now."""
        os.ftruncate(self._messages.fileno(), 0)
        os.lseek(self._messages.fileno(), 0, os.SEEK_SET)
        self._outgoing += frame(message)
        self.flush()

    def flush(self) -> None:
        """Write what is still to be sent, as far as possible."""
        try:
            while self._outgoing:
                del self._outgoing[: os.write(self.request_end, self._outgoing)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise WorkerGone from error

    def receive(self) -> list[Reply]:
        """Read what is there; the answers that are complete now."""
        try:
            piece = os.read(self.reply_end, _CHUNK)
        except BlockingIOError:
            return []
        if not piece:
            raise WorkerGone
        try:
            found = [_messages.decode(body) for body in self._incoming.feed(piece)]
        except msgspec.MsgspecError as error:
            raise GarbledAnswer from error
        for message in found:
            if isinstance(message, Farewell):
                self._farewell = message
        return [message for message in found if isinstance(message, Reply)]

    def resident_bytes(self) -> int:
        """The memory that the worker holds; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/statm").read_bytes().split()
            return int(fields[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            return 0

    def bury(self) -> int:
        """End the worker and all it started, wait for it, free everything; its return code."""
        if self._process.returncode is None:
            self._process.terminate()  # the guardian ends the others first
            self.close()  # which ends the worker, too, if the guardian does not
            self._process.wait()
        self.close()
        if self._farewell is not None:
            return self._farewell.code
        code: int = self._process.returncode
        return code if code <= _SIGNALLED else _SIGNALLED - code

    def close(self) -> None:
        """Let go of the pipes; the worker ends by itself."""
        for stream in (self._process.stdin, self._process.stdout, self._messages):
            if stream is not None:
                stream.close()

    def last_words(self) -> str:
        """The end of what the worker wrote to stderr since its last message."""
        descriptor = self._messages.fileno()
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, _SHOWN_BYTES, max(0, size - _SHOWN_BYTES))
        return data.decode(errors="replace").strip("\0\n ")
