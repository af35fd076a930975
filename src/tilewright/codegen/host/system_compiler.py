"""The C compiler of this machine, for what LLVM and our own linker do not do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import CodegenError

NAMES = ("cc", "gcc", "clang")


def find(names: Sequence[str] = NAMES) -> str | None:
    """The path of the first of some compilers that is installed."""
    return next((found for name in names if (found := shutil.which(name))), None)


def run(command: Sequence[str], what: str) -> None:
    """Run a compiler; `what` begins the message if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CodegenError(
            f"{what}: {Path(command[0]).name} failed with exit code"
            f" {done.returncode}\n{done.stderr.strip()}"
        )
