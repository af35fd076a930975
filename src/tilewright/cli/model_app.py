"""The commands that are for models alone."""

from __future__ import annotations

import typer

from tilewright.cli.arguments import (
    DatabaseOption,
    DimOption,
    JsonOption,
    LayoutOption,
    ModelArgument,
    OutputOption,
    ShapeOption,
    TargetOption,
    WinogradOption,
    work_of,
)


def add_to(app: typer.Typer) -> None:
    """Add them to the others."""
    for command in (inspect, check, build):
        app.command()(command)


def inspect(
    model: ModelArgument,
    target: TargetOption = "llvm",
    dim: DimOption = None,
    shape: ShapeOption = None,
    layout: LayoutOption = None,
    json: JsonOption = False,
) -> None:
    """Show a model: operators, sizes, arithmetic, tasks, what is not supported."""
    options = work_of("models").parse_options(dim, shape, layout)
    raise typer.Exit(work_of("model_inspect").run(model, options, target, as_json=json))


def check(
    model: ModelArgument,
    db: DatabaseOption = None,
    target: TargetOption = "llvm",
    dim: DimOption = None,
    shape: ShapeOption = None,
    layout: LayoutOption = None,
    winograd: WinogradOption = True,
    json: JsonOption = False,
) -> None:
    """Compare a model's results with the original's, and find the operator where they part."""
    options = work_of("models").parse_options(dim, shape, layout, winograd)
    raise typer.Exit(work_of("model_check").run(model, options, db, target, as_json=json))


def build(
    model: ModelArgument,
    output: OutputOption = None,
    db: DatabaseOption = None,
    target: TargetOption = "llvm",
    dim: DimOption = None,
    shape: ShapeOption = None,
    layout: LayoutOption = None,
    winograd: WinogradOption = True,
) -> None:
    """Compile a model with the records of a database, and save it."""
    options = work_of("models").parse_options(dim, shape, layout, winograd)
    work_of("model_build").run(model, options, db, target, output)
