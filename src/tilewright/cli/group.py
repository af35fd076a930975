"""The group of all commands: a user's mistake ends with one line, not with a traceback."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from tilewright.errors import TilewrightError
from tilewright.support.machine_faults import machine_fault
from tilewright.support.text import printable

USAGE_ERROR = 2
INTERRUPTED = 130


class CommandGroup(TyperGroup):
    """Prints errors of ours, and what the machine lacks, in one line.

    Anything else is a bug and keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:  # whose class differs between versions of typer
        try:
            return super().invoke(ctx)
        except (TilewrightError, OSError, MemoryError) as error:
            fault = machine_fault(error)
            if fault is None and not isinstance(error, TilewrightError):
                raise
            typer.echo(printable(f"error: {fault or error}", "\n"), err=True)
            raise typer.Exit(USAGE_ERROR) from error
        except KeyboardInterrupt as interrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from interrupt
