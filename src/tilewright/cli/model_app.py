"""The commands that are for models alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tilewright.cli.arguments import (
    DatabaseOption,
    JsonOption,
    ModelArgument,
    OutputOption,
    TargetOption,
    with_model_options,
    work_of,
)

if TYPE_CHECKING:
    from tilewright.cli.models import ModelOptions


def add_to(app: typer.Typer) -> None:
    """Add them to the others."""
    for command in (inspect, check, build):
        app.command()(with_model_options(command))


def inspect(
    model: ModelArgument,
    target: TargetOption = "llvm",
    *,
    reading: ModelOptions,
    json: JsonOption = False,
) -> None:
    """Show a model: operators, sizes, arithmetic, tasks, what is not supported."""
    raise typer.Exit(work_of("model_inspect").run(model, reading, target, as_json=json))


def check(
    model: ModelArgument,
    db: DatabaseOption = None,
    target: TargetOption = "llvm",
    *,
    reading: ModelOptions,
    json: JsonOption = False,
) -> None:
    """Compare a model's results with the original's, and find the operator where they part."""
    raise typer.Exit(work_of("model_check").run(model, reading, db, target, as_json=json))


def build(
    model: ModelArgument,
    output: OutputOption = None,
    db: DatabaseOption = None,
    target: TargetOption = "llvm",
    *,
    reading: ModelOptions,
) -> None:
    """Compile a model with the records of a database, and save it."""
    work_of("model_build").run(model, reading, db, target, output)
