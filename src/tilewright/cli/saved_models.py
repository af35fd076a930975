"""Compiled models in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright import model as models
from tilewright.errors import GraphError
from tilewright.model import Executable


def check_writable(path: Path) -> None:
    """Refuse a place where nothing can be saved before time is spent."""
    if not path.parent.is_dir():
        raise GraphError(f"there is no directory {path.parent}; create it first")
    if path.is_dir():
        raise GraphError(f"{path} is a directory; name a file")


def save_model(executable: Executable, path: Path) -> None:
    """Write a compiled model."""
    _of(executable, "save")(path)


def load_saved(path: Path) -> Executable:
    """Read a compiled model."""
    loaded: Executable = _of(models, "load")(path)
    return loaded


def _of(owner: Any, name: str) -> Any:
    found = getattr(owner, name, None)
    if found is None:
        raise GraphError("this version cannot save compiled models")
    return found
