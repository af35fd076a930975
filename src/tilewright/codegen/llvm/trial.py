"""Compiling in a process of its own, where LLVM may give up without taking the user's along.

LLVM ends the process when it cannot select an instruction. It never does for vectors of the table
in `target/vector_types.py`, which a test compiles from one end to the other. For other vectors, and
for intrinsics that a program calls by name, nobody can tell, so they are compiled here.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.llvm.compiler import MachineOptions, compile_ir
from tilewright.config import child_environ
from tilewright.errors import CodegenError

# The worst that is known, 127 lanes of float16 on a CPU without them, takes 7 seconds.
TIME_LIMIT_S = 120

_PACKAGES = str(Path(__file__).parents[3])


class LLVMGaveUp(CodegenError):
    """LLVM ended the process that compiled a module, or did not come to an end."""


class _Request(msgspec.Struct):
    source: str
    machine: MachineOptions
    time_limit_s: int


class _Reply(msgspec.Struct):
    compiled: Artifact | None = None
    error: str = ""


def compile_in_child(
    source: str, machine: MachineOptions, what: str, time_limit_s: int = TIME_LIMIT_S
) -> Artifact:
    """Compile, or raise `LLVMGaveUp` with `what` the module is known by."""
    done = subprocess.run(
        [sys.executable, "-c", "from tilewright.codegen.llvm.trial import main; main()"],
        input=msgspec.msgpack.encode(_Request(source, machine, time_limit_s)),
        env=child_environ(_PACKAGES),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise LLVMGaveUp(f"LLVM gave up on {what}: {_reason(done, time_limit_s)}")
    reply = msgspec.msgpack.decode(done.stdout, type=_Reply)
    if reply.compiled is None:
        raise CodegenError(reply.error)
    return reply.compiled


def _reason(done: subprocess.CompletedProcess[bytes], time_limit_s: int) -> str:
    if done.returncode == -signal.SIGALRM:
        return f"it did not finish within {time_limit_s} seconds"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode > 0:  # an error in Python, whose last line tells most
        said.reverse()
    return said[0].removeprefix("LLVM ERROR: ") if said else f"exit code {done.returncode}"


def main() -> None:
    """Compile what comes in; the alarm ends this process even while LLVM is at work."""
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Request)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(request.time_limit_s)
    try:
        reply = _Reply(compile_ir(request.source, request.machine))
    except CodegenError as error:
        reply = _Reply(error=str(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(reply))
