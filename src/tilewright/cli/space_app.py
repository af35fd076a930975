"""`tilewright space`: the commands; their work is in `space.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli import arguments

app = typer.Typer(no_args_is_help=True, help="Inspect the space that a search chooses from.")


@app.command()
def show(
    program: arguments.ProgramArgument,
    target: arguments.TargetOption = "llvm",
    space: arguments.SpaceOption = "tilewright",
    sketch: Annotated[
        int | None, arguments.option("--sketch N", "Only this sketch, with its script.")
    ] = None,
    json: arguments.JsonOption = False,
) -> None:
    """List the sketches of a program with their open decisions."""
    arguments.work_of("space").show(program, target, space, sketch, as_json=json)


@app.command()
def why(
    program: arguments.ProgramArgument,
    block: Annotated[str | None, arguments.argument("BLOCK", "Only this block.")] = None,
    target: arguments.TargetOption = "llvm",
    space: arguments.SpaceOption = "tilewright",
    heron: Annotated[
        str | None,
        arguments.option(
            "--heron PLATFORM",
            "PROGRAM is a configuration of Heron's: say how many solutions its cases have on "
            "a platform, or which constraints conflict.",
        ),
    ] = None,
    constraints: Annotated[
        bool,
        arguments.option(
            "--constraints",
            "Say of each sketch how many candidates the limits of the target leave, or which "
            "constraints conflict.",
        ),
    ] = False,
    where: Annotated[
        list[str] | None,
        arguments.option(
            "--where DEMAND",
            "With --constraints: a demand on a variable, such as 'x4 <= 64'; repeatable.",
        ),
    ] = None,
    json: arguments.JsonOption = False,
) -> None:
    """Explain for each block which rules applied, and why the others did not."""
    if constraints:
        demands = tuple(where or ())
        arguments.work_of("space_constraints").constraints(
            program, target, space, demands, as_json=json
        )
        return
    if heron is not None:
        arguments.work_of("heron").why(program, heron, as_json=json)
        return
    arguments.work_of("space").why(program, block, target, space, as_json=json)
