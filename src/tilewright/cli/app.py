"""The commands of `tilewright`, one function each; a command's work lives in its own module."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tilewright.cli import doctor as doctor_report
from tilewright.errors import TilewrightError
from tilewright.version import __version__

app = typer.Typer(
    name="tilewright",
    help="A tensor-program compiler and auto-scheduler.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """A tensor-program compiler and auto-scheduler."""


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what works on this machine, what does not, why, and what to do about it."""
    raise typer.Exit(doctor_report.run(as_json=json))


def main() -> None:
    """Entry point: a user's mistake ends with one line, not with a traceback."""
    try:
        app()
    except TilewrightError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
