"""Compiling in a process of its own, where LLVM may give up without taking the user's along.

LLVM ends the process when it cannot select an instruction. For what our code generator writes that
cannot happen (tests/attack compiles every kind of vector); for intrinsics that a program calls by
name nobody can tell, so they are tried first.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tilewright.config import child_environ
from tilewright.errors import CodegenError
from tilewright.runtime.jit import MachineOptions, compile_ir

_PACKAGES = str(Path(__file__).parents[2])


class _Request(msgspec.Struct):
    source: str
    machine: MachineOptions


def try_in_child(source: str, machine: MachineOptions, untried: Sequence[str]) -> None:
    """Raise if LLVM gives up on `source`, in which the intrinsics `untried` are called."""
    done = subprocess.run(
        [sys.executable, "-c", "from tilewright.runtime.trial import main; main()"],
        input=msgspec.json.encode(_Request(source, machine)),
        env=child_environ(_PACKAGES),
        capture_output=True,
        check=False,
    )
    if done.returncode < 0:  # ended by a signal; what Python can tell, it will tell again
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise CodegenError(
            f"LLVM gave up on a module that calls {', '.join(map(repr, dict.fromkeys(untried)))}: "
            f"{said[0].removeprefix('LLVM ERROR: ')}"
        )


def main() -> None:
    """Compile what comes in."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
    compile_ir(request.source, request.machine)
