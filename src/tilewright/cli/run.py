"""`tilewright run`: scripts written for TVM."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import typer

from tilewright.compat.run import prepared
from tilewright.errors import TilewrightError


def run(arguments: Sequence[str]) -> None:
    """Run a script or a module; it ends as it would under Python, with the traceback of errors."""
    job = prepared(arguments)
    try:
        job()
    except TilewrightError as error:
        traceback.print_exc()
        raise typer.Exit(1) from error
