"""The work of a command is loaded when the command is given, so that `--help` answers at once."""

from __future__ import annotations

import importlib
from typing import Any


def work_of(name: str) -> Any:
    """The module of this package that does the work of a command."""
    return importlib.import_module(f"tilewright.cli.{name}")
