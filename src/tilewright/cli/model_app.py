"""The commands that are for models alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tilewright.cli import arguments

if TYPE_CHECKING:
    from tilewright.cli.models import ModelOptions


def add_to(app: typer.Typer) -> None:
    """Add them to the others."""
    for command in (inspect, check, build):
        app.command()(arguments.with_model_options(command))


def inspect(
    model: arguments.ModelArgument,
    target: arguments.TargetOption = "llvm",
    *,
    reading: ModelOptions,
    json: arguments.JsonOption = False,
) -> None:
    """Show a model: operators, sizes, arithmetic, tasks, what is not supported."""
    raise typer.Exit(arguments.work_of("model_inspect").run(model, reading, target, as_json=json))


def check(
    model: arguments.ModelArgument,
    db: arguments.DatabaseOption = None,
    target: arguments.TargetOption = "llvm",
    *,
    reading: ModelOptions,
    json: arguments.JsonOption = False,
) -> None:
    """Compare a model's results with the original's, and find the operator where they part."""
    raise typer.Exit(arguments.work_of("model_check").run(model, reading, db, target, as_json=json))


def build(
    model: arguments.ModelArgument,
    output: arguments.OutputOption = None,
    db: arguments.DatabaseOption = None,
    target: arguments.TargetOption = "llvm",
    *,
    reading: ModelOptions,
) -> None:
    """Compile a model with the records of a database, and save it."""
    arguments.work_of("model_build").run(model, reading, db, target, output)
