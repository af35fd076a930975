"""Compiled models in files."""

from __future__ import annotations

from pathlib import Path

from tilewright.cli.models import SAVED
from tilewright.errors import GraphError
from tilewright.model import CompiledModel, RunnableModel, load

LIBRARY = ".so"


def check_writable(path: Path) -> None:
    """Refuse a place where nothing can be saved before time is spent."""
    if not path.parent.is_dir():
        raise GraphError(f"there is no directory {path.parent}; create it first")
    if path.is_dir():
        raise GraphError(f"{path} is a directory; name a file")
    if path.suffix not in (SAVED, LIBRARY):  # other commands would not know what it is
        raise GraphError(f"{path} is no name for a model; end it in {SAVED}, or {LIBRARY} for C")


def save(model: CompiledModel, path: Path) -> None:
    """Write a model: as a file of ours, or as a library for C with its header."""
    if path.suffix == LIBRARY:
        model.export_library(path)
    else:
        model.save(path)


def load_saved(path: Path) -> RunnableModel:
    """Read a compiled model."""
    if not path.is_file():
        raise GraphError(f"there is no file {path}")
    return load(path)
